"""Every rule of `envs/contract.py` over every registered benchmark, and proof that each rule can be broken."""

import functools
import random
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import envs
from envs import contract, registry
from envs.base import GRADERS, Answer, EnvSettings, HarnessEnv, Opening
from envs.contract import Broken, Rule, check_benchmark, check_contract, reference_play
from trajectories.failures import InputError
from trajectories.schema import Action, Message, Task, ToolSpec, Verdict

BFCL_TASKS = {
    "sample": [
        "simple_90000", "simple_90001", "simple_90002", "multiple_90000", "parallel_90000", "parallel_multiple_90000",
        "java_90000", "javascript_90000", "irrelevance_90000", "live_simple_90000-0-0", "live_relevance_90000-0-0",
        "live_irrelevance_90000-0-0", "multi_turn_base_90000", "multi_turn_base_90001", "multi_turn_miss_func_90000",
        "multi_turn_miss_param_90000", "multi_turn_long_context_90000",
    ],
    "test": [
        "simple_3", "multiple_7", "parallel_9", "parallel_multiple_5", "java_35", "javascript_5", "irrelevance_1",
        "live_simple_3-2-1", "live_multiple_0-0-0", "live_parallel_2-0-2", "live_parallel_multiple_1-1-0",
        "live_irrelevance_120-9-0", "live_relevance_0-0-0", "multi_turn_base_0", "multi_turn_miss_func_171",
        "multi_turn_miss_param_10", "multi_turn_long_context_60",
    ],
}  # fmt: skip
"""One task of each category at least."""

CASES = [(split, mode, task) for split, tasks in BFCL_TASKS.items() for mode in ("fc", "prompt") for task in tasks]

pytestmark = pytest.mark.usefixtures("bfcl_data")


def maker(mode: str, task: str) -> Callable[[], Any]:
    return functools.partial(gymnasium.make, "harness/bfcl-v3", task=task, settings=EnvSettings(mode=mode))


@pytest.mark.parametrize(("split", "mode", "task"), CASES)
def test_each_kind_of_episode_keeps_every_rule(split: str, mode: str, task: str) -> None:
    check_contract(maker(mode, task))


@pytest.mark.parametrize(("split", "mode", "task"), CASES)
def test_each_kind_of_task_keeps_the_benchmarks_rules(split: str, mode: str, task: str) -> None:
    check_benchmark(registry.load("bfcl-v3"), split, EnvSettings(mode=mode), task)


@pytest.mark.parametrize("mode", ["fc", "prompt"])
@pytest.mark.parametrize("task", ["multi_turn_base_0", "java_35", "live_irrelevance_90000-0-0"])
def test_gymnasiums_own_checker_passes(mode: str, task: str) -> None:
    check_env(maker(mode, task)().unwrapped)


def test_every_registered_benchmark_has_its_gymnasium_id_and_its_class() -> None:
    assert envs.__name__ == "envs"
    for name in registry.BENCHMARKS:
        assert f"harness/{name}" in gymnasium.registry
        assert registry.load(name).name == name


def test_an_environment_can_be_made_with_no_import_of_ours() -> None:
    env = gymnasium.make("envs:harness/bfcl-v3", task="multi_turn_base_0")
    observation, info = env.reset(seed=1)
    assert observation[0].role == "user"
    assert "mkdir" in {tool.name for tool in info["tools"]}


def test_a_vector_environment_goes_as_its_parts_go_alone() -> None:
    tasks = ["multi_turn_base_0", "multi_turn_base_1", "multi_turn_base_90000"]
    plays = [reference_play(maker("fc", task)) for task in tasks]
    steps = min(len(play) for play in plays)
    vector = gymnasium.vector.SyncVectorEnv([maker("fc", task) for task in tasks], copy=False)
    seen = [list(vector.reset(seed=5)[0])]
    seen += [list(vector.step([play[index] for play in plays])[0]) for index in range(steps)]
    alone = [maker("fc", task)() for task in tasks]
    expected = [[env.reset(seed=5 + index)[0] for index, env in enumerate(alone)]]
    expected += [[env.step(play[index])[0] for env, play in zip(alone, plays, strict=True)] for index in range(steps)]
    assert seen == expected


class Sound(HarnessEnv):
    """A counting environment that keeps all rules; each subclass below breaks one."""

    def _load(self, task_id: str) -> Any:
        if task_id != "t":
            raise InputError(f"Unknown task {task_id!r}.")
        return Task(benchmark="own", id="t", category="c", split="test", cluster="t", digest="0")

    def _open(self, rng: random.Random) -> Opening:
        self.count = 0
        return Opening((Message(role="user", content=f"start {rng.random()}"),))

    def _answer(self, action: Action) -> Answer:
        self.count += 1
        return Answer((Message(role="user", content="more"),), ended=self.count == 2)

    def verdicts(self) -> dict[str, Any]:
        score = float(self.count >= 2) if self._phase != "new" else 0.0
        return {name: Verdict(grader=f"{name}@1", passed=score == 1.0, score=score) for name in GRADERS}

    def reference_actions(self) -> tuple[Action, ...]:
        return (Action(content="a"), Action(content="b"))


class Unseeded(Sound):
    def _open(self, rng: random.Random) -> Opening:
        super()._open(rng)
        return Opening((Message(role="user", content=f"start {random.random()}"),))


class BothEnds(Sound):
    def _answer(self, action: Action) -> Answer:
        answer = super()._answer(action)
        return answer._replace(limit="steps") if answer.ended else answer


class EarlyReward(Sound):
    def step(self, action: Action) -> Any:
        observation, _, *rest = super().step(action)
        return (observation, 1.0, *rest)


class StrangeObservation(Sound):
    def _answer(self, action: Action) -> Answer:
        return super()._answer(action)._replace(messages=["more"])  # type: ignore[arg-type]


class Leaky(Sound):
    said = 0

    def _open(self, rng: random.Random) -> Opening:
        super()._open(rng)
        return Opening((Message(role="user", content=f"start {self.said}"),))

    def _answer(self, action: Action) -> Answer:
        self.said += 1
        return super()._answer(action)


class AnyOption(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)


class Restarting(Sound):
    def step(self, action: Action) -> Any:
        if self._phase != "open":
            self.reset(seed=1)
        return super().step(action)


class ForgettingAtClose(Sound):
    def close(self) -> None:
        super().close()
        self.count = 0


class OneGrader(Sound):
    def verdicts(self) -> dict[str, Any]:
        return {"official": super().verdicts()["official"]}


class WrongReference(Sound):
    def reference_actions(self) -> tuple[Action, ...]:
        return (Action(content="a"),)


class Endless(Sound):
    def _answer(self, action: Action) -> Answer:
        return Answer((), ended=action.content == "b")


class HiddenTools(Sound):
    def step(self, action: Action) -> Any:
        result = super().step(action)
        self.tools = (*self.tools, ToolSpec(name="late"))
        return result


class Shared(Sound):
    total = 0

    def _open(self, rng: random.Random) -> Opening:
        Shared.total = 0
        return super()._open(rng)

    def _answer(self, action: Action) -> Answer:
        Shared.total += 1
        return super()._answer(action)._replace(messages=(Message(role="user", content=f"{Shared.total}"),))


class Fragile(Sound):
    def _answer(self, action: Action) -> Answer:
        if len(action.content) > 50_000:
            raise ValueError("too long")
        return super()._answer(action)


class Unstorable(Sound):
    def step(self, action: Action) -> Any:
        *rest, info = super().step(action)
        return (*rest, info | {"turn": "first"})


BREAKERS: list[tuple[type[Sound], Rule]] = [
    (Unseeded, contract.same_seed_and_actions_give_the_same_bytes),
    (BothEnds, contract.the_end_has_one_reason),
    (EarlyReward, contract.reward_is_paid_at_the_end),
    (StrangeObservation, contract.everything_lies_in_the_spaces),
    (Leaky, contract.reset_works_at_any_time),
    (AnyOption, contract.a_reset_option_names_a_task_or_is_refused),
    (Restarting, contract.a_step_outside_the_episode_raises),
    (ForgettingAtClose, contract.closing_twice_is_harmless),
    (OneGrader, contract.verdicts_name_every_grader),
    (WrongReference, contract.the_reference_play_scores_one),
    (Endless, contract.silence_ends_an_episode),
    (HiddenTools, contract.tools_change_through_info_alone),
    (Shared, contract.environments_do_not_disturb_each_other),
    (Fragile, contract.odd_actions_are_answered),
    (Unstorable, contract.steps_can_be_stored),
]


def test_a_sound_environment_of_ones_own_passes() -> None:
    check_contract(lambda: Sound("t"))


@pytest.mark.parametrize(("breaker", "rule"), BREAKERS, ids=[rule.__name__ for _, rule in BREAKERS])
def test_each_rule_catches_the_environment_that_breaks_it(breaker: type[Sound], rule: Rule) -> None:
    with pytest.raises(
        (Broken, ValueError), match=rule.__name__ if rule is not contract.steps_can_be_stored else "turn"
    ):
        rule(lambda: breaker("t"), Sound("t").reference_actions() if breaker is not WrongReference else (Action(),))


def test_every_rule_has_a_breaker() -> None:
    assert {rule for _, rule in BREAKERS} == set(contract.RULES)


@pytest.mark.parametrize("name", registry.BENCHMARKS)
def test_an_environment_without_a_task_says_what_it_lacks(name: str) -> None:
    for arguments in ({}, {"task": 7}):
        with pytest.raises(
            InputError, match=r"An environment is one task's, .* 'harness list tasks BENCH' shows the ids"
        ):
            gymnasium.make(f"envs:harness/{name}", **arguments)


def test_a_step_that_is_no_action_says_what_one_is() -> None:
    env = gymnasium.make("envs:harness/bfcl-v3", task="irrelevance_90000")
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"step takes an Action, not str: from trajectories.schema import Action"):
        env.step("text")  # type: ignore[arg-type]
