"""Episodes in which code is written: one answer, or tools, public tests and submissions, with budgets and feedback levels."""

import json
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from envs import code_episodes, judging, registry
from envs.base import EnvSettings, HarnessEnv
from envs.code_episodes import Budget
from envs.contract import check_benchmark, check_contract
from envs.evalplus import public_tests, settings
from envs.evalplus.env import EvalPlusEnv
from envs.evalplus.problems import find
from trajectories.failures import InputError
from trajectories.schema import Action, Step, ToolCall

TASK = "Mbpp/90003"
RIGHT = find(TASK).problem.canonical_solution
ALMOST = "def nth_from_end(items, n):\n    return items[-n]\n"
WRONG = "def nth_from_end(items, n):\n    return 'hm'\n"
PROFILES = ("single", "tools-none", "tools", "tools-verdict", "tools-full")


@pytest.fixture(scope="module", autouse=True)
def local() -> Iterator[None]:
    judging.use_sandbox("local", 1)
    yield
    judging.close()


def opened(profile: str, mode: str = "fc", task: str = TASK, **more: Any) -> EvalPlusEnv:
    env = EvalPlusEnv(task, EnvSettings(profile=profile, mode=mode, **more))  # type: ignore[arg-type]
    env.reset(seed=1)
    return env


def call(name: str, **arguments: Any) -> Action:
    return Action(tool_calls=(ToolCall(id="c1", name=name, arguments=arguments),))


def fenced(code: str) -> Action:
    return Action(content=f"My answer:\n```python\n{code}\n```")


@pytest.mark.parametrize("mode", ["fc", "prompt"])
@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_keeps_the_contract(profile: str, mode: str) -> None:
    wanted = EnvSettings(profile=profile, mode=mode)  # type: ignore[arg-type]
    check_contract(lambda: EvalPlusEnv(TASK, wanted))
    check_benchmark(registry.load("evalplus"), "sample", wanted, TASK)


def test_gymnasiums_own_checker_passes_for_both_kinds() -> None:
    for profile in ("single", "tools"):
        env = gymnasium.make("envs:harness/evalplus", task="HumanEval/90002", settings=EnvSettings(profile=profile))
        check_env(env.unwrapped)


def test_one_answer_is_graded_and_ends_the_episode() -> None:
    for action, score in ((fenced(RIGHT), 1.0), (fenced(ALMOST), 0.0), (Action(content=RIGHT), 1.0), (Action(), 0.0)):
        _, reward, terminated, truncated, _ = opened("single").step(action)
        assert (reward, terminated, truncated) == (score, True, False)


def test_the_question_is_the_tasks_prompt_in_a_block_after_an_instruction() -> None:
    env = EvalPlusEnv("HumanEval/90000")
    ((message,), info) = env.reset(seed=1)
    assert message.content.endswith(f"\n```python\n{find('HumanEval/90000').problem.prompt.strip()}\n```")
    assert info["tools"] == ()
    assert env.settings.profile == "single"


@pytest.mark.parametrize("mode", ["fc", "prompt"])
def test_code_can_be_run_with_input_and_sees_no_tests(mode: str) -> None:
    env = opened("tools", mode)
    arguments = {"code": "print(input()); import os; print(os.listdir('/tmp'))", "stdin": "hello"}
    action = call("run_code", **arguments)
    if mode == "prompt":
        action = Action(content=f"<tool_call>{json.dumps({'name': 'run_code', 'arguments': arguments})}</tool_call>")
    (message,), reward, terminated, truncated, info = env.step(action)
    assert "exit code: 0\nstdout:\nhello\n[]\n" in message.content
    assert message.role == ("tool" if mode == "fc" else "user")
    assert (reward, terminated, truncated) == (0.0, False, False)
    (record,) = info["calls"]
    assert (record.name, record.error) == ("run_code", None)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("1/0", "exit code: 1\nstderr:\nTraceback"),
        ("while True: pass", "It ran out of time."),
        ("import os; os.kill(os.getpid(), 11)", "It crashed."),
        ("print('x' * 50_000)", "characters left out"),
        ("while True: print('x' * 10_000)", "It printed too much."),
        ("def (", "SyntaxError"),
    ],
)
def test_however_a_run_ends_it_is_an_observation(code: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvalPlusEnv, "budget", Budget(run_seconds=1.0))
    (message,), *_ = opened("tools").step(call("run_code", code=code))
    assert expected in message.content
    assert len(message.content) < 2 * Budget().output_characters


def test_public_tests_are_those_that_the_prompt_shows() -> None:
    mbpp, humaneval = find(TASK).problem, find("HumanEval/90000").problem
    assert public_tests.examples(mbpp.prompt, "mbpp") == (("nth_from_end([4, 5, 6], 2)", "5"),)
    assert public_tests.examples(humaneval.prompt, "humaneval") == (
        ("longest_run([1, 1, 2])", "2"),
        ("longest_run([])", "0"),
    )
    (message,), *_ = opened("tools").step(call("run_public_tests", code=ALMOST))
    assert message.content == "1 of 1 public tests passed."
    (message,), *_ = opened("tools").step(call("run_public_tests", code=WRONG))
    assert message.content.startswith(
        "0 of 1 public tests passed.\n\ninput: nth_from_end([4, 5, 6], 2)\nexpected: 5\ngot: 'hm'"
    )
    (message,), *_ = opened("tools").step(call("run_public_tests", code="1/0"))
    assert message.content.endswith("error: ZeroDivisionError: division by zero")


def test_real_prompts_show_tests_that_the_reference_passes(evalplus_data: object) -> None:
    for task_id in ("Mbpp/2", "Mbpp/6", "Mbpp/82", "Mbpp/737", "HumanEval/0", "HumanEval/32"):
        problem = find(task_id).problem
        shown = public_tests.run(problem, problem.reference)
        assert all(test.passed for test in shown), (task_id, shown)
        assert shown or task_id == "HumanEval/32", task_id


@pytest.mark.parametrize("profile", ["tools-none", "tools"])
def test_a_submission_ends_the_episode_whatever_it_is_worth(profile: str) -> None:
    for code, score in ((RIGHT, 1.0), (ALMOST, 0.0)):
        for action in (call("submit", code=code), fenced(code)):
            _, reward, terminated, _, _ = opened(profile).step(action)
            assert (reward, terminated) == (score, True)


def test_at_level_verdict_a_wrong_submission_is_told_so_and_nothing_of_the_test() -> None:
    env = opened("tools-verdict")
    (message,), reward, terminated, truncated, _ = env.step(call("submit", code=ALMOST))
    assert message.content == code_episodes.WRONG
    assert (reward, terminated, truncated) == (0.0, False, False)
    _, reward, terminated, _, _ = env.step(fenced(RIGHT))
    assert (reward, terminated) == (1.0, True)
    assert "leaks_hidden" not in env.verdicts()["official"].detail


def test_at_level_full_the_failed_test_is_shown_and_the_verdict_says_that_it_leaks() -> None:
    env = opened("tools-full")
    (message,), *_ = env.step(call("submit", code=ALMOST))
    assert (
        message.content
        == f"{code_episodes.WRONG}\ninput: [1], 2\nexpected: None\ngot: IndexError: list index out of range"
    )
    env.step(call("submit", code=RIGHT))
    assert env.verdicts()["official"].detail["leaks_hidden"] is True
    assert env.verdicts()["official"].passed


SECRETS = ("'b'], 2", "[7, 8, 9]")
"""Parts of hidden inputs of TASK."""


@pytest.mark.parametrize("profile", ["single", "tools-none", "tools", "tools-verdict"])
def test_below_full_no_hidden_test_enters_an_observation(profile: str) -> None:
    env = EvalPlusEnv(TASK, EnvSettings(profile=profile))
    seen = [message.content for message in env.reset(seed=1)[0]]
    for action in (call("run_code", code=ALMOST), call("run_public_tests", code=WRONG), call("submit", code=ALMOST)):
        if env._phase == "open":
            observation, *_ = env.step(action)
            seen += [message.content for message in observation]
    assert not any(secret in text for text in seen for secret in SECRETS)


def test_where_a_limit_ends_the_episode_the_last_code_is_graded() -> None:
    for actions, score in (
        ([call("run_code", code=RIGHT)], 1.0),
        ([call("run_public_tests", code=RIGHT), call("run_code", code="print(1)")], 1.0),
        ([call("run_public_tests", code=RIGHT), call("run_public_tests", code=ALMOST)], 0.0),
        ([call("no_such_tool", code=RIGHT)], 0.0),
    ):
        env = opened("tools", max_steps=len(actions))
        _, reward, terminated, truncated, info = [env.step(action) for action in actions][-1]
        assert (reward, terminated, truncated, info["limit"]) == (score, False, True, "max_steps")


def test_each_budget_truncates_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvalPlusEnv, "budget", Budget(max_turns=3, max_tool_calls=4, exec_seconds=0.5, run_seconds=5))
    assert limits([Action(content="hm")] * 3) == [None, None, "max_turns"]
    many = Action(
        tool_calls=tuple(ToolCall(id=str(n), name="run_code", arguments={"code": "print(1)"}) for n in range(6))
    )
    env = opened("tools")
    messages, _, _, _, info = env.step(many)
    assert [message.content for message in messages][4:] == ["Not run.", "Not run."]
    assert [record.error for record in info["calls"]][3:] == [None, "not_executed", "not_executed"]
    assert info["limit"] == "max_tool_calls"
    assert limits([call("run_code", code="import time\nwhile time.process_time() < 0.9: pass")]) == ["exec_seconds"]


def limits(actions: list[Action]) -> list[str | None]:
    env = opened("tools")
    return [env.step(action)[4]["limit"] for action in actions]


def test_model_mistakes_are_told_and_recorded() -> None:
    for action, error, text in (
        (call("rm"), "unknown_tool", "There is no tool 'rm'. There are: run_code, run_public_tests, submit."),
        (call("submit"), "bad_arguments", "JSON object"),
        (call("submit", code=3), "bad_arguments", "JSON object"),
        (call("run_code", code="1", stdin=2), "bad_arguments", "JSON object"),
        (Action(tool_calls=(ToolCall(id="c", name="submit", arguments="{"),)), "bad_arguments", "JSON object"),
    ):
        (message,), _, terminated, _, info = opened("tools").step(action)
        assert text in message.content
        assert ([record.error for record in info["calls"]], terminated) == ([error], False)
    (message,), _, _, _, info = opened("tools").step(Action(content="Let me think."))
    assert message.content == code_episodes.NO_CODE
    assert info["parse_error"] == "the answer holds neither a call nor code"
    (message,), _, _, _, info = opened("tools", "prompt").step(Action(content="<tool_call>{</tool_call>"))
    assert "no JSON" in info["parse_error"]


def test_without_public_tests_there_is_no_such_tool() -> None:
    (_message,), *_, info = opened("tools-none").step(call("run_public_tests", code=RIGHT))
    assert info["calls"][0].error == "unknown_tool"


def test_what_was_handed_in_is_read_back_from_a_stored_episode() -> None:
    for profile, actions in (
        ("single", [fenced(RIGHT)]),
        ("tools", [call("run_code", code="x"), call("run_public_tests", code=RIGHT), Action(content="hm")]),
        ("tools-verdict", [call("submit", code=ALMOST), fenced(WRONG), call("run_code", code="y")]),
    ):
        env: HarnessEnv = opened(profile)
        steps = []
        for action in actions:
            observation, _, _, _, info = env.step(action)
            steps.append(
                Step(action=action, observation=observation, calls=info["calls"], parse_error=info["parse_error"])
            )
        assert code_episodes.handed_in(steps, profile) == env._seen.last  # type: ignore[attr-defined]


def test_settings_are_resolved_and_refused() -> None:
    assert settings.resolve(EnvSettings(), "sample").profile == "single"
    assert settings.resolve(EnvSettings(texts="ours", profile="tools"), "sample").profile == "tools"
    with pytest.raises(InputError, match=r"Unknown profile of evalplus 'tool'\. Did you mean 'tools'"):
        EvalPlusEnv(TASK, EnvSettings(profile="tool"))
    with pytest.raises(InputError, match="no task 'Mbpp/91234'"):
        EvalPlusEnv("Mbpp/91234")
    with pytest.raises(InputError, match="no split 'maxi'"):
        EvalPlusEnv("HumanEval/0@maxi")
