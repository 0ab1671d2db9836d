"""BFCL-v3 episodes: what is opened, answered, recorded and graded."""

import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.scripted import Script
from envs import data, registry
from envs.base import EnvSettings
from envs.bfcl import aggregate, dataset, tasks
from envs.bfcl.env import BFCLEnv
from envs.bfcl.tasks import UNWINNABLE
from envs.parsing import tool_call
from harness.episode import run_episode
from harness.limits import Limits
from trajectories.failures import InputError
from trajectories.schema import Action, EpisodeKey, ToolCall
from trajectories.store import Store

BENCHMARK = registry.load("bfcl-v3")
FC, PROMPT = EnvSettings(mode="fc"), EnvSettings(mode="prompt")
REVEAL = "multi_turn_miss_func_0"  # `sort` is held out until turn 3


class Speechless:
    """Is never done with its first response."""

    name = "speechless"
    config: Mapping[str, Any] = {}

    def act(self, history: Any, tools: Any, *, seed: int) -> Action:
        time.sleep(60)
        raise AssertionError


def opened(task: str, settings: EnvSettings) -> tuple[BFCLEnv, Any, dict[str, Any]]:
    env = BFCLEnv(task, settings)
    observation, info = env.reset(seed=0)
    return env, observation, info


def calls(*named: tuple[str, Any]) -> Action:
    return Action(
        tool_calls=tuple(ToolCall(id=f"c{i}", name=name, arguments=args) for i, (name, args) in enumerate(named))
    )


@pytest.mark.usefixtures("bfcl_data")
class TestOracle:
    @pytest.mark.parametrize("settings", [FC, PROMPT], ids=["fc", "prompt"])
    def test_the_reference_play_wins_every_task_but_the_unwinnable(self, settings: EnvSettings) -> None:
        lost: dict[str, set[str]] = {"official": set(), "strict": set()}
        for task in BENCHMARK.tasks("test"):
            env, _, _ = opened(task.id, settings)
            ended = False
            for action in env.reference_actions():
                assert not ended
                *_, ended, truncated, _ = env.step(action)
                assert not truncated
            assert ended, task.id
            for grader, verdict in env.verdicts().items():
                if not verdict.passed:
                    lost[grader].add(task.id)
        assert lost == {"official": set(UNWINNABLE), "strict": set(UNWINNABLE)}

    def test_an_empty_agent_scores_upstreams_floor(self) -> None:
        scores = []
        for task in BENCHMARK.tasks("test"):
            env, _, _ = opened(task.id, FC)
            over = False
            while not over:
                *_, reward, terminated, truncated, _ = env.step(Action())
                over = terminated or truncated
            scores.append(aggregate.TaskScore(task, 0, reward))
        table = {score.name: score for score in BENCHMARK.aggregate(scores)}
        assert f"{table['overall'].value:.2%}" == "19.73%"
        assert f"{table['non_live'].value:.2%} {table['live'].value:.2%}" == "20.00% 39.18%"
        assert table["multi_turn"].value == 0
        assert (table["overall"].n, table["overall"].graded) == (4441, 4441)

    def test_the_splits_have_upstreams_numbers_of_tasks(self) -> None:
        assert Counter(task.category for task in BENCHMARK.tasks("test")) == aggregate.PINNED_COUNTS
        assert len({task.id for split in BENCHMARK.splits for task in BENCHMARK.tasks(split)}) == 4441 + 17


@pytest.mark.usefixtures("bfcl_data")
class TestTurns:
    def test_held_out_tools_join_in_their_turn_and_stay(self) -> None:
        env, _, info = opened(REVEAL, FC)
        assert "sort" not in {tool.name for tool in info["tools"]}
        before = len(info["tools"])
        for _ in range(2):
            *_, info = env.step(Action(content="ok"))
            assert len(info["tools"]) == before
        observation, *_, info = env.step(Action(content="ok"))
        assert info["tools"][-1].name == "sort"
        assert len(info["tools"]) == before + 1
        assert len(observation) == 1
        assert observation[0].role == "user"
        *_, info = env.step(Action(content="ok"))
        assert len(info["tools"]) == before + 1

    def test_in_prompt_mode_the_held_out_documents_come_as_text(self) -> None:
        env, observation, info = opened(REVEAL, PROMPT)
        assert info["tools"] == ()
        assert "'name': 'sort'" not in observation[0].content
        for _ in range(3):
            observation, *_, info = env.step(Action(content="ok"))
        assert observation[0].content.startswith("[{'name': 'sort'")
        assert info["tools"] == ()

    def test_a_held_out_method_can_be_called_before_its_reveal(self) -> None:
        env, _, _ = opened(REVEAL, FC)
        *_, info = env.step(calls(("cd", {"folder": "document"}), ("sort", {"file_name": "final_report.pdf"})))
        assert [record.error for record in info["calls"]] == [None, None]

    @pytest.mark.parametrize("settings", [FC, PROMPT], ids=["fc", "prompt"])
    def test_the_21st_tool_step_of_a_turn_forces_the_episode_to_quit(self, settings: EnvSettings) -> None:
        env, _, _ = opened("multi_turn_base_0", settings)
        action = calls(("pwd", {})) if settings.mode == "fc" else Action(content="[pwd()]")
        ends = [env.step(action)[2:4] for _ in range(21)]
        assert ends == [(False, False)] * 20 + [(False, True)]
        assert env.verdicts()["official"].detail["error_type"] == "multi_turn:force_terminated"

    def test_a_forced_quit_in_the_last_turn_is_graded_as_any_episode(self) -> None:
        """Spec A3.3: the number of turns is right then, so upstream goes on to grade them."""
        env, _, _ = opened("multi_turn_base_0", FC)
        *before, last, _ = env.reference_actions()
        for action in before:
            env.step(action)
        env.step(last)
        for _ in range(20):
            *_, reward, terminated, truncated, info = env.step(calls(("pwd", {})))
        assert (terminated, truncated, info["limit"], reward) == (False, True, "force_quit", 1.0)

    def test_steps_are_counted_in_each_turn_anew(self) -> None:
        env, _, _ = opened("multi_turn_base_0", FC)
        for _ in range(2):
            for _ in range(20):
                *_, truncated, _ = env.step(calls(("pwd", {})))
                assert not truncated
            env.step(Action())

    def test_max_steps_truncates_by_its_own_name(self) -> None:
        env, _, _ = opened("multi_turn_base_0", FC.model_copy(update={"max_steps": 3}))
        ends = [env.step(calls(("pwd", {}))) for _ in range(3)]
        assert [end[3] for end in ends] == [False, False, True]
        assert ends[-1][4]["limit"] == "max_steps"

    def test_one_broken_call_ends_the_turn_and_runs_none(self) -> None:
        """Upstream decodes all calls of a step or none."""
        env, _, _ = opened("multi_turn_base_0", FC)
        state = env.state_digest()
        observation, *_, info = env.step(calls(("mkdir", {"dir_name": "x"}), ("ls", "{oops")))
        assert observation[0].role == "user"
        assert [record.error for record in info["calls"]] == ["not_executed", "not_executed"]
        assert "JSON" in info["parse_error"]
        assert env.state_digest() == state

    def test_text_is_no_call_in_fc_mode_and_a_native_call_none_in_prompt_mode(self) -> None:
        env, _, _ = opened("multi_turn_base_0", FC)
        observation, *_, info = env.step(Action(content="[pwd()]"))
        assert (observation[0].role, info["calls"]) == ("user", ())
        assert info["parse_error"] is not None
        env, _, _ = opened("multi_turn_base_0", PROMPT)
        observation, *_, info = env.step(calls(("pwd", {})))
        assert [record.error for record in info["calls"]] == ["not_executed"]
        assert "grep" in observation[0].content

    def test_attempts_at_a_task_share_no_state(self) -> None:
        one, _, _ = opened("multi_turn_base_0", FC)
        other, _, _ = opened("multi_turn_base_0", FC)
        made = calls(("mkdir", {"dir_name": "fresh"}))
        assert one.step(made)[4]["calls"][0].error is None
        assert other.step(made)[4]["calls"][0].error is None
        assert one.step(made)[4]["calls"][0].error == "tool_error"


@pytest.mark.usefixtures("bfcl_data")
class TestRecords:
    def test_each_class_of_error_is_told(self) -> None:
        env, _, _ = opened("multi_turn_base_0", FC)
        wrong = (("no_tool", {}), ("cd", {"way": "up"}), ("cd", {"folder": "nowhere"}), ("pwd", {}))
        *_, info = env.step(calls(*wrong))
        assert [record.error for record in info["calls"]] == ["unknown_tool", "bad_arguments", "tool_error", None]
        assert info["calls"][0].result == "Error during execution: name 'no_tool' is not defined"

    def test_single_turn_calls_are_checked_against_their_documents(self) -> None:
        env, _, _ = opened("simple_0", FC)
        good = ("calculate_triangle_area", {"base": 10, "height": 5})
        *_, info = env.step(calls(good, ("calculate_triangle_area", {"base": 10}), ("area", {}), (good[0], "{")))
        assert [record.error for record in info["calls"]] == [None, "bad_arguments", "unknown_tool", "bad_arguments"]
        assert all(record.result is None for record in info["calls"])

    def test_the_state_changes_with_the_world_and_only_then(self) -> None:
        env, _, _ = opened("multi_turn_base_0", FC)
        played = (("pwd", {}), ("mkdir", {"dir_name": "new"}), ("ls", {}), ("cd", {"folder": "new"}))
        states = [env.state_digest(), *(env.step(calls(call))[4]["state"] for call in played)]
        assert [before == after for before, after in itertools.pairwise(states)] == [True, False, True, False]

    def test_the_turn_of_a_step_is_the_one_it_was_taken_in(self) -> None:
        env, _, _ = opened("multi_turn_base_0", FC)
        turns = [env.step(action)[4]["turn"] for action in (calls(("pwd", {})), Action(), calls(("pwd", {})), Action())]
        assert turns == [0, 0, 1, 1]

    @pytest.mark.parametrize(
        ("content", "attempt"),
        [
            ("I can't do that.", False),
            ("", False),
            ("[calculate_triangle_area(base=10, height=]", True),
            ("<tool_call>{}", True),
        ],
    )
    def test_only_an_attempt_at_a_call_is_a_parse_error(self, content: str, attempt: bool) -> None:
        env, _, _ = opened("simple_0", PROMPT)
        *_, info = env.step(Action(content=content))
        assert (info["parse_error"] is not None) == attempt

    def test_broken_native_arguments_fail_where_silence_passes_under_strict(self) -> None:
        for action, strict in ((Action(content="Nothing fits."), True), (calls(("f", "{oops")), False)):
            env, _, _ = opened("irrelevance_0", FC)
            env.step(action)
            assert env.verdicts()["official"].passed
            assert env.verdicts()["strict"].passed == strict

    def test_dotted_names_are_called_with_underscores_natively_and_with_dots_in_text(self) -> None:
        env, _, info = opened("simple_1", FC)
        assert [tool.name for tool in info["tools"]] == ["math_factorial"]
        assert env.step(calls(("math_factorial", {"number": 5})))[1] == 1.0
        assert opened("simple_1", FC)[0].step(calls(("math.factorial", {"number": 5})))[1] == 0.0
        assert opened("simple_1", PROMPT)[0].step(Action(content="[math.factorial(number=5)]"))[1] == 1.0
        assert opened("simple_1", PROMPT)[0].step(Action(content="[math_factorial(number=5)]"))[1] == 0.0

    @pytest.mark.parametrize("settings", [FC, PROMPT], ids=["fc", "prompt"])
    def test_an_episode_without_a_single_response_passes_no_grader_and_an_empty_response_abstains(
        self, settings: EnvSettings
    ) -> None:
        for task in (
            "simple_0",
            "irrelevance_0",
            "live_irrelevance_0-0-0",
            "live_relevance_0-0-0",
            "multi_turn_base_0",
        ):
            env, _, _ = opened(task, settings)
            for verdict in env.verdicts().values():
                assert (verdict.passed, verdict.score, verdict.detail["error_type"]) == (False, 0.0, "no_response"), (
                    task
                )
            env.step(Action())
            for verdict in env.verdicts().values():
                assert verdict.passed == ("irrelevance" in task), task
                assert verdict.detail["error_type"] != "no_response"

    def test_a_turn_that_was_opened_and_never_answered_passes_no_grader(self) -> None:
        """Whether or not the ground truth calls for something in it."""
        for task in ("multi_turn_base_0", "multi_turn_miss_param_0"):
            whole, _, _ = opened(task, FC)
            turns = [whole.step(action)[4]["turn"] for action in whole.reference_actions()]
            assert whole.verdicts()["strict"].passed
            env, _, _ = opened(task, FC)
            for action, turn in zip(env.reference_actions(), turns, strict=True):
                if turn < turns[-1]:
                    env.step(action)
            assert [verdict.passed for verdict in env.verdicts().values()] == [False, False], task

    def test_what_a_stored_episode_without_a_response_gets_is_what_it_got_live(self) -> None:
        for task in ("irrelevance_0", "multi_turn_base_0"):
            env = BFCLEnv(task, FC)
            key = EpisodeKey(
                task=env.task,
                env_version="1",
                env_settings=FC.model_dump(),
                agent="a",
                agent_config={},
                seed=0,
                attempt=0,
            )
            played = run_episode(env, Speechless(), key, Limits(time_s=0.2))
            assert (played.ended, played.limit, played.steps, played.reward) == ("truncated", "time", (), 0.0)
            assert [verdict.detail["error_type"] for verdict in played.verdicts.values()] == ["no_response"] * 2
            assert BENCHMARK.verdicts(played) == played.verdicts


class TestTasks:
    @pytest.mark.usefixtures("bfcl_data")
    def test_an_unknown_id_names_the_near_ones(self) -> None:
        with pytest.raises(InputError, match=r"no task 'simple_400'.*simple_40"):
            BFCLEnv("simple_400")

    @pytest.mark.usefixtures("bfcl_data")
    def test_related_tasks_share_a_cluster(self) -> None:
        clusters = {task.id: task.cluster for task in BENCHMARK.tasks("test")}
        assert clusters["multi_turn_base_7"] == clusters["multi_turn_long_context_7"] != clusters["multi_turn_base_8"]
        assert clusters["live_multiple_0-0-0"] == clusters["live_multiple_1-0-1"]
        assert clusters["simple_0"] != clusters["simple_1"]

    @pytest.mark.usefixtures("bfcl_data")
    def test_an_unknown_profile_is_refused(self) -> None:
        with pytest.raises(InputError, match="Unknown profile of bfcl-v3 'fast'"):
            BFCLEnv("simple_0", EnvSettings(profile="fast"))

    def test_a_sample_id_never_belongs_to_the_official_split(self) -> None:
        assert [tasks.split_of(task) for task in ("simple_89999", "simple_90000", "live_simple_90001-0-0", "x", "")] == [
            "test", "sample", "sample", "test", "test",
        ]  # fmt: skip


SANDBOXED = """
import json
from envs import registry
from envs.base import EnvSettings
b = registry.load("bfcl-v3")
out = {"unavailable": [b.unavailable(s) for s in b.splits], "missing": b.missing("sample"), "scores": {}}
out["texts"] = b.resolve(EnvSettings(), "sample").texts
for task in b.tasks("sample"):
    env = b.make(task.id, EnvSettings(mode="prompt"))
    env.reset(seed=0)
    for action in env.reference_actions():
        *_, info = env.step(action)
    out["scores"][task.id] = env.verdicts()["strict"].score
for task in ("simple_0", "multi_turn_base_90000"):
    try:
        b.make(task, EnvSettings())
    except Exception as error:
        out[task] = [type(error).__name__, str(error)]
out["n"] = {s.name: s.n for s in b.aggregate(())}["overall"]
from envs.base import TaskScore
out["sample"] = [(s.n, s.graded) for s in b.aggregate([TaskScore(t, 0, 1.0) for t in b.tasks("sample")])][0]
print(json.dumps(out))
"""


def test_without_any_pulled_data_the_single_turn_samples_run_in_our_words(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SANDBOXED],
        env={"HARNESS_HOME": str(tmp_path), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    seen = json.loads(done.stdout)
    assert seen["unavailable"][0].endswith("or take '--split sample'.")
    assert seen["unavailable"][1] is None
    assert seen["texts"] == "ours"
    assert len(seen["scores"]) == 12
    assert set(seen["scores"].values()) == {1.0}
    assert {sentence.split()[0] for sentence in seen["missing"]} >= {"multi_turn_base", "multi_turn_miss_func"}
    assert seen["simple_0"] == ["InputError", "The BFCL-v3 data is not pulled: run 'harness data pull bfcl-v3'."]
    assert "can't be played" in seen["multi_turn_base_90000"][1]
    assert seen["n"] == 4441
    assert seen["sample"] == [17, 12]  # what is left out stays in the denominator


@pytest.mark.parametrize("settings", [FC, PROMPT], ids=["fc", "prompt"])
@pytest.mark.parametrize("task", ["simple_90000", "multi_turn_base_0"])
@pytest.mark.parametrize("levels", [100, 193, 197, 250])
def test_an_answer_nested_as_deep_as_it_may_be_is_stored_and_read_back(
    settings: EnvSettings, task: str, levels: int, bfcl_data: Path, tmp_path: Path
) -> None:
    deep = "[" * levels + "]" * levels
    native = tool_call("c", "ls", f'{{"a": {deep}}}')
    action = Action(tool_calls=(native,)) if settings.mode == "fc" else Action(content=f"[ls(a={deep})]")
    env = BFCLEnv(task, settings.model_copy(update={"max_steps": 1}))
    key = EpisodeKey(task=env.task, env_version="1", env_settings={}, agent="deep", agent_config={}, seed=0, attempt=0)
    played = run_episode(env, Script("deep", {task: [action]}), key)
    with Store.create(tmp_path / "store") as store:
        store.append(played)
        assert store.get(played.id) == played
    assert played.done
    assert played.steps[0].calls or levels == 250


def test_with_the_wheel_the_samples_have_the_official_words(bfcl_data: Path) -> None:
    assert BENCHMARK.resolve(EnvSettings(), "sample").texts == "official"
    assert data.current("bfcl-v3") is not None
    official = opened("simple_90000", PROMPT)[1][0].content
    ours = opened("simple_90000", PROMPT.model_copy(update={"texts": "ours"}))[1][0].content
    assert official != ours
    for text in (official, ours):
        assert "'name': 'kettle.boil'" in text


def test_sample_rows_have_the_official_files_layout(bfcl_data: Path) -> None:
    samples, official = dataset.SAMPLES, data.current("bfcl-v3")
    assert official is not None
    for path in samples.rglob("*.json"):
        theirs = official.path / "bfcl_eval/data" / path.relative_to(samples)
        first = json.loads(theirs.read_text().splitlines()[0])
        for line in path.read_text().splitlines():
            assert set(json.loads(line)) == set(first), path
