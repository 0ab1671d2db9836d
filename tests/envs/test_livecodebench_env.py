"""LiveCodeBench's episodes: the contract in every profile, self-repair, tools, stored episodes, predictions graded."""

import functools
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from envs import data, judging, registry
from envs.base import EnvSettings, TaskScore
from envs.contract import check_benchmark, check_contract
from envs.livecodebench import dataset, generator, grading, reference, scenarios, tasks
from envs.livecodebench.records import problem_of
from harness.grade import grade
from trajectories.failures import InputError
from trajectories.schema import Action, ToolCall


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> Iterator[None]:
    judging.use_sandbox("local", workers=2)
    yield
    judging.close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    return tmp_path


CASES = [
    *(("livecodebench", profile, "fc", "sample_turnstile") for profile in (*tasks.PROFILES,)),
    *(("livecodebench", profile, "prompt", "sample_parcels") for profile in ("default", "tools", "tools-full")),
    ("livecodebench", "default", "fc", "sample_vouchers"),
    ("code-tasks", "default", "fc", "task_0_0"),
    ("code-tasks", "tools", "fc", "task_0_1"),
    ("livecodebench-testoutput", "default", "fc", "sample_shelves_1"),
    ("livecodebench-execution", "default", "fc", "harness_4"),
    ("livecodebench-execution", "cot", "fc", "harness_3"),
]


@pytest.mark.parametrize(("benchmark", "profile", "mode", "task"), CASES)
def test_every_profile_keeps_every_rule(benchmark: str, profile: str, mode: Any, task: str) -> None:
    settings = EnvSettings(mode=mode, profile=profile)
    make = functools.partial(gymnasium.make, f"harness/{benchmark}", task=task, settings=settings)
    check_contract(make)
    check_benchmark(registry.load(benchmark), "sample", settings, task)
    check_env(make().unwrapped)


@pytest.mark.parametrize(
    "benchmark", ["livecodebench", "code-tasks", "livecodebench-testoutput", "livecodebench-execution"]
)
def test_every_sample_task_is_won_by_its_reference_and_lost_by_silence(benchmark: str) -> None:
    found = registry.load(benchmark)
    settings = found.resolve(EnvSettings(), "sample")
    scores: dict[str, list[TaskScore]] = {"reference": [], "silence": []}
    for task in found.tasks("sample"):
        env = found.make(task.id, settings)
        for name, actions in (("reference", env.reference_actions()), ("silence", (Action(),))):
            env.reset(seed=1)
            for action in actions:
                env.step(action)
            verdicts = env.verdicts().values()
            assert len({verdict.passed for verdict in verdicts}) == 1
            scores[name].append(TaskScore(task, 0, min(verdict.score for verdict in verdicts)))
    assert [found.aggregate(scores[name])[0].value for name in scores] == [1.0, 0.0]


def fenced(code: str) -> Action:
    return Action(content=f"```python\n{code}\n```")


RIGHT = dataset.load("livecodebench", "sample").rows["sample_turnstile"].reference_solution() or ""
WRONG = "print(input().count('>'))"


def test_self_repair_shows_the_failing_test_and_takes_a_second_answer() -> None:
    env = registry.load("livecodebench").make("sample_turnstile", EnvSettings(profile="selfrepair"))
    env.reset(seed=1)
    (request,), reward, terminated, _, _ = env.step(fenced(WRONG))
    assert (reward, terminated) == (0.0, False)
    assert all(part in request.content for part in (WRONG, "is wrong", "Your output: ", "Expected: "))
    messages, reward, terminated, truncated, _ = env.step(fenced(RIGHT))
    assert (messages, reward, terminated, truncated) == ((), 1.0, True, False)
    assert all(verdict.detail["leaks_hidden"] for verdict in env.verdicts().values())


def test_self_repair_asks_once_and_only_where_the_first_answer_fails() -> None:
    benchmark = registry.load("livecodebench")
    env = benchmark.make("sample_turnstile", EnvSettings(profile="selfrepair"))
    env.reset(seed=1)
    assert env.step(fenced(RIGHT))[1:3] == (1.0, True)
    env.reset(seed=1)
    env.step(Action(content="I can't."))
    assert env.step(fenced(WRONG))[1:3] == (0.0, True)
    single = benchmark.make("sample_turnstile", EnvSettings())
    single.reset(seed=1)
    assert single.step(fenced(WRONG))[1:3] == (0.0, True)
    assert "leaks_hidden" not in single.verdicts()["official"].detail


def call(name: str, **arguments: str) -> Action:
    return Action(tool_calls=(ToolCall(id="c", name=name, arguments=arguments),))


def test_tools_run_code_and_public_tests_and_hide_the_others() -> None:
    env = registry.load("livecodebench").make("sample_turnstile", EnvSettings(profile="tools-verdict"))
    env.reset(seed=1)
    hidden = env._problem.private  # type: ignore[attr-defined]
    steps = [
        env.step(call("run_code", code="print(input()[::-1])", stdin="abc\n")),
        env.step(call("run_public_tests", code=WRONG)),
        env.step(call("run_public_tests", code="1 / 0")),
        env.step(call("submit", code=WRONG)),
        env.step(call("submit", code=RIGHT)),
    ]
    said = [step[0][0].content for step in steps]
    assert "cba" in said[0]
    assert "1 of 2 public tests passed." in said[1]
    assert "got: 2" not in said[1]
    assert "ZeroDivisionError" in said[2]
    assert [step[1:3] for step in steps] == [(0.0, False)] * 4 + [(1.0, True)]
    assert not any(test.input.strip() in text for test in hidden for text in said if len(test.input) > 5)


def test_the_extraction_of_a_profile_is_that_of_its_verdict() -> None:
    answer = Action(content=f"```python\n{RIGHT}\n```\nI used ``` fences.")
    found = {}
    for profile in ("default", "last_block", "first_block"):
        env = registry.load("livecodebench").make("sample_turnstile", EnvSettings(profile=profile))
        env.reset(seed=1)
        found[profile] = env.step(answer)[1]
    assert found == {"default": 0.0, "last_block": 1.0, "first_block": 1.0}


def test_both_graders_differ_where_upstream_is_wrong() -> None:
    env = registry.load("livecodebench").make("sample_turnstile", EnvSettings())
    env.reset(seed=1)
    *_, _ = env.step(fenced(RIGHT.replace("input()", "open(0).read()")))
    verdicts = env.verdicts()
    assert (verdicts["official"].passed, verdicts["strict"].passed) == (False, True)


def test_the_reference_of_a_problem_without_one_knows_its_tests() -> None:
    for row in dataset.load("livecodebench", "sample").rows.values():
        code = reference.knows_the_tests(row.problem())
        assert grading.run(row.problem(), code, "official").passed
        assert grading.run(row.problem(), code, "strict").passed


def test_generated_solutions_pass_and_their_mutants_fail() -> None:
    for task in generator.generate(seed=11, count=8):
        problem = problem_of(task.record, "generated")
        for grader in ("official", "strict"):
            assert grading.run(problem, task.solution, grader).passed
            assert not any(grading.run(problem, mutant, grader).passed for mutant in task.mutants)


def test_an_official_file_is_graded_row_by_row_and_by_the_same_bytes(home: Path) -> None:
    tasks_file, answers = home / "tasks.jsonl", home / "answers.json"
    made = generator.generate(seed=4, count=6)
    tasks_file.write_text("".join(json.dumps(task.record) + "\n" for task in made))
    data.pull("livecodebench", tasks_file)
    rows = [
        {"question_id": task.record["question_id"], "code_list": [task.mutants[0], task.solution, "", None]}
        for task in made
    ]
    answers.write_text(json.dumps([*rows, {"question_id": "unknown", "code_list": ["x"]}]))
    outs = [io.StringIO(), io.StringIO()]
    for out in outs:
        done = grade("livecodebench", answers, out, options={})
        assert (done.rows, done.passed, done.skipped) == (24, 6, ("unknown",))
    assert outs[0].getvalue() == outs[1].getvalue()
    found = [json.loads(line) for line in outs[0].getvalue().splitlines()]
    assert [(row["task_id"], row["attempt"]) for row in found] == [
        (task.record["question_id"], attempt) for task in made for attempt in range(4)
    ]
    assert [row["passed"] for row in found] == [False, True, False, False] * 6
    assert {tuple(row["detail"]["codes"]) for row in found[1::4]} == {(True,) * generator.TESTS}
    assert {tuple(row["detail"]["codes"]) for row in found[2::4]} == {(-4,)}
    assert all(row["grader"].startswith("official-28fef95-cpython-3.") for row in found)


def test_the_other_scenarios_grade_official_rows(home: Path) -> None:
    path = home / "rows.json"
    path.write_text(json.dumps([
        {"question_id": "sample_shelves", "test_id": 0, "pred_list": ["assert shelves([3, 1, 4, 1, 5], 1) == 3", "4"]},
        {"task_id": "sample_lines_0", "output": "assert cost() == 9"},
    ]))  # fmt: skip
    out = io.StringIO()
    grade("livecodebench-testoutput", path, out, options={})
    assert [json.loads(line)["passed"] for line in out.getvalue().splitlines()] == [True, False, True]
    path.write_text(json.dumps([
        {"id": "harness_0", "pred_list": ["[5, 8, 0]", "spread([4, 1, 9])", "[9 - 4] + [8, 0]", "list(map(int, '580'))", "1 / 0", "(5",
                                          "spread( [4, 1, 9])"]},
        {"id": "harness_4", "output_list": ["[ANSWER] assert balanced('(()())') == (True, 2) [/ANSWER]"]},
    ]))  # fmt: skip
    passed: dict[str, list[bool]] = {}
    for grader in ("official", "strict"):
        out = io.StringIO()
        grade("livecodebench-execution", path, out, options={}, grader=grader)
        passed[grader] = [json.loads(line)["passed"] for line in out.getvalue().splitlines()]
    assert passed["official"] == [True, False, True, True, False, False, True, True]
    assert passed["strict"] == [True, False, True, False, False, False, False, True]  # an answer is a value


def test_scenario_data_is_told_by_its_records(home: Path) -> None:
    for scenario in (scenarios.OUTPUT_PREDICTION, scenarios.CODE_EXECUTION):
        source = scenarios.SAMPLES / f"{scenario.name}.jsonl"
        pulled = data.pull(scenario.name, source)
        assert pulled.custom
        benchmark = registry.load(scenario.name)
        assert benchmark.unavailable("test") is None
        assert [task.id for task in benchmark.tasks("test")] == [task.id for task in benchmark.tasks("sample")]
    with pytest.raises(InputError, match="no records of livecodebench-execution"):
        data.pull("livecodebench-execution", scenarios.SAMPLES / "livecodebench-testoutput.jsonl")


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    for name in ("livecodebench", "livecodebench-execution"):
        with pytest.raises(InputError, match=r"Known: .*default"):
            registry.load(name).resolve(EnvSettings(profile="defualt"), "sample")
