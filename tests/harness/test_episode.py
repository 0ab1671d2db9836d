"""What `run_episode` does with agents and environments that end, break, hang or spend too much."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import toybench

from agents.scripted import Nop, Oracle, RandomCalls
from envs.base import EnvSettings
from harness import episode
from harness.episode import episode_seed, play, run_episode, step_seed
from harness.limits import Limits
from trajectories.failures import ContextWindowExceeded, InfrastructureError, InputError, SandboxError
from trajectories.schema import Action, EpisodeKey, Message, ToolSpec, Trajectory, Usage

CALL = toybench.ToyEnv("toy_00001").reference_actions()[0]


def key(task: int = 7, seed: int = 0, attempt: int = 0) -> EpisodeKey:
    return EpisodeKey(
        task=toybench.task_of(task),
        env_version="1",
        env_settings=EnvSettings().model_dump(mode="json"),
        agent="test",
        agent_config={},
        seed=seed,
        attempt=attempt,
    )


class Calling:
    """An agent that does what a function says at each step."""

    name = "test"
    config: Mapping[str, Any] = {}

    def __init__(self, function: Any) -> None:
        self.function = function
        self.seeds: list[int] = []

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        self.seeds.append(seed)
        return self.function(history, tools)


def play_with(function: Any, limits: Limits | None = None, env: Any = None) -> Trajectory:
    return run_episode(env or toybench.ToyEnv("toy_00007"), Calling(function), key(), limits)


def always(action: Action) -> Any:
    return lambda history, tools: action


def raising(error: BaseException) -> Any:
    def function(history: Any, tools: Any) -> Action:
        raise error

    return function


class BrokenEnv(toybench.ToyEnv):
    def __init__(self, where: str, error: BaseException) -> None:
        super().__init__("toy_00007")
        self._where, self._error = where, error

    def _break(self, where: str) -> None:
        if where == self._where:
            raise self._error

    def _open(self, rng: Any) -> Any:
        self._break("reset")
        return super()._open(rng)

    def _answer(self, action: Action) -> Any:
        self._break("step")
        return super()._answer(action)

    def verdicts(self) -> Any:
        self._break("verdicts")
        return super().verdicts()

    def close(self) -> None:
        super().close()
        self._break("close")


def test_an_episode_that_ends_by_itself_is_terminated_and_graded_with_the_whole_conversation() -> None:
    played = run_episode(toybench.ToyEnv("toy_00007"), Oracle(), key(), data="toy-1")
    assert (played.ended, played.limit, played.failure, played.reward) == ("terminated", None, None, 1.0)
    assert [step.reward for step in played.steps] == [0.0, 0.0, 1.0]
    assert played.verdicts["official"].passed
    assert played.verdicts["strict"].passed
    assert [call.name for step in played.steps for call in step.calls] == ["add"] * 3
    assert [message.role for message in played.messages()] == ["user", *["assistant", "tool"] * 3]
    assert played.tools == (toybench.ADD,)
    assert played.id == key().trajectory_id()
    assert (played.data, played.tries, played.done) == ("toy-1", 1, True)
    assert played.timing is not None
    assert all(step.timing is not None and step.state is not None for step in played.steps)


def test_an_id_covers_the_content_of_the_task_and_not_how_intervals_are_made() -> None:
    task = toybench.task_of(7)
    ids = {
        key().model_copy(update={"task": task.model_copy(update=change)}).trajectory_id()
        for change in ({}, {"cluster": "another"}, {"digest": "0" * 32}, {"id": "toy_00008"})
    }
    assert len(ids) == 3


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_ones() -> None:
    first, second = (run_episode(toybench.ToyEnv("toy_00007"), RandomCalls(), key(seed=3)) for _ in range(2))
    assert first.content_bytes() == second.content_bytes()
    other = run_episode(toybench.ToyEnv("toy_00007"), RandomCalls(), key(seed=4))
    assert other.opening != first.opening


def test_seeds_differ_by_run_task_attempt_and_step_and_are_below_two_to_the_31() -> None:
    seeds = {
        episode_seed(key(task, seed, attempt)) for task in range(10) for seed in range(10) for attempt in range(10)
    }
    assert len(seeds) == 1000
    assert len({step_seed(seed, step) for seed in list(seeds)[:100] for step in range(10)}) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)
    agent = Calling(always(CALL))
    run_episode(toybench.ToyEnv("toy_00007"), agent, key())
    assert agent.seeds == [step_seed(episode_seed(key()), step) for step in range(3)]


@pytest.mark.parametrize(
    ("error", "boundary"),
    [
        (ValueError("nonsense"), "agent"),
        (SystemExit(3), "agent"),
        (InfrastructureError("the endpoint is down", retry_after_s=7), "infrastructure"),
        (SandboxError("the jail is gone"), "sandbox"),
    ],
)
def test_an_error_in_act_is_a_failure_at_the_boundary_that_its_class_names(error: Any, boundary: str) -> None:
    played = play_with(raising(error))
    assert (played.ended, played.reward, played.verdicts) == ("failed", 0.0, {})
    assert played.failure is not None
    assert (played.failure.boundary, played.failure.kind) == (boundary, type(error).__name__)
    assert str(error) in played.failure.message
    assert "raise error" in (played.failure.traceback or "")
    assert played.failure.retry_after_s == getattr(error, "retry_after_s", None)
    assert played.done is (boundary == "agent")


@pytest.mark.parametrize("where", ["reset", "step", "verdicts"])
@pytest.mark.parametrize(
    ("error", "boundary"),
    [
        (KeyError("row"), "environment"),
        (ContextWindowExceeded("the user model's"), "environment"),
        (SandboxError("gone"), "sandbox"),
        (InfrastructureError("down"), "infrastructure"),
    ],
)
def test_an_error_in_the_environment_is_ours_and_never_scored(where: str, error: Any, boundary: str) -> None:
    played = run_episode(BrokenEnv(where, error), Oracle(), key())
    assert played.failure is not None
    assert (played.failure.boundary, played.ended, played.verdicts, played.done) == (boundary, "failed", {}, False)


def test_an_environment_that_cannot_be_made_is_a_failure_of_the_episode() -> None:
    def make() -> Any:
        raise OSError("no such image")

    played = play(make, Nop(), key())
    assert played.failure is not None
    assert played.failure.boundary == "environment"


def test_what_the_agent_said_before_it_failed_is_kept() -> None:
    actions = iter([CALL, CALL])
    played = play_with(lambda history, tools: next(actions))
    assert (played.ended, len(played.steps)) == ("failed", 2)
    assert played.failure is not None
    assert played.failure.kind == "StopIteration"


@pytest.mark.parametrize("junk", [None, {"content": "hi"}, "hi"])
def test_an_answer_that_is_no_action_is_a_failure_of_the_agent(junk: Any) -> None:
    played = play_with(lambda history, tools: junk)
    assert played.failure is not None
    assert (played.failure.boundary, played.failure.kind) == ("agent", "TypeError")
    assert type(junk).__name__ in played.failure.message


def test_what_the_user_must_change_is_no_failure_but_an_error() -> None:
    with pytest.raises(InputError, match="no template"):
        play_with(raising(InputError("The model has no template for tools.")))


def test_a_full_context_window_truncates_and_the_episode_is_graded() -> None:
    played = play_with(raising(ContextWindowExceeded("8192 tokens")))
    assert (played.ended, played.limit, played.failure) == ("truncated", "context_window", None)
    assert set(played.verdicts) == {"official", "strict"}


@pytest.mark.parametrize(
    ("limits", "usage", "name"),
    [
        (Limits(tokens=30), Usage(prompt_tokens=10, completion_tokens=5), "tokens"),
        (Limits(cost_usd=0.5), Usage(cost_usd=0.25), "cost"),
    ],
)
def test_a_spent_limit_truncates_after_the_step_that_spent_it(limits: Limits, usage: Usage, name: str) -> None:
    played = play_with(always(CALL.model_copy(update={"usage": usage})), limits)
    assert (played.ended, played.limit, len(played.steps)) == ("truncated", name, 2)
    assert set(played.verdicts) == {"official", "strict"}
    assert played.usage == episode.add_usage(usage, usage)


def test_a_limit_that_is_reached_by_the_last_step_does_not_truncate() -> None:
    action = CALL.model_copy(update={"usage": Usage(prompt_tokens=10)})
    assert play_with(always(action), Limits(tokens=30)).ended == "terminated"


def test_the_environments_own_step_limit_names_itself_and_the_reward_is_the_score() -> None:
    env = toybench.ToyEnv("toy_00000", EnvSettings(max_steps=2))
    played = play_with(always(CALL), env=env)
    assert (played.ended, played.limit, len(played.steps)) == ("truncated", "max_steps", 2)
    assert sum(step.reward for step in played.steps) == played.reward


def test_an_agent_that_hangs_is_given_up_at_the_time_limit_and_the_episode_is_graded() -> None:
    woken = threading.Event()
    actions = iter([CALL])

    def hang(history: Any, tools: Any) -> Action:
        action = next(actions, None)
        if action is None:
            woken.wait(60)
        return action or CALL

    env = toybench.ToyEnv("toy_00007")
    started = time.monotonic()
    played = play_with(hang, Limits(time_s=0.3), env)
    assert time.monotonic() - started < 10
    assert (played.ended, played.limit, len(played.steps)) == ("truncated", "time", 1)
    assert set(played.verdicts) == {"official", "strict"}
    woken.set()
    time.sleep(0.2)
    with pytest.raises(RuntimeError, match="over"):  # the late answer reached nobody: the environment is closed
        env.step(CALL)
    assert len(played.steps) == 1


def test_a_slow_episode_is_truncated_by_time_between_its_steps() -> None:
    def slow(history: Any, tools: Any) -> Action:
        time.sleep(0.15)
        return CALL

    played = play_with(slow, Limits(time_s=0.2))
    assert (played.ended, played.limit) == ("truncated", "time")
    assert len(played.steps) <= 2


def test_an_environment_that_hangs_is_a_failure_of_the_environment_after_its_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(episode, "ENV_GRACE_S", 0.2)
    woken = threading.Event()

    class Hanging(toybench.ToyEnv):
        def _answer(self, action: Action) -> Any:
            woken.wait(60)
            return super()._answer(action)

    played = play_with(always(CALL), Limits(time_s=0.1), Hanging("toy_00007"))
    woken.set()
    assert played.failure is not None
    assert (played.failure.boundary, played.ended) == ("environment", "failed")
    assert "0.3 s" in played.failure.message


def test_an_environment_that_answers_within_its_grace_is_truncated_by_time() -> None:
    class Slow(toybench.ToyEnv):
        def _answer(self, action: Action) -> Any:
            time.sleep(0.3)
            return super()._answer(action)

    played = play_with(always(CALL), Limits(time_s=0.1), Slow("toy_00007"))
    assert (played.ended, played.limit, len(played.steps)) == ("truncated", "time", 1)


class SlowToClose(Calling):
    """Needs longer to close than the episode may take."""

    def close(self) -> None:
        time.sleep(0.4)


class Slowly(Calling):
    def for_episode(self, env: Any, *, seed: int) -> Any:
        return SlowToClose(self.function)


def test_a_fault_that_came_in_time_is_no_time_limit_because_the_agent_is_slow_to_close() -> None:
    agent = Slowly(raising(InfrastructureError("down")))
    played = run_episode(toybench.ToyEnv("toy_00007"), agent, key(), Limits(time_s=0.2))
    assert (played.ended, played.limit, played.done) == ("failed", None, False)
    assert played.failure is not None
    assert played.failure.boundary == "infrastructure"


def test_an_episode_that_ended_in_time_stands_however_long_its_closing_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode, "ENV_GRACE_S", 0.05)
    agent = Slowly(always(Action(content="done")))
    played = run_episode(toybench.ToyEnv("toy_00007"), agent, key(), Limits(time_s=0.2))
    assert (played.ended, played.failure, set(played.verdicts)) == ("terminated", None, {"official", "strict"})


def test_an_error_while_closing_leaves_the_episode_graded_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    played = run_episode(BrokenEnv("close", OSError("stuck")), Oracle(), key())
    assert (played.ended, played.reward) == ("terminated", 1.0)
    assert "stuck" in caplog.text


def test_an_own_agent_per_episode_sees_the_opened_environment_and_is_closed_at_the_end() -> None:
    seen: list[Any] = []

    class Own(Calling):
        def close(self) -> None:
            seen.append("closed")

    class Maker(Calling):
        def for_episode(self, env: Any, *, seed: int) -> Any:
            seen.extend([env.task.id, seed])
            return Own(always(CALL))

    played = run_episode(toybench.ToyEnv("toy_00007"), Maker(None), key())
    assert seen == ["toy_00007", episode_seed(key()), "closed"]
    assert len(played.steps) == 3


def test_tools_are_recorded_where_they_change() -> None:
    class Changing(toybench.ToyEnv):
        def _answer(self, action: Action) -> Any:
            answer = super()._answer(action)
            if len(self._numbers) == 2:
                self.tools = (toybench.ADD, ToolSpec(name="late"))
            return answer

    played = play_with(always(CALL), env=Changing("toy_00007"))
    assert [step.tools is None for step in played.steps] == [True, False, True]
    assert played.steps[1].tools is not None
    assert [tool.name for tool in played.steps[1].tools] == ["add", "late"]


def test_the_agent_is_told_the_current_tools_and_cannot_change_the_history() -> None:
    told: list[Any] = []

    def note(history: Any, tools: Any) -> Action:
        told.append((type(history), len(history), [tool.name for tool in tools]))
        return CALL

    play_with(note)
    assert told == [(tuple, 1, ["add"]), (tuple, 3, ["add"]), (tuple, 5, ["add"])]
