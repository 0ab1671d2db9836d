"""Each metric on episodes small enough to count by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators import behaviour
from evaluators.averages import Averages
from evaluators.behaviour import METRICS
from trajectories.schema import (
    Action,
    CallRecord,
    EpisodeKey,
    Failure,
    Message,
    Step,
    Task,
    Timing,
    TokenTrace,
    ToolCall,
    Trajectory,
    Usage,
    Verdict,
)

KEY = EpisodeKey(
    task=Task(benchmark="toy", id="t_0", category="c", split="test", cluster="t_0", digest="0"),
    env_version="1",
    env_settings={},
    agent="scripted:x",
    agent_config={},
    seed=0,
    attempt=0,
)


def episode(*steps: Step, ended: str = "terminated", **fields: Any) -> Trajectory:
    return Trajectory(id=KEY.trajectory_id(), key=KEY, steps=steps, ended=ended, **fields)  # type: ignore[arg-type]


def step(*calls: CallRecord, content: str = "", **fields: Any) -> Step:
    return Step(action=Action(content=content), calls=calls, **fields)


def call(name: str = "ls", error: Any = None, **arguments: Any) -> CallRecord:
    result = None if error == "not_executed" else "text"
    return CallRecord(name=name, arguments=arguments, result=result, error=error)


def measured(trajectory: Trajectory) -> dict[str, float | None]:
    return {metric.name: metric.measure(trajectory) for metric in METRICS}


def test_calls_per_step_count_the_steps_without_a_call_too() -> None:
    found = measured(episode(step(call(), call(error="not_executed")), step(call("cd")), step(content="done")))
    assert found["steps"] == 3
    assert found["calls_emitted"] == 3
    assert found["calls_executed"] == 2
    assert found["calls_emitted_per_step"] == 1
    assert found["calls_executed_per_step"] == pytest.approx(2 / 3)


def test_native_calls_that_the_environment_did_not_record_are_emitted_and_not_executed() -> None:
    action = Action(tool_calls=(ToolCall(id="1", name="f", arguments={}), ToolCall(id="2", name="g", arguments="{")))
    found = measured(episode(Step(action=action, parse_error="no JSON")))
    assert (found["calls_emitted"], found["calls_executed"]) == (2, 0)
    assert found["parse_error_rate"] == 1


def test_calls_that_are_graded_but_never_run_are_emitted_and_not_executed() -> None:
    graded_only = CallRecord(name="f", arguments={})
    found = measured(episode(step(graded_only, CallRecord(name="g", arguments={}, error="unknown_tool"))))
    assert (found["calls_emitted"], found["calls_executed"], found["unknown_tool_rate"]) == (2, 0, 0.5)


def test_a_repeat_is_the_same_name_and_arguments_in_any_key_order() -> None:
    first = CallRecord(name="f", arguments={"a": [1, 2], "b": 1})
    again = CallRecord.model_validate({"name": "f", "arguments": {"b": 1, "a": (1, 2)}})
    assert behaviour.calls_repeated(episode(step(first), step(again))) == 1
    assert behaviour.calls_repeated_share(episode(step(first), step(again))) == 0.5


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, "1"), (True, 1), (None, "None"), ([1, 2], [2, 1]), ({}, [])])
def test_arguments_that_python_or_a_reader_may_call_equal_stay_apart(one: Any, other: Any) -> None:
    assert behaviour.calls_repeated(episode(step(call(a=one)), step(call(a=other)))) == 0


def test_raw_text_arguments_are_compared_as_text() -> None:
    broken, spaced = (CallRecord(name="f", arguments=text) for text in ("{a", "{ a"))
    assert behaviour.calls_repeated(episode(step(broken, broken, spaced))) == 1


def test_a_repeat_in_another_turn_is_one_of_the_episode_only() -> None:
    trajectory = episode(step(call(), call(), turn=0), step(call(), turn=1), step(call(), turn=1))
    assert behaviour.calls_repeated(trajectory) == 3
    assert behaviour.calls_repeated_in_turn(trajectory) == 2
    assert behaviour.turns(trajectory) == 2


def test_a_repeat_counts_as_waste_only_where_the_state_is_the_one_that_the_call_left() -> None:
    waste = episode(step(call(), state="A"), step(call("pwd"), state="A"), step(call(), state="A"))
    polling = episode(step(call(), state="A"), step(call("touch"), state="B"), step(call(), state="B"))
    assert behaviour.calls_repeated_unchanged(waste) == 1
    assert behaviour.calls_repeated_unchanged(polling) == 0
    assert behaviour.calls_repeated(polling) == 1


def test_repeats_within_one_step_are_waste_where_the_step_left_the_state_alone() -> None:
    still = episode(step(state="A"), step(call(), call(), state="A"))
    moved = episode(step(state="A"), step(call(), call(), state="B"))
    first = episode(step(call(), call(), state="A"))
    assert [behaviour.calls_repeated_unchanged(each) for each in (still, moved, first)] == [1, 0, 0]


def test_unchanged_repeats_do_not_apply_without_a_state() -> None:
    assert behaviour.calls_repeated_unchanged(episode(step(call()), step(call()))) is None


def test_the_first_response_is_measured_with_and_without_its_reasoning() -> None:
    action = Action(
        content="<think>hmm</think>ok",
        reasoning="12345",
        tool_calls=(ToolCall(id="1", name="f", arguments={"a": 1}),),
        tokens=TokenTrace(prompt_ids=(1,), completion_ids=(1, 2, 3), logprobs=(0.0, 0.0, 0.0)),
    )
    found = measured(episode(Step(action=action), step(content="longer than the first by far" * 9)))
    assert found["first_response_characters"] == 5 + len("<think>hmm</think>ok") + len("f") + len('{"a":1}')
    assert found["first_response_answer_characters"] == len("ok") + 8
    assert found["first_response_tokens"] == 3
    assert found["first_response_answer_tokens"] is None


@pytest.mark.parametrize(
    ("action", "total", "answer"),
    [
        (Action(content="hi", usage=Usage(completion_tokens=7)), 7, 7),
        (Action(content="hi", reasoning="so", usage=Usage(completion_tokens=7, reasoning_tokens=5)), 7, 2),
        (Action(content="hi", reasoning="so", usage=Usage(completion_tokens=7)), 7, None),
        (Action(content="hi"), None, None),
        (Action(content="hi", usage=Usage(completion_tokens=7, reasoning_tokens=0), reasoning="so"), 7, 7),
    ],
)
def test_answer_tokens_are_counted_or_unknown_but_never_guessed(
    action: Action, total: float | None, answer: float | None
) -> None:
    trajectory = episode(Step(action=action))
    assert behaviour.first_response_tokens(trajectory) == total
    assert behaviour.first_response_answer_tokens(trajectory) == answer


def test_error_classes_are_shares_of_emitted_calls() -> None:
    calls = [call(error=error) for error in ("unknown_tool", "bad_arguments", "tool_error", "exception", None)]
    found = measured(episode(step(*calls), step(*calls), step(parse_error="?")))
    for kind in ("unknown_tool", "bad_arguments", "tool_error", "exception"):
        assert found[f"{kind}_calls"] == 2
        assert found[f"{kind}_rate"] == 0.2
    assert found["parse_errors"] == 1
    assert found["parse_error_rate"] == pytest.approx(1 / 3)


def test_recovery_looks_at_the_very_next_step() -> None:
    bad, good, text = step(call(error="exception")), step(call()), step(content="sorry")
    assert behaviour.error_recovery(episode(bad, good)) == 1
    assert behaviour.error_recovery(episode(bad, text, good)) == 0
    assert behaviour.error_recovery(episode(bad, bad, good)) == 0.5
    assert behaviour.error_recovery(episode(step(parse_error="?"), good, bad)) == 1


def test_recovery_does_not_apply_without_an_error_that_the_agent_got_to_see() -> None:
    assert behaviour.error_recovery(episode(step(call()), step(call(error="tool_error")))) is None
    assert behaviour.error_recovery(episode(step(call(error="not_executed")), step(call()))) is None


ENDS = {
    "ended_by_text": episode(step(call()), step(content="done")),
    "ended_by_limit": episode(step(call()), ended="truncated", limit="max_steps"),
    "force_quit": episode(step(call()), ended="truncated", limit="force_quit"),
    "user_stop": episode(step(content="bye", observation=(Message(role="user", content="end"),))),
    "agent_failed": episode(ended="failed", failure=Failure(boundary="agent", kind="E", message="")),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_ways_to_end_exclude_each_other(name: str) -> None:
    found = measured(ENDS[name])
    assert {end: found[end] for end in ENDS} == {end: float(end == name) for end in ENDS}


@pytest.mark.parametrize(
    "trajectory",
    [
        episode(step(call())),
        episode(step(parse_error="?")),
        episode(ended="failed", failure=Failure(boundary="infrastructure", kind="E", message="")),
    ],
)
def test_an_end_by_a_call_an_unparsable_text_or_our_fault_is_none_of_them(trajectory: Trajectory) -> None:
    assert [measured(trajectory)[end] for end in ENDS] == [0.0] * len(ENDS)


def test_an_episode_without_a_step_has_no_shares() -> None:
    found = measured(episode(ended="failed", failure=Failure(boundary="agent", kind="E", message="")))
    shares = [name for name, value in found.items() if value is None]
    assert found["steps"] == 0
    assert "calls_emitted_per_step" in shares
    assert "first_response_characters" in shares
    assert "calls_repeated_unchanged" in shares


def graded(**detail: Any) -> Trajectory:
    return episode(verdicts={"strict": Verdict(grader="strict@1", passed=False, score=0.0, detail=detail)})


def test_what_the_strict_grader_counts_becomes_shares() -> None:
    found = measured(graded(turns_passed=2, turns_checked=3, no_call_kept=0, no_call_turns=1))
    assert found["turns_passed"] == pytest.approx(2 / 3)
    assert found["no_call_turns_kept"] == 0
    assert found["abstained"] is None


@pytest.mark.parametrize(("kind", "expected"), [("called", (0, 0)), ("abstained", (1, 0)), ("unparsable", (0, 1))])
def test_abstaining_and_trying_in_vain_are_told_apart(kind: str, expected: tuple[float, float]) -> None:
    found = measured(graded(kind=kind))
    assert (found["abstained"], found["unparsable"]) == expected


def test_strict_counts_do_not_apply_where_the_benchmark_has_none() -> None:
    for trajectory in (episode(), graded(), graded(turns_passed=0, turns_checked=0), graded(turns_passed="?")):
        found = measured(trajectory)
        assert [found[name] for name in ("turns_passed", "no_call_turns_kept", "abstained", "unparsable")] == [None] * 4


def test_reward_per_call_divides_by_one_where_there_was_no_call() -> None:
    assert behaviour.reward_per_call(episode(step(), reward=0.5)) == 0.5
    assert behaviour.reward_per_call(episode(step(call(), call(), call(), call()), reward=1.0)) == 0.25


def test_costs_are_what_the_model_side_said() -> None:
    timing = Timing(started_at=0, wall_s=3, agent_s=2, env_s=0.5)
    usage = Usage(prompt_tokens=10, completion_tokens=4, cost_usd=0.25)
    found = measured(episode(step(), usage=usage, timing=timing))
    assert (found["prompt_tokens"], found["completion_tokens"], found["cost_usd"]) == (10, 4, 0.25)
    assert (found["wall_seconds"], found["agent_seconds"], found["env_seconds"]) == (3, 2, 0.5)
    bare = measured(episode(step()))
    assert [bare[name] for name in ("prompt_tokens", "cost_usd", "wall_seconds")] == [None] * 3


def test_every_metric_says_what_it_is() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert all(metric.unit and metric.description.endswith(".") for metric in METRICS)
    assert all(("None" in metric.description) or metric.unit == "share of episodes" for metric in METRICS)


def test_means_leave_out_episodes_to_which_a_metric_does_not_apply_and_say_how_many_remain() -> None:
    averages = Averages()
    for each in (episode(step(call(), call())), episode(step()), episode()):
        averages.add(each)
    averages.add(episode(usage=Usage(cost_usd=float("nan"))))
    averages.add(episode(usage=Usage(cost_usd=1e308)))
    by_name = {mean.name: mean for mean in averages.means()}
    assert (by_name["calls_emitted_per_step"].mean, by_name["calls_emitted_per_step"].episodes) == (1, 2)
    assert (by_name["steps"].mean, by_name["steps"].episodes) == (pytest.approx(2 / 5), 5)
    assert (by_name["cost_usd"].mean, by_name["cost_usd"].episodes) == (None, 0)


ERRORS = st.sampled_from([None, "unknown_tool", "bad_arguments", "tool_error", "exception", "not_executed"])
CALLS = st.builds(call, st.sampled_from(["f", "g"]), ERRORS, a=st.integers(0, 1))
STEPS = st.builds(
    lambda calls, state, parse_error: step(*calls, state=state, parse_error=parse_error),
    st.lists(CALLS, max_size=3),
    st.sampled_from([None, "A", "B"]),
    st.sampled_from([None, "?"]),
)


@given(st.lists(STEPS, max_size=6))
def test_shares_lie_in_the_unit_interval_and_parts_never_exceed_the_whole(steps: list[Step]) -> None:
    found = measured(episode(*steps))
    for metric in METRICS:
        value = found[metric.name]
        assert value is None or value >= 0
        assert value is None or not metric.unit.startswith("share") or value <= 1
    assert (found["calls_repeated_unchanged"] or 0) <= (found["calls_repeated"] or 0)
    assert (found["calls_repeated_in_turn"] or 0) <= (found["calls_repeated"] or 0)
    assert (found["calls_executed"] or 0) <= (found["calls_emitted"] or 0)


@given(st.permutations([0.1, 0.2, 0.3, 1e16, -1e16, 0.7]))
def test_means_do_not_depend_on_the_order_of_episodes(rewards: list[float]) -> None:
    averages = Averages()
    for reward in rewards:
        averages.add(episode(reward=reward))
    (mean,) = (each.mean for each in averages.means() if each.name == "reward_per_call")
    assert mean == 1.3 / 6
