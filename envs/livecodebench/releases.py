"""Which problems a split names: releases, ranges of shards, windows of contest dates.

    release_v5      shards 1 to 5: all problems up to that release       v5    shard 5 alone: what the release added
    v4_v6           shards 4 to 6, both included                         release_latest, release_v6
    2024-08-01..2025-01-31     contests from one day to another, both included; either side may be left open

Upstream compares dates as midnights, so that a contest later on the last day is left out; here the whole day counts.
"""

import re
from datetime import date
from typing import NamedTuple

from trajectories.failures import InputError

SIZES = (400, 111, 101, 101, 167, 175)
"""Problems in each official shard."""

LAST_DAYS = ("2024-03-02", "2024-05-25", "2024-08-03", "2024-09-28", "2025-01-31", "9999-12-31")
"""Contest days by which a problem is put into a shard where the file doesn't tell. Of the 880 problems of release_v5 they put
401, 512, 611 and 714 into releases 1 to 4, which have 400, 511, 612 and 713."""

_RELEASE = re.compile(r"release_v([1-6])")
_SHARDS = re.compile(r"v([1-6])(?:_v([1-6]))?")
_WINDOW = re.compile(r"(\d{4}-\d\d-\d\d)?\.\.(\d{4}-\d\d-\d\d)?")


class Selection(NamedTuple):
    """Shards from one number to another, and contest days from one to another, all included."""

    first: int = 1
    last: int = len(SIZES)
    since: str = ""
    until: str = "9999-12-31"

    def has(self, shard: int, contest_date: str) -> bool:
        return self.first <= shard <= self.last and self.since <= contest_date[:10] <= self.until

    @property
    def size(self) -> int | None:
        """How many official problems it names; None for a window of dates."""
        return sum(SIZES[self.first - 1 : self.last]) if self._has_no_window else None

    @property
    def _has_no_window(self) -> bool:
        return not self.since and self.until == "9999-12-31"


def selection(name: str) -> Selection | None:
    """What a split's name selects; None where it is no such name. InputError for a day or a range that there isn't."""
    if name == "release_latest":
        return Selection()
    if found := _RELEASE.fullmatch(name):
        return Selection(last=int(found[1]))
    if found := _SHARDS.fullmatch(name):
        first, last = int(found[1]), int(found[2] or found[1])
        if first > last:
            raise InputError(f"The split {name!r} ends before it begins: write 'v{last}_v{first}'.")
        return Selection(first, last)
    if (found := _WINDOW.fullmatch(name)) and name != "..":
        return Selection(since=_day(found[1] or "", name), until=_day(found[2] or "9999-12-31", name))
    return None


def shard_by_date(contest_date: str) -> int:
    """The shard that a contest's day falls into, from 1."""
    return next(number for number, day in enumerate(LAST_DAYS, 1) if contest_date[:10] <= day)


def _day(text: str, name: str) -> str:
    try:
        return date.fromisoformat(text).isoformat() if text else ""
    except ValueError as error:
        raise InputError(f"The split {name!r} names a day that there isn't ({error}).") from error


class Splits(tuple[str, ...]):
    """A benchmark's splits. It lists those that share no task, and has their parts too: releases, ranges and windows.

    Asking for a name that is nearly such a part raises InputError with the forms that there are.
    """

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        if not isinstance(name, str):
            return False
        if selection(name) is None and _NEARLY.match(name):
            raise InputError(f"There is no split {name!r}: {FORMS}")
        return selection(name) is not None


FORMS = "test (all), release_v1 to release_v6, release_latest, shards such as v5 or v4_v6, or contest days such as 2024-08-01..2025-01-31."
_NEARLY = re.compile(r"release|v[0-9]|[0-9]{4}-|.*\.\.")
