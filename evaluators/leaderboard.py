"""Which rows may stand in one table, and in which order: pure functions of finished scores."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evaluators.averages import MetricMean
from evaluators.scores import AgentScores, Estimate
from trajectories.schema import Record


class Entry(Record):
    """One agent of one run on one benchmark."""

    run: str
    """Names the run among those that are shown together."""
    task_digest: str
    """Digest of the planned tasks' ids and contents."""
    scores: AgentScores
    behaviour: tuple[MetricMean, ...] = ()

    @property
    def official(self) -> Estimate:
        """The official headline."""
        return self.scores.graders["official"].table[0].estimate

    @property
    def strict(self) -> Estimate:
        return self.scores.graders["strict"].table[0].estimate


class Ranked(NamedTuple):
    """Equal scores share a rank; None: without a score."""

    rank: int | None
    entry: Entry


def by_benchmark(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Entries of each benchmark, in order of first appearance."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.scores.benchmark, []).append(entry)
    return found


def differences(entries: Sequence[Entry]) -> list[str]:
    """Why the entries can't be ranked together: one sentence for each benchmark and thing in which their runs differ.

    What has to agree is the set of tasks, the version of the data and the ids of the graders. An entry in which nothing
    was graded yet says nothing of data and graders.
    """
    sentences: list[str] = []
    for benchmark, rows in by_benchmark(entries).items():
        for what, values in _identity(rows).items():
            if len(set(values.values())) > 1:
                sentences.append(f"{benchmark}: the runs differ in {what}: {_listed(values)}.")
    return sentences


def _identity(rows: Sequence[Entry]) -> dict[str, dict[str, str]]:
    """Thing -> run -> what it is there. Several values within one run are joined, so that they differ from either."""
    things: dict[str, dict[str, set[str]]] = {"tasks": {}, "data": {}, "official grader": {}, "strict grader": {}}
    for row in rows:
        tasks = f"{row.scores.tasks} tasks (digest {row.task_digest[:8]})"
        things["tasks"].setdefault(row.run, set()).add(tasks)
        things["data"].setdefault(row.run, set()).update(row.scores.data)
        for name, scores in row.scores.graders.items():
            things[f"{name} grader"].setdefault(row.run, set()).update(scores.ids)
    return {
        thing: {run: " and ".join(sorted(values)) for run, values in runs.items() if values}
        for thing, runs in things.items()
    }


def _listed(values: Mapping[str, str]) -> str:
    runs: dict[str, list[str]] = {}
    for run, value in values.items():
        runs.setdefault(value, []).append(run)
    return "; ".join(f"{value} in {', '.join(names)}" for value, names in runs.items())


def ranked(entries: Sequence[Entry]) -> list[Ranked]:
    """By the official headline, best first; equals share a rank and the next one is skipped; unscored ones come last."""
    ordered = sorted(entries, key=lambda entry: (-_value(entry), entry.scores.agent, entry.run))
    values = [_value(entry) for entry in ordered]
    return [
        Ranked(None if entry.official.value is None else values.index(value) + 1, entry)
        for entry, value in zip(ordered, values, strict=True)
    ]


def _value(entry: Entry) -> float:
    value = entry.official.value
    return float("-inf") if value is None else value
