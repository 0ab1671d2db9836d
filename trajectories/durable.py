"""The few calls by which bytes reach the disk for good, and what a failing one means.

Everything that the store writes goes through this module, so that a test can make any single call fail, or die in it.
"""

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from trajectories.failures import InfrastructureError, InputError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}

_sync_data = getattr(os, "fdatasync", os.fsync)


@contextmanager
def explained(path: Path) -> Generator[None]:
    """Turns an OSError while `path` is written into one sentence; what was reported done is safe in each case."""
    try:
        yield
    except OSError as error:
        safe = "Nothing that was reported done is lost"
        if error.errno in _FULL:
            advice = "free some space and resume"
            raise InfrastructureError(f"No space left to write {path} ({error.strerror}). {safe}: {advice}.") from error
        if error.errno in _FORBIDDEN:
            raise InputError(
                f"Can't write {path} ({error.strerror}). {safe}: make it writable, or use a copy."
            ) from error
        raise InfrastructureError(f"Writing {path} failed ({error}). {safe}: check the disk, then resume.") from error


def write_all(fd: int, data: bytes) -> None:
    """All of `data` at the file's position, however many calls it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync(fd: int) -> None:
    """The file's bytes and length are on the disk when this returns."""
    _sync_data(fd)


def sync_folder(folder: Path) -> None:
    """Names made, changed or removed in the folder so far are on the disk when this returns."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def cut(fd: int, length: int) -> None:
    """Shortens an open file to `length` bytes and continues writing there."""
    os.ftruncate(fd, length)
    os.lseek(fd, length, os.SEEK_SET)


def publish(temporary: Path, final: Path) -> None:
    """Gives a finished, synced file its name: whole or not at all, also after a power cut."""
    os.replace(temporary, final)  # noqa: PTH105 - the one place where tests make a rename fail
    sync_folder(final.parent)


def remove(path: Path) -> None:
    """Removes a file that is no longer needed; one that is gone already is fine."""
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - see publish


def write_file(path: Path, data: bytes) -> None:
    """A small file, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            write_all(fd, data)
            sync(fd)
        finally:
            os.close(fd)
        publish(temporary, path)
    except OSError:
        remove(temporary)
        raise


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Takes the advisory lock of an open file without waiting; False where another process, or another opening, has it."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
