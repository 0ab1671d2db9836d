"""Which rows may stand in one table, and in which order: pure functions of finished scores."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evaluators.averages import MetricMean
from evaluators.scores import AgentScores, Estimate
from trajectories.schema import Record

_DIGITS = 12  # the same mean summed in another order is the same score

AGENT = "agent's "
"""Starts the names of settings that are the agent's own."""


class Entry(Record):
    """One agent of one run on one benchmark."""

    run: str
    """Names the run among those that are shown together."""
    task_digest: str
    """Digest of the planned tasks' ids and contents."""
    scores: AgentScores
    behaviour: tuple[MetricMean, ...] = ()
    settings: dict[str, str] = {}  # noqa: RUF012 - frozen by the record
    """How the episodes were played, by the names of the settings: shown where rows differ in them."""
    left_out: tuple[str, ...] = ()
    """What of the split could not be played, in sentences."""

    @property
    def official(self) -> Estimate:
        """The official headline."""
        return self.scores.graders["official"].table[0].estimate

    @property
    def strict(self) -> Estimate:
        return self.scores.graders["strict"].table[0].estimate

    @property
    def owed(self) -> int:
        """Planned episodes without a verdict."""
        return self.scores.denominators.missing + self.scores.denominators.not_started


class Ranked(NamedTuple):
    """Equal scores share a rank; None: without a score, or owed episodes that may still change it."""

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


def standing(scores: AgentScores, grader: str, *, whole: bool) -> Estimate:
    """What is ranked: the headline where `whole`, else the mean of the planned tasks, which all rows have."""
    found = scores.graders[grader]
    return found.table[0].estimate if whole else found.mean


def all_whole(rows: Iterable[AgentScores]) -> bool:
    """Whether all of these may be ranked by their headlines."""
    return all(row.whole for row in rows)


def ranked(entries: Sequence[Entry]) -> list[Ranked]:
    """Best first by `standing`; equals share a rank and the next one is skipped.

    Below them, without a rank, come the entries that are owed episodes, then those without a score.
    """
    whole = all_whole(entry.scores for entry in entries)

    def value(entry: Entry) -> float:
        found = standing(entry.scores, "official", whole=whole).value
        return float("-inf") if found is None else round(found, _DIGITS)

    def unranked(entry: Entry) -> bool:
        return entry.owed > 0 or value(entry) == float("-inf")

    ordered = sorted(entries, key=lambda entry: (unranked(entry), -value(entry), entry.scores.agent, entry.run))
    values = [value(entry) for entry in ordered]
    return [
        Ranked(None if unranked(entry) else values.index(value) + 1, entry)
        for entry, value in zip(ordered, values, strict=True)
    ]


def varying(entries: Sequence[Entry]) -> list[str]:
    """The settings in which entries differ, and those of the agent in which entries of the same agent do."""
    names = dict.fromkeys(name for entry in entries for name in entry.settings)
    return [name for name in names if _varies(name, entries)]


def _varies(name: str, entries: Sequence[Entry]) -> bool:
    agents_alone = name.startswith(AGENT)
    values: dict[str, set[str | None]] = {}
    for entry in entries:
        values.setdefault(entry.scores.agent if agents_alone else "", set()).add(entry.settings.get(name))
    return any(len(found) > 1 for found in values.values())
