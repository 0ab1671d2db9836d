"""Workers for many threads: leases, health checks, replacement of jails that are spent or broken.

with open_pool("auto", workers=2, run_id="run-7") as pool, pool.lease() as worker:
    worker.run_program("print(input())", "hello")
"""

import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Literal, Self

from envs.sandbox import local
from envs.sandbox.jail import Jail, supervisor_digest
from envs.sandbox.limits import DEFAULT, Limits
from envs.sandbox.worker import Worker
from trajectories.failures import InputError, SandboxError

Kind = Literal["auto", "docker", "local"]
LEASE_S = 600.0
"""How long a lease is waited for by default."""
IDLE_S = 5.0
"""A worker that rested longer is asked whether it still answers before it is lent."""


def open_pool(
    kind: Kind = "auto",
    workers: int = 2,
    run_id: str = "",
    *,
    ceiling: Limits = DEFAULT,
    preload: Sequence[str] = (),
    packages: Sequence[str] = ("numpy",),
    runtime: str | None = None,
    unsafe: bool = False,
) -> "Pool":
    """A pool of `workers` jails, started when they are first needed, and one at once, so that a wrong set-up is told here.

    `ceiling` bounds what any submission may ask for (docker: it sizes the containers). `preload` are modules imported before any
    submission (numpy costs 0.17 s otherwise, wherever it is used, and makes each fork dearer). `packages` are what local jails
    can import beside the standard library; docker jails have what their image has. `runtime` is the engine's, such as `runsc`.
    `unsafe` runs local code without a jail, and is named in `Pool.id`. `auto`: see `choose`.
    InputError where this machine can't give such a jail.
    """
    if workers < 1:
        raise InputError(f"A sandbox pool needs at least one worker, not {workers}.")
    if unsafe:
        return Pool(lambda: local.start_unsafe(preload=preload), workers, ceiling)
    chosen = choose() if kind == "auto" else kind
    if chosen == "local":
        return Pool(lambda: local.start(preload=preload, packages=packages), workers, ceiling)
    if chosen == "docker":
        from envs.sandbox import docker

        return docker.pool(workers, run_id, ceiling=ceiling, preload=preload, runtime=runtime)
    raise InputError(f"There is no sandbox {kind!r}: auto, docker or local.")


def choose() -> Literal["docker", "local"]:
    """Docker where a daemon answers that has our image, else local."""
    from envs.sandbox import docker

    return "local" if docker.unavailable() else "docker"


def explain_choice() -> str:
    """What `auto` means here and why, in one line."""
    from envs.sandbox import docker

    reason = docker.unavailable()
    return f"Sandbox: local ({reason})" if reason else "Sandbox: docker (its daemon answers and has our image)."


class Pool:
    """At most `workers` jails at a time. Thread-safe; a context manager."""

    def __init__(self, start: Callable[[], Jail], workers: int, ceiling: Limits) -> None:
        self._start = start
        self._size = workers
        self._ceiling = ceiling
        self._idle: list[Worker] = []
        self._standing: set[Worker] = set()
        self._count = 0
        self._closed = False
        self._changed = threading.Condition()
        self._replacer = ThreadPoolExecutor(workers, thread_name_prefix="sandbox-replacer")
        self.replaced: dict[str, int] = {}
        """Why jails were replaced, and how often."""
        first = self._fresh()
        self._idle.append(first)
        self._count = 1
        self.id = f"{first.jail.kind}:{first.jail.python}:s{supervisor_digest()}"
        """For a grader's id: kind of jail, Python inside, supervisor."""

    @contextmanager
    def lease(self, timeout_s: float = LEASE_S) -> Generator[Worker]:
        """A worker for one thread. SandboxError where none comes free in time or none can be started."""
        worker = self._take(time.monotonic() + timeout_s)
        try:
            yield worker
        finally:
            self._give(worker)

    def jails(self) -> list[Jail]:
        """Those that stand, idle or on loan."""
        with self._changed:
            return [worker.jail for worker in self._standing]

    def close(self) -> None:
        """End all jails; those on loan end when they are given back. Closing again does nothing."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for worker in idle:
            self._end(worker)
        self._replacer.shutdown(wait=True)

    def _take(self, deadline: float) -> Worker:
        while True:
            worker = self._wait(deadline)
            if worker is None:
                return self._new()
            if time.monotonic() - worker.line.used < IDLE_S:
                return worker
            try:
                worker.ping()
            except SandboxError:
                self._discard(worker, "no answer")
            else:
                return worker

    def _wait(self, deadline: float) -> Worker | None:
        """An idle worker; None where one may be started."""
        with self._changed:
            while not self._closed:
                if self._idle:
                    return self._idle.pop()
                if self._count < self._size:
                    self._count += 1
                    return None
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise SandboxError(f"None of {self._size} sandboxes came free in time.")
        raise SandboxError("The sandbox pool is closed.")

    def _new(self) -> Worker:
        try:
            return self._fresh()
        except BaseException:
            self._lost()
            raise

    def _give(self, worker: Worker) -> None:
        reason = "broken" if worker.line.broken else worker.line.spent
        if worker.line.open:
            reason = "calls left open"
        with self._changed:
            closed = self._closed
            if not closed and not reason:
                self._idle.append(worker)
                self._changed.notify()
                return
        if closed:
            self._end(worker)
            self._lost()
        else:
            self._discard(worker, reason, replace=True)

    def _discard(self, worker: Worker, reason: str, *, replace: bool = False) -> None:
        self.replaced[reason] = self.replaced.get(reason, 0) + 1
        if not replace:
            self._end(worker)
            self._lost()
            return
        try:
            self._replacer.submit(self._replace, worker)
        except RuntimeError:  # shut down meanwhile
            self._end(worker)
            self._lost()

    def _replace(self, worker: Worker) -> None:
        """In the background: the next lease of this place need not wait for a start, and one that fails is tried again by a lease."""
        self._end(worker)
        try:
            fresh = self._fresh()
        except (SandboxError, InputError):
            self._lost()
            return
        with self._changed:
            if not self._closed:
                self._idle.append(fresh)
                self._changed.notify()
                return
        self._end(fresh)
        self._lost()

    def _fresh(self) -> Worker:
        worker = Worker(self._start(), self._ceiling)
        with self._changed:
            self._standing.add(worker)
        return worker

    def _end(self, worker: Worker) -> None:
        with self._changed:
            self._standing.discard(worker)
        worker.close()

    def _lost(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed:
            warnings.warn("A sandbox pool was not closed.", ResourceWarning, stacklevel=2)
