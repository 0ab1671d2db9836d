"""Scripted agents do what they say, from the seed alone."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.base import AgentOptions, PerEpisode
from agents.scripted import Nop, Oracle, RandomCalls, build
from trajectories.failures import InputError
from trajectories.schema import Action, ToolCall, ToolSpec

OPTIONS = AgentOptions()
PAY = ToolSpec(
    name="pay",
    parameters={
        "type": "object",
        "properties": {
            "amount": {"type": "number", "minimum": 0},
            "to": {"type": "string", "enum": ["Ann", "Bob"]},
            "note": {"type": "string"},
        },
        "required": ["amount", "to"],
    },
)


def env(task_id: str, *actions: Action) -> Any:
    return SimpleNamespace(task=SimpleNamespace(id=task_id), reference_actions=lambda: actions)


def test_the_oracle_plays_the_reference_actions_in_order() -> None:
    first = Action(tool_calls=(ToolCall(id="call_0", name="pay", arguments={"amount": 1}),))
    second = Action(content="done")
    agent = Oracle()
    assert isinstance(agent, PerEpisode)
    player = agent.for_episode(env("t", first, second), seed=0)
    assert [player.act((), (), seed=i) for i in range(2)] == [first, second]
    with pytest.raises(LookupError, match="2 actions for task 't'"):
        player.act((), (), seed=2)


def test_episodes_of_one_oracle_share_nothing() -> None:
    a, b = Action(content="a"), Action(content="b")
    agent = Oracle()
    one, other = (agent.for_episode(env("t", a, b), seed=0) for _ in range(2))
    assert one.act((), (), seed=0) == a
    assert other.act((), (), seed=0) == a
    assert one.act((), (), seed=0) == b


def test_nop_says_nothing() -> None:
    assert Nop().act((), (PAY,), seed=3) == Action()


def test_random_calls_fit_the_schema_and_the_seed() -> None:
    agent = RandomCalls()
    actions = [agent.act((), (PAY,), seed=seed) for seed in range(200)]
    assert actions == [agent.act((), (PAY,), seed=seed) for seed in range(200)]
    calls = [call for action in actions for call in action.tool_calls]
    assert len({json.dumps(call.arguments) for call in calls}) > 100
    for call in calls:
        assert isinstance(call.arguments, dict)
        assert call.name == "pay"
        assert call.arguments["to"] in ("Ann", "Bob")
        assert isinstance(call.arguments["amount"], float)
        assert call.arguments["amount"] >= 0
        assert set(call.arguments) <= {"amount", "to", "note"}
    assert 20 < sum(not action.tool_calls for action in actions) < 80


def test_random_answers_in_words_where_there_are_no_tools() -> None:
    assert all(not RandomCalls().act((), (), seed=seed).tool_calls for seed in range(20))


def write(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_file_is_played_by_task(tmp_path: Path) -> None:
    call = {"name": "pay", "arguments": {"amount": 1}}
    path = write(tmp_path / "s.jsonl", {"task_id": "a", "actions": [{"tool_calls": [call]}, "bye"]})
    agent = build(path, OPTIONS)
    assert agent.name == "scripted:s.jsonl"
    assert isinstance(agent, PerEpisode)
    player = agent.for_episode(env("a"), seed=0)
    assert player.act((), (), seed=0).tool_calls[0] == ToolCall(id="call_0", name="pay", arguments={"amount": 1})
    assert player.act((), (), seed=0).content == "bye"
    with pytest.raises(LookupError, match="no row for task 'b'"):
        agent.for_episode(env("b"), seed=0)


def test_a_script_is_known_by_its_content(tmp_path: Path) -> None:
    row = {"task_id": "a", "actions": ["x"]}
    one = build(write(tmp_path / "one.jsonl", row), OPTIONS)
    same = build(write(tmp_path / "two.jsonl", row), OPTIONS)
    other = build(write(tmp_path / "other.jsonl", {**row, "actions": ["y"]}), OPTIONS)
    assert one.config == same.config != other.config


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "Line 1 .* is no JSON"),
        ('{"task_id": 1, "actions": []}', "Line 1 .* is no row"),
        ('{"task_id": "a", "actions": []}\n\n{"task_id": "a", "actions": []}', "Line 3 .* repeats task 'a'"),
        ('{"task_id": "a", "actions": [{"contents": "x"}]}', "Line 1 .* neither text nor an Action: contents"),
        ('{"task_id": "a", "actions": [7]}', "Line 1 .* neither text nor an Action"),
    ],
)
def test_a_bad_script_is_named_by_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        build(str(path), OPTIONS)


def test_a_missing_script_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read: No such file"):
        build(str(tmp_path / "none.jsonl"), OPTIONS)
