"""An append-only file of checksummed frames: what a writer process reports as done, before it is sealed.

A frame is a marker, a length, a CRC-32 and its payload. The checksum also covers the journal's id and the frame's
offset, so that bytes from elsewhere never pass for a frame. One process writes a journal and holds its advisory lock;
anybody may read it meanwhile. What stands here knows nothing of trajectories.
"""

import os
import secrets
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trajectories import durable
from trajectories.failures import InfrastructureError, InputError

FORMAT = 1
SUFFIX = ".journal"

_MAGIC = b"HTRAJNL\n"
_HEADER = struct.Struct("<8sHH16s")
HEADER_SIZE = _HEADER.size + 4
_MARKER = b"\xf7HJ\x01"
_FRAME = struct.Struct("<4sII")


class Frame(NamedTuple):
    """One good frame. `end` is where the next one starts."""

    offset: int
    end: int
    payload: bytes


class Gap(NamedTuple):
    """Bytes that are no frame, with good frames after them: damage, since frames are written one after another."""

    offset: int
    end: int


class Tail(NamedTuple):
    """Bytes after the last good frame: a write that never finished. Nothing in it was reported done."""

    offset: int
    end: int


class Header(NamedTuple):
    """`sound` False: the header's own checksum fails, and the id was taken from the file's name."""

    journal: str
    schema: int
    sound: bool


class JournalWriter:
    """A new journal that only this object writes. `write` is for one thread at a time; `wait_durable` for any number."""

    def __init__(self, folder: Path, schema: int) -> None:
        self.name = secrets.token_hex(8)
        self.path = folder / f"{self.name}{SUFFIX}"
        self.broken = False
        """True after a failure that leaves the file in doubt: go on with a new journal."""
        self._failure = (
            f"Writing {self.path} was interrupted before this episode was on the disk: it is not stored. "
            "Nothing that was reported done is lost: resume."
        )
        self._changed = threading.Condition()
        self._file = threading.Lock()
        """Held while the file is written to or cut, so that nothing is written behind a cut."""
        self._syncing = False
        temporary = folder / f".{self.name}.tmp"  # others see the journal only once its lock is held
        with durable.explained(self.path):
            self._fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                durable.try_lock(self._fd)
                durable.write_all(self._fd, _header(self.name, schema))
                durable.sync(self._fd)
                durable.publish(temporary, self.path)
            except BaseException:
                os.close(self._fd)
                with suppress(OSError):
                    durable.remove(temporary)
                raise
        self.size = self._durable = HEADER_SIZE

    def write(self, build: Callable[[int], bytes]) -> Frame:
        """Appends the frame whose payload `build` makes from its offset. Not yet durable: see `wait_durable`.

        A write that fails is cut off again and raises InfrastructureError; the journal stays usable if the cut succeeds.
        So does one into a journal that a failed fsync has just ended.
        """
        offset = self.size
        payload = build(offset)
        head = _FRAME.pack(_MARKER, len(payload), _checksum(self.name, offset, payload))
        with self._file, durable.explained(self.path):
            if self.broken:
                raise InfrastructureError(self._failure)
            try:
                durable.write_all(self._fd, head + payload)
            except BaseException:
                self._cut(offset)
                raise
            self.size = offset + len(head) + len(payload)
        return Frame(offset, self.size, payload)

    def wait_durable(self, end: int) -> None:
        """Returns once all bytes up to `end` are on the disk. Threads that wait together share one fsync."""
        while not self._durable_or_leader(end):
            self._sync_as_leader()

    def release(self) -> int:
        """Ends the writing and hands over the open file, lock included."""
        return self._fd

    def close(self) -> None:
        """Releases the lock. The file stays until someone seals it."""
        os.close(self._fd)

    def _durable_or_leader(self, end: int) -> bool:
        """True when `end` is durable; False when the caller now has to sync for all who wait."""
        with self._changed:
            while self._durable < end:
                if self.broken:
                    raise InfrastructureError(self._failure)
                if not self._syncing:
                    self._syncing = True
                    return False
                self._changed.wait()
        return True

    def _sync_as_leader(self) -> None:
        target, synced = self.size, False
        try:
            with durable.explained(self.path):
                durable.sync(self._fd)
            synced = True
        except (InfrastructureError, InputError) as error:
            self._failure = str(error)
            raise
        finally:
            with self._changed:
                self._syncing = False
                if synced:
                    self._durable = max(self._durable, target)
                else:  # after a failed fsync the kernel may have dropped the pages: nothing written since counts
                    with self._file:
                        self._cut(self._durable)
                        self.broken = True
                self._changed.notify_all()

    def _cut(self, length: int) -> None:
        try:
            durable.cut(self._fd, length)
        except OSError:
            self.broken = True


def read_header(data: bytes, path: Path) -> Header | None:
    """The header, or None where the file ends before it does (its writer died at once: there is nothing in it).

    InputError for a newer format, or a file that is no journal at all.
    """
    if len(data) < HEADER_SIZE:
        return None
    magic, version, schema, name = _HEADER.unpack_from(data)
    sound = zlib.crc32(data[: _HEADER.size]).to_bytes(4, "little") == data[_HEADER.size : HEADER_SIZE]
    if not sound:
        return Header(path.name.removesuffix(SUFFIX), schema, sound=False)
    if magic != _MAGIC:
        raise InputError(f"{path} is no trajectory journal: move it out of the store.")
    if version > FORMAT:
        raise InputError(
            f"{path} has journal format {version}, this version reads up to {FORMAT}: upgrade lopd-harness."
        )
    return Header(name.decode("ascii", "replace"), schema, sound=True)


def scan(data: bytes, journal: str, start: int = HEADER_SIZE, base: int = 0) -> Iterator[Frame | Gap | Tail]:
    """All frames from the offset `start` on, in order, with what lies between them. `data` starts at the offset `base`."""
    offset, end = start, base + len(data)
    while offset < end:
        frame = _frame_at(data, journal, offset, base)
        if frame is not None:
            yield frame
            offset = frame.end
            continue
        following = _next_frame(data, journal, offset + 1, base)
        if following is None:
            yield Tail(offset, end)
            return
        yield Gap(offset, following)
        offset = following


def read_frame(path: Path, journal: str, offset: int) -> bytes:
    """The payload of the frame at `offset`. ValueError where there is no good one, FileNotFoundError as usual."""
    with path.open("rb") as file:
        file.seek(offset)
        head = file.read(_FRAME.size)
        if len(head) == _FRAME.size:
            head += file.read(_FRAME.unpack(head)[1])
    frame = _frame_at(head, journal, offset, offset)
    if frame is None:
        raise ValueError(f"{path}: no good frame at byte {offset}.")
    return frame.payload


def _header(name: str, schema: int) -> bytes:
    fields = _HEADER.pack(_MAGIC, FORMAT, schema, name.encode("ascii"))
    return fields + zlib.crc32(fields).to_bytes(4, "little")


def _checksum(journal: str, offset: int, payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(f"{journal}:{offset}:{len(payload)}".encode()))


def _frame_at(data: bytes, journal: str, offset: int, base: int) -> Frame | None:
    at = offset - base
    if len(data) - at < _FRAME.size:
        return None
    marker, length, checksum = _FRAME.unpack_from(data, at)
    start = at + _FRAME.size
    if marker != _MARKER or length > len(data) - start:
        return None
    payload = memoryview(data)[start : start + length]
    if _checksum(journal, offset, payload) != checksum:
        return None
    return Frame(offset, base + start + length, bytes(payload))


def _next_frame(data: bytes, journal: str, offset: int, base: int) -> int | None:
    at = data.find(_MARKER, offset - base)
    while at >= 0:
        if _frame_at(data, journal, base + at, base) is not None:
            return base + at
        at = data.find(_MARKER, at + 1)
    return None
