"""Episodes against upstream's own loop: the same script of answers must meet the same messages, tools and end."""

import json
import os
import random
from typing import Any

import pytest

from envs import registry
from envs.base import EnvSettings
from envs.bfcl import dataset, reference, tasks
from trajectories.schema import Action, Message, ToolCall, ToolSpec

SHARE = float(os.environ.get("HARNESS_EPISODES", "0.02"))
"""Share of the tasks that a run tries; `HARNESS_EPISODES=1 pytest tests/parity/test_episodes.py` tries all."""


def chosen(data: dataset.Dataset) -> list[dataset.Row]:
    """A seeded share of each category's rows, one at least."""
    rng = random.Random(7)
    by_category = {
        category: [row for row in data.rows.values() if row.category == category] for category in data.categories
    }
    return [row for rows in by_category.values() for row in rng.sample(rows, max(1, round(SHARE * len(rows))))]


def script_for(row: dataset.Row, native: bool) -> list[Any]:
    """Raw answers: right calls, broken ones, unknown tools, prose and silence, in a seeded mixture."""
    rng = random.Random(f"{row.id}{native}")
    if not row.multi_turn:
        name = row.functions[0]["name"] if row.functions else "f"
        return [written(row, [{name: {"a": 1}}], native)]
    script: list[Any] = []
    for turn in (row.ground_truth or [])[: len(row.question)]:
        calls = reference.turn_calls(row, turn)
        if rng.random() < 0.8 and calls:
            script.append(written(row, calls, native))
        if rng.random() < 0.3:
            script.append(written(row, [{"no_such_tool": {"x": [1, {"y": "it's"}]}}], native))
        if rng.random() < 0.2:
            script.append([{"ls": "{broken"}] if native else "[ls(]")
        else:
            script.append(rng.choice(["", "All done.", "Which one do you mean?"]))
    return script


def written(row: dataset.Row, calls: list[Any], native: bool) -> Any:
    if not native:
        return (
            "["
            + ", ".join(
                f"{name}({', '.join(f'{k}={v!r}' for k, v in args.items())})"
                for call in calls
                for name, args in call.items()
            )
            + "]"
        )
    return [{name: json.dumps(arguments)} for call in calls for name, arguments in call.items()]


def as_action(raw: Any) -> Action:
    if isinstance(raw, str):
        return Action(content=raw)
    pairs = [pair for call in raw for pair in call.items()]
    return Action(
        tool_calls=tuple(
            ToolCall(id=f"call_{index}", name=name, arguments=args) for index, (name, args) in enumerate(pairs)
        )
    )


def plain(message: Message) -> dict[str, Any]:
    shown = {"role": message.role, "content": message.content}
    return shown | ({"tool_call_id": message.tool_call_id} if message.role == "tool" else {})


def plain_tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def played(row: dataset.Row, script: list[Any], native: bool) -> dict[str, Any]:
    """Our episode in the oracle's form."""
    env = registry.load("bfcl-v3").make(row.id, EnvSettings(mode="fc" if native else "prompt"))
    answers = iter(script)
    observation, info = env.reset(seed=0)
    history, asked, steps, over = list(observation), [], [], False
    while not over:
        asked.append(
            {"messages": [plain(message) for message in history], "tools": [plain_tool(tool) for tool in info["tools"]]}
        )
        raw = next(answers, "")
        observation, _, terminated, truncated, info = env.step(as_action(raw))
        steps.append((info["turn"], raw))
        history += [as_action(raw).message(), *observation]
        over = terminated or truncated
    env.close()
    return {"asked": asked, "result": tasks.raw_output(row, steps, env.settings.mode).value}


def without_responses(theirs: dict[str, Any]) -> dict[str, Any]:
    """Known difference: the docs' `response` schema is no part of our native tools."""
    for query in theirs["asked"]:
        for tool in query["tools"]:
            tool.pop("response", None)
    return theirs


@pytest.mark.study
@pytest.mark.parametrize("native", [True, False], ids=["fc", "prompt"])
def test_an_episode_meets_the_same_messages_and_tools_as_upstreams(oracle: Any, bfcl_data: Any, native: bool) -> None:
    for row in chosen(dataset.load("test")):
        script = script_for(row, native)
        (theirs,) = oracle.ask("play_episode", [{"id": row.id, "native": native, "script": script}])
        assert played(row, script, native) == without_responses(theirs), row.id


@pytest.mark.parametrize("native", [True, False], ids=["fc", "prompt"])
@pytest.mark.parametrize("turns_before", [0, 1, 3])
def test_the_21st_tool_step_of_a_turn_ends_the_episode_there(
    oracle: Any, bfcl_data: Any, native: bool, turns_before: int
) -> None:
    row = dataset.load("test").rows["multi_turn_base_0"]
    script = [""] * turns_before + [written(row, [{"pwd": {}}], native)] * 30
    (theirs,) = oracle.ask("play_episode", [{"id": row.id, "native": native, "script": script}])
    ours = played(row, script, native)
    assert ours == without_responses(theirs)
    assert [len(turn) for turn in ours["result"]] == [1] * turns_before + [21]
