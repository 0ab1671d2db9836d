"""The index: which record of each id counts, where it lies, and its summary. Never the truth itself.

`records` is an SQLite file (WAL) over the sealed segments; delete it and it is built again. `fresh` is this process's
own, in a temporary table: what is not sealed yet, and, for readers, segments that the file does not cover yet.
In both, a done record wins over one that is owed again, and of equals the later one.
"""
# ruff: noqa: S608 - the names in these queries are our own columns and tables; values are always bound

import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from trajectories.failures import InfrastructureError
from trajectories.summary import KINDS, Filters, Summary, counts, from_row, where

VERSION = 1
_PAGE = 512

_SQL_KINDS = {"text": "TEXT", "int": "INTEGER", "real": "REAL"}
_COLUMNS = ("done", "stamp", "place", "at", *KINDS)
_NAMES = ", ".join(f'"{name}"' for name in _COLUMNS)
_DECLARED = ", ".join(
    (
        "done INTEGER NOT NULL, stamp TEXT NOT NULL, place TEXT NOT NULL, at INTEGER NOT NULL",
        *(f'"{name}" {_SQL_KINDS[kind]}' for name, kind in KINDS.items()),
        "PRIMARY KEY (id)",
    )
)
_UPDATES = ", ".join(f'"{name}" = excluded."{name}"' for name in _COLUMNS if name != "id")
_BOUNDARY = list(KINDS).index("boundary")

Table = Literal["main.records", "temp.fresh"]


class Located(NamedTuple):
    """The record of an id that counts. `at` is a row of a segment, or the offset in a journal."""

    stamp: str
    place: str
    at: int
    summary: Summary


class SegmentRow(NamedTuple):
    """A segment that `records` covers."""

    name: str
    size: int
    rows: int
    replaces: tuple[str, ...]


class Catalogue:
    """Usable from several threads. `path` None, or a file that can't be used by a reader: all of it is in memory."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        self._lock = threading.RLock()
        self._path = path if writable else None
        existing = _open_file(path) if writable else _open_reader(path)
        self._covers_all = writable or existing is None
        """Whether `records` is ours to write."""
        self._connection = existing or _in_memory()
        self._loose: dict[str, SegmentRow] = {}
        self._snapshots = 0
        self._connection.execute(f"CREATE TEMP TABLE fresh ({_DECLARED})")
        self._connection.execute("CREATE INDEX temp.fresh_place ON fresh (place)")
        self._connection.execute(_LATEST)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def segments(self) -> dict[str, SegmentRow]:
        """All segments that are covered here, by name."""
        with self._reading() as connection:
            return {**self._loose, **{row.name: row for row in _segments(connection)}}

    def add_segment(
        self,
        segment: SegmentRow,
        listing: Iterable[Sequence[Any]],
        exists: Callable[[], bool] = lambda: True,
        *,
        trusted: bool = True,
    ) -> None:
        """Covers a segment. `listing` gives (stamp, summary row ...) of each of its rows, in order.

        Where `records` isn't ours to write, or the segment is not to be trusted, only this object knows of it. One that
        has been replaced meanwhile is not covered: `exists` tells whether its file is still there.
        """
        rows = (_entry(segment.name, at, row[0], row[1:]) for at, row in enumerate(listing))
        if not (trusted and self._covers_all):
            with self._lock, _explained():
                _put(self._connection, "temp.fresh", rows)
                self._loose[segment.name] = segment
        elif self._path is None:
            with self._lock, _explained():
                _cover(self._connection, segment, rows, exists)
        else:
            # A connection of its own: a large segment does not hold up whoever uses the other one.
            with _explained(), closing(_connect(str(self._path))) as connection:
                _cover(connection, segment, rows, exists)

    def forget_segments(self, names: Iterable[str]) -> None:
        """Their records are gone, or stand elsewhere by now."""
        wanted = sorted(names)
        if not wanted:
            return
        with self._lock, _explained():
            if self._covers_all:
                self._connection.execute("BEGIN IMMEDIATE")
                _uncover(self._connection, wanted)
                self._connection.execute("COMMIT")
            for name in wanted:
                self._loose.pop(name, None)
                self._connection.execute("DELETE FROM temp.fresh WHERE place = ?", (name,))

    def add_fresh(self, place: str, records: Iterable[tuple[str, int, Sequence[Any]]]) -> None:
        """Records of a journal as (stamp, offset, summary row)."""
        with self._lock, _explained():
            _put(self._connection, "temp.fresh", (_entry(place, at, stamp, row) for stamp, at, row in records))

    def forget_journal(self, place: str) -> None:
        """The journal is sealed: its records stand in a segment now."""
        with self._lock:
            self._connection.execute("DELETE FROM temp.fresh WHERE place = ?", (place,))

    def find(self, trajectory_id: str) -> Located | None:
        """The record of this id that counts."""
        found = self._rows("id = ?", [trajectory_id])
        return found[0] if found else None

    def count(self) -> int:
        """How many ids there are."""
        with self._reading() as connection:
            return connection.execute("SELECT count(*) FROM temp.latest").fetchone()[0]

    def done_ids(self) -> set[str]:
        """Ids whose record is done."""
        with self._reading() as connection:
            return {row[0] for row in connection.execute("SELECT id FROM temp.latest WHERE done").fetchall()}

    def near(self, prefix: str, limit: int) -> list[str]:
        """Ids that start with the prefix, in order."""
        with self._reading() as connection:
            query = "SELECT id FROM temp.latest WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
            return [row[0] for row in connection.execute(query, (prefix, prefix + chr(0x10FFFF), limit)).fetchall()]

    def last_stamp(self) -> str:
        """The latest stamp of all, "" in an empty store."""
        with self._reading() as connection:
            newest = [connection.execute(f"SELECT max(stamp) FROM {table}").fetchone()[0] for table in _TABLES]
        return max((stamp for stamp in newest if stamp), default="")

    def lying_in(self, place: str) -> list[Located]:
        """Counting records that lie in this file."""
        return self._rows("place = ?", [place])

    def clear(self) -> None:
        """Forgets everything, to be covered anew."""
        with self._lock, _explained():
            self._loose.clear()
            self._connection.execute("DELETE FROM temp.fresh")
            if self._covers_all:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("DELETE FROM main.records")
                self._connection.execute("DELETE FROM main.segments")
                self._connection.execute("COMMIT")

    def sealed_count(self) -> int:
        """How many ids `records` has."""
        with self._reading() as connection:
            return connection.execute("SELECT count(*) FROM main.records").fetchone()[0]

    def sealed_edges(self, each: int) -> list[tuple[str, str]]:
        """Ranges (after, up to) of stamps that cover `records`, with at most `each` records in one."""
        edges, low = list[tuple[str, str]](), ""
        with self._reading() as connection:
            while True:
                query = "SELECT max(stamp) FROM (SELECT stamp FROM main.records WHERE stamp > ? ORDER BY stamp LIMIT ?)"
                high = connection.execute(query, (low, each)).fetchone()[0]
                if high is None:
                    return edges
                edges.append((low, high))
                low = high

    def sealed(self, low: str, high: str) -> Iterator[Located]:
        """The records of `records` after the stamp `low` up to `high`, in order, in constant memory."""
        query = f"SELECT {_NAMES} FROM main.records WHERE stamp > ? AND stamp <= ? ORDER BY stamp LIMIT ?"
        while True:
            with self._reading() as connection:
                rows = connection.execute(query, (low, high, _PAGE)).fetchall()
            if not rows:
                return
            yield from (Located(row[1], row[2], row[3], from_row(row[4:])) for row in rows)
            low = rows[-1][1]

    def differences(self, rebuilt: "Catalogue") -> Iterator[str]:
        """Ids that `records` lacks, has too much, or has otherwise than the rebuilt one. A place may differ: a record
        may stand in two segments."""
        last = ""
        query = f"SELECT {_NAMES} FROM main.records WHERE id > ? ORDER BY id LIMIT ?"
        while True:
            with self._reading() as ours, rebuilt._reading() as theirs:
                left = {row[4]: row for row in ours.execute(query, (last, _PAGE)).fetchall()}
                right = {row[4]: row for row in theirs.execute(query, (last, _PAGE)).fetchall()}
            full = [max(page) for page in (left, right) if len(page) == _PAGE]
            last = min(full, default="")
            ids = {name for name in left.keys() | right.keys() if not full or name <= last}
            yield from sorted(name for name in ids if not _same(left.get(name), right.get(name)))
            if not full:
                return

    def select(self, filters: Filters) -> Iterator[Located]:
        """Each id that matches now, once, in the order in which the records were appended, in constant memory.

        A record that is replaced meanwhile is given as it stands when it is reached; later ids are not seen.
        """
        condition, values = where(filters)
        with self._lock, _explained():
            self._snapshots += 1
            snapshot = f"snapshot_{self._snapshots}"
            query = f"SELECT id FROM temp.latest WHERE {condition} ORDER BY stamp"
            self._connection.execute(f"CREATE TEMP TABLE {snapshot} (n INTEGER PRIMARY KEY, id TEXT)")
            self._connection.execute(f"INSERT INTO temp.{snapshot} (id) {query}", values)
        try:
            yield from self._pages(snapshot)
        finally:
            with self._lock, suppress(sqlite3.ProgrammingError):  # the connection may be closed by now
                self._connection.execute(f"DROP TABLE temp.{snapshot}")

    def _pages(self, snapshot: str) -> Iterator[Located]:
        at = 0
        while True:
            within = f"id IN (SELECT id FROM temp.{snapshot} WHERE n > ? AND n <= ?)"
            page = self._rows(within, [at, at + _PAGE])
            if not page and not self._exists(snapshot, at):
                return
            yield from page
            at += _PAGE

    def _exists(self, snapshot: str, after: int) -> bool:
        with self._reading() as connection:
            return bool(connection.execute(f"SELECT 1 FROM temp.{snapshot} WHERE n > ? LIMIT 1", (after,)).fetchone())

    def _rows(self, condition: str, values: Sequence[Any]) -> list[Located]:
        with self._reading() as connection:
            query = f"SELECT {_NAMES} FROM temp.latest WHERE {condition} ORDER BY stamp"
            rows = connection.execute(query, values).fetchall()
        return [Located(row[1], row[2], row[3], from_row(row[4:])) for row in rows]

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        with self._lock, _explained():
            yield self._connection


_TABLES: tuple[Table, ...] = ("main.records", "temp.fresh")

_LATEST = f"""
CREATE TEMP VIEW latest AS
    SELECT {_NAMES} FROM main.records AS r WHERE NOT EXISTS (
        SELECT 1 FROM temp.fresh AS f WHERE f.id = r.id AND (f.done, f.stamp) > (r.done, r.stamp))
    UNION ALL
    SELECT {_NAMES} FROM temp.fresh AS f WHERE NOT EXISTS (
        SELECT 1 FROM main.records AS r WHERE r.id = f.id AND (r.done, r.stamp) >= (f.done, f.stamp))
"""


def _same(left: Sequence[Any] | None, right: Sequence[Any] | None) -> bool:
    if left is None or right is None:
        return False
    return (*left[:2], *left[4:]) == (*right[:2], *right[4:]) and (left[2] != right[2] or left[3] == right[3])


def _entry(place: str, at: int, stamp: str, row: Sequence[Any]) -> tuple[Any, ...]:
    return (int(counts(row[_BOUNDARY])), stamp, place, at, *("NaN" if value != value else value for value in row))


def _put(connection: sqlite3.Connection, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    marks = ", ".join("?" * len(_COLUMNS))
    name = table.rpartition(".")[2]
    connection.executemany(
        f"INSERT INTO {table} ({_NAMES}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {_UPDATES} "
        f"WHERE (excluded.done, excluded.stamp) >= ({name}.done, {name}.stamp)",
        rows,
    )


def _cover(
    connection: sqlite3.Connection, segment: SegmentRow, rows: Iterable[Sequence[Any]], exists: Callable[[], bool]
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        replaced = {name for known in _segments(connection) for name in known.replaces}
        if segment.name not in replaced and exists():
            _put(connection, "main.records", rows)
            connection.execute(
                "INSERT OR REPLACE INTO main.segments (name, size, rows, replaces) VALUES (?, ?, ?, ?)",
                (segment.name, segment.size, segment.rows, "\n".join(segment.replaces)),
            )
            _uncover(connection, segment.replaces)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _uncover(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    gone = [(name,) for name in names]
    connection.executemany("DELETE FROM main.records WHERE place = ?", gone)
    connection.executemany("DELETE FROM main.segments WHERE name = ?", gone)


def _segments(connection: sqlite3.Connection) -> list[SegmentRow]:
    rows = connection.execute("SELECT name, size, rows, replaces FROM main.segments").fetchall()
    return [
        SegmentRow(name, size, count, tuple(replaces.split("\n")) if replaces else ())
        for name, size, count, replaces in rows
    ]


def _connect(target: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(target, uri=uri, timeout=60, isolation_level=None, check_same_thread=False)


def _open_file(path: Path) -> sqlite3.Connection:
    """The store's own file, built anew where it is damaged or of another version."""
    try:
        return _open_current(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "disk I/O" not in str(error):
            raise InfrastructureError(f"The catalogue {path} can't be opened ({error}).") from error
        discard(path)
        return _open_current(path)


def _open_current(path: Path) -> sqlite3.Connection:
    connection = _connect(str(path))
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"version {version}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        _prepare(connection)
        connection.execute("SELECT name FROM segments").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def discard(path: Path) -> None:
    """Removes the catalogue's files; the next writable opening builds it anew."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _open_reader(path: Path) -> sqlite3.Connection | None:
    """A read-only connection, or None where there is no usable file: readers never repair."""
    with suppress(sqlite3.DatabaseError):
        connection = _connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
                connection.execute("SELECT name FROM segments").fetchall()
                return connection
        except sqlite3.DatabaseError:
            pass
        connection.close()
    return None


def _in_memory() -> sqlite3.Connection:
    connection = _connect(":memory:")
    _prepare(connection)
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"CREATE TABLE IF NOT EXISTS records ({_DECLARED})")
    connection.execute("CREATE INDEX IF NOT EXISTS records_stamp ON records (stamp)")
    connection.execute("CREATE INDEX IF NOT EXISTS records_place ON records (place)")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS segments (name TEXT PRIMARY KEY, size INTEGER, rows INTEGER, replaces TEXT)"
    )
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


@contextmanager
def _explained() -> Generator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise InfrastructureError(
            f"The catalogue can't be used ({error}). The trajectories are safe: free space or make the folder writable."
        ) from error
    except sqlite3.DatabaseError as error:
        raise InfrastructureError(
            f"The catalogue is damaged ({error}). The trajectories are safe: delete catalogue.sqlite; it is built again."
        ) from error
