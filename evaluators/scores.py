"""From the episodes of one agent on one benchmark to the numbers that stand for it.

Every planned episode is in exactly one of four states, and the counts of all four stand beside every score:

- `ended`: by itself or by a limit, and graded;
- `agent_failed`: the agent broke; it scores 0 and stays in the denominator;
- `missing`: broken by our side, or without a verdict; owed again, never scored, never left out silently;
- `not_started`: no record yet.

A table cell is computed over what is graded. Beside the headline stands `missing_as_zero`: what it would be if every
planned episode without a verdict had failed, which is the least that it can come to.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isclose
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np

from envs.base import GRADERS, Benchmark, Score, TaskScore
from evaluators import statistics
from evaluators.statistics import AttemptBootstrap, ClusterBootstrap, Floats, Interval
from trajectories.schema import Record, Task, Trajectory

State = Literal["ended", "agent_failed", "missing", "not_started"]


class Graded(NamedTuple):
    """What one grader says of one episode."""

    score: float
    passed: bool


class EpisodeScore(NamedTuple):
    """All that scores read of one recorded episode; `by_grader` is empty where it is `missing`."""

    task_id: str
    attempt: int
    state: State
    by_grader: Mapping[str, Graded]
    grader_ids: Mapping[str, str]
    data: str


class Estimate(Record):
    """A value with its 95 % interval over tasks.

    None where it does not exist: nothing graded; for the interval also a single cluster, resamples that all agree, or a
    table that is no function of the categories' means.
    """

    value: float | None
    low: float | None = None
    high: float | None = None


class Cell(Record):
    """One score of the official table, as `Score` describes `n` and `graded`."""

    name: str
    n: int
    graded: int
    estimate: Estimate


class Denominators(Record):
    """Planned episodes, all attempts counted, and their states: the other four add up to `planned`."""

    planned: int
    ended: int
    agent_failed: int
    missing: int
    not_started: int


class PassAtK(Record):
    """The headline if a task counted as solved where any of k attempts passes, or only where all do.

    `tasks` have at least k graded attempts and are in it.
    """

    k: int
    any: Estimate
    all: Estimate
    tasks: int


class GraderScores(Record):
    """All scores by one grader."""

    ids: tuple[str, ...]
    """The versioned id of the grader; more than one where a run mixes them, which is a fault to mend by rescoring."""
    table: tuple[Cell, ...]
    """The official table, headline first."""
    mean: Estimate
    """Plain mean of the planned tasks that are graded, each by the mean of its attempts: comparable also for a part."""
    missing_as_zero: float | None
    """The headline, with every planned episode that has no verdict counted as 0."""
    without_unwinnable: float | None
    """The headline with the unwinnable tasks left out of their category; None where the plan has none of them."""
    attempts: Estimate | None
    """The headline with its interval over attempts (same tasks, other seeds); None without a second attempt."""
    pass_at_k: tuple[PassAtK, ...] = ()
    """For k from 1 to the planned attempts; empty for one attempt."""


class AgentScores(Record):
    """One agent on one benchmark."""

    benchmark: str
    agent: str
    headline: str
    denominators: Denominators
    tasks: int
    """Planned tasks."""
    benchmark_tasks: int
    """Tasks in the headline's denominator: where it exceeds `tasks`, only a part was planned and the rest counts 0."""
    attempts: int
    """Planned attempts of each task."""
    unwinnable: tuple[str, ...]
    """Planned tasks that the official grader passes for no answer."""
    data: tuple[str, ...]
    """Versions of the data that the recorded episodes were played on."""
    graders: dict[str, GraderScores]


def episode_score(trajectory: Trajectory) -> EpisodeScore:
    """What scores read of a stored trajectory."""
    verdicts = trajectory.verdicts
    if not trajectory.done:
        state, by_grader = "missing", {}
    elif trajectory.failure is not None:
        state, by_grader = "agent_failed", {name: Graded(0.0, False) for name in GRADERS}
    else:
        state, by_grader = "ended", {name: Graded(each.score, each.passed) for name, each in verdicts.items()}
    ids = {name: verdict.grader for name, verdict in verdicts.items()}
    return EpisodeScore(trajectory.task.id, trajectory.key.attempt, state, by_grader, ids, trajectory.data)


def score_agent(
    benchmark: Benchmark,
    agent: str,
    tasks: Sequence[Task],
    attempts: int,
    episodes: Iterable[EpisodeScore],
    *,
    seed: int,
) -> AgentScores:
    """The scores of one agent over the planned `tasks`, `attempts` each; `seed` is that of the resampling.

    Episodes of tasks or attempts that were not planned are left aside; the last of several records of one counts. The
    order of the episodes is of no effect.
    """
    planned = {(task.id, attempt) for task in tasks for attempt in range(attempts)}
    recorded = {(each.task_id, each.attempt): each for each in episodes if (each.task_id, each.attempt) in planned}
    unwinnable = tuple(sorted(benchmark.unwinnable & {task.id for task in tasks}))
    graders = {
        name: _Grading(benchmark, tasks, attempts, recorded, name, seed).scores(frozenset(unwinnable))
        for name in GRADERS
    }
    headline = graders[GRADERS[0]].table[0]
    return AgentScores(
        benchmark=benchmark.name,
        agent=agent,
        headline=headline.name,
        denominators=denominators(len(planned), recorded.values()),
        tasks=len(tasks),
        benchmark_tasks=headline.n,
        attempts=attempts,
        unwinnable=unwinnable,
        data=tuple(sorted({each.data for each in recorded.values()})),
        graders=graders,
    )


def denominators(planned: int, episodes: Iterable[EpisodeScore]) -> Denominators:
    """Counts of the states. An episode that ended without any verdict is `missing`: nothing is known of it."""
    counts = Counter("missing" if each.state == "ended" and not each.by_grader else each.state for each in episodes)
    return Denominators(
        planned=planned,
        ended=counts["ended"],
        agent_failed=counts["agent_failed"],
        missing=counts["missing"],
        not_started=planned - counts.total(),
    )


class _Grading:
    """One grader's view of the planned tasks: values of each task's graded attempts, and the table as a function of them."""

    def __init__(
        self,
        benchmark: Benchmark,
        tasks: Sequence[Task],
        attempts: int,
        recorded: Mapping[tuple[str, int], EpisodeScore],
        grader: str,
        seed: int,
    ) -> None:
        self.benchmark, self.tasks, self.attempts, self.seed = benchmark, tasks, attempts, seed
        self.ids = tuple(sorted({each.grader_ids[grader] for each in recorded.values() if grader in each.grader_ids}))
        self.graded: dict[str, list[Graded]] = {task.id: [] for task in tasks}
        self.slots: list[TaskScore] = []
        for task in tasks:
            for attempt in range(attempts):
                episode = recorded.get((task.id, attempt))
                found = episode.by_grader.get(grader) if episode else None
                if found:
                    self.graded[task.id].append(found)
                self.slots.append(TaskScore(task, attempt, found.score if found else None))

    def scores(self, unwinnable: frozenset[str]) -> GraderScores:
        values = {task_id: fmean(each.score for each in found) for task_id, found in self.graded.items() if found}
        table = self.benchmark.aggregate(self.slots)
        return GraderScores(
            ids=self.ids,
            table=self._cells(table, values),
            mean=self._plain_mean(values),
            missing_as_zero=self._missing_as_zero(table),
            without_unwinnable=self._without(unwinnable, values),
            attempts=self._over_attempts(table),
            pass_at_k=tuple(self._pass_at_k(k) for k in range(1, self.attempts + 1)) if self.attempts > 1 else (),
        )

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def _table(self, values: Mapping[str, float]) -> tuple[Score, ...]:
        """The official table if each task had this value; tasks that lack one have no verdict."""
        return self.benchmark.aggregate([TaskScore(task, 0, values.get(task.id)) for task in self.tasks])

    def _table_of_means(self, strata: Sequence[str], means: Floats, members: Iterable[str]) -> Floats:
        """The values of the table if each of the member tasks had the mean of its category; NaN for an empty cell."""
        mean_of = dict(zip(strata, means.tolist(), strict=True))
        within = set(members)
        table = self._table({task.id: mean_of[task.category] for task in self.tasks if task.id in within})
        return np.array([np.nan if cell.value is None else cell.value for cell in table])

    def _resampled(self, bootstrap: ClusterBootstrap | AttemptBootstrap, members: Iterable[str]) -> Floats:
        """The table's values in every resample, (resamples, cells)."""
        within = list(members)
        return statistics.apply_rows(
            lambda means: self._table_of_means(bootstrap.strata, means, within),
            bootstrap.replicates(self._rng()),
            self._rng(),
        )

    def _of_category_means(self, table: Sequence[Score], values: Mapping[str, float]) -> bool:
        """Whether the table is a function of the categories' means, as the resampling takes for granted."""
        strata, means = _category_means(self.tasks, values)
        exact = np.array([np.nan if cell.value is None else cell.value for cell in table])
        return np.allclose(self._table_of_means(strata, means, values), exact, rtol=0, atol=1e-9, equal_nan=True)

    def _cells(self, table: Sequence[Score], values: Mapping[str, float]) -> tuple[Cell, ...]:
        intervals = self._intervals(table, values)
        return tuple(
            Cell(name=cell.name, n=cell.n, graded=cell.graded, estimate=_estimate(cell.value, interval))
            for cell, interval in zip(table, intervals, strict=True)
        )

    def _intervals(self, table: Sequence[Score], values: Mapping[str, float]) -> list[Interval | None]:
        if not values or not self._of_category_means(table, values):
            return [None] * len(table)
        bootstrap = _task_bootstrap(self.tasks, values)
        if bootstrap.fixed:
            return [None] * len(table)
        columns = self._resampled(bootstrap, values).T
        return [self._interval(cell, column, values) for cell, column in zip(table, columns, strict=True)]

    def _interval(self, cell: Score, replicates: Floats, values: Mapping[str, float]) -> Interval | None:
        """That of the plain mean where the cell is one of a category; else what was resampled."""
        if cell.value is None:
            return None
        tasks = [task for task in self.tasks if task.category == cell.name and task.id in values]
        scores = [values[task.id] for task in tasks]
        if tasks and isclose(fmean(scores), cell.value, abs_tol=1e-9):
            return statistics.mean_interval(scores, [task.cluster for task in tasks], rng=self._rng())
        return None if statistics.agree(replicates) else statistics.percentile_interval(replicates)

    def _plain_mean(self, values: Mapping[str, float]) -> Estimate:
        if not values:
            return Estimate(value=None)
        tasks = [task for task in self.tasks if task.id in values]
        scores = [values[task.id] for task in tasks]
        interval = statistics.mean_interval(scores, [task.cluster for task in tasks], rng=self._rng())
        return _estimate(fmean(scores), interval)

    def _missing_as_zero(self, table: Sequence[Score]) -> float | None:
        if all(slot.score is not None for slot in self.slots):
            return table[0].value
        return self.benchmark.aggregate([slot._replace(score=slot.score or 0.0) for slot in self.slots])[0].value

    def _without(self, unwinnable: frozenset[str], values: Mapping[str, float]) -> float | None:
        winnable = {task_id: value for task_id, value in values.items() if task_id not in unwinnable}
        if not unwinnable or not winnable:
            return None
        strata, means = _category_means(self.tasks, winnable)
        members = [task.id for task in self.tasks if task.id in values and task.category in set(strata)]
        value = self._table_of_means(strata, means, members)[0]
        return None if np.isnan(value) else float(value)

    def _over_attempts(self, table: Sequence[Score]) -> Estimate | None:
        rows = [slot for slot in self.slots if slot.score is not None]
        values = {slot.task.id: 0.0 for slot in rows}
        bootstrap = AttemptBootstrap(
            [slot.score or 0.0 for slot in rows],
            [slot.task.id for slot in rows],
            [slot.task.category for slot in rows],
        )
        if not rows or bootstrap.fixed:
            return None
        return _estimate(table[0].value, statistics.percentile_interval(self._resampled(bootstrap, values)[:, 0]))

    def _pass_at_k(self, k: int) -> PassAtK:
        enough = {task_id: found for task_id, found in self.graded.items() if len(found) >= k}
        passes = [sum(each.passed for each in found) for found in enough.values()]
        attempts = [len(found) for found in enough.values()]
        anyone = dict(zip(enough, statistics.pass_at_k(passes, attempts, k).tolist(), strict=True))
        everyone = dict(zip(enough, statistics.pass_hat_k(passes, attempts, k).tolist(), strict=True))
        return PassAtK(k=k, any=self._headline(anyone), all=self._headline(everyone), tasks=len(enough))

    def _headline(self, values: Mapping[str, float]) -> Estimate:
        table = self._table(values)
        return _estimate(table[0].value, self._intervals(table, values)[0])


def _estimate(value: float | None, interval: Interval | None) -> Estimate:
    low, high = interval or (None, None)
    return Estimate(value=value, low=low, high=high)


def _category_means(tasks: Sequence[Task], values: Mapping[str, float]) -> tuple[list[str], Floats]:
    found: dict[str, list[float]] = {}
    for task in tasks:
        if task.id in values:
            found.setdefault(task.category, []).append(values[task.id])
    return list(found), np.array([fmean(each) for each in found.values()])


def _task_bootstrap(tasks: Sequence[Task], values: Mapping[str, float]) -> ClusterBootstrap:
    members = [task for task in tasks if task.id in values]
    return ClusterBootstrap(
        [values[task.id] for task in members],
        [task.cluster for task in members],
        [task.category for task in members],
    )
