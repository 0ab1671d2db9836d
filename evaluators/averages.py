"""Means of metrics over many episodes."""

from collections.abc import Iterable
from math import fsum
from typing import NamedTuple

from evaluators.base import Metric
from evaluators.behaviour import METRICS
from trajectories.schema import Trajectory


class Mean(NamedTuple):
    """The mean of one metric over the `episodes` to which it applies, and their sum. `mean` None: to none."""

    metric: Metric
    mean: float | None
    total: float
    episodes: int


class Averages:
    """Running lists of metric values; the means don't depend on the order in which episodes were added."""

    def __init__(self, metrics: Iterable[Metric] = METRICS) -> None:
        self._values: list[tuple[Metric, list[float]]] = [(metric, []) for metric in metrics]
        self.episodes = 0

    def add(self, trajectory: Trajectory) -> None:
        """Measures one episode. Which episodes count is the caller's decision."""
        self.episodes += 1
        for metric, values in self._values:
            value = metric.measure(trajectory)
            if value is not None:
                values.append(float(value))

    def means(self) -> tuple[Mean, ...]:
        return tuple(_mean(metric, values) for metric, values in self._values)


def _mean(metric: Metric, values: list[float]) -> Mean:
    total = fsum(values)
    return Mean(metric, total / len(values) if values else None, total, len(values))
