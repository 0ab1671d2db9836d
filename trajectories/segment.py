"""A sealed, immutable Parquet file: the summary as ordinary columns, and two binary cells a record (see `cells`).

The file's CRC-32 is part of its name, each page and each cell has one of its own. Any Parquet reader can query the
summary columns. The file's metadata names the files that it replaces, so that a crash between "published" and "old
ones removed" leaves nothing twice.
"""

import base64
import bisect
import errno
import io
import json
import os
import secrets
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from trajectories import cells, durable
from trajectories.failures import InputError
from trajectories.recent import Recent
from trajectories.schema import SCHEMA_VERSION
from trajectories.summary import KINDS

FORMAT = 1
SUFFIX = ".parquet"
GROUP_ROWS = 128
GROUP_BYTES = 4 << 20
SAMPLE_RECORDS = 512
SAMPLE_BYTES = 8 << 20
DICTIONARY_BYTES = 64 << 10
LEVEL = 9

CACHE_BYTES = 32 << 20

Records = Callable[[int], Iterable[cells.Loose]]
"""Gives every nth record, in the order in which they are to be stored."""

UNREADABLE: tuple[type[Exception], ...] = (*cells.UNREADABLE, OSError, pa.ArrowException, MemoryError, TypeError)
"""What reading a damaged segment may raise."""

_TYPES = {"text": pa.string(), "int": pa.int64(), "real": pa.float64()}
_META = b"harness.segment"
_SUMMARY = ("stamp", *KINDS)
_CELLS = ("shared", "body")
_PLAIN = cells.Codec(LEVEL)


class Described(NamedTuple):
    """What a segment says of itself."""

    schema: int
    replaces: tuple[str, ...]
    """Names of journals and segments whose records are all here."""
    shared: bytes
    """The compression dictionary of that column."""
    body: bytes


def write_segment(folder: Path, records: Records, count: int, replaces: Sequence[str]) -> Path | None:
    """Writes and publishes one segment with about `count` records; None, and no file, where there are none.

    `records` is called twice: for a sample from which the compression dictionaries are made, and for all.
    """
    sample = _sample(records(max(1, count // SAMPLE_RECORDS)))
    if not sample:
        return None
    described = Described(
        SCHEMA_VERSION,
        tuple(replaces),
        shared=_dictionary([cells.pack_items(record.items) for record in sample]),
        body=_dictionary([record.body for record in sample]),
    )
    del sample[1:]
    temporary = folder / f".{secrets.token_hex(8)}.tmp"
    with durable.explained(folder):
        try:
            checksum = _write(temporary, records(1), described)
            final = folder / f"{sample[0].stamp[:16]}-{secrets.token_hex(4)}-{checksum:08x}{SUFFIX}"
            durable.publish(temporary, final)
        except BaseException:
            with suppress(OSError):
                durable.remove(temporary)
            raise
    return final


def file_checksum(path: Path) -> int:
    """CRC-32 of the whole file."""
    total = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total = zlib.crc32(block, total)
    return total


def is_sound(path: Path) -> bool:
    """Whether the file still has the checksum that its name promises. OSError where it can't be read."""
    return path.name.removesuffix(SUFFIX).rpartition("-")[2] == f"{file_checksum(path):08x}"


Cache = Recent[tuple[str, str, int], list[bytes]]
"""Cells and items that were read lately, by segment, column and place."""


def new_cache() -> Cache:
    """Of 32 MiB."""
    return Recent(CACHE_BYTES, lambda values: sum(map(len, values)))


class Segment:
    """Reads one segment; usable from several threads."""

    def __init__(self, path: Path, cache: Cache | None = None) -> None:
        """One of UNREADABLE where the file is damaged or gone, InputError for a newer version.

        `cache` may serve several segments.
        """
        self.path = path
        self._cache = new_cache() if cache is None else cache
        self._file = pq.ParquetFile(path, page_checksum_verification=True)
        self.described = _described(self._file.metadata.metadata or {}, path)
        self._shared_codec, self._body_codec = _codecs(self.described)
        meta = self._file.metadata
        sizes = [meta.row_group(at).num_rows for at in range(meta.num_row_groups)]
        self._starts = _starts(sizes)
        self.rows: int = meta.num_rows
        self._lock = threading.Lock()

    def listing(self) -> Iterator[tuple[Any, ...]]:
        """(stamp, summary columns ...) of each row, in order."""
        for batch in self._file.iter_batches(batch_size=1024, columns=list(_SUMMARY)):
            columns = [batch.column(name).to_pylist() for name in _SUMMARY]
            yield from zip(*columns, strict=True)

    def readable(self, column: str) -> dict[int, Any]:
        """What can still be read of a column, by row: all of it, unless the file is damaged."""
        found: dict[int, Any] = {}
        for group, start in enumerate(self._starts):
            with suppress(*UNREADABLE):
                values = self._file.read_row_group(group, columns=[column], use_threads=False).column(0).to_pylist()
                found.update(enumerate(values, start))
        return found

    def read(self, row: int, stamp: str) -> tuple[bytes, tuple[bytes, ...]]:
        """Body and items of the record in this row. One of UNREADABLE where it is damaged."""
        cell = _checked(self._cell("body", row), f"{row}:{stamp}")
        body, references = cells.read_body(cell, self._body_codec)
        return body, cells.gather(references, self._items_at)

    def close(self) -> None:
        self._file.close()

    def _items_at(self, row: int) -> list[bytes]:
        return self._cache.get((self.path.name, "items", row), lambda: self._read_shared(row))

    def _read_shared(self, row: int) -> list[bytes]:
        return cells.read_shared(_checked(self._cell("shared", row), str(row)), self._shared_codec)

    def _cell(self, column: str, row: int) -> bytes:
        group = bisect.bisect_right(self._starts, row) - 1
        values = self._cache.get((self.path.name, column, group), lambda: self._read_group(column, group))
        return values[row - self._starts[group]]

    def _read_group(self, column: str, group: int) -> list[bytes]:
        with self._lock:
            return self._file.read_row_group(group, columns=[column], use_threads=False).column(0).to_pylist()


def describe(path: Path) -> Described:
    """What the segment says of itself. Raises as `Segment` does."""
    with pq.ParquetFile(path) as file:
        return _described(file.metadata.metadata or {}, path)


class _Sink(io.RawIOBase):
    """A file for pyarrow whose every write goes through `durable`, with a running checksum."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = 0
        self.checksum = 0
        self.failed: OSError | None = None
        """The first write that failed: pyarrow swallows some of them."""

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        block = bytes(data)
        try:
            durable.write_all(self._fd, block)
        except OSError as error:
            self.failed = self.failed or error
            raise
        self._size += len(block)
        self.checksum = zlib.crc32(block, self.checksum)
        return len(block)


def _write(path: Path, records: Iterable[cells.Loose], described: Described) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        durable.try_lock(fd)  # tells others that this unfinished file has an owner
        sink = _Sink(fd)
        schema = _schema()
        with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema, **_layout()) as writer:
            for group in _groups(records, described):
                writer.write_table(pa.table(group, schema=schema), row_group_size=GROUP_ROWS)
            writer.add_key_value_metadata({_META: _meta(described)})
        if sink.failed is not None:
            raise sink.failed
        durable.sync(fd)
        if file_checksum(path) != sink.checksum:
            raise OSError(errno.EIO, "what was written reads back otherwise")
        return sink.checksum
    finally:
        os.close(fd)


def _layout() -> dict[str, Any]:
    names = [name for name, kind in KINDS.items() if kind == "text" and name not in ("id", "content", "task_id")]
    return {
        "compression": {**dict.fromkeys(_SUMMARY, "zstd"), **dict.fromkeys(_CELLS, "none")},
        "use_dictionary": names,
        "write_statistics": ["stamp", "benchmark", "agent", "category", "official"],
        "write_page_checksum": True,
    }


def _schema() -> pa.Schema:
    fields = [("stamp", pa.string()), *((name, _TYPES[kind]) for name, kind in KINDS.items())]
    return pa.schema([*fields, *((name, pa.binary()) for name in _CELLS)])


def _meta(described: Described) -> str:
    texts = {name: base64.b64encode(_PLAIN.compress(getattr(described, name))).decode() for name in _CELLS}
    said = json.dumps({"format": FORMAT, "schema": described.schema, "replaces": described.replaces, **texts})
    return f"{zlib.crc32(said.encode()):08x}{said}"


def _groups(records: Iterable[cells.Loose], described: Described) -> Iterator[dict[str, list[Any]]]:
    """The rows as columns, a row group at a time."""
    table = cells.ItemTable()
    codecs = _codecs(described)
    group, size = _empty_group(), 0
    for row, record in enumerate(records):
        shared, body = _cells_of(record, row, table, codecs)
        for name, value in zip((*_SUMMARY, *_CELLS), (record.stamp, *record.row, shared, body), strict=True):
            group[name].append(_number(value) if KINDS.get(name) == "real" else value)
        size += len(shared) + len(body)
        if len(group["stamp"]) == GROUP_ROWS or size >= GROUP_BYTES:
            yield group
            group, size = _empty_group(), 0
    if group["stamp"]:
        yield group


def _codecs(described: Described) -> tuple[cells.Codec, cells.Codec]:
    """For the columns `shared` and `body`."""
    return cells.Codec(LEVEL, described.shared), cells.Codec(LEVEL, described.body)


def _cells_of(
    record: cells.Loose, row: int, table: cells.ItemTable, codecs: tuple[cells.Codec, cells.Codec]
) -> tuple[bytes, bytes]:
    references, fresh = table.place(record.items, row)
    shared = cells.shared_cell(fresh, codecs[0])
    body = cells.body_cell(references, codecs[1].compress(record.body))
    return _with_checksum(shared, str(row)), _with_checksum(body, f"{row}:{record.stamp}")


def _empty_group() -> dict[str, list[Any]]:
    return {name: [] for name in (*_SUMMARY, *_CELLS)}


def _number(value: Any) -> Any:
    return None if value is None else float(value)


def _sample(records: Iterable[cells.Loose]) -> list[cells.Loose]:
    chosen, size = list[cells.Loose](), 0
    for record in records:
        chosen.append(record)
        size += len(record.body) + sum(map(len, record.items))
        if size > SAMPLE_BYTES:
            break
    return chosen


def _dictionary(samples: Sequence[bytes]) -> bytes:
    """What the cells are compressed against; small beside what it serves."""
    room = min(DICTIONARY_BYTES, sum(map(len, samples)) // 16)
    if room < 256:
        return b""
    try:
        return zstandard.train_dictionary(room, list(samples)).as_bytes()
    except zstandard.ZstdError:  # too little to learn from
        return b"".join(samples)[:room]


def _with_checksum(cell: bytes, place: str) -> bytes:
    return zlib.crc32(cell, zlib.crc32(place.encode())).to_bytes(4, "little") + cell


def _checked(cell: bytes, place: str) -> bytes:
    content = cell[4:]
    if _with_checksum(content, place) != cell:
        raise ValueError("A cell's checksum is wrong.")
    return content


def _starts(sizes: Sequence[int]) -> list[int]:
    starts, total = list[int](), 0
    for size in sizes:
        starts.append(total)
        total += size
    return starts


def _described(meta: dict[bytes, bytes], path: Path) -> Described:
    if _META not in meta:
        raise InputError(f"{path} is no trajectory segment: move it out of the store.")
    checksum, text = meta[_META][:8], meta[_META][8:]
    # A wrong dictionary makes wrong bodies of right cells, so this has a checksum too.
    if checksum != f"{zlib.crc32(text):08x}".encode():
        raise ValueError("The checksum of its metadata is wrong.")
    said = json.loads(text)
    if said["format"] > FORMAT or said["schema"] > SCHEMA_VERSION:
        raise InputError(
            f"{path} has segment format {said['format']} and schema version {said['schema']}, this version reads up to "
            f"{FORMAT} and {SCHEMA_VERSION}: upgrade lopd-harness."
        )
    dictionaries = {name: _PLAIN.decompress(base64.b64decode(said[name])) for name in _CELLS}
    return Described(said["schema"], tuple(said["replaces"]), **dictionaries)
