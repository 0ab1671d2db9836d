"""Packing loses nothing, whatever a field holds."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toystore import episode

from trajectories.cells import UNREADABLE
from trajectories.numbers import pack_floats, pack_ints, unpack_floats, unpack_ints
from trajectories.packing import common_prefix, pack, unpack
from trajectories.schema import (
    Action,
    CallRecord,
    EpisodeKey,
    Failure,
    Message,
    Step,
    StepTiming,
    Task,
    Timing,
    TokenTrace,
    ToolCall,
    ToolSpec,
    Trajectory,
    Usage,
    Verdict,
)

# Fields of type `Text` take lone surrogates (and clean them), plain `str` fields refuse them.
any_text = st.text(st.characters(), max_size=12) | st.sampled_from(["", "\x00", "\ud800", "é\u2028", "x" * 300, "NaN"])
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats() | st.sampled_from([-0.0, 0.0, math.nan, math.inf, -math.inf, 5e-324])
integers = st.integers() | st.sampled_from([2**31, 2**32 - 1, 2**32, 2**64, -1, 10**40])
scalars = st.none() | st.booleans() | integers | numbers | any_text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=2), max_leaves=4
)
objects = st.dictionaries(any_text, values, max_size=2)
maybe = st.none()

tools = st.builds(ToolSpec, name=any_text, description=any_text, parameters=objects)
calls = st.builds(ToolCall, id=any_text, name=any_text, arguments=objects | any_text)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=any_text,
    reasoning=maybe | any_text,
    tool_calls=st.lists(calls, max_size=1).map(tuple),
    tool_call_id=maybe | any_text,
    name=maybe | any_text,
)
ids = st.lists(integers, max_size=4).map(tuple)
traces = st.builds(TokenTrace, prompt_ids=ids, completion_ids=ids, logprobs=st.lists(numbers, max_size=3).map(tuple))
usages = st.builds(
    Usage,
    prompt_tokens=maybe | st.integers(0, 2**40),
    completion_tokens=maybe | st.integers(0, 2**40),
    cached_tokens=maybe | integers,
    cost_usd=maybe | numbers,
)
actions = st.builds(
    Action,
    content=any_text,
    reasoning=maybe | any_text,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    finish_reason=maybe | any_text,
    tokens=maybe | traces,
    usage=maybe | usages,
)
records = st.builds(
    CallRecord,
    name=any_text,
    arguments=objects | any_text,
    result=maybe | any_text,
    error=st.sampled_from([None, "unknown_tool", "bad_arguments", "tool_error", "exception", "not_executed"]),
)
steps = st.builds(
    Step,
    action=actions,
    observation=st.lists(messages, max_size=2).map(tuple),
    tools=maybe | st.lists(tools, max_size=1).map(tuple),
    reward=numbers,
    turn=integers,
    calls=st.lists(records, max_size=2).map(tuple),
    parse_error=maybe | any_text,
    state=maybe | any_text,
    timing=maybe | st.builds(StepTiming, agent_s=numbers, env_s=numbers),
)
tasks = st.builds(
    Task, benchmark=plain, id=plain, category=plain, split=plain, language=plain, cluster=plain, digest=plain
)
keys = st.builds(
    EpisodeKey,
    task=tasks,
    env_version=plain,
    env_settings=objects,
    agent=plain,
    agent_config=objects,
    seed=integers,
    attempt=st.integers(-(2**63), 2**63 - 1),
)
failures = st.builds(
    Failure,
    boundary=st.sampled_from(["agent", "environment", "sandbox", "infrastructure"]),
    kind=plain,
    message=any_text,
    traceback=maybe | any_text,
)
verdicts = st.builds(Verdict, grader=plain, passed=st.booleans(), score=numbers, detail=objects)
trajectories = st.builds(
    Trajectory,
    id=plain,
    key=keys,
    opening=st.lists(messages, max_size=2).map(tuple),
    tools=st.lists(tools, max_size=2).map(tuple),
    steps=st.lists(steps, max_size=3).map(tuple),
    ended=st.sampled_from(["terminated", "truncated", "failed"]),
    limit=maybe | plain,
    failure=maybe | failures,
    reward=numbers,
    verdicts=st.dictionaries(st.sampled_from(["official", "strict", "\x00"]), verdicts, max_size=2),
    usage=usages,
    tries=st.integers(1, 5),
    data=plain,
    harness_version=plain,
    timing=maybe | st.builds(Timing, started_at=numbers, wall_s=numbers, agent_s=numbers, env_s=numbers),
)


def assert_same(left: Trajectory, right: Trajectory) -> None:
    """Equal in every bit that JSON shows: NaN equals NaN, -0.0 is not 0.0, and 1 is not 1.0."""
    assert left.to_json() == right.to_json()
    assert left.content_bytes() == right.content_bytes()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(trajectories)
def test_any_trajectory_comes_back_as_it_was(trajectory: Trajectory) -> None:
    packed = pack(trajectory)
    assert_same(unpack(packed.body, packed.items), trajectory)
    assert pack(unpack(packed.body, packed.items)) == packed


@given(st.lists(integers | st.integers(0, 2**32 - 1), max_size=20))
def test_integers_of_any_size_come_back(given_ids: list[int]) -> None:
    assert unpack_ints(pack_ints(given_ids)) == given_ids


@given(st.lists(numbers | st.floats(width=32), max_size=20))
def test_floats_come_back_with_all_their_bits(given_floats: list[float]) -> None:
    assert [x.hex() for x in unpack_floats(pack_floats(given_floats))] == [x.hex() for x in given_floats]


@given(st.lists(st.integers(0, 2), max_size=12).map(tuple), st.lists(st.integers(0, 2), max_size=12).map(tuple))
def test_the_common_prefix_is_the_longest(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    length = common_prefix(left, right)
    assert left[:length] == right[:length]
    assert left[length : length + 1] != right[length : length + 1] or length == len(left) == len(right)


def test_prompts_cost_what_is_new_in_them() -> None:
    def with_history(length: int) -> Trajectory:
        prompt: tuple[int, ...] = tuple(range(length))
        made = list[Step]()
        for at in range(10):
            completion = (at, at + 1)
            trace = TokenTrace(prompt_ids=prompt, completion_ids=completion, logprobs=(-1.0, -2.0))
            made.append(Step(action=Action(tokens=trace)))
            prompt = (*prompt, *completion, 50, 51)
        return episode(0, steps=0).model_copy(update={"steps": tuple(made)})

    short, long = (len(pack(with_history(length)).body) for length in (100, 1100))
    assert 4000 <= long - short < 4100  # the first prompt once, at 4 bytes a token, not once a step


def test_equal_parts_of_two_episodes_are_equal_items() -> None:
    first, second = pack(episode(1)), pack(episode(3))
    shared = set(first.items) & set(second.items)
    assert sum(map(len, shared)) > 700  # the tools, the system prompt and the settings


def test_the_digest_is_that_of_the_content_without_the_clock() -> None:
    base = episode(1)
    timed = base.model_copy(
        update={"timing": None, "steps": tuple(s.model_copy(update={"timing": None}) for s in base.steps)}
    )
    assert pack(timed).content == pack(base).content
    changes: list[dict[str, Any]] = [
        {"reward": 0.5},
        {"opening": ()},
        {"tools": base.tools[:1]},
        {"steps": base.steps[:1]},
    ]
    changed = {pack(base.model_copy(update=change)).content for change in changes}
    assert len(changed | {pack(base).content}) == len(changes) + 1


@pytest.mark.parametrize("cut", [0, 3, 15, 40])
def test_a_body_that_is_cut_is_an_error(cut: int) -> None:
    packed = pack(episode(1))
    with pytest.raises(UNREADABLE):
        unpack(packed.body[:cut], packed.items)
