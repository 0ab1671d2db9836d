"""How episodes ended and what broke, counted and with examples: tables that keep failures from vanishing."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

from trajectories.schema import Record, Trajectory

EXAMPLES = 3


class Example(Record):
    """One episode to look at."""

    task: str
    attempt: int
    trajectory: str
    """Its id, as `harness trajectories show` takes it."""


class FailureGroup(Record):
    """Episodes that failed in the same way."""

    boundary: Literal["agent", "environment", "sandbox", "infrastructure"]
    kind: str
    """The exception's class name."""
    count: int
    message: str
    """Of the first example."""
    examples: tuple[Example, ...]
    """The first by task id and attempt."""


class Ending(Record):
    """How many recorded episodes ended in one way: `terminated`, `truncated by LIMIT` or `failed: BOUNDARY`."""

    name: str
    episodes: int


class EndOf(NamedTuple):
    """All that these tables read of one episode."""

    example: Example
    ending: str
    boundary: Literal["agent", "environment", "sandbox", "infrastructure"] | None
    kind: str
    message: str


def end_of(trajectory: Trajectory) -> EndOf:
    example = Example(task=trajectory.task.id, attempt=trajectory.key.attempt, trajectory=trajectory.id)
    failure = trajectory.failure
    if failure:
        return EndOf(example, f"failed: {failure.boundary}", failure.boundary, failure.kind, failure.message)
    ending = f"truncated by {trajectory.limit}" if trajectory.ended == "truncated" else trajectory.ended
    return EndOf(example, ending, None, "", "")


def endings(ends: Iterable[EndOf]) -> tuple[Ending, ...]:
    """The most frequent first, then by name."""
    counts = Counter(end.ending for end in ends)
    return tuple(
        Ending(name=name, episodes=n) for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def failure_groups(ends: Iterable[EndOf]) -> tuple[FailureGroup, ...]:
    """By boundary and kind, the most frequent first. The order of the episodes is of no effect."""
    groups: dict[tuple[str, str], list[EndOf]] = {}
    for end in sorted(ends, key=lambda end: (end.example.task, end.example.attempt)):
        if end.boundary:
            groups.setdefault((end.boundary, end.kind), []).append(end)
    found = [_group(members) for _, members in sorted(groups.items())]
    return tuple(sorted(found, key=lambda group: -group.count))


def _group(members: list[EndOf]) -> FailureGroup:
    first = members[0]
    if first.boundary is None:
        raise ValueError("Only failed episodes can be grouped.")
    return FailureGroup(
        boundary=first.boundary,
        kind=first.kind,
        count=len(members),
        message=first.message,
        examples=tuple(member.example for member in members[:EXAMPLES]),
    )
