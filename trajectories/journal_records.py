"""Records in a journal: how one becomes a frame, and how a journal is read while its writer may still be at work."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from trajectories import cells, journal
from trajectories.failures import InputError
from trajectories.packing import Packed
from trajectories.recent import Recent
from trajectories.schema import SCHEMA_VERSION
from trajectories.summary import Summary, to_row

_LENGTHS = struct.Struct("<III")
_CODEC = cells.Codec(level=3)


class Listed(NamedTuple):
    """What an index needs of a record: where it is and what it says of itself."""

    stamp: str
    row: tuple[Any, ...]
    offset: int


class RecordWriter(journal.JournalWriter):
    """A journal of trajectories."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SCHEMA_VERSION)
        self.records = 0
        self.waiting = 0
        """How many appends are not durable yet; the store counts them."""
        self._items = cells.ItemTable()

    def append(self, stamp: str, summary: Summary, packed: Packed, compressed_body: bytes) -> journal.Frame:
        """Writes one record; durable after `wait_durable(frame.end)`."""

        def build(offset: int) -> bytes:
            references, fresh = self._items.place(packed.items, offset)
            head = to_json([stamp, *to_row(summary)], inf_nan_mode="constants")
            shared, body = cells.shared_cell(fresh, _CODEC), cells.body_cell(references, compressed_body)
            return b"".join((_LENGTHS.pack(len(head), len(shared), len(body)), head, shared, body))

        offset = self.size
        try:
            frame = self.write(build)
        except BaseException:
            self._items.forget(offset)
            raise
        self.records += 1
        return frame


def compress_body(body: bytes) -> bytes:
    """Apart from `append`, so that threads do it side by side."""
    return _CODEC.compress(body)


class RecordReader:
    """One journal as it grows. `refresh` looks for new frames; bytes that are not (yet) a frame at its end are left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gaps: list[journal.Gap] = []
        self.tail: journal.Tail | None = None
        self.header: journal.Header | None = None
        self._scanned = 0
        self._shared: Recent[int, list[bytes]] = Recent(8 << 20, lambda items: sum(map(len, items)))

    def refresh(self) -> list[Listed]:
        """The records that were added since the last call. FileNotFoundError once the journal has been sealed."""
        if self.path.stat().st_size == self._scanned:
            self.tail = None
            return []
        return [self._listed(frame) for frame in self._new_frames()]

    def read(self, offset: int) -> tuple[bytes, tuple[bytes, ...]]:
        """Body and items of the record at `offset`. One of `cells.UNREADABLE` where it is damaged."""
        _, _, body_cell = _split(self._payload(offset))
        body, references = cells.read_body(body_cell, _CODEC)
        return body, cells.gather(references, self._items_at)

    def loose(self, listed: Listed) -> cells.Loose:
        """The whole record, for another file."""
        return cells.Loose(listed.stamp, listed.row, *self.read(listed.offset))

    def _new_frames(self) -> Iterator[journal.Frame]:
        with self.path.open("rb") as file:
            if self.header is None:
                self.header = journal.read_header(file.read(journal.HEADER_SIZE), self.path)
                if self.header is None:
                    return
                _check_schema(self.header, self.path)
                self._scanned = journal.HEADER_SIZE
            file.seek(self._scanned)
            data = file.read()
        self.tail = None
        for part in journal.scan(data, self.header.journal, self._scanned, self._scanned):
            if isinstance(part, journal.Tail):
                self.tail = part
                continue
            self._scanned = part.end
            if isinstance(part, journal.Frame):
                yield part
            else:
                self.gaps.append(part)

    def _listed(self, frame: journal.Frame) -> Listed:
        head, _, _ = _split(frame.payload)
        stamp, *row = from_json(head)
        return Listed(stamp, tuple(row), frame.offset)

    def _payload(self, offset: int) -> bytes:
        name = self.header.journal if self.header else self.path.name.removesuffix(journal.SUFFIX)
        return journal.read_frame(self.path, name, offset)

    def _items_at(self, offset: int) -> list[bytes]:
        return self._shared.get(offset, lambda: cells.read_shared(_split(self._payload(offset))[1], _CODEC))


def _split(payload: bytes) -> tuple[bytes, bytes, bytes]:
    head, shared, body = _LENGTHS.unpack_from(payload)
    if _LENGTHS.size + head + shared + body != len(payload):
        raise ValueError("The frame's parts do not add up to its length.")
    first, second = _LENGTHS.size + head, _LENGTHS.size + head + shared
    return payload[_LENGTHS.size : first], payload[first:second], payload[second:]


def _check_schema(header: journal.Header, path: Path) -> None:
    if header.sound and header.schema > SCHEMA_VERSION:
        raise InputError(
            f"{path} has schema version {header.schema}, this version reads up to {SCHEMA_VERSION}: upgrade lopd-harness."
        )
