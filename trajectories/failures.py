"""Whose fault it was: the few exceptions that someone catches by name.

Extensions raise ordinary Python errors; `harness/episode.py` knows from where an error came (the agent's `act`, the
environment's `step`) and records it as a `Failure` of that boundary. The classes here say more than the place can.
What a model does wrong is no exception at all: it is an observation.
"""


class InputError(ValueError):
    """What the user gave can't be used: one sentence that names the value, the rule and the way out. Exit code 2."""


class InfrastructureError(RuntimeError):
    """A model endpoint, a disk or a machine failed: retried, then reported, never scored.

    `retry_after_s` is the wait that the other side asked for, None where it named none.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SandboxError(RuntimeError):
    """The jail broke, not the code in it: retried, then reported, never scored."""


class ContextWindowExceeded(RuntimeError):
    """The conversation no longer fits the model: the episode is truncated by `context_window` and still graded."""
