"""What a store knows of a trajectory without reading it: the columns, and the filters over them."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypedDict

from trajectories.failures import InputError
from trajectories.schema import Trajectory, Verdict


class Summary(NamedTuple):
    """One row a trajectory. Scores and counts are None where the trajectory has none."""

    id: str
    benchmark: str
    task_id: str
    category: str
    split: str
    language: str
    cluster: str
    agent: str
    attempt: int
    seed: int
    ended: str
    limit: str | None
    boundary: str | None
    """Where it failed; None: it did not."""
    failure: str | None
    """The exception's class name."""
    reward: float
    official: float | None
    """The official grader's score."""
    strict: float | None
    steps: int
    calls: int
    """Tool calls, executed or not."""
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    wall_s: float | None
    tries: int
    data: str
    content: str
    """Digest of all but the timing: equal episodes have equal ones."""

    @property
    def done(self) -> bool:
        """As `Trajectory.done`."""
        return counts(self.boundary)


def counts(boundary: str | None) -> bool:
    """Whether an episode with a failure at this boundary (None: without one) is done: faults of ours are owed again."""
    return boundary in (None, "agent")


Kind = Literal["text", "int", "real"]

KINDS: dict[str, Kind] = {
    **dict.fromkeys(Summary._fields, "text"),
    **dict.fromkeys(("attempt", "steps", "calls", "prompt_tokens", "completion_tokens", "tries"), "int"),
    **dict.fromkeys(("reward", "official", "strict", "cost_usd", "wall_s"), "real"),
}
"""How each column is kept. The seed is text: it may have more than 64 bits."""

_SEED = Summary._fields.index("seed")
_REALS = [at for at, name in enumerate(Summary._fields) if KINDS[name] == "real"]

Names = str | Sequence[str]


class Filters(TypedDict, total=False):
    """Which trajectories: each given filter must hold; of several names any one."""

    id: Names
    benchmark: Names
    task_id: Names
    category: Names
    split: Names
    language: Names
    agent: Names
    attempt: int
    ended: Names
    limit: Names
    boundary: Names
    failure: Names
    done: bool
    min_score: float
    """Of the official grader; trajectories without its verdict don't match."""
    max_score: float
    min_steps: int
    max_steps: int


def summarize(trajectory: Trajectory, content: str) -> Summary:
    """InputError for a number beyond 64 bits, where nothing sensible has one."""
    key, task, failure, usage = trajectory.key, trajectory.task, trajectory.failure, trajectory.usage
    summary = Summary(
        id=trajectory.id,
        benchmark=task.benchmark,
        task_id=task.id,
        category=task.category,
        split=task.split,
        language=task.language,
        cluster=task.cluster,
        agent=key.agent,
        attempt=key.attempt,
        seed=key.seed,
        ended=trajectory.ended,
        limit=trajectory.limit,
        boundary=failure.boundary if failure else None,
        failure=failure.kind if failure else None,
        reward=trajectory.reward,
        official=_score(trajectory.verdicts.get("official")),
        strict=_score(trajectory.verdicts.get("strict")),
        steps=len(trajectory.steps),
        calls=sum(len(step.calls) for step in trajectory.steps),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=usage.cost_usd,
        wall_s=trajectory.timing.wall_s if trajectory.timing else None,
        tries=trajectory.tries,
        data=trajectory.data,
        content=content,
    )
    _check_range(summary)
    return summary


def to_row(summary: Summary) -> tuple[Any, ...]:
    """The values as SQLite can hold them: it has no NaN and no integers beyond 64 bits."""
    row: list[Any] = ["NaN" if value != value else value for value in summary]
    row[_SEED] = str(summary.seed)
    return tuple(row)


def from_row(row: Sequence[Any]) -> Summary:
    """The other way round."""
    values = list(row)
    values[_SEED] = int(values[_SEED])
    for at in _REALS:
        if isinstance(values[at], str):
            values[at] = float(values[at])
    return Summary._make(values)


def where(filters: Filters) -> tuple[str, list[Any]]:
    """The filters as an SQL condition over the columns, and its parameters. InputError for an unknown filter."""
    parts, values = ["1"], list[Any]()
    for name, wanted in filters.items():
        condition, bound = _condition(name, wanted)
        parts.append(condition)
        values.extend(bound)
    return " AND ".join(parts), values


def _condition(name: str, wanted: Any) -> tuple[str, list[Any]]:
    if name not in Filters.__annotations__:
        known = ", ".join(sorted(Filters.__annotations__))
        raise InputError(f"Unknown filter {name!r}. Known: {known}.")
    if name == "done":
        return ("done = ?", [int(wanted)])
    if name.startswith(("min_", "max_")):
        column = {"score": "official"}.get(name[4:], name[4:])
        # NaN is kept as text, which SQLite sorts after all numbers.
        bounds = (wanted, math.inf) if name.startswith("min_") else (-math.inf, wanted)
        return (f'"{column}" BETWEEN ? AND ?', list(bounds))
    names = [wanted] if isinstance(wanted, str | int) else list(wanted)
    return (f'"{name}" IN ({", ".join("?" * len(names))})', names)


def _score(verdict: Verdict | None) -> float | None:
    return verdict.score if verdict else None


def _check_range(summary: Summary) -> None:
    for name, kind in KINDS.items():
        value = getattr(summary, name)
        if kind == "int" and value is not None and not -(2**63) <= value < 2**63:
            raise InputError(f"Trajectory {summary.id!r}: {name} {value} has more than 64 bits and can't be stored.")
