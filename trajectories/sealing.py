"""Turning journals into segments: in the background, and for writers that died."""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trajectories import durable, segment
from trajectories.failures import InfrastructureError, InputError
from trajectories.journal_records import Listed, RecordWriter
from trajectories.summary import Summary, counts

_BOUNDARY = Summary._fields.index("boundary")
_STALE_S = 60.0


class Sealable(NamedTuple):
    """A journal whose lock we hold. `writer` None: its process died."""

    path: Path
    fd: int
    writer: RecordWriter | None = None


class Sealer:
    """One background thread that seals journals one after another, started with the first."""

    def __init__(self, seal: Callable[[Sealable], None]) -> None:
        """`seal` closes the journal's file when it succeeds; where it raises, this class does."""
        self._seal = seal
        self._jobs: queue.Queue[Sealable | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._failed: list[Exception] = []

    def put(self, job: Sealable) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="store-sealer", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def drain(self) -> None:
        """Waits for all jobs and raises the first failure since the last call."""
        self._jobs.join()
        if self._failed:
            failed, self._failed = self._failed, []
            raise failed[0]

    def stop(self) -> None:
        """Ends the thread after the jobs that it has."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._seal(job)
            except (InfrastructureError, InputError, *segment.UNREADABLE) as error:
                os.close(job.fd)
                self._failed.append(error)
            finally:
                self._jobs.task_done()


def lock_orphan(path: Path) -> Sealable | None:
    """The journal with its lock, or None where a live process has it, or sealed it meanwhile."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    with suppress(FileNotFoundError):
        if durable.try_lock(fd) and path.stat().st_ino == os.fstat(fd).st_ino:
            return Sealable(path, fd)
    os.close(fd)
    return None


def is_live(path: Path) -> bool:
    """Whether a process holds the journal's lock, or the journal has just gone."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        return not durable.try_lock(fd, shared=True)
    finally:
        os.close(fd)


def winners(records: Sequence[Listed]) -> list[Listed]:
    """The records of one journal that may count, in the order in which they were appended."""
    best: dict[str, Listed] = {}
    for record in records:
        known = best.get(record.row[0])
        if known is None or _rank(record) >= _rank(known):
            best[record.row[0]] = record
    return sorted(best.values(), key=lambda record: record.stamp)


def remove_stale(folder: Path) -> None:
    """Removes unfinished files of dead processes: those that nobody has locked, and that are not brand new."""
    for path in folder.glob(".*.tmp"):
        orphan = lock_orphan(path)
        if orphan is None:
            continue
        if time.time() - os.fstat(orphan.fd).st_mtime > _STALE_S:
            durable.remove(path)
        os.close(orphan.fd)


def _rank(record: Listed) -> tuple[bool, str]:
    return (counts(record.row[_BOUNDARY]), record.stamp)
