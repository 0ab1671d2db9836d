"""How episodes ended, what broke, and why the graders failed them: tables that keep failures from vanishing."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

from trajectories.schema import Record, Trajectory, Verdict

EXAMPLES = 3
TRUNCATED = "truncated by "
"""Starts the name of an ending that a limit made."""


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


class ErrorType(Record):
    """Episodes that ended and that a grader failed for the reason that the benchmark calls `name`."""

    name: str
    episodes: dict[str, int]
    """By grader name; a grader that fails none of them so is left out."""


class EndOf(NamedTuple):
    """All that these tables read of one episode."""

    example: Example
    ending: str
    boundary: Literal["agent", "environment", "sandbox", "infrastructure"] | None
    kind: str
    message: str
    error_types: tuple[tuple[str, str], ...]
    """Grader name and error type of each verdict that is not a pass."""


def end_of(trajectory: Trajectory) -> EndOf:
    example = Example(task=trajectory.task.id, attempt=trajectory.key.attempt, trajectory=trajectory.id)
    failure = trajectory.failure
    if failure:
        return EndOf(example, f"failed: {failure.boundary}", failure.boundary, failure.kind, failure.message, ())
    ending = f"{TRUNCATED}{trajectory.limit}" if trajectory.ended == "truncated" else trajectory.ended
    types = [(name, _error_type(verdict)) for name, verdict in trajectory.verdicts.items() if not verdict.passed]
    return EndOf(example, ending, None, "", "", tuple(types))


def _error_type(verdict: Verdict) -> str:
    """The benchmark's own name for what was wrong, which verdicts hold as `error_type` if there is one."""
    named = verdict.detail.get("error_type")
    return named if isinstance(named, str) else "not passed"


def endings(ends: Iterable[EndOf]) -> tuple[Ending, ...]:
    """The most frequent first, then by name."""
    counts = Counter(end.ending for end in ends)
    return tuple(
        Ending(name=name, episodes=n) for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def error_types(ends: Iterable[EndOf]) -> tuple[ErrorType, ...]:
    """The most frequent first, all graders together, then by name."""
    counts: dict[str, Counter[str]] = {}
    for end in ends:
        for grader, name in end.error_types:
            counts.setdefault(name, Counter())[grader] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))
    return tuple(ErrorType(name=name, episodes=dict(sorted(found.items()))) for name, found in ordered)


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
