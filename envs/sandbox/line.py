"""The line to one jail: whole exchanges, each wait with a deadline, and the record of whether the jail may be used again."""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from envs.sandbox import wire
from envs.sandbox.jail import Jail
from envs.sandbox.replies import SPENDING, Row, usage
from envs.sandbox.results import CallResult, Status, Usage
from trajectories.failures import SandboxError

GRACE_S = 20.0
"""How much longer than the code's own limit the host waits before it gives the jail up."""
SUBMISSIONS = 200
"""After so many a jail is replaced, however clean."""


class Line:
    """One jail's connection. `spent` says why the jail takes no further submission, `broken` that nothing is known of it."""

    def __init__(self, jail: Jail) -> None:
        self.jail = jail
        self.submissions = 0
        self.spent = ""
        self.broken = False
        self.open = False
        """Whether a module is loaded that waits for calls."""
        self.used = time.monotonic()

    @contextmanager
    def exchange(self) -> Generator[None]:
        """Whatever cuts an exchange short leaves the connection in the middle of something: the worker is broken then."""
        if self.broken:
            raise SandboxError("This jail is broken: it has to be replaced.")
        self.broken = True
        try:
            yield
        except (KeyError, ValueError, TypeError, LookupError) as error:
            raise SandboxError(f"The jail sent a reply of the wrong form: {error!r}.") from error
        self.broken = False
        self.used = time.monotonic()

    def send(self, data: bytes, wall_s: float) -> None:
        self.jail.connection.send(data, time.monotonic() + wall_s + GRACE_S)

    def receive(self, wall_s: float) -> wire.Frame:
        reply = self.jail.connection.receive(time.monotonic() + wall_s + GRACE_S)
        if "failed" in reply.header:
            raise SandboxError(str(reply.header["failed"])[:1000])
        return reply

    def rows(self, wall_s: float) -> list[Row]:
        rows: list[Row] = []
        more = True
        while more:
            reply = self.receive(wall_s)
            rows += [
                (str(kind), float(took), blob)
                for (kind, took), blob in zip(reply.header["rows"], reply.blobs, strict=True)
            ]
            more = bool(reply.header["more"])
        return rows

    def report(self) -> tuple[Usage, dict[str, Any]]:
        report = self.receive(0).header["report"]
        return usage(report), report

    def note_all(self, results: Sequence[CallResult], usage: Usage) -> None:
        worst = next((result.status for result in results if result.status in SPENDING), Status.OK)
        self.note(worst, usage)

    def note(self, status: Status, usage: Usage) -> None:
        """Count a submission; decide whether the jail is used again."""
        self.submissions += 1
        if status in SPENDING:
            self.spent = f"after {status.value}"
        elif usage.traces or usage.processes_left:
            self.spent = (
                f"{usage.processes_left} processes and traces in {', '.join(usage.traces) or 'no place'} were left"
            )
        elif self.submissions >= SUBMISSIONS:
            self.spent = f"after {self.submissions} submissions"
