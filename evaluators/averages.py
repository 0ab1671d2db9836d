"""Means of metrics over many episodes."""

from array import array
from collections.abc import Iterable, Sequence
from math import fsum

from evaluators.base import Metric
from evaluators.behaviour import METRICS
from trajectories.schema import Record, Trajectory

_LARGEST = 1e290  # sums stay finite


class MetricMean(Record):
    """The mean of one metric over the `episodes` to which it applies, and their sum. `mean` None: to none."""

    name: str
    unit: str
    mean: float | None
    total: float
    episodes: int


class Averages:
    """Running lists of metric values; the means don't depend on the order in which episodes were added."""

    def __init__(self, metrics: Iterable[Metric] = METRICS) -> None:
        self._values = [(metric, array("d")) for metric in metrics]
        self.episodes = 0

    def add(self, trajectory: Trajectory) -> None:
        """Measures one episode. Which episodes count is the caller's decision.

        A value that is no number or absurdly large (an agent may report any cost) is left out like one that does not apply.
        """
        self.episodes += 1
        for metric, values in self._values:
            value = metric.measure(trajectory)
            if value is not None and abs(value) < _LARGEST:
                values.append(value)

    def means(self) -> tuple[MetricMean, ...]:
        return tuple(_mean(metric, values) for metric, values in self._values)


def _mean(metric: Metric, values: Sequence[float]) -> MetricMean:
    total, n = fsum(values), len(values)
    return MetricMean(name=metric.name, unit=metric.unit, mean=total / n if n else None, total=total, episodes=n)
