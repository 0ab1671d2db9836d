"""Statistics against hand-computed cases, SciPy, brute force, and simulated coverage."""

import itertools
import os
import time
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluators import statistics
from evaluators.statistics import (
    AttemptBootstrap,
    ClusterBootstrap,
    mean_interval,
    pass_at_k,
    pass_hat_k,
    percentile_interval,
    wilson,
)

SIMULATIONS = int(os.environ.get("HARNESS_SIMULATIONS", "400"))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def brute_force(passes: int, n: int, k: int) -> tuple[float, float]:
    """Share of the k-subsets of n attempts with any pass, and with passes only."""
    outcomes = [index < passes for index in range(n)]
    draws = list(itertools.combinations(outcomes, k))
    return sum(map(any, draws)) / len(draws), sum(map(all, draws)) / len(draws)


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n), st.integers(1, n))))
def test_pass_at_k_and_pass_hat_k_equal_the_share_of_all_subsets(case: tuple[int, int, int]) -> None:
    passes, n, k = case
    at_least_one, every_one = brute_force(passes, n, k)
    assert pass_at_k([passes], [n], k)[0] == pytest.approx(at_least_one, abs=1e-12)
    assert pass_hat_k([passes], [n], k)[0] == pytest.approx(every_one, abs=1e-12)


def test_pass_at_k_holds_for_many_attempts_where_factorials_overflow() -> None:
    assert pass_at_k([3], [2000], 1000)[0] == pytest.approx(1 - comb(1997, 1000) / comb(2000, 1000), rel=1e-9)


def test_too_few_attempts_give_nan_and_leave_the_other_tasks_alone() -> None:
    found = pass_at_k([1, 1], [1, 2], 2)
    assert np.isnan(found[0])
    assert found[1] == 1


def test_k_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        pass_at_k([1], [1], 0)


def test_wilson_equals_the_published_case() -> None:
    low, high = wilson(15, 20)
    assert (low, high) == (pytest.approx(0.5313, abs=1e-4), pytest.approx(0.8881, abs=1e-4))
    assert wilson(0, 10).high > 0.25


def test_wilson_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        wilson(0, 0)


def resampled(values: list[float], clusters: str, strata: str, resamples: int = 2000) -> np.ndarray:
    return ClusterBootstrap(list(clusters), list(strata), rng=generator(), resamples=resamples).replicates(values)


def test_resampled_means_have_the_unbiased_variance_also_for_two_clusters() -> None:
    replicates = resampled([0.0, 1.0], "ab", "ss", 20_000)
    assert replicates.var() == pytest.approx(np.var([0.0, 1.0], ddof=1) / 2, rel=0.05)


def test_the_interval_is_that_of_scipy_where_scipy_has_one() -> None:
    values = generator(1).beta(2, 5, size=300)
    ours = mean_interval(values, list(range(300)), rng=generator())
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=5000, rng=generator())
    assert ours is not None
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.004)


def test_a_cluster_moves_as_one() -> None:
    replicates = resampled([0.0] * 50 + [1.0] * 50, "a" * 50 + "b" * 50, "s" * 100)
    assert set(replicates[:, 0]) == {0.0, 1.0}


def test_strata_keep_their_size_and_are_resampled_apart() -> None:
    bootstrap = ClusterBootstrap(list("abcde"), list("sstts"), rng=generator(), resamples=200)
    values = [0, 0, 1, 1, 0.5]
    replicates = bootstrap.replicates(values)
    assert bootstrap.strata == ["s", "t"]
    assert bootstrap.means(values) == pytest.approx([1 / 6, 1.0])
    assert set(replicates[:, 1]) == {1.0}
    assert set(np.round(replicates[:, 0], 9)) == {0.0, 0.25, 0.5}


def test_several_kinds_of_values_are_resampled_alike() -> None:
    bootstrap = ClusterBootstrap(list("abcd"), list("ssss"), rng=generator(), resamples=50)
    assert bootstrap.replicates([2, 0, 4, 6]) == pytest.approx(2 * bootstrap.replicates([1, 0, 2, 3]))


def test_strata_that_share_clusters_are_resampled_together() -> None:
    replicates = resampled([0.0, 1.0, 0.0, 1.0, 0.0, 1.0], "xyzwxy", "sssstt", 4000)
    assert np.corrcoef(replicates.T)[0, 1] > 0.3


def test_a_single_cluster_cannot_be_resampled_and_has_no_interval() -> None:
    assert ClusterBootstrap(["a", "a"], ["s", "s"], rng=generator()).fixed
    assert set(resampled([1.0, 0.0], "aa", "ss")[:, 0]) == {0.5}
    assert mean_interval([0.3], ["a"], rng=generator()) is None
    assert mean_interval([0.0, 1.0], ["a", "a"], rng=generator()) is None


def test_a_bootstrap_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ClusterBootstrap([], [], rng=generator())


@pytest.mark.parametrize("values", [[0.5], [0.5, float("nan")]])
def test_a_value_that_lacks_is_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match="one value for each observation, and no NaN"):
        ClusterBootstrap(["a", "b"], ["s", "s"], rng=generator()).replicates(values)


def test_binary_outcomes_of_independent_tasks_get_wilson() -> None:
    assert mean_interval([0, 0, 0, 0], list("abcd"), rng=generator()) == wilson(0, 4)
    clustered = mean_interval([0, 0, 1, 1, 1, 0], list("aabbcc"), rng=generator())
    assert clustered is not None
    assert clustered != wilson(3, 6)


def test_values_that_all_agree_look_certain_to_a_bootstrap_and_get_a_cautious_interval_or_none() -> None:
    assert mean_interval([1, 1, 1, 1], list("aabb"), rng=generator()) == wilson(2, 2)
    assert mean_interval([0.5, 0.5], list("ab"), rng=generator()) is None


def test_the_same_generator_gives_the_same_interval() -> None:
    values = generator(3).random(40)
    assert mean_interval(values, list(range(40)), rng=generator(5)) == mean_interval(
        values, list(range(40)), rng=generator(5)
    )


def test_attempts_that_agree_have_no_noise_and_single_attempts_nothing_to_draw_from() -> None:
    agreeing = AttemptBootstrap([1, 1, 0, 0], list("aabb"), list("ssss"))
    assert not agreeing.fixed
    assert set(agreeing.replicates(generator(), 100)[:, 0]) == {0.5}
    assert AttemptBootstrap([1, 0], list("ab"), list("ss")).fixed


def test_the_noise_of_attempts_has_the_unbiased_variance_with_unequal_numbers_of_them() -> None:
    values = [0.0, 1.0, 0.2, 0.9, 0.4, 0.5]
    bootstrap = AttemptBootstrap(values, ["a", "b", "a", "b", "b", "c"], ["s", "t", "s", "t", "t", "t"])
    replicates = bootstrap.replicates(generator(), 20_000)
    assert bootstrap.strata == ["s", "t"]
    assert replicates.mean(0) == pytest.approx([0.1, (2.3 / 3 + 0.5) / 2], abs=0.005)
    assert replicates[:, 0].var() == pytest.approx(np.var([0.0, 0.2], ddof=1) / 2, rel=0.05)
    assert replicates[:, 1].var() == pytest.approx(np.var([1.0, 0.9, 0.4], ddof=1) / 3 / 4, rel=0.05)


def test_an_average_of_averages_is_a_linear_form() -> None:
    def table(means: np.ndarray) -> np.ndarray:
        return np.array([means.mean(), means[0] * 0.3 + 0.2])

    rows = generator().random((50, 3))
    form = statistics.linear_form(table, 3, generator())
    assert form is not None
    assert statistics.apply_rows(table, form, rows) == pytest.approx(np.stack([table(row) for row in rows]))


def test_what_is_not_linear_is_called_for_each_row() -> None:
    def best(means: np.ndarray) -> np.ndarray:
        return np.array([means.max()])

    rows = generator().random((20, 3))
    assert statistics.linear_form(best, 3, generator()) is None
    assert statistics.apply_rows(best, None, rows)[:, 0] == pytest.approx(rows.max(1))


def _binary_tasks(rng: np.random.Generator) -> tuple[np.ndarray, list[int], float]:
    return rng.binomial(1, 0.3, 60).astype(float), list(range(60)), 0.3


def _clustered_tasks(rng: np.random.Generator) -> tuple[np.ndarray, list[int], float]:
    """50 clusters of 1 to 5 tasks that share their difficulty."""
    sizes = rng.integers(1, 6, 50)
    clusters = np.repeat(np.arange(50), sizes)
    difficulty = rng.beta(1, 1, 50)
    return rng.binomial(1, difficulty[clusters]).astype(float), list(clusters), 0.5


@pytest.mark.study
@pytest.mark.parametrize("draw", [_binary_tasks, _clustered_tasks])
def test_the_interval_over_tasks_covers_the_truth_about_95_times_in_100(draw) -> None:
    rng = generator(11)
    hits = 0
    for _ in range(SIMULATIONS):
        values, clusters, truth = draw(rng)
        interval = mean_interval(values, clusters, rng=rng)
        assert interval is not None
        hits += interval.low <= truth <= interval.high
    print(f"{draw.__name__[1:]}: the interval covers the truth in {hits / SIMULATIONS:.3f} of {SIMULATIONS}")
    assert 0.925 <= hits / SIMULATIONS <= 0.975


@pytest.mark.study
def test_ignoring_clusters_would_cover_far_less() -> None:
    rng = generator(12)
    hits = 0
    for _ in range(SIMULATIONS):
        values, _, truth = _clustered_tasks(rng)
        low, high = wilson(int(values.sum()), len(values))
        hits += low <= truth <= high
    print(f"clusters ignored: {hits / SIMULATIONS:.3f} of {SIMULATIONS}")
    assert hits / SIMULATIONS < 0.9


@pytest.mark.study
def test_the_interval_over_attempts_covers_the_mean_of_the_same_tasks() -> None:
    rng = generator(13)
    chance = rng.beta(1, 1, 80)
    hits = 0
    for _ in range(SIMULATIONS):
        values = rng.binomial(1, chance, size=(2, 80)).astype(float).ravel()
        bootstrap = AttemptBootstrap(values, list(range(80)) * 2, ["s"] * 160)
        interval = percentile_interval(bootstrap.replicates(rng, 1000)[:, 0])
        hits += interval.low <= chance.mean() <= interval.high
    print(f"attempts: the interval covers the truth in {hits / SIMULATIONS:.3f} of {SIMULATIONS}")
    assert 0.92 <= hits / SIMULATIONS <= 0.98


def test_a_benchmark_of_4441_tasks_is_resampled_2000_times_in_under_two_seconds_of_cpu() -> None:
    values = generator().binomial(1, 0.5, 4441).astype(float)
    clusters, strata = list(range(4441)), [str(index % 17) for index in range(4441)]
    start = time.process_time()
    ClusterBootstrap(clusters, strata, rng=generator(), resamples=2000).replicates(values)
    assert time.process_time() - start < 2
