"""A benchmark's score table as a function of the means of its categories: what makes it resampled in a moment.

Official headlines are means of means with unequal weights (BFCL's is one of 17 categories). The bootstrap resamples the
tasks within their categories, which keeps every category's size, and the table is taken of the resampled means: by the
benchmark's own `aggregate`, so that no weight is written down twice.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from math import isclose

import numpy as np

from envs.base import Benchmark, Score, TaskScore
from evaluators import statistics
from evaluators.statistics import ClusterBootstrap, Floats, Interval, LinearForm
from trajectories.schema import Task


class Table:
    """The table over `tasks`, of which the `members` have a value. Values are given in the order of `graded`."""

    def __init__(self, benchmark: Benchmark, tasks: Sequence[Task], members: frozenset[str], seed: int) -> None:
        self._benchmark, self._tasks, self._seed = benchmark, tasks, seed
        self.graded = [task for task in tasks if task.id in members]
        self._category_of, _ = statistics.indices(task.category for task in self.graded)
        self.categories = list(dict.fromkeys(task.category for task in self.graded))

    def array(self, values: Mapping[str, float]) -> Floats:
        """Values by task id in the order of `graded`."""
        return np.array([values[task.id] for task in self.graded], dtype=float)

    def scores(self, values: Floats) -> tuple[Score, ...]:
        """The official table if each graded task had this value in a single attempt."""
        value_of = dict(zip((task.id for task in self.graded), values.tolist(), strict=True))
        return self._benchmark.aggregate([TaskScore(task, 0, value_of.get(task.id)) for task in self._tasks])

    def of_means(self, means: Floats) -> Floats:
        """The values of the table if each graded task had the mean of its category; NaN for an empty cell.

        `means` are in the order of `categories`.
        """
        return numbers(self.scores(means[self._category_of]))

    def means(self, values: Floats) -> Floats:
        """The plain mean of each category, in the order of `categories`."""
        sums = np.bincount(self._category_of, weights=values, minlength=len(self.categories))
        return sums / np.bincount(self._category_of, minlength=len(self.categories))

    def of_rows(self, rows: Floats) -> Floats:
        """`of_means` of every row, (resamples, categories) to (resamples, cells)."""
        return statistics.apply_rows(self.of_means, self._form, rows)

    def mean_of_rows(self, rows: Floats) -> Floats:
        """The plain mean of all graded tasks in every row of category means, (resamples, categories) to (resamples,)."""
        return rows @ (np.bincount(self._category_of, minlength=len(self.categories)) / len(self.graded))

    def intervals(self, table: Sequence[Score], values: Floats) -> list[Interval | None]:
        """The 95 % interval over tasks of each cell of the `table` that belongs to the values; None where there is none.

        The mean of a category has `binary_interval` where that holds; all else is resampled. None also for all cells of a table
        that is no function of the categories' means.
        """
        columns = self._columns(table, values)
        if columns is None:
            return [None] * len(table)
        return [self._interval(cell, column, values) for cell, column in zip(table, columns, strict=True)]

    def headline(self, values: Floats) -> tuple[float | None, Interval | None]:
        """The first cell of the table of these values, and its interval."""
        table = self.scores(values)
        columns = self._columns(table, values)
        return table[0].value, None if columns is None else self._interval(table[0], columns[0], values)

    def _columns(self, table: Sequence[Score], values: Floats) -> Floats | None:
        """Every cell in every resample, (cells, resamples)."""
        if not self.graded or self._bootstrap.fixed or not self._holds(table, values):
            return None
        return self.of_rows(self._bootstrap.replicates(values)).T

    def mean_interval(self, values: Floats) -> Interval | None:
        """Of the plain mean of all graded tasks."""
        return statistics.mean_interval(values, [task.cluster for task in self.graded], rng=self._rng())

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self._seed)

    @cached_property
    def _bootstrap(self) -> ClusterBootstrap:
        clusters = [task.cluster for task in self.graded]
        return ClusterBootstrap(clusters, [task.category for task in self.graded], rng=self._rng())

    @cached_property
    def _form(self) -> LinearForm | None:
        return statistics.linear_form(self.of_means, len(self.categories), self._rng())

    def _holds(self, table: Sequence[Score], values: Floats) -> bool:
        """Whether the table is a function of the categories' means, as the resampling takes for granted."""
        found = self.of_means(self.means(values))
        return np.allclose(found, numbers(table), rtol=0, atol=1e-9, equal_nan=True)

    def _interval(self, cell: Score, replicates: Floats, values: Floats) -> Interval | None:
        if cell.value is None:
            return None
        binary = self._binary_interval(cell, values) if cell.name in self.categories else None
        if binary or statistics.agree(replicates):
            return binary
        return statistics.percentile_interval(replicates)

    def _binary_interval(self, cell: Score, values: Floats) -> Interval | None:
        """Of the mean of the category of the cell's name, where the cell is that mean."""
        member = self._category_of == self.categories.index(cell.name)
        if not isclose(values[member].mean(), cell.value or 0.0, abs_tol=1e-9):
            return None
        clusters = [task.cluster for task in self.graded if task.category == cell.name]
        return statistics.binary_interval(values[member], clusters)


class Tables:
    """The tables of one benchmark and plan, kept while the same tasks are graded: graders and kinds of values share them."""

    def __init__(self, benchmark: Benchmark, tasks: Sequence[Task], seed: int) -> None:
        self.benchmark, self.tasks, self.seed = benchmark, tasks, seed
        self._over = lru_cache(maxsize=4)(self._make)

    def over(self, members: frozenset[str]) -> Table:
        """The table in which these tasks have values."""
        return self._over(members)

    def _make(self, members: frozenset[str]) -> Table:
        return Table(self.benchmark, self.tasks, members, self.seed)


def numbers(table: Sequence[Score]) -> Floats:
    """The cells' values, NaN for an empty one."""
    return np.array([np.nan if cell.value is None else cell.value for cell in table])
