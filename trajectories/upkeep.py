"""Looking after a store: verifying every byte, merging segments, and going on after damage."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from trajectories import cells, durable, problems, segment
from trajectories.catalogue import Catalogue, Located
from trajectories.failures import InputError
from trajectories.journal_records import Listed, RecordReader
from trajectories.packing import pack, unpack
from trajectories.problems import Problem
from trajectories.summary import summarize, to_row

SEGMENT_RECORDS = 65536
SEGMENT_BYTES = 512 << 20
"""About so much at most in one segment that `merge` writes."""


class Compacted(NamedTuple):
    """What a compaction did. `dropped` are ids of records that could not be read, as far as they are known."""

    records: int
    superseded: int
    bytes_before: int
    bytes_after: int
    dropped: tuple[str, ...] = ()


class Merger:
    """Merges all sealed records into few segments, in the order in which they were appended.

    The last new segment names all old ones as replaced. Killed before it is published, the store has some records
    twice, which nobody sees; killed after, the old files are dead and the next writable opening removes them.
    """

    def __init__(self, folder: Path, catalogue: Catalogue, read: Callable[[Located], cells.Loose]) -> None:
        self._folder, self._catalogue, self._read = folder, catalogue, read

    def run(self, index: Callable[[Path], None]) -> list[str]:
        """Gives the names of the segments that are replaced and may be removed. `index` takes in a new one."""
        old = sorted(self._catalogue.segments())
        rows = sum(known.rows for known in self._catalogue.segments().values())
        if len(old) < 2 and rows == self._catalogue.sealed_count():
            return []
        each = self._records_each(old, rows)
        edges = self._catalogue.sealed_edges(each)
        for at, (low, high) in enumerate(edges):
            replaces = old if at == len(edges) - 1 else []
            between = self._between(low, high, old)
            written = segment.write_segment(self._folder, between, min(each, rows), replaces)
            if written is not None:
                index(written)
        return old

    def _records_each(self, names: Sequence[str], rows: int) -> int:
        total = sum((self._folder / name).stat().st_size for name in names)
        return max(1, min(SEGMENT_RECORDS, SEGMENT_BYTES * rows // max(1, total)))

    def _between(self, low: str, high: str, old: Sequence[str]) -> segment.Records:
        def records(step: int) -> Iterator[cells.Loose]:
            located = (located for located in self._catalogue.sealed(low, high) if located.place in old)
            return (self._read(one) for one in islice(located, 0, None, step))

        return records


def salvage_segment(path: Path, known: Sequence[Located], quarantine: Path) -> set[str]:
    """Writes what can still be read of a damaged segment into a new one and moves the old file to `quarantine`.

    `known` is what the catalogue says of it. Gives the ids of records that could not be read, as far as they are known.
    """
    ids = {located.at: located.summary.id for located in known}
    stamps = {located.at: located.stamp for located in known}
    kept: set[str] = set()
    with suppress(*segment.UNREADABLE):
        opened = segment.Segment(path)
        ids = {**opened.readable("id"), **ids}
        stamps = {**opened.readable("stamp"), **stamps}
        good = [at for at in sorted(stamps) if _salvaged(opened, at, stamps[at]) is not None]

        def records(step: int) -> Iterator[cells.Loose]:
            return filter(None, (_salvaged(opened, at, stamps[at]) for at in good[::step]))

        segment.write_segment(path.parent, records, len(good), [path.name])
        kept = {record.row[0] for record in records(1)}
    _set_aside(path, quarantine)
    return set(ids.values()) - kept


def _salvaged(opened: segment.Segment, at: int, stamp: str) -> cells.Loose | None:
    """The record with a summary made from its body, since the columns may be damaged; None: it can't be read."""
    with suppress(*segment.UNREADABLE):
        body, items = opened.read(at, stamp)
        trajectory = unpack(body, items)
        return cells.Loose(stamp, to_row(summarize(trajectory, pack(trajectory).content)), body, items)
    return None


def salvage_journal(reader: RecordReader, records: Sequence[Listed], segments: Path, quarantine: Path) -> set[str]:
    """The same for a damaged journal. Records whose frame is gone have no known id."""
    good = [record for record in records if _fault(lambda r=record: reader.read(r.offset), record.row) is None]
    segment.write_segment(
        segments, lambda step: (reader.loose(record) for record in good[::step]), len(good), [reader.path.name]
    )
    _set_aside(reader.path, quarantine)
    kept = {record.row[0] for record in good}
    return {record.row[0] for record in records} - kept


def check_segment(path: Path, known: Sequence[str] = ()) -> list[Problem]:
    """Every byte of a segment, and every record against its summary. `known`: ids that the catalogue has in it."""
    found: list[Problem] = []
    try:
        sound = segment.is_sound(path)
        opened = segment.Segment(path)
        for at, (stamp, *row) in enumerate(opened.listing()):
            reason = _fault(lambda at=at, stamp=stamp: opened.read(at, stamp), row)
            if reason is not None:
                found.append(problems.bad_record(path, row[0], reason))
    except FileNotFoundError:
        return []  # compacted meanwhile
    except InputError as error:
        return [Problem("error", path.name, str(error))]
    except segment.UNREADABLE as error:
        return [*found, problems.bad_segment(path, _short(error), known)]
    if not sound:
        ids = [problem.ids[0] for problem in found]
        reason = "its checksum is wrong" + ("" if ids else ", though every record can be read")
        found.insert(0, problems.bad_segment(path, reason, ids))
    return found


def check_journal(reader: RecordReader, records: Sequence[Listed]) -> list[Problem]:
    """Every record of a journal against its summary."""
    found: list[Problem] = []
    for record in records:
        reason = _fault(lambda record=record: reader.read(record.offset), record.row)
        if isinstance(reason, FileNotFoundError):
            return []  # sealed meanwhile
        if reason is not None:
            found.append(problems.bad_record(reader.path, record.row[0], reason))
    return found


def check_catalogue(catalogue: Catalogue, folder: Path) -> list[Problem]:
    """The catalogue's rows against those that the segments have."""
    rebuilt = Catalogue(folder / "no such file", writable=False)
    try:
        for name, row in catalogue.segments().items():
            with suppress(*segment.UNREADABLE):
                rebuilt.add_segment(row, segment.Segment(folder / name).listing())
        return [problems.bad_catalogue(wrong) for wrong in catalogue.differences(rebuilt)]
    finally:
        rebuilt.close()


def _fault(read: Callable[[], tuple[bytes, tuple[bytes, ...]]], row: Sequence[Any]) -> Exception | str | None:
    """Why the record is not what its summary says; None: it is."""
    try:
        trajectory = unpack(*read())
        again = to_row(summarize(trajectory, pack(trajectory).content))
    except segment.UNREADABLE as error:
        return error
    given = tuple("NaN" if value != value else value for value in row)
    return None if again == given else "its summary does not fit it"


def _set_aside(path: Path, quarantine: Path) -> None:
    with durable.explained(path):
        quarantine.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            os.replace(path, quarantine / path.name)  # noqa: PTH105 - as in durable
        durable.sync_folder(path.parent)


def _short(error: Exception) -> str:
    return (next(iter(str(error).splitlines()), "") or type(error).__name__).rstrip(".")
