"""From the episodes of one agent on one benchmark to the numbers that stand for it.

Every planned episode is in exactly one of four states, and the counts of all four stand beside every score:

- `ended`: by itself or by a limit, and graded;
- `agent_failed`: the agent broke; it scores 0 and stays in the denominator;
- `missing`: broken by our side, or without a verdict; owed again, never scored, never left out silently;
- `not_started`: no record yet.

A table cell is computed over what is graded. One number leads: the benchmark's headline where the whole split was planned,
else the plain mean of the planned tasks, since a headline counts 0 for what was never planned. Beside it stands
`missing_as_zero`: what it would be if every planned episode without a verdict had failed, which is the least that it can come to.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np

from envs.base import GRADERS, Benchmark, Score, TaskScore
from evaluators import statistics
from evaluators.statistics import AttemptBootstrap, Interval
from evaluators.tables import Table, Tables
from trajectories.schema import Record, Task, Trajectory

MEAN = "mean of the planned tasks"

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
    """The leading number if a task counted as solved where any of k attempts passes, or only where all do.

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
    lead: Estimate
    """The number that stands for the agent: the headline, or `mean` where only a part was planned."""
    missing_as_zero: float | None
    """The leading number, with every planned episode that has no verdict counted as 0."""
    without_unwinnable: float | None
    """The leading number with the unwinnable tasks left out (of their category); None where the plan has none of them."""
    attempts: Estimate | None
    """The leading number with its interval over attempts (same tasks, other seeds); None without a second attempt."""
    pass_at_k: tuple[PassAtK, ...] = ()
    """For k = 2, 4, 8, ... and the planned attempts; empty for one attempt (k = 1 is the score itself)."""


class AgentScores(Record):
    """One agent on one benchmark."""

    benchmark: str
    agent: str
    headline: str
    denominators: Denominators
    tasks: int
    """Planned tasks."""
    benchmark_tasks: int
    """Tasks of the whole split, in the headline's denominator: where it exceeds `tasks`, only a part was planned."""
    whole: bool
    """Whether all tasks of the split were planned. If not, the official headline counts 0 for the rest and leads nothing."""
    lead: str
    """What the leading number is: the headline's name, or "mean of the planned tasks"."""
    disagreements: int
    """Recorded episodes that one grader passes and the other doesn't."""
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
    split_tasks: int = 0,
) -> AgentScores:
    """The scores of one agent over the planned `tasks`, `attempts` each; `seed` is that of the resampling.

    The split has `split_tasks` tasks or as many as are in its headline, whichever is more. Episodes of tasks or attempts that were not planned are left aside; the last of several records of one counts. The
    order of the episodes is of no effect.
    """
    planned = {(task.id, attempt) for task in tasks for attempt in range(attempts)}
    recorded = {(each.task_id, each.attempt): each for each in episodes if (each.task_id, each.attempt) in planned}
    unwinnable = tuple(sorted(benchmark.unwinnable & {task.id for task in tasks}))
    tables = Tables(benchmark, tasks, seed)
    headline = benchmark.aggregate([TaskScore(task, 0, None) for task in tasks])[0]
    benchmark_tasks = max(headline.n, split_tasks)
    whole = len(tasks) >= benchmark_tasks
    graders = {
        name: _Grading(tables, attempts, recorded, name, whole=whole).scores(frozenset(unwinnable)) for name in GRADERS
    }
    return AgentScores(
        benchmark=benchmark.name,
        agent=agent,
        headline=headline.name,
        denominators=denominators(len(planned), recorded.values()),
        tasks=len(tasks),
        benchmark_tasks=benchmark_tasks,
        whole=whole,
        lead=headline.name if whole else MEAN,
        disagreements=sum(len({each.passed for each in found.by_grader.values()}) > 1 for found in recorded.values()),
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
    """One grader's view of the planned tasks."""

    def __init__(
        self,
        tables: Tables,
        attempts: int,
        recorded: Mapping[tuple[str, int], EpisodeScore],
        grader: str,
        *,
        whole: bool,
    ) -> None:
        self.tables, self.attempts, self.whole = tables, attempts, whole
        self.ids = tuple(sorted({each.grader_ids[grader] for each in recorded.values() if grader in each.grader_ids}))
        self.graded: dict[str, list[Graded]] = {}
        self.slots: list[TaskScore] = []
        for task in tables.tasks:
            for attempt in range(attempts):
                episode = recorded.get((task.id, attempt))
                found = episode.by_grader.get(grader) if episode else None
                if found:
                    self.graded.setdefault(task.id, []).append(found)
                self.slots.append(TaskScore(task, attempt, found.score if found else None))
        self.values = {task_id: fmean(each.score for each in found) for task_id, found in self.graded.items()}

    def scores(self, unwinnable: frozenset[str]) -> GraderScores:
        cells = self._cells(self.tables.benchmark.aggregate(self.slots))
        mean = self._plain_mean(self.values)
        lead = cells[0].estimate if self.whole else mean
        return GraderScores(
            ids=self.ids,
            table=cells,
            mean=mean,
            lead=lead,
            missing_as_zero=self._missing_as_zero(lead),
            without_unwinnable=self._without(unwinnable),
            attempts=self._over_attempts(lead),
            pass_at_k=tuple(self._pass_at_k(k) for k in _ks(self.attempts)),
        )

    def _cells(self, table: Sequence[Score]) -> tuple[Cell, ...]:
        over = self._over(self.values)
        intervals = over.intervals(table, over.array(self.values))
        return tuple(
            Cell(name=cell.name, n=cell.n, graded=cell.graded, estimate=_estimate(cell.value, interval))
            for cell, interval in zip(table, intervals, strict=True)
        )

    def _over(self, values: Mapping[str, float]) -> Table:
        return self.tables.over(frozenset(values))

    def _plain_mean(self, values: Mapping[str, float]) -> Estimate:
        if not values:
            return Estimate(value=None)
        over = self._over(values)
        return _estimate(fmean(values.values()), over.mean_interval(over.array(values)))

    def _missing_as_zero(self, lead: Estimate) -> float | None:
        if all(slot.score is not None for slot in self.slots):
            return lead.value
        if not self.whole:
            return fmean(slot.score or 0.0 for slot in self.slots)
        filled = [slot._replace(score=slot.score or 0.0) for slot in self.slots]
        return self.tables.benchmark.aggregate(filled)[0].value

    def _without(self, unwinnable: frozenset[str]) -> float | None:
        """In the headline the other tasks' category means stand for the whole category, whose weight stays as it is."""
        values = {task_id: value for task_id, value in self.values.items() if task_id not in unwinnable}
        if not unwinnable or not values:
            return None
        if not self.whole:
            return fmean(values.values())
        winnable = self._over(values)
        means = dict(zip(winnable.categories, winnable.means(winnable.array(values)).tolist(), strict=True))
        category_of = {task.id: task.category for task in self.tables.tasks}
        filled = {task_id: means[category_of[task_id]] for task_id in self.values if category_of[task_id] in means}
        over = self._over(filled)
        return over.scores(over.array(filled))[0].value

    def _over_attempts(self, lead: Estimate) -> Estimate | None:
        rows = [slot for slot in self.slots if slot.score is not None]
        bootstrap = AttemptBootstrap(
            [slot.score or 0.0 for slot in rows],
            [slot.task.id for slot in rows],
            [slot.task.category for slot in rows],
        )
        if not rows or bootstrap.fixed:
            return None
        replicates = bootstrap.replicates(np.random.default_rng(self.tables.seed))
        over = self._over(self.values)
        leading = over.of_rows(replicates)[:, 0] if self.whole else over.mean_of_rows(replicates)
        return _estimate(lead.value, statistics.percentile_interval(leading))

    def _pass_at_k(self, k: int) -> PassAtK:
        enough = {task_id: found for task_id, found in self.graded.items() if len(found) >= k}
        passes = [sum(each.passed for each in found) for found in enough.values()]
        attempts = [len(found) for found in enough.values()]
        anyone = dict(zip(enough, statistics.pass_at_k(passes, attempts, k).tolist(), strict=True))
        everyone = dict(zip(enough, statistics.pass_hat_k(passes, attempts, k).tolist(), strict=True))
        return PassAtK(k=k, any=self._leading(anyone), all=self._leading(everyone), tasks=len(enough))

    def _leading(self, values: Mapping[str, float]) -> Estimate:
        if not self.whole:
            return self._plain_mean(values)
        over = self._over(values)
        return _estimate(*over.headline(over.array(values)))


def _ks(attempts: int) -> list[int]:
    """Powers of two from 2 up, and the number of attempts itself."""
    powers = [2**power for power in range(1, attempts.bit_length())]
    return sorted({k for k in (*powers, attempts) if 1 < k <= attempts})


def _estimate(value: float | None, interval: Interval | None) -> Estimate:
    low, high = interval or (None, None)
    return Estimate(value=value, low=low, high=high)
