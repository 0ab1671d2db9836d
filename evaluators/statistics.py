"""Intervals and estimators: pure functions of arrays. Randomness is a generator that is passed in.

Two questions, two resamplings:

- `ClusterBootstrap` resamples *tasks* (whole clusters of them, with all their attempts): how much would the score move
  on another set of tasks of the same kind? The noise of the attempts is part of it, since it comes along with the tasks.
- `AttemptBootstrap` keeps the tasks and resamples the *attempts* of each: how much would the score move if the same
  tasks were played again with other seeds?

Both draw one fewer than there are (Rao and Wu 1988), which makes the variance of the resampled mean equal to the
unbiased estimate also where few are there: plain resampling of 2 attempts would give half of it. SciPy's `bootstrap`
has neither this, nor clusters, nor strata that share them. What SciPy has (Wilson, the hypergeometric law) is SciPy's.
Where all values are equal, any bootstrap looks certain: `agree` tells, and `wilson` serves a single binary mean.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95
RESAMPLES = 2000
_CHUNK = 2_000_000  # drawn counts held at a time: 16 MB


class Interval(NamedTuple):
    low: float
    high: float


def agree(values: ArrayLike) -> bool:
    """Whether all values are the same but for rounding: no resampling can say anything then."""
    return bool(np.ptp(np.asarray(values, dtype=float)) < 1e-12)


def percentile_interval(replicates: Floats, level: float = LEVEL) -> Interval:
    """The middle `level` of resampled values, a 1-d array."""
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def wilson(passed: int, n: int, level: float = LEVEL) -> Interval:
    """Wilson's score interval of a share of independent yes-or-no outcomes; ValueError for n = 0."""
    if n < 1:
        raise ValueError("A share of no outcomes has no interval: n must be at least 1.")
    found = stats.binomtest(passed, n).proportion_ci(level, method="wilson")
    return Interval(float(found.low), float(found.high))


def is_binary(values: ArrayLike) -> bool:
    """Whether all values are 0 or 1."""
    array = np.asarray(values, dtype=float)
    return bool(np.isin(array, (0.0, 1.0)).all())


def indices(labels: Iterable[Hashable]) -> tuple[Ints, int]:
    """Labels as integers from 0 in order of first appearance, and how many different ones there are."""
    seen: dict[Hashable, int] = {}
    codes = [seen.setdefault(label, len(seen)) for label in labels]
    return np.asarray(codes, dtype=np.int64), len(seen)


def _chunks(resamples: int, width: int) -> Iterator[int]:
    """Numbers of resamples that add up to `resamples`, each few enough that its draws, `width` a resample, fit."""
    most = max(1, _CHUNK // width)
    while resamples > 0:
        yield min(most, resamples)
        resamples -= most


class ClusterBootstrap:
    """Resamples clusters of observations, and gives the mean of each stratum in every resample.

    `clusters` and `strata` have an entry for each observation, and so have the `values` of every call: several kinds of
    values are resampled alike. A stratum's mean weighs its observations alike. Strata that share no cluster are resampled apart,
    so that each keeps its number of clusters; those that share some (the same dialogue in four variants) are resampled
    together. A group with a single cluster can't be resampled: it stays as it is. ValueError for no observations.
    """

    def __init__(
        self,
        clusters: Sequence[Hashable],
        strata: Sequence[str],
        *,
        rng: np.random.Generator,
        resamples: int = RESAMPLES,
    ) -> None:
        if not len(clusters) == len(strata) > 0:
            raise ValueError("A bootstrap needs clusters and strata of one length, at least 1.")
        self.strata = list(dict.fromkeys(strata))
        self._cluster_of, n_clusters = indices(clusters)
        self._stratum_of, _ = indices(strata)
        self._shape = (n_clusters, len(self.strata))
        self._sizes = self._totals(np.ones(len(clusters)))
        self._resamples = resamples
        self._groups = [
            (rows, columns, _drawn(len(rows), rng, resamples)) for rows, columns in _linked(self._sizes > 0)
        ]

    @property
    def fixed(self) -> bool:
        """Whether nothing can be resampled: each group of strata has a single cluster."""
        return all(len(rows) == 1 for rows, _, _ in self._groups)

    def means(self, values: ArrayLike) -> Floats:
        """The means of the strata, in the order of `strata`."""
        return self._totals(values).sum(0) / self._sizes.sum(0)

    def replicates(self, values: ArrayLike) -> Floats:
        """Resampled means, (resamples, strata). ValueError for NaN, or where a value lacks."""
        sums, means = self._totals(values), self.means(values)
        result = np.tile(means, (self._resamples, 1))
        for rows, columns, counts in self._groups:
            if len(rows) > 1:
                block = np.ix_(rows, columns)
                result[:, columns] = _resampled_means(sums[block], self._sizes[block], counts, means[columns])
        return result

    def _totals(self, values: ArrayLike) -> Floats:
        """The sum of the values of each cluster in each stratum."""
        scores = np.asarray(values, dtype=float)
        if scores.shape != self._cluster_of.shape or np.isnan(scores).any():
            raise ValueError("A bootstrap needs one value for each observation, and no NaN.")
        totals = np.zeros(self._shape)
        np.add.at(totals, (self._cluster_of, self._stratum_of), scores)
        return totals


def _drawn(n: int, rng: np.random.Generator, resamples: int) -> NDArray[np.uint32]:
    """How often each of n is drawn in each resample of n - 1, (resamples, n)."""
    return rng.multinomial(n - 1, np.full(n, 1 / n), size=resamples).astype(np.uint32)


def _resampled_means(sums: Floats, sizes: Floats, counts: NDArray[np.uint32], means: Floats) -> Floats:
    """Where a resample misses a stratum that few of the shared clusters reach, it says nothing: the mean stands there."""
    parts: list[Floats] = []
    for chunk in np.array_split(counts, max(1, counts.size // _CHUNK)):
        drawn = chunk.astype(float)
        with np.errstate(invalid="ignore"):
            parts.append(drawn @ sums / (drawn @ sizes))
    found = np.concatenate(parts)
    return np.where(np.isnan(found), means, found)


def _linked(member: NDArray[np.bool_]) -> list[tuple[Ints, Ints]]:
    """Splits a (clusters, strata) table of memberships into its unconnected blocks: (cluster rows, stratum columns)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n_clusters, n_strata = member.shape
    rows, columns = np.nonzero(member)
    n = n_clusters + n_strata
    graph = csr_array((np.ones(len(rows)), (rows, columns + n_clusters)), shape=(n, n))
    count, labels = connected_components(graph, directed=False)
    halves = labels[:n_clusters], labels[n_clusters:]
    return [(np.flatnonzero(halves[0] == label), np.flatnonzero(halves[1] == label)) for label in range(count)]


def binary_interval(values: ArrayLike, clusters: Sequence[Hashable], level: float = LEVEL) -> Interval | None:
    """Wilson's interval of the mean where it holds: all values are 0 or 1, and each is a cluster of its own.

    Where all values are 0, or all 1, each cluster counts once: its tasks may tell no more than one of them. None where the
    values are others, or of one cluster.
    """
    scores = np.asarray(values, dtype=float)
    n = len(set(clusters))
    if n < 2 or not is_binary(scores) or not (n == len(scores) or agree(scores)):
        return None
    return wilson(round(scores.mean() * n), n, level)


def mean_interval(
    values: ArrayLike, clusters: Sequence[Hashable], *, rng: np.random.Generator, level: float = LEVEL
) -> Interval | None:
    """Interval of the plain mean on another set of tasks: `binary_interval` where it holds, else by `ClusterBootstrap`.

    None for one cluster, and for values that all agree on something else than 0 or 1.
    """
    scores = np.asarray(values, dtype=float)
    binary = binary_interval(scores, clusters, level)
    if binary or agree(scores):
        return binary
    bootstrap = ClusterBootstrap(clusters, [""] * len(scores), rng=rng)
    return None if bootstrap.fixed else percentile_interval(bootstrap.replicates(scores)[:, 0], level)


class AttemptBootstrap:
    """Keeps the tasks and resamples the attempts of each; gives the mean of each stratum in every resample.

    `values`, `tasks` and `strata` are of one length, an entry for each attempt; all attempts of a task are of one
    stratum. A stratum's mean weighs its tasks alike, each by the mean of its attempts. A task with a single attempt adds no
    noise of its own: the interval is too narrow if there are many such; `fixed` says whether there are no others.
    """

    def __init__(self, values: ArrayLike, tasks: Sequence[Hashable], strata: Sequence[str]) -> None:
        scores = np.asarray(values, dtype=float)
        self.strata = list(dict.fromkeys(strata))
        task_of, n_tasks = indices(tasks)
        order = np.argsort(task_of, kind="stable")
        self._ordered = scores[order]
        self._counts = np.bincount(task_of, minlength=n_tasks)
        self._starts = np.cumsum(self._counts) - self._counts
        self._stratum_of_task = indices(strata)[0][order][self._starts]
        self.fixed = bool((self._counts == 1).all())

    def replicates(self, rng: np.random.Generator, resamples: int = RESAMPLES) -> Floats:
        """Resampled means, (resamples, strata) in the order of `strata`."""
        result = np.zeros((resamples, len(self.strata)))
        for stratum in range(len(self.strata)):
            member = self._stratum_of_task == stratum
            for k in np.unique(self._counts[member]):
                starts = self._starts[member & (self._counts == k)]
                result[:, stratum] += _resampled_sums(self._ordered[starts[:, None] + np.arange(k)], rng, resamples)
            result[:, stratum] /= member.sum()
        return result


def _resampled_sums(table: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """For (tasks, k) values the sum over tasks of the mean of k - 1 drawn attempts, `resamples` times."""
    n_tasks, k = table.shape
    if k == 1:
        return np.full(resamples, table.sum())
    rows = np.arange(n_tasks)[:, None]
    parts: list[Floats] = []
    for size in _chunks(resamples, table.size):
        drawn = rng.integers(0, k, size=(size, n_tasks, k - 1), dtype=np.uint16)
        parts.append(table.ravel()[drawn + k * rows].sum((1, 2)) / (k - 1))
    return np.concatenate(parts)


def pass_at_k(passed: ArrayLike, attempts: ArrayLike, k: int) -> Floats:
    """For each task the chance that at least one of k attempts passes: 1 - C(n - c, k) / C(n, k).

    Unbiased for c passes among n >= k independent attempts; NaN where n < k. Source: Chen et al. 2021, eq. 1.
    """
    return 1.0 - _draw_all(np.asarray(attempts) - np.asarray(passed), attempts, k)


def pass_hat_k(passed: ArrayLike, attempts: ArrayLike, k: int) -> Floats:
    """For each task the chance that all of k attempts pass: C(c, k) / C(n, k).

    Unbiased for c passes among n >= k independent attempts; NaN where n < k. Source: Yao et al. 2024 (tau-bench).
    """
    return _draw_all(passed, attempts, k)


def _draw_all(good: ArrayLike, n: ArrayLike, k: int) -> Floats:
    """The chance that k drawn of n without return are all among the good ones."""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}.")
    good_, n_ = np.broadcast_arrays(np.asarray(good, dtype=np.int64), np.asarray(n, dtype=np.int64))
    enough = n_ >= k
    chance = stats.hypergeom.pmf(k, np.where(enough, n_, k), np.where(enough, good_, 0), k)
    return np.where(enough, np.clip(chance, 0.0, 1.0), np.nan)


class LinearForm(NamedTuple):
    """A function of S numbers as `offset + numbers @ weights`: offset (K,), weights (S, K)."""

    offset: Floats
    weights: Floats

    def __call__(self, points: Floats) -> Floats:
        return self.offset + points @ self.weights


def linear_form(function: Callable[[Floats], Floats], size: int, rng: np.random.Generator) -> LinearForm | None:
    """Writes a function from S to K numbers as a linear form, from S + 1 calls; None where it is not one.

    Two more calls at random points of [0, 1] decide, to 1e-9: score tables are means of means, and a resampled table
    then costs a matrix product instead of a call for each resample. A value that is always NaN stays NaN.
    """
    offset = function(np.zeros(size))
    weights = np.stack([function(row) - offset for row in np.eye(size)])
    form = LinearForm(offset, weights)
    points = rng.random((2, size))
    exact = np.stack([function(point) for point in points])
    return form if np.allclose(form(points), exact, rtol=0, atol=1e-9, equal_nan=True) else None


def apply_rows(function: Callable[[Floats], Floats], form: LinearForm | None, rows: Floats) -> Floats:
    """The function of every row, (R, S) to (R, K): by its linear form where it has one, else by R calls."""
    return form(rows) if form else np.stack([function(row) for row in rows])
