"""The two binary cells of a stored record, the same in a journal and in a segment.

`shared` holds the items that this record brought in; `body` the packed trajectory with references to where its items
lie: (place, number) pairs, where a place is a frame's offset in a journal, or a row in a segment.
"""

import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import zstandard

from trajectories.packing import item_digest

_COUNT = struct.Struct("<I")
_REFERENCE = struct.Struct("<QI")

UNREADABLE: tuple[type[Exception], ...] = (ValueError, LookupError, struct.error, zstandard.ZstdError, OverflowError)
"""What reading damaged bytes may raise here and in `packing`, whose pydantic errors are ValueErrors."""


class Loose(NamedTuple):
    """One record on its way from a file to another: everything in it, nothing compressed."""

    stamp: str
    """When it was appended: 16 hex digits that only grow, `-`, and the writer. The latest of an id wins."""
    row: tuple[Any, ...]
    """The summary, as `summary.to_row` gives it."""
    body: bytes
    items: tuple[bytes, ...]


class Reference(NamedTuple):
    """Where an item lies."""

    place: int
    number: int


class Codec:
    """zstd, with a dictionary or without. Usable from several threads; output depends on the input alone."""

    def __init__(self, level: int, dictionary: bytes = b"") -> None:
        self._level = level
        self._dictionary = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        self._prepared = False
        self._own = threading.local()

    def compress(self, data: bytes) -> bytes:
        if not hasattr(self._own, "compressor"):
            if self._dictionary is not None and not self._prepared:
                self._dictionary.precompute_compress(level=self._level)
                self._prepared = True
            self._own.compressor = zstandard.ZstdCompressor(level=self._level, dict_data=self._dictionary)
        return self._own.compressor.compress(data)

    def decompress(self, data: bytes) -> bytes:
        if not hasattr(self._own, "decompressor"):
            self._own.decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionary)
        return self._own.decompressor.decompress(data)


class ItemTable:
    """Which items a file holds already."""

    def __init__(self) -> None:
        self._known: dict[bytes, Reference] = {}

    def place(self, items: Sequence[bytes], place: int) -> tuple[list[Reference], list[bytes]]:
        """References for all items, and those that are new: they have to be stored at `place`, in this order."""
        references: list[Reference] = []
        fresh: list[bytes] = []
        for item in items:
            digest = item_digest(item)
            if digest not in self._known:
                self._known[digest] = Reference(place, len(fresh))
                fresh.append(item)
            references.append(self._known[digest])
        return references, fresh

    def forget(self, place: int) -> None:
        """The record at `place` could not be stored."""
        self._known = {digest: at for digest, at in self._known.items() if at.place != place}


def pack_items(items: Sequence[bytes]) -> bytes:
    """A shared cell before compression."""
    return struct.pack(f"<{len(items) + 1}I", len(items), *map(len, items)) + b"".join(items)


def shared_cell(items: Sequence[bytes], codec: Codec) -> bytes:
    """Empty where there are no items."""
    if not items:
        return b""
    return codec.compress(pack_items(items))


def read_shared(cell: bytes, codec: Codec) -> list[bytes]:
    """The items of a shared cell."""
    if not cell:
        return []
    data = codec.decompress(cell)
    (count,) = _COUNT.unpack_from(data)
    lengths = struct.unpack_from(f"<{count}I", data, _COUNT.size)
    items: list[bytes] = []
    at = _COUNT.size * (count + 1)
    for length in lengths:
        items.append(data[at : at + length])
        at += length
    if at != len(data):
        raise ValueError("The items do not add up to their cell's length.")
    return items


def body_cell(references: Sequence[Reference], compressed_body: bytes) -> bytes:
    return b"".join((_COUNT.pack(len(references)), *(_REFERENCE.pack(*at) for at in references), compressed_body))


def read_body(cell: bytes, codec: Codec) -> tuple[bytes, list[Reference]]:
    """The body and where its items lie."""
    (count,) = _COUNT.unpack_from(cell)
    start = _COUNT.size + count * _REFERENCE.size
    references = [Reference(*_REFERENCE.unpack_from(cell, at)) for at in range(_COUNT.size, start, _REFERENCE.size)]
    return codec.decompress(cell[start:]), references


def gather(references: Sequence[Reference], items_at: Callable[[int], Sequence[bytes]]) -> tuple[bytes, ...]:
    """The referenced items; `items_at` gives the shared items of a place."""
    return tuple(items_at(place)[number] for place, number in references)
