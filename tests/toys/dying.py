"""Lets a process die or meet a full disk inside a chosen call of `trajectories.durable`, by its environment.

`TOY_DIE=write_all:12` kills the process with SIGKILL in the 12th call of `durable.write_all`, when half of the bytes are written;
`publish:2` dies before the second rename and `publish_after:2` behind it; `sync:3` dies before the third fsync. `TOY_FULL=write_all:12`
lets that call and all that follow it fail with ENOSPC.
"""

import errno
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from trajectories import durable

_LOCK = threading.Lock()


def arm() -> None:
    """Read the environment and wrap the named calls."""
    for variable, act in (("TOY_DIE", _die), ("TOY_FULL", _full)):
        name, _, count = os.environ.get(variable, "").partition(":")
        if name:
            _wrap(name.removesuffix("_after"), int(count), act, after=name.endswith("_after"))


def _wrap(name: str, count: int, act: Callable[..., None], *, after: bool) -> None:
    real = getattr(durable, name)
    calls = 0

    def wrapped(*arguments: Any) -> Any:
        nonlocal calls
        with _LOCK:
            calls += 1
            number = calls
        if number < count:
            return real(*arguments)
        if after:
            real(*arguments)
        act(name, *arguments)
        return None

    setattr(durable, name, wrapped)


def _die(name: str, *arguments: Any) -> None:
    if name == "write_all":
        descriptor, data = arguments
        os.write(descriptor, bytes(data)[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def _full(name: str, *arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
