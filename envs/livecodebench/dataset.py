"""The problems of a split as rows: indexed once, with each record read and its tests decoded only when they are wanted.

`livecodebench` has the split `test`, all problems of the last pull, and parts of it by release or date (`releases.py`);
`code-tasks` has a split for each pull. `sample` is the handful of tasks that ships with the project: self-written ones for
LiveCodeBench, generated ones for code tasks (`generator.py`, seed 0). Order is upstream's:
by question_id, as text.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from envs import data
from envs.base import unknown_name
from envs.livecodebench import lines
from envs.livecodebench.records import UNRATED, Problem, problem_of, record_digest
from envs.livecodebench.releases import SIZES, Selection, selection, shard_by_date
from trajectories.failures import InputError

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "livecodebench"
INDEXED_BYTES = 32 * 2**20
"""The index of larger data is kept on disk."""
PROBLEMS_HELD = 8
"""Problems whose tests stay decoded; one may have a hundred megabytes."""


class Row(NamedTuple):
    """One problem without its tests. `shard` counts from 1."""

    id: str
    category: str
    platform: str
    contest_date: str
    shard: int
    digest: str
    place: lines.Place

    def problem(self) -> Problem:
        return _problem(self.place)

    def reference_solution(self) -> str | None:
        """The solution that a record of our own brings with it."""
        found = self.place.read().get("reference_solution")
        return found if isinstance(found, str) else None


@dataclass(frozen=True, eq=False)
class Dataset:
    """The rows of one split by id. `missing` says in one sentence each what it lacks, and the way out."""

    rows: Mapping[str, Row]
    version: str
    missing: tuple[str, ...] = ()

    def part(self, chosen: Selection, split: str) -> "Dataset":
        """The rows of a release, a range or a window."""
        rows = {key: row for key, row in self.rows.items() if chosen.has(row.shard, row.contest_date)}
        return Dataset(rows, self.version, tuple(_lacking(chosen, split, len(rows))))


def load(name: str, split: str) -> Dataset:
    """All rows of a benchmark's split. InputError for an unknown split, and where nothing is pulled."""
    if split == "sample":
        return _samples(SAMPLES / f"{name}.jsonl")
    chosen = selection(split) if name == "livecodebench" else None
    if chosen is not None:
        return _part(_pulled(name), chosen, split)
    if split not in pulled_splits(name):
        raise unknown_name(f"split of {name}:", split, (*pulled_splits(name), "sample"))
    return _whole(_pulled(name), "" if name == "livecodebench" else split)


def pulled_splits(name: str) -> tuple[str, ...]:
    """The splits that the pulled data has; LiveCodeBench's `test` is named even where nothing is pulled."""
    if name == "livecodebench":
        return ("test",)
    pulled = data.current(name)
    return tuple(sorted(path.name for path in pulled.path.iterdir() if path.is_dir())) if pulled else ()


def _pulled(name: str) -> data.Pulled:
    pulled = data.current(name)
    if pulled is None:
        raise InputError(f"The data of {name} is not pulled: run 'harness data pull {name}'.")
    return pulled


def _lacking(chosen: Selection, split: str, found: int) -> Iterator[str]:
    if chosen.size is not None and found != chosen.size:
        yield (
            f"{split} has {chosen.size} problems, and {found} of them are here: run 'harness data pull livecodebench' for "
            "all. Where a file is no official shard, a problem's release is told by its contest date."
        )


@lru_cache(maxsize=8)
def _part(pulled: data.Pulled, chosen: Selection, split: str) -> Dataset:
    return _whole(pulled, "").part(chosen, split)


@lru_cache(maxsize=8)
def _whole(pulled: data.Pulled, folder: str) -> Dataset:
    paths = sorted(path for path in (pulled.path / folder).iterdir() if path.is_file() and path.suffix != ".json")
    paths += [path for path in sorted((pulled.path / folder).glob("*.json")) if path.name not in _OURS]
    rows = _indexed(pulled, folder, paths) if _size(paths) > INDEXED_BYTES else _read(paths)
    return Dataset(rows, pulled.version)


_OURS = (data.RECORD, "hub.json")


@lru_cache(maxsize=4)
def _samples(path: Path) -> Dataset:
    return Dataset(_read([path]), f"samples:{data.file_sha256(path)[:8]}")


@lru_cache(maxsize=PROBLEMS_HELD)
def _problem(place: lines.Place) -> Problem:
    return problem_of(place.read(), repr(str(place.path)))


def _size(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def _read(paths: Iterable[Path]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for path in paths:
        for row in _rows_of(path):
            if row.id in rows and rows[row.id].digest != row.digest:
                raise InputError(
                    f"{str(path)!r} and {str(rows[row.id].place.path)!r} hold {row.id!r} as two tasks: leave one of them."
                )
            rows.setdefault(row.id, row)
    return dict(sorted(rows.items()))


def _rows_of(path: Path) -> list[Row]:
    """The rows of one file. One with as many records as an official shard or release has is taken for it."""
    rows = [_row(place, record) for place, record in lines.records(path)]
    shard_of = _shards_by_count(rows)
    return [row._replace(shard=shard_of(index, row)) for index, row in enumerate(rows)]


def _row(place: lines.Place, record: Mapping[str, Any]) -> Row:
    difficulty, when = record.get("difficulty") or UNRATED, record.get("contest_date") or ""
    return Row(record["question_id"], difficulty, record.get("platform") or "", when, 0, record_digest(record), place)


def _shards_by_count(rows: list[Row]) -> Callable[[int, Row], int]:
    by_date = [shard_by_date(row.contest_date) for row in rows]
    if len(rows) in SIZES:
        shard = SIZES.index(len(rows)) + 1
        # Two shards have the same size; by date at most a few of a shard's problems fall into a neighbour.
        fitting = [number for number, size in enumerate(SIZES, 1) if size == len(rows)]
        likely = max(fitting, key=by_date.count, default=shard)
        if by_date.count(likely) > len(rows) // 2:
            return lambda index, row: likely
    return lambda index, row: by_date[index]


def _indexed(pulled: data.Pulled, folder: str, paths: list[Path]) -> dict[str, Row]:
    """The index from disk, made first where it is not there. It is about the pulled folder, whose name has its digest."""
    kept = data.home() / "cache" / pulled.name / f"{pulled.sha256}-{folder or 'all'}.json"
    try:
        told = orjson.loads(kept.read_bytes())
        return {row[0]: _told(pulled.path, *row) for row in told}
    except (OSError, ValueError, TypeError, IndexError):
        rows = _read(paths)
    if all(row.place.held is None for row in rows.values()):
        _keep(kept, pulled.path, rows.values())
    return rows


def _told(root: Path, *row: Any) -> Row:
    *fields, file, offset, length = row
    return Row._make((*fields, lines.Place(root / file, offset, length)))


def _keep(kept: Path, root: Path, rows: Iterable[Row]) -> None:
    told = [[*row[:6], row.place.path.relative_to(root).as_posix(), row.place.offset, row.place.length] for row in rows]
    kept.parent.mkdir(parents=True, exist_ok=True)
    scratch = kept.with_name(f".{kept.name}-{os.urandom(4).hex()}")
    scratch.write_bytes(orjson.dumps(told))
    scratch.replace(kept)
