"""The trajectory store: append, look up, query. A record is one finished episode or nothing.

    STORE/store.json                what it is, and its schema version
    STORE/journals/ID.journal       one for each writer at work: what it reported done since the last sealing
    STORE/segments/*.parquet        sealed and immutable
    STORE/catalogue.sqlite          an index, built again whenever it is missing

`append` returns when the record is on the disk. Any number of processes may write and read at once, each through its own
Store. A kill at any byte loses nothing that was reported done; what was being written is owed again. The latest record
of an id wins, but a fault of ours never replaces a done one.
"""

import json
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, Unpack

from trajectories import cells, durable, journal, problems, segment, upkeep
from trajectories.catalogue import Catalogue, Located, SegmentRow
from trajectories.failures import InfrastructureError, InputError
from trajectories.journal_records import RecordReader, RecordWriter, compress_body
from trajectories.packing import pack, unpack
from trajectories.problems import Problem, StoreDamaged
from trajectories.schema import SCHEMA_VERSION, Trajectory, Verdict
from trajectories.sealing import Sealable, Sealer, is_live, lock_orphan, remove_stale, winners
from trajectories.summary import Filters, Summary, summarize, to_row
from trajectories.upkeep import Compacted

__all__ = ["Compacted", "Filters", "Problem", "Store", "StoreDamaged", "Summary", "find_store"]

FORMAT = 1
FOLDER_IN_RUN = "trajectories"
"""Where a run folder keeps its store."""
SEAL_RECORDS = 4096
SEAL_BYTES = 32 << 20

_MARKER = "store.json"
_WHAT = "harness trajectory store"
_OPEN_SEGMENTS = 64


def find_store(path: Path) -> Path:
    """The store's folder, given it or a run's folder. InputError where there is none."""
    for candidate in (path, path / FOLDER_IN_RUN):
        if (candidate / _MARKER).is_file():
            return candidate
    raise InputError(f"{path} is neither a trajectory store nor a run folder: there is no {_MARKER} in it.")


class Store:
    """Use `Store.create` or `Store.open`, best in a `with` block. All methods may be called from several threads."""

    def __init__(self, path: Path, *, writable: bool, damaged_ok: bool) -> None:
        self.path = path
        self.notices: list[Problem] = []
        """What opening found and mended, such as a torn tail."""
        self.problems: list[Problem] = []
        """What opening found damaged, where `damaged_ok` let it go on."""
        self._writable, self._damaged_ok = writable, damaged_ok
        self._journals, self._segments = path / "journals", path / "segments"
        self._lock = threading.RLock()
        self._settled = threading.Condition(self._lock)
        self._pid = os.getpid()
        self._writer: RecordWriter | None = None
        self._own: set[str] = set()
        self._readers: dict[str, RecordReader] = {}
        self._opened: OrderedDict[str, segment.Segment] = OrderedDict()
        self._cache = segment.new_cache()
        self._sealer = Sealer(self._seal_journal)
        self._tick = _Clock()
        self._catalogue = Catalogue(path / "catalogue.sqlite", writable=writable)
        try:
            self._refresh()
            if writable:
                self._adopt_orphans()
        except BaseException:
            self._catalogue.close()
            raise

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """A new, empty store, open for writing. InputError where the folder holds anything already."""
        folder = Path(path)
        if (folder / _MARKER).exists():
            raise InputError(f"{folder} already is a trajectory store: open it instead.")
        if folder.exists() and not all(_unfinished(entry) for entry in folder.iterdir()):
            raise InputError(f"{folder} is not empty: a new trajectory store needs a folder of its own.")
        with durable.explained(folder):
            for part in ("journals", "segments"):
                (folder / part).mkdir(parents=True, exist_ok=True)
            marker = {"what": _WHAT, "format": FORMAT, "schema_version": SCHEMA_VERSION}
            durable.write_file(folder / _MARKER, json.dumps(marker).encode())
            durable.sync_folder(folder.parent)
        return cls.open(folder, writable=True)

    @classmethod
    def open(cls, path: str | os.PathLike[str], writable: bool = False, *, damaged_ok: bool = False) -> Self:
        """An existing store. A reader sees all that any writer reported done, and changes nothing.

        Raises InputError for a folder that is no store, a newer version, or one that can't be written;
        StoreDamaged where a file is damaged, unless `damaged_ok`: then reading just those records raises it.
        """
        folder = Path(path)
        _check_marker(folder)
        if writable:
            _check_writable(folder)
        return cls(folder, writable=writable, damaged_ok=damaged_ok)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(InfrastructureError, InputError):
                self.close()

    def close(self) -> None:
        """Seals what this store wrote. Where that fails, nothing is lost: the next writable opening does it."""
        try:
            if self._writable:
                self.seal()
        finally:
            self._sealer.stop()
            with self._lock:
                self._writable = False
                if self._writer is not None:
                    self._writer.close()
                    self._writer = None
                self._opened.clear()
                self._catalogue.close()

    def append(self, trajectory: Trajectory) -> None:
        """Stores one finished episode; it is on the disk when this returns. Concurrent appends share one fsync.

        InfrastructureError where it can't be written: then it is not stored, and all that was stored is safe.
        """
        packed = pack(trajectory)
        summary = summarize(trajectory, packed.content)
        compressed = compress_body(packed.body)
        with self._lock:
            writer = self._open_writer()
            stamp = self._tick.next()
            frame = writer.append(stamp, summary, packed, compressed)
            writer.waiting += 1
        try:
            writer.wait_durable(frame.end)
            with self._lock:
                self._catalogue.add_fresh(writer.path.name, [(stamp, frame.offset, to_row(summary))])
        finally:
            with self._settled:
                writer.waiting -= 1
                self._settled.notify_all()
        with self._lock:
            if writer is self._writer and (writer.records >= SEAL_RECORDS or writer.size >= SEAL_BYTES):
                self._rotate()

    def amend_verdicts(self, trajectory_id: str, verdicts: Mapping[str, Verdict]) -> None:
        """Replaces the verdicts of a stored trajectory, durably; nothing else of it changes. KeyError: no such id."""
        self.append(self.get(trajectory_id).model_copy(update={"verdicts": dict(verdicts)}))

    def done_ids(self) -> set[str]:
        """Ids that need not be played again."""
        self._refresh()
        return self._catalogue.done_ids()

    def get(self, trajectory_id: str) -> Trajectory:
        """The trajectory of this id. KeyError where there is none."""
        self._refresh()
        located = self._catalogue.find(trajectory_id)
        if located is None:
            raise KeyError(trajectory_id)
        return self._trajectory(located)

    def ids(self, prefix: str, limit: int = 20) -> list[str]:
        """Ids that start with the prefix."""
        self._refresh()
        return self._catalogue.near(prefix, limit)

    def summaries(self, **filters: Unpack[Filters]) -> Iterator[Summary]:
        """Summaries of all trajectories that pass the filters, in the order of their records. Reads no bodies."""
        self._refresh()
        return (located.summary for located in self._catalogue.select(filters))

    def iterate(self, **filters: Unpack[Filters]) -> Iterator[Trajectory]:
        """All trajectories that pass the filters, each id once, in the order of their records, in constant memory."""
        self._refresh()
        return (self._trajectory(located) for located in self._catalogue.select(filters))

    def __iter__(self) -> Iterator[Trajectory]:
        return self.iterate()

    def __len__(self) -> int:
        """How many ids are stored, those that are owed again included."""
        self._refresh()
        return self._catalogue.count()

    def __contains__(self, trajectory_id: object) -> bool:
        self._refresh()
        return isinstance(trajectory_id, str) and self._catalogue.find(trajectory_id) is not None

    def size_bytes(self) -> int:
        """What journals and segments take on the disk; the catalogue is not counted."""
        return sum(_size(path) for folder in (self._journals, self._segments) for path in folder.iterdir())

    def seal(self) -> None:
        """Turns what this store wrote so far into a segment; returns when it is done."""
        with self._lock:
            self._check_writable()
            self._rotate()
        self._sealer.drain()

    def compact(self, *, drop_damaged: bool = False) -> Compacted:
        """Merges all segments and leaves out superseded records. A crash in it changes nothing that is visible.

        StoreDamaged where a record can't be read, unless `drop_damaged`: then those are left out, to be played
        again, and damaged files are moved to STORE/damaged. Journals of writers at work stay as they are.
        """
        self.seal()
        with _only_one(self.path / "compact.lock"):
            before = self.size_bytes()
            dropped = self._salvage() if drop_damaged else ()
            self._refresh()
            rows = sum(row.rows for row in self._catalogue.segments().values())
            merger = upkeep.Merger(self._segments, self._catalogue, self._loose)
            replaced = merger.run(self._index_segment)
            self._remove_segments(replaced)
            records = self._catalogue.sealed_count()
            return Compacted(records, rows - records, before, self.size_bytes(), dropped)

    def verify(self) -> list[Problem]:
        """Reads everything and compares: checksums, bodies with their summaries, the catalogue with the segments."""
        opening, damaged = self._take_in(), list[Problem]()
        for name in sorted(_names(self._segments, segment.SUFFIX)):
            damaged.extend(upkeep.check_segment(self._segments / name, _ids(self._catalogue.lying_in(name))))
        closer = {problem.place for problem in damaged}
        found = [*self.notices, *(problem for problem in opening if problem.place not in closer), *damaged]
        for name in sorted(_names(self._journals, journal.SUFFIX)):
            found.extend(self._check_journal(self._journals / name))
        # Of a damaged segment the catalogue alone knows what it held: nobody is told to delete it then.
        if not any(problem.place.endswith(segment.SUFFIX) for problem in found):
            found.extend(upkeep.check_catalogue(self._catalogue, self._segments))
        return list(dict.fromkeys(found))

    def _open_writer(self) -> RecordWriter:
        self._check_writable()
        if self._writer is not None and self._writer.broken:
            self._rotate()
        if self._writer is None:
            self._writer = RecordWriter(self._journals)
            self._own.add(self._writer.path.name)
        return self._writer

    def _check_writable(self) -> None:
        if not self._writable:
            raise RuntimeError(f"The store {self.path} is closed or open for reading only: open it with writable=True.")
        if os.getpid() != self._pid:
            raise RuntimeError(f"The store {self.path} was opened before a fork: each process opens its own Store.")

    def _rotate(self) -> None:
        """Goes on with a new journal; the old one is sealed in the background."""
        if self._writer is not None:
            self._sealer.put(Sealable(self._writer.path, self._writer.release(), self._writer))
            self._writer = None

    def _seal_journal(self, sealable: Sealable) -> None:
        """Journal to segment. Killed at any point, the next opening does the rest: nothing is lost or there twice."""
        with self._settled:
            self._settled.wait_for(lambda: sealable.writer is None or not sealable.writer.waiting)
        reader = RecordReader(sealable.path)
        records = winners(reader.refresh())
        try:
            sealed = segment.write_segment(
                self._segments,
                lambda step: (reader.loose(listed) for listed in records[::step]),
                len(records),
                [sealable.path.name],
            )
        except cells.UNREADABLE as error:
            raise StoreDamaged(self.path, [problems.bad_record(sealable.path, "of this run", error)]) from error
        if sealed is not None:
            self._index_segment(sealed)
        with durable.explained(sealable.path):
            durable.remove(sealable.path)
            durable.sync_folder(self._journals)
        os.close(sealable.fd)
        with self._lock:
            self._forget_journal(sealable.path.name)

    def _refresh(self) -> None:
        """Takes in what other processes added, sealed or compacted. Raises StoreDamaged unless told not to."""
        found = self._take_in()
        if found and not self._damaged_ok:
            raise StoreDamaged(self.path, found)
        self.problems.extend(problem for problem in found if problem not in self.problems)

    def _take_in(self) -> list[Problem]:
        with self._lock:
            found = self._read_journals() + self._read_segments()
            self._tick.pass_by(self._catalogue.last_stamp())
        return found

    def _read_journals(self) -> list[Problem]:
        # Journals come before segments: one that vanishes in between is in a segment by then.
        found: list[Problem] = []
        for name in sorted(_names(self._journals, journal.SUFFIX) - self._own - self._replaced()):
            reader = self._readers.setdefault(name, RecordReader(self._journals / name))
            with suppress(FileNotFoundError):
                records = reader.refresh()
                self._catalogue.add_fresh(name, [(at.stamp, at.offset, at.row) for at in records])
            found.extend(_journal_problems(reader))
        return found

    def _read_segments(self) -> list[Problem]:
        found: list[Problem] = []
        for _ in range(3):  # a segment that is compacted away meanwhile looks missing once
            found = self._index_new()
            known, replaced = self._catalogue.segments(), self._replaced()
            self._catalogue.forget_segments(known.keys() & replaced)
            changed = [problem for name in sorted(known.keys() - replaced) for problem in self._changed(known[name])]
            if not changed:
                break
            found.extend(changed)
        for name in set(self._readers) - _names(self._journals, journal.SUFFIX):
            self._forget_journal(name)
        return found

    def _replaced(self) -> set[str]:
        """Files whose records all stand in some segment, should they still be there."""
        return {name for row in self._catalogue.segments().values() for name in row.replaces}

    def _index_new(self) -> list[Problem]:
        """Covers the segments that are new here, but for those that another one replaces."""
        replaced = self._replaced()
        new = _names(self._segments, segment.SUFFIX) - self._catalogue.segments().keys() - replaced
        sound, damaged = list[Path](), list[Path]()
        for path in sorted(self._segments / name for name in new):
            with suppress(FileNotFoundError):  # compacted away meanwhile
                if segment.is_sound(path):
                    replaced.update(segment.describe(path).replaces)
                    sound.append(path)
                else:
                    damaged.append(path)
        for path in sound:
            if path.name not in replaced:
                with suppress(FileNotFoundError):
                    self._index_segment(path)
        return [self._index_damaged(path) for path in damaged if path.name not in replaced]

    def _index_damaged(self, path: Path) -> Problem:
        with suppress(*segment.UNREADABLE):
            self._index_segment(path, trusted=False)
        return problems.bad_segment(path, "its checksum is wrong", _ids(self._catalogue.lying_in(path.name)))

    def _index_segment(self, path: Path, *, trusted: bool = True) -> None:
        opened = segment.Segment(path)
        row = SegmentRow(path.name, path.stat().st_size, opened.rows, opened.described.replaces)
        self._catalogue.add_segment(row, opened.listing(), path.exists, trusted=trusted)

    def _changed(self, row: SegmentRow) -> list[Problem]:
        """What is wrong with a segment that the catalogue knows, as far as its size tells."""
        path = self._segments / row.name
        size = _size(path, missing=-1)
        ids = [] if size == row.size else _ids(self._catalogue.lying_in(row.name))
        if not ids:
            return []
        reason = "it is missing" if size < 0 else f"it has {size} bytes instead of {row.size}"
        return [problems.bad_segment(path, reason, ids)]

    def _adopt_orphans(self) -> None:
        """Seals journals whose writers died, in the background, and removes what is dead."""
        replaced = self._replaced()
        for name in sorted(_names(self._journals, journal.SUFFIX) - self._own):
            orphan = lock_orphan(self._journals / name)
            if orphan is not None and not self._adopt(orphan, replaced):
                os.close(orphan.fd)
        self._remove_segments(replaced & _names(self._segments, segment.SUFFIX))
        for folder in (self._journals, self._segments):
            remove_stale(folder)

    def _adopt(self, orphan: Sealable, replaced: set[str]) -> bool:
        """Whether the journal was given to the sealer; a damaged one waits for `compact(drop_damaged=True)`."""
        if orphan.path.name in replaced:
            durable.remove(orphan.path)
            return False
        reader = self._readers.setdefault(orphan.path.name, RecordReader(orphan.path))
        if _journal_problems(reader):
            return False
        if reader.tail is not None:
            self.notices.append(problems.torn_tail(orphan.path, reader.tail.end - reader.tail.offset))
        self._sealer.put(orphan)
        return True

    def _salvage(self) -> tuple[str, ...]:
        """Sets damaged files aside after saving what can be read of them, and builds the catalogue anew.

        Gives the ids that are owed again. Where an older record of an id is left, that one counts from now on.
        """
        quarantine = self.path / "damaged"
        lost = {name for problem in self._take_in() for name in problem.ids}
        for name in sorted(_names(self._segments, segment.SUFFIX)):
            if upkeep.check_segment(self._segments / name):
                lost.update(upkeep.salvage_segment(self._segments / name, self._catalogue.lying_in(name), quarantine))
        for name in sorted(_names(self._journals, journal.SUFFIX)):
            lost.update(self._salvage_journal(self._journals / name, quarantine))
        with self._lock:
            self._opened.clear()
            self._readers.clear()
            self._catalogue.clear()
        self._take_in()
        return tuple(sorted(lost - self._catalogue.done_ids()))

    def _salvage_journal(self, path: Path, quarantine: Path) -> set[str]:
        orphan = lock_orphan(path)
        if orphan is None:
            return set()
        try:
            reader = RecordReader(path)
            records = reader.refresh()
            if not _journal_problems(reader) and not upkeep.check_journal(reader, records):
                return set()
            return upkeep.salvage_journal(reader, records, self._segments, quarantine)
        finally:
            os.close(orphan.fd)

    def _remove_segments(self, names: Iterable[str]) -> None:
        gone = set(names)
        for name in gone:
            with durable.explained(self._segments / name):
                durable.remove(self._segments / name)
        if gone:
            durable.sync_folder(self._segments)
        with self._lock:
            for name in gone:
                self._opened.pop(name, None)

    def _check_journal(self, path: Path) -> list[Problem]:
        reader = RecordReader(path)
        try:
            found = upkeep.check_journal(reader, reader.refresh())
        except FileNotFoundError:
            return []
        found.extend(_journal_problems(reader))
        if reader.tail is not None and not is_live(path):
            found.append(problems.torn_tail(path, reader.tail.end - reader.tail.offset))
        return found

    def _forget_journal(self, name: str) -> None:
        self._catalogue.forget_journal(name)
        self._readers.pop(name, None)
        self._own.discard(name)

    def _trajectory(self, located: Located) -> Trajectory:
        for _ in range(8):
            try:
                trajectory = unpack(*self._read(located))
                if trajectory.id != located.summary.id:
                    raise ValueError(f"It holds {trajectory.id} instead.")
                return trajectory
            except FileNotFoundError:
                pass  # sealed or compacted meanwhile: it has moved
            except segment.UNREADABLE as error:
                raise StoreDamaged(self.path, [self._bad_record(located, error)]) from error
            self._refresh()
            located = self._catalogue.find(located.summary.id) or located
        raise StoreDamaged(self.path, [self._bad_record(located, "the file is missing")])

    def _bad_record(self, located: Located, reason: Exception | str) -> Problem:
        folder = self._journals if located.place.endswith(journal.SUFFIX) else self._segments
        return problems.bad_record(folder / located.place, located.summary.id, reason)

    def _loose(self, located: Located) -> cells.Loose:
        """A record for another segment."""
        try:
            return cells.Loose(located.stamp, to_row(located.summary), *self._read(located))
        except segment.UNREADABLE as error:
            raise StoreDamaged(self.path, [self._bad_record(located, error)]) from error

    def _read(self, located: Located) -> tuple[bytes, tuple[bytes, ...]]:
        if located.place.endswith(journal.SUFFIX):
            return self._reader(located.place).read(located.at)
        return self._segment(located.place).read(located.at, located.stamp)

    def _reader(self, name: str) -> RecordReader:
        with self._lock:
            return self._readers.get(name) or RecordReader(self._journals / name)

    def _segment(self, name: str) -> segment.Segment:
        with self._lock:
            opened = self._opened.get(name)
            if opened is None:
                opened = self._opened[name] = segment.Segment(self._segments / name, self._cache)
                if len(self._opened) > _OPEN_SEGMENTS:
                    self._opened.popitem(last=False)
            self._opened.move_to_end(name)
            return opened


class _Clock:
    """Stamps that only grow, also when the system's clock steps back or another process was ahead."""

    def __init__(self) -> None:
        self._last = 0
        self._writer = secrets.token_hex(4)

    def next(self) -> str:
        self._last = max(time.time_ns(), self._last + 1)
        return f"{self._last:016x}-{self._writer}"

    def pass_by(self, stamp: str) -> None:
        """The next stamp will be later than this one."""
        if stamp:
            self._last = max(self._last, int(stamp[:16], 16))


def _unfinished(entry: Path) -> bool:
    """Whether this is left of a process that died while it made a store."""
    return entry.name in ("journals", "segments") or (entry.name.startswith(f".{_MARKER}.") and entry.suffix == ".tmp")


def _check_marker(folder: Path) -> None:
    try:
        said = json.loads((folder / _MARKER).read_bytes())
        version, schema = int(said["format"]), int(said["schema_version"])
    except FileNotFoundError:
        raise InputError(f"{folder} is no trajectory store: there is no {_MARKER} in it.") from None
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"{folder / _MARKER} can't be read ({error}): this is no trajectory store.") from error
    if version > FORMAT or schema > SCHEMA_VERSION:
        raise InputError(
            f"The store {folder} has format {version} and schema version {schema}, this version reads up to {FORMAT} "
            f"and {SCHEMA_VERSION}: upgrade lopd-harness."
        )


def _check_writable(folder: Path) -> None:
    probe = folder / f".probe.{os.getpid()}.{secrets.token_hex(4)}"
    with durable.explained(folder):
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        durable.remove(probe)


def _ids(records: Iterable[Located]) -> list[str]:
    return [located.summary.id for located in records]


def _names(folder: Path, suffix: str) -> set[str]:
    return {name for name in os.listdir(folder) if name.endswith(suffix) and not name.startswith(".")}  # noqa: PTH208


def _size(path: Path, missing: int = 0) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return missing


def _journal_problems(reader: RecordReader) -> list[Problem]:
    found = [problems.lost_frames(reader.path, gap.offset, gap.end) for gap in reader.gaps]
    if reader.header is not None and not reader.header.sound:
        found.append(problems.bad_header(reader.path))
    return found


@contextmanager
def _only_one(path: Path) -> Generator[None]:
    """Holds the lock file while the block runs. InputError where another process does."""
    with durable.explained(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not durable.try_lock(fd):
            raise InputError(f"Another process compacts {path.parent} right now: wait until it is done.")
        yield
    finally:
        os.close(fd)
