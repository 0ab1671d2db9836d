"""What came of untrusted code. None of this is a verdict: expected values are compared elsewhere, outside the jail."""

from enum import StrEnum
from typing import Any, NamedTuple


class Status(StrEnum):
    """How a program or a call ended. All but OK are the code's own doing; what is ours is a `SandboxError`."""

    OK = "ok"
    """It ended by itself: a program with any exit status, a call with a value."""
    ERROR = "error"
    """It raised: a call an exception, a module while it was loaded; or the source is too long."""
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    CRASHED = "crashed"
    """A signal ended the process."""
    EXITED = "exited"
    """The process ended, or asked to end, where a result was due."""
    UNDECODABLE = "undecodable"
    """The value is of a type that has no form outside, or its form is broken or a bomb."""
    GARBLED = "garbled"
    """The code wrote into its own reply channel."""
    SKIPPED = "skipped"
    """Never begun, since an earlier call of the same module ended the process."""


class Usage(NamedTuple):
    """What the kernel counted, and what was left when the submission ended. All of it is killed and destroyed."""

    cpu_s: float
    """Of the main process and those of its children that it waited for."""
    peak_mib: float
    """Largest resident set of the main process, the interpreter included."""
    processes_left: int
    traces: tuple[str, ...]
    """Places that were changed, such as /tmp. A jail with traces is thrown away."""


class ProgramResult(NamedTuple):
    """One run of a program."""

    status: Status
    stdout: bytes
    """At most `limits.output_bytes`."""
    stderr: bytes
    """The first 64 KiB; the rest is dropped."""
    exit_code: int
    """As the shell tells it: negative is the signal that ended it."""
    wall_s: float
    usage: Usage
    lingered: bool
    """The main part and its threads ended in time, and an exit hook had to be killed at the limit. The status is `ok` then."""

    @property
    def cpu_s(self) -> float:
        return self.usage.cpu_s


class CallResult(NamedTuple):
    """One call, or the loading of a module."""

    status: Status
    value: Any
    """Decoded, of a closed set of types (`values.decode`); None unless the status is `ok`, or where decoding was not asked for."""
    text: str
    """What is wrong, in one line: type and text of the exception, name of the type, exit status. Empty when `ok`."""
    wall_s: float
    body: bytes
    """The value as it came, for those who keep a digest of it: the same value of ordered types has the same bytes."""
    raised: tuple[str, str, str] | None = None
    """Type, str and repr of the exception, as the code tells them, each cut to 2,000 characters."""
