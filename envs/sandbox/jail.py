"""What both kinds of jail share: the handshake, and the facts that name a jail in a grader's id."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.sandbox import wire
from trajectories.failures import SandboxError

SUPERVISOR = Path(__file__).with_name("supervisor.py")
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 - the jail's own
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TZ": "UTC",
}
"""All that a jail knows of settings."""
START_S = 60.0
"""Longest wait for a jail to stand."""


@dataclass(slots=True)
class Jail:
    """A supervisor that has answered. `end` destroys the jail and all in it; it may be called again."""

    kind: str
    connection: wire.Connection
    python: str
    """Implementation and version inside, such as `cpython-3.11.2`."""
    name: str
    """Pid of the jail's root process (local), or name of the container."""
    end: Callable[[], None]
    started: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        self.connection.close()
        self.end()


def supervisor_digest() -> str:
    """First 12 hex digits of the sha256 of supervisor.py."""
    return hashlib.sha256(SUPERVISOR.read_bytes()).hexdigest()[:12]


def greet(connection: wire.Connection, setup: dict[str, Any], why: Callable[[], str]) -> str:
    """Send the setup, wait until the jail stands; the Python in it. `why` tells what its start left on standard error."""
    deadline = time.monotonic() + START_S
    try:
        connection.send(wire.frame(setup), deadline)
        header = connection.receive(deadline).header
    except SandboxError as error:
        raise SandboxError(f"The sandbox did not start: {error} {why()}".strip()) from error
    if "failed" in header:
        raise SandboxError(str(header["failed"])[:1000])
    ready = header["ready"]
    return f"{ready['implementation']}-{ready['python']}"
