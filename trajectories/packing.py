"""One trajectory as a small body plus the parts that many trajectories have in common.

What repeats from episode to episode (the tools, the settings, openings, long observations) leaves a numbered hole in
the body and becomes an *item*; whoever stores the body keeps each item once and says which items fill the holes. Within
an episode, a prompt's token ids are stored as what differs from the previous prompt and completion, and a call's result
as a pointer to the message that shows it. Nothing is lost: `unpack(body, items)` equals the trajectory, field for field.
"""

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from trajectories.numbers import pack_floats, pack_ints, unpack_floats, unpack_ints
from trajectories.schema import (
    CallRecord,
    EpisodeKey,
    Message,
    Step,
    StepTiming,
    Timing,
    TokenTrace,
    ToolSpec,
    Trajectory,
)

ITEM_CHARACTERS = 128
"""A message of at least this many characters becomes an item; a shorter one costs less where it is."""

_SETUP = ("env_version", "env_settings", "agent", "agent_config")
_APART: Mapping[str, Any] = {
    "key": set(_SETUP),
    "opening": True,
    "tools": True,
    "timing": True,
    "steps": {"__all__": {"timing": True, "observation": True, "tools": True, "action": {"tokens"}}},
}
_LENGTHS = struct.Struct("<IIII")
_TEXT, _BINARY = b"t", b"b"


class Packed(NamedTuple):
    """`body` needs `items`, in this order, to become a trajectory again."""

    body: bytes
    items: tuple[bytes, ...]
    content: str
    """Digest of all but the timing: equal digests, equal episodes."""


def pack(trajectory: Trajectory) -> Packed:
    """The trajectory as one body and its items. JSON is used so that no field needs a layout of its own."""
    items = _Items()
    tokens = _TokenWriter()
    tree = trajectory.model_dump(exclude=dict(_APART), exclude_defaults=True)
    tree["reward"] = trajectory.reward  # exclude_defaults takes -0.0 for the default 0.0
    tree["key"]["setup"] = items.add(_setup_json(trajectory.key))
    tree["opening"] = [items.message(message) for message in trajectory.opening]
    tree["tools"] = items.tools(trajectory.tools)
    for step, branch in zip(trajectory.steps, tree.get("steps", ()), strict=True):
        _pack_step(step, branch, items, tokens)
    skeleton, ids, logprobs = _json(tree), pack_ints(tokens.ids), pack_floats(tokens.logprobs)
    clock = _clock(trajectory)
    parts = (skeleton, ids, logprobs, clock)
    body = _LENGTHS.pack(*map(len, parts)) + b"".join(parts)
    return Packed(body, tuple(items.found), _digest((skeleton, ids, logprobs, *items.found)))


def unpack(body: bytes, items: Sequence[bytes]) -> Trajectory:
    """The trajectory that `pack` was given. ValueError or IndexError where body and items don't belong together."""
    skeleton, ids, logprobs, clock = _parts(body)
    tree: dict[str, Any] = from_json(skeleton)
    holes = _Holes(items)
    tokens = _TokenReader(unpack_ints(ids), unpack_floats(logprobs))
    tree["key"].update(holes.fill(tree["key"].pop("setup")))
    tree["opening"] = [holes.fill(message) for message in tree["opening"]]
    tree["tools"] = holes.fill(tree["tools"])
    timings = _unclock(clock, 1 + len(tree.get("steps", ())))
    tree["timing"] = timings[0]
    for branch, timing in zip(tree.get("steps", ()), timings[1:], strict=True):
        _unpack_step(branch, timing, holes, tokens)
    return Trajectory.model_validate(tree)


class _Items:
    """Collects the items of one trajectory; an equal item is found again, not added twice."""

    def __init__(self) -> None:
        self.found: dict[bytes, int] = {}

    def add(self, item: bytes) -> int:
        return self.found.setdefault(item, len(self.found))

    def message(self, message: Message) -> Any:
        if len(message.content) < ITEM_CHARACTERS:
            return message.model_dump(exclude_defaults=True)
        return self.add(_json(message.model_dump(exclude_defaults=True)))

    def tools(self, tools: tuple[ToolSpec, ...]) -> Any:
        return self.add(_json(tools)) if tools else []


class _Holes:
    """Puts items back where `_Items` left their numbers."""

    def __init__(self, items: Sequence[bytes]) -> None:
        self._items = items

    def fill(self, value: Any) -> Any:
        return from_json(self._items[value]) if isinstance(value, int) else value


class _TokenWriter:
    """The token ids and log-probs of all steps, each prompt as its difference from what came before."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self._before: tuple[int, ...] = ()

    def add(self, trace: TokenTrace) -> list[int]:
        shared = common_prefix(self._before, trace.prompt_ids)
        self._before = trace.prompt_ids + trace.completion_ids
        self.ids.extend(trace.prompt_ids[shared:])
        self.ids.extend(trace.completion_ids)
        self.logprobs.extend(trace.logprobs)
        return [shared, len(trace.prompt_ids) - shared, len(trace.completion_ids), len(trace.logprobs)]


class _TokenReader:
    """The other way round."""

    def __init__(self, ids: list[int], logprobs: list[float]) -> None:
        self._ids, self._logprobs = ids, logprobs
        self._id_at = self._logprob_at = 0
        self._before: list[int] = []

    def take(self, lengths: Sequence[int]) -> dict[str, Any]:
        shared, fresh, completed, scored = lengths
        prompt = self._before[:shared] + self._next_ids(fresh)
        completion = self._next_ids(completed)
        self._before = prompt + completion
        logprobs = self._logprobs[self._logprob_at : self._logprob_at + scored]
        self._logprob_at += scored
        return {"prompt_ids": prompt, "completion_ids": completion, "logprobs": logprobs}

    def _next_ids(self, count: int) -> list[int]:
        self._id_at += count
        return self._ids[self._id_at - count : self._id_at]


def common_prefix(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """How many leading elements are equal. Halving, since comparing slices is much faster than a loop."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _pack_step(step: Step, branch: dict[str, Any], items: _Items, tokens: _TokenWriter) -> None:
    if step.reward == 0.0 and math.copysign(1.0, step.reward) < 0:
        branch["reward"] = step.reward
    if step.observation:
        branch["observation"] = [items.message(message) for message in step.observation]
    if step.tools is not None:
        branch["tools"] = items.tools(step.tools)
    if step.action.tokens is not None:
        branch["action"]["tokens"] = tokens.add(step.action.tokens)
    for call, record in zip(step.calls, branch.get("calls", ()), strict=True):
        seen = _seen_in(step.observation, call)
        if seen is not None:
            record["result"] = seen


def _unpack_step(branch: dict[str, Any], timing: Any, holes: _Holes, tokens: _TokenReader) -> None:
    branch["timing"] = timing
    if "observation" in branch:
        branch["observation"] = [holes.fill(message) for message in branch["observation"]]
    if "tools" in branch:
        branch["tools"] = holes.fill(branch["tools"])
    if "tokens" in branch["action"]:
        branch["action"]["tokens"] = tokens.take(branch["action"]["tokens"])
    for record in branch.get("calls", ()):
        if isinstance(record.get("result"), int):
            record["result"] = branch["observation"][record["result"]]["content"]


def _seen_in(observation: Sequence[Message], call: CallRecord) -> int | None:
    """Which message of the observation is exactly the call's result."""
    if not call.result:
        return None
    return next((at for at, message in enumerate(observation) if message.content == call.result), None)


def _clock(trajectory: Trajectory) -> bytes:
    """Which timings there are, one byte each, and all their values: as JSON if they are short numbers, else 8 bytes each."""
    timings = (trajectory.timing, *(step.timing for step in trajectory.steps))
    present = bytes(timing is not None for timing in timings)
    values = [value for timing in timings if timing is not None for value in timing.model_dump().values()]
    text = _json(values)
    if len(text) <= 10 * len(values):
        return present + _TEXT + text
    return present + _BINARY + pack_floats(values)


def _unclock(clock: bytes, count: int) -> list[dict[str, float] | None]:
    present, kind, packed = clock[:count], clock[count : count + 1], clock[count + 1 :]
    values = iter(from_json(packed) if kind == _TEXT else unpack_floats(packed))
    records = [Timing, *[StepTiming] * (count - 1)]
    return [
        {name: next(values) for name in record.model_fields} if there else None
        for record, there in zip(records, present, strict=True)
    ]


def _setup_json(key: EpisodeKey) -> bytes:
    return _json({name: getattr(key, name) for name in _SETUP})


def _json(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="constants")


def _digest(parts: Sequence[bytes]) -> str:
    """Lengths count too, so that no two lists of parts share their bytes."""
    total = blake2b(digest_size=16)
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()


def _parts(body: bytes) -> Iterator[bytes]:
    lengths = _LENGTHS.unpack_from(body)
    if sum(lengths) + _LENGTHS.size != len(body):
        raise ValueError("The body's parts do not add up to its length.")
    at = _LENGTHS.size
    for length in lengths:
        yield body[at : at + length]
        at += length


def item_digest(item: bytes) -> bytes:
    """By which an item is found again within a journal or a segment."""
    return blake2b(item, digest_size=16).digest()
