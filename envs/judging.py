"""The sandbox in which all benchmarks judge code: one pool of jails a process, opened when code is first run.

    use_sandbox("docker", workers=8, run_id="run-7")      # the command line's --sandbox; optional
    with lease() as worker:
        worker.run_program("print(1)")

Expected values never enter it: what the code returned comes out and is compared here.
"""

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from envs.sandbox.limits import Limits
from envs.sandbox.pool import Kind, Pool, open_pool
from envs.sandbox.worker import Worker
from trajectories.failures import InputError

KINDS = ("auto", "docker", "local")
CEILING = Limits(memory_mib=4096, processes=64, output_bytes=1 << 30, file_mib=64.0, wall_s=600.0)
"""The most that any benchmark's code may ask for."""
PRELOAD = ("shutil", "subprocess")
"""Modules that upstream's guards reach into: imported once, before any submission."""

_NEW_USER, _NEW_NAMESPACES = 0x10000000, 0x20000 | 0x20000000


class _Choice(NamedTuple):
    kind: Kind
    workers: int
    run_id: str


_lock = threading.Lock()
_choice = _Choice("auto", os.cpu_count() or 1, "")
_pool: Pool | None = None


def use_sandbox(kind: str = "auto", workers: int | None = None, run_id: str = "") -> None:
    """Choose the sandbox of this process: its kind, how many jails at once (None: one a CPU), and the run they are labelled with.

    A pool of another choice that is open already is closed. InputError for an unknown kind, or no worker.
    """
    global _choice
    if kind not in KINDS:
        raise InputError(f"There is no sandbox {kind!r}: auto, docker or local.")
    if workers is not None and workers < 1:
        raise InputError(f"A sandbox needs at least one worker, not {workers}.")
    chosen = _Choice(kind, workers or os.cpu_count() or 1, run_id)
    with _lock:
        if chosen == _choice:
            return
        _choice = chosen
    close()


def pool() -> Pool:
    """The open pool. InputError where this machine can give no such sandbox, SandboxError where it fails to start."""
    global _pool
    with _lock:
        if _pool is None:
            kind, workers, run_id = _choice
            _pool = open_pool(kind, workers, run_id, ceiling=CEILING, preload=PRELOAD)
            atexit.register(close)
        return _pool


@contextmanager
def lease() -> Generator[Worker]:
    """A jail for the calling thread. SandboxError where none comes free or none can be started."""
    with pool().lease() as worker:
        yield worker


def workers() -> int:
    """How many jails there may be at once: threads beyond that number only wait."""
    return _choice.workers


def sandbox_id() -> str:
    """Kind of jail, Python inside, version of the supervisor."""
    return pool().id


def python() -> str:
    """The Python in the jail, such as `cpython-3.11`: a part of a grader's id, since it can change a verdict."""
    return ".".join(sandbox_id().split(":")[1].split(".")[:2])


def close() -> None:
    """End all jails. The next use opens new ones."""
    global _pool
    with _lock:
        found, _pool = _pool, None
    if found is not None:
        atexit.unregister(close)
        found.close()


def unavailable() -> str | None:
    """Why code can't be run on this machine, in one sentence with the way out; None: it can. Starts no jail."""
    if _pool is not None:
        return None
    kind = _choice.kind
    local = _no_namespaces() if kind != "docker" else None
    if kind != "docker" and local is None:
        return None
    docker = _no_docker() if kind != "local" else None
    if kind != "local" and docker is None:
        return None
    return f"Code can't be run here. {' '.join(reason for reason in (docker, local) if reason)}"


def _no_docker() -> str | None:
    from envs.sandbox import docker

    return docker.unavailable() or None


@cache
def _no_namespaces() -> str | None:
    """Asks the kernel, in a process of its own, for what a local jail is made of."""
    from envs.sandbox import local

    try:
        local.require_linux()
    except InputError as error:
        return str(error)
    user = 0 if os.geteuid() == 0 else _NEW_USER
    program = f"import ctypes; raise SystemExit(ctypes.CDLL(None).unshare({_NEW_NAMESPACES | user}) != 0)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, check=False)  # noqa: S603 - our own
    return (
        None if done.returncode == 0 else "This kernel gives no namespaces for a local sandbox: use --sandbox docker."
    )
