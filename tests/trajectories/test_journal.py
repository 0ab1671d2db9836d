"""A journal between a failed fsync and the next write."""

import errno
import os
import threading
from pathlib import Path

import pytest

from trajectories import durable, journal
from trajectories.failures import InfrastructureError
from trajectories.schema import SCHEMA_VERSION


def frames(path: Path) -> list[journal.Frame | journal.Gap | journal.Tail]:
    data = path.read_bytes()
    return list(journal.scan(data[journal.HEADER_SIZE :], path.stem, base=journal.HEADER_SIZE))


def test_nothing_is_written_behind_the_cut_of_a_failed_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = journal.JournalWriter(tmp_path, SCHEMA_VERSION)
    kept = writer.write(lambda offset: b"kept")
    writer.wait_durable(kept.end)
    lost = writer.write(lambda offset: b"lost" * 100)
    failing, go = threading.Event(), threading.Event()

    def full(fd: int) -> None:
        failing.set()
        go.wait(10)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    refused: list[str] = []

    def write_on() -> None:
        """Writes until the journal says that it has ended, as threads of a run do."""
        while not refused:
            try:
                writer.write(lambda offset: b"late")
            except InfrastructureError as error:
                refused.append(str(error))

    def wait() -> None:
        with pytest.raises(InfrastructureError):
            writer.wait_durable(lost.end)

    monkeypatch.setattr(durable, "sync", full)
    other = threading.Thread(target=write_on)
    waiting = threading.Thread(target=wait)
    waiting.start()
    failing.wait(10)
    other.start()
    go.set()
    for thread in (waiting, other):
        thread.join(10)
        assert not thread.is_alive()
    assert "No space left" in refused[0]
    writer.close()
    assert frames(writer.path) == [kept]
