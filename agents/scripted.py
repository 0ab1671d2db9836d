"""Agents without a model: they check environments, measure the harness, and stand in for a model in tests.

`oracle` plays the environment's own reference actions, `nop` answers nothing, `random` calls valid tools with random
valid arguments, and a JSON lines file plays what it lists: rows `{"task_id": ..., "actions": [...]}`, where an action is
the text of the answer or an object with the fields of `Action` (the ids of its tool calls may be left out).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import orjson
from pydantic import ValidationError

from agents.base import Agent, AgentOptions
from agents.schema_sampling import sample
from envs.base import unknown_name
from trajectories.failures import InputError
from trajectories.schema import Action, JsonObject, Message, ToolCall, ToolSpec, digest

SHARE_OF_TEXT = 0.25
"""How often `random` answers in words although it has tools; it is what ends a turn."""


class Nop:
    """Answers nothing: the floor of every benchmark."""

    name = "scripted:nop"
    config: Mapping[str, Any] = {}

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        return Action()


class RandomCalls:
    """Calls one or two of the tools with arguments that their schemas allow, or answers in words.

    It reads `tools` alone: in prompt mode there are none, and it always answers in words.
    """

    name = "scripted:random"
    config: Mapping[str, Any] = {"share_of_text": SHARE_OF_TEXT}

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        rng = Random(seed)
        if not tools or rng.random() < SHARE_OF_TEXT:
            return Action(content=f"Answer {rng.randrange(1_000_000)}.")
        chosen = [rng.choice(tools) for _ in range(rng.randint(1, 2))]
        return Action(tool_calls=tuple(_random_call(tool, f"call_{i}", rng) for i, tool in enumerate(chosen)))


def _random_call(tool: ToolSpec, call_id: str, rng: Random) -> ToolCall:
    arguments = sample({**tool.parameters, "type": "object"}, rng)
    return ToolCall(id=call_id, name=tool.name, arguments=cast("JsonObject", arguments))


class Playback:
    """Plays a list of actions, whatever it is told. One more than the list holds is an agent failure."""

    def __init__(self, name: str, config: Mapping[str, Any], task_id: str, actions: Sequence[Action]) -> None:
        self.name = name
        self.config = config
        self._task_id = task_id
        self._length = len(actions)
        self._actions: Iterator[Action] = iter(actions)

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        action = next(self._actions, None)
        if action is None:
            raise LookupError(
                f"{self.name} has {self._length} actions for task {self._task_id!r}, and the episode asks for one more."
            )
        return action


class Oracle:
    """Plays the reference actions that each environment derives from its ground truth."""

    name = "scripted:oracle"
    config: Mapping[str, Any] = {}

    def for_episode(self, env: Any, *, seed: int) -> Agent:
        return Playback(self.name, self.config, env.task.id, env.reference_actions())

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        raise TypeError(f"{self.name} plays through for_episode(env): it has to see the environment.")


class Script:
    """Plays the actions that a file lists for each task. Its identity is the digest of the list, not the path."""

    def __init__(self, name: str, actions: Mapping[str, Sequence[Action]]) -> None:
        self.name = name
        self._actions = actions
        listed = {task: [action.model_dump(mode="json") for action in plays] for task, plays in actions.items()}
        self.config: Mapping[str, Any] = {"script": digest(listed)}

    def for_episode(self, env: Any, *, seed: int) -> Agent:
        task_id: str = env.task.id
        if task_id not in self._actions:
            raise LookupError(
                f"{self.name} has no row for task {task_id!r}: add one, or choose tasks that it has with --tasks."
            )
        return Playback(self.name, self.config, task_id, self._actions[task_id])

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        raise TypeError(f"{self.name} plays through for_episode(env): it has to know the task.")


def read_script(path: Path) -> dict[str, tuple[Action, ...]]:
    """Task id -> actions. InputError names the line that is no such row, or repeats a task."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"The script {str(path)!r} can't be read: {error.strerror}.") from error
    script: dict[str, tuple[Action, ...]] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            task_id, actions = _read_row(line, f"Line {number} of {str(path)!r}")
            if task_id in script:
                raise InputError(f"Line {number} of {str(path)!r} repeats task {task_id!r}: one row a task.")
            script[task_id] = actions
    return script


def _read_row(line: bytes, where: str) -> tuple[str, tuple[Action, ...]]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{where} is no JSON: {error}.") from error
    if not (isinstance(row, dict) and isinstance(row.get("task_id"), str) and isinstance(row.get("actions"), list)):
        raise InputError(f'{where} is no row {{"task_id": text, "actions": [...]}}.')
    try:
        return row["task_id"], tuple(_read_action(item) for item in row["actions"])
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise InputError(
            f"{where} holds an action that is neither text nor an Action: {place}: {fault['msg']}."
        ) from error


def _read_action(item: Any) -> Action:
    if isinstance(item, str):
        return Action(content=item)
    if isinstance(item, dict) and isinstance(calls := item.get("tool_calls"), list):
        item = {**item, "tool_calls": [_with_id(call, f"call_{i}") for i, call in enumerate(cast("list[Any]", calls))]}
    return Action.model_validate(item)


def _with_id(call: Any, call_id: str) -> Any:
    return {"id": call_id, **call} if isinstance(call, dict) else call


def build(rest: str, options: AgentOptions) -> Agent:
    """`oracle`, `nop`, `random`, or the path of a script."""
    known: dict[str, type[Nop] | type[RandomCalls] | type[Oracle]] = {
        "oracle": Oracle,
        "nop": Nop,
        "random": RandomCalls,
    }
    if rest in known:
        return known[rest]()
    path = Path(rest)
    if path.suffix == ".jsonl" or path.is_file():
        return Script(f"scripted:{path.name}", read_script(path))
    raise unknown_name("scripted agent", rest, [*known, "FILE.jsonl"])
