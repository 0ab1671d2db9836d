"""What a metric is: a trajectory in, a number or "does not apply" out."""

from collections.abc import Callable
from typing import NamedTuple

from trajectories.schema import Trajectory


class Metric(NamedTuple):
    """A behaviour measure of one episode. `measure` gives None where it does not apply; means leave those out and say so."""

    name: str
    unit: str
    """What one unit is, such as `calls/step`, `characters`, `share`."""
    description: str
    measure: Callable[[Trajectory], float | None]
