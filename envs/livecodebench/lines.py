"""Files of records: one JSON object a line (gzipped or not), one JSON list, or one single object.

The official shards have gigabytes, so a record of a plain file is kept as its place in the file and read when it is wanted.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from trajectories.failures import InputError

IN_MEMORY_BYTES = 512 * 2**20
"""A gzipped file or a JSON list that unpacks to more has to be given as plain JSON lines."""


class Place(NamedTuple):
    """Where one record stands."""

    path: Path
    offset: int
    length: int
    held: bytes | None = None
    """The record itself, where its file can't be read from the middle."""

    def read(self) -> dict[str, Any]:
        """InputError where the file has changed since it was indexed."""
        if self.held is not None:
            return _object(self.held, self.path, 0)
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return _object(file.read(self.length), self.path, self.offset)


def records(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """All records of a file. InputError where a line is no JSON object."""
    with path.open("rb") as file:
        head = file.read(2)
        if head == b"\x1f\x8b":
            yield from _held(path, _unpacked(path))
        elif head[:1] == b"[" or _is_one_object(path):
            yield from _held(path, _read_whole(path))
        else:
            file.seek(0)
            offset = 0
            for line in file:
                if line.strip():
                    yield Place(path, offset, len(line)), _object(line, path, offset)
                offset += len(line)


def _held(path: Path, text: bytes) -> Iterator[tuple[Place, dict[str, Any]]]:
    for item in _items(path, text):
        yield Place(path, 0, len(item), item), _object(item, path, 0)


def _items(path: Path, text: bytes) -> list[bytes]:
    """The records of a text that is in memory, each as JSON of its own."""
    if text.lstrip()[:1] == b"[":
        found = _loaded(text, path, 0)
        return [json.dumps(item).encode() for item in cast("list[Any]", found)]
    try:
        return [json.dumps(json.loads(text)).encode()]
    except (ValueError, RecursionError):
        return [line for line in text.splitlines() if line.strip()]


def _is_one_object(path: Path) -> bool:
    """Whether a small file is one object over several lines."""
    if path.stat().st_size > IN_MEMORY_BYTES // 16:
        return False
    with path.open("rb") as file:
        first = file.readline()
        if not file.read(1):
            return False
    try:
        orjson.loads(first)
    except ValueError:
        return True
    return False


def _read_whole(path: Path) -> bytes:
    if path.stat().st_size > IN_MEMORY_BYTES:
        raise InputError(f"{str(path)!r} is a JSON list of more than {IN_MEMORY_BYTES} bytes: give it as JSON lines.")
    return path.read_bytes()


def _unpacked(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            text = file.read(IN_MEMORY_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{str(path)!r} is no readable gzip file ({error}).") from error
    if len(text) > IN_MEMORY_BYTES:
        raise InputError(f"{str(path)!r} unpacks to more than {IN_MEMORY_BYTES} bytes: unpack it yourself first.")
    return text


def _object(line: bytes, path: Path, offset: int) -> dict[str, Any]:
    value = _loaded(line, path, offset)
    if not isinstance(value, dict):
        raise InputError(f"{str(path)!r}, at byte {offset}: no JSON object, but {str(cast('object', value))[:40]!r}.")
    return cast("dict[str, Any]", value)


def _loaded(text: bytes, path: Path, offset: int) -> Any:
    """The value of a JSON text. Lone surrogates and NaN, which models and Python write, are let in."""
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r}, at byte {offset}: no JSON ({str(error)[:100]}).") from error
