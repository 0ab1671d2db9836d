"""Limits of an episode and the retry table."""

import pytest

from harness.limits import RETRIES, Limits, Retry, next_wait
from trajectories.schema import Failure, Usage


@pytest.mark.parametrize(
    ("limits", "elapsed_s", "usage", "name"),
    [
        (Limits(), 1e9, Usage(prompt_tokens=10**9, cost_usd=1e9), None),
        (Limits(time_s=2), 1.9, Usage(), None),
        (Limits(time_s=2), 2.0, Usage(), "time"),
        (Limits(tokens=10), 0, Usage(prompt_tokens=9), None),
        (Limits(tokens=10), 0, Usage(prompt_tokens=4, completion_tokens=6), "tokens"),
        (Limits(tokens=10), 0, Usage(), None),
        (Limits(cost_usd=0.5), 0, Usage(cost_usd=0.5), "cost"),
        (Limits(time_s=1, tokens=1, cost_usd=1), 1, Usage(prompt_tokens=1, cost_usd=1), "time"),
    ],
)
def test_a_limit_is_reached_when_it_is_used_up(
    limits: Limits, elapsed_s: float, usage: Usage, name: str | None
) -> None:
    assert limits.reached(elapsed_s, usage) == name


def test_waits_double_up_to_the_longest() -> None:
    assert [Retry(5, 1.0, 10.0).wait_s(n) for n in range(1, 6)] == [1.0, 2.0, 4.0, 8.0, 10.0]


@pytest.mark.parametrize(
    ("boundary", "times"), [("agent", 0), ("environment", 1), ("sandbox", 3), ("infrastructure", 2)]
)
def test_each_class_of_failure_is_retried_as_often_as_the_table_says(boundary: str, times: int) -> None:
    failure = Failure(boundary=boundary, kind="E", message="m")  # type: ignore[arg-type]
    waits = [next_wait(failure, tries, RETRIES) for tries in range(1, times + 2)]
    assert waits[-1] is None
    assert None not in waits[:-1]


def test_a_longer_wait_that_the_other_side_asked_for_is_kept() -> None:
    failure = Failure(boundary="infrastructure", kind="E", message="m", retry_after_s=42)
    assert next_wait(failure, 1, RETRIES) == 42
