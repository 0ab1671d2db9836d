"""What one episode may cost, and how often a failed one is played again."""

from typing import NamedTuple

from pydantic import Field

from trajectories.schema import Failure, Record, Usage


class Limits(Record):
    """Limits of one episode beyond the environment's own. 0 means no limit.

    Each is checked after a whole step, so that what was paid for is also played; the limit that ends an episode is
    named in `Trajectory.limit`, and the episode is graded as it stands. A model's answer that takes longer than the
    rest of `time_s` is not waited for.
    """

    time_s: float = Field(default=0.0, ge=0)
    """Seconds of wall time (`time`)."""
    tokens: int = Field(default=0, ge=0)
    """Prompt and completion tokens of all steps together (`tokens`); an agent that reports no usage is never stopped."""
    cost_usd: float = Field(default=0.0, ge=0)
    """US dollars as the agent reports them (`cost`)."""

    def reached(self, elapsed_s: float, usage: Usage) -> str | None:
        """The name of the first limit that is used up, or None."""
        if self.time_s and elapsed_s >= self.time_s:
            return "time"
        if self.tokens and (usage.prompt_tokens or 0) + (usage.completion_tokens or 0) >= self.tokens:
            return "tokens"
        if self.cost_usd and (usage.cost_usd or 0.0) >= self.cost_usd:
            return "cost"
        return None


class Retry(NamedTuple):
    """How often a failed episode is started again, and how long before: the wait doubles each time."""

    times: int
    first_wait_s: float = 0.0
    longest_wait_s: float = 0.0

    def wait_s(self, failures: int) -> float:
        """Seconds to wait after this many failed tries, from 1."""
        return min(self.first_wait_s * 2.0 ** (failures - 1), self.longest_wait_s)


RETRIES: dict[str, Retry] = {
    "agent": Retry(0),
    "environment": Retry(1),
    "sandbox": Retry(3, first_wait_s=1.0, longest_wait_s=30.0),
    "infrastructure": Retry(2, first_wait_s=2.0, longest_wait_s=60.0),
}
"""By the boundary of the failure. An agent's failure is its result; an environment's is likely to come back. Endpoint
agents have sent each request several times already when they call it a fault of the infrastructure."""


def next_wait(failure: Failure, tries: int, retries: dict[str, Retry]) -> float | None:
    """Seconds until the next try of an episode that failed `tries` times, or None: it stays failed for now.

    A wait that the other side asked for is kept where it is longer than ours.
    """
    retry = retries[failure.boundary]
    if tries > retry.times:
        return None
    return max(retry.wait_s(tries), failure.retry_after_s or 0.0)
