"""BFCL-v3's score table by hand-computed cases; `tests/parity/test_score_table.py` has upstream's own."""

import pytest

from envs.base import Score, TaskScore
from envs.bfcl.aggregate import PINNED_COUNTS, table
from trajectories.schema import Task


def scores(category: str, values: list[float | None], attempt: int = 0) -> list[TaskScore]:
    return [
        TaskScore(
            Task(benchmark="bfcl-v3", id=f"{category}_{i}", category=category, split="test", cluster="c", digest="d"),
            attempt,
            value,
        )
        for i, value in enumerate(values)
    ]


def cells(*parts: list[TaskScore]) -> dict[str, Score]:
    return {score.name: score for score in table([score for part in parts for score in part], PINNED_COUNTS)}


def test_the_headline_comes_first_and_every_category_has_a_cell() -> None:
    found = table([], PINNED_COUNTS)
    assert found[0].name == "overall"
    assert {score.name for score in found} >= set(PINNED_COUNTS)


def test_nothing_run_is_no_score_at_all() -> None:
    assert all(score.value is None and score.graded == 0 for score in table([], PINNED_COUNTS))
    assert cells()["overall"].n == 4441


def test_a_category_that_was_not_run_counts_zero_in_every_group() -> None:
    found = cells(scores("multi_turn_base", [1.0] * 200))
    assert found["multi_turn"].value == 0.25
    assert found["overall"].value == pytest.approx(0.25 / 3)
    assert found["simple"].value is None
    assert found["non_live"].value is None
    assert (found["multi_turn"].n, found["multi_turn"].graded) == (800, 200)


def test_simple_is_the_plain_mean_of_three_languages_and_live_is_weighted() -> None:
    found = cells(scores("java", [1.0] * 100), scores("live_irrelevance", [1.0] * 882))
    assert found["simple_ast"].value == pytest.approx(1 / 3)
    assert found["non_live"].value == pytest.approx(1 / 15)
    assert found["live"].value == pytest.approx(882 / 2251)
    assert found["all_irrelevance"].value == 0.5


def test_faults_of_ours_leave_the_mean_and_show_in_the_denominator() -> None:
    found = cells(scores("simple", [1.0, 0.0, None, None]))
    assert (found["simple"].value, found["simple"].graded, found["simple"].n) == (0.5, 2, 400)


def test_attempts_at_one_task_count_by_their_mean() -> None:
    found = cells(scores("simple", [1.0, 1.0]), scores("simple", [0.0, None], attempt=1))
    assert (found["simple"].value, found["simple"].graded) == (0.75, 2)
