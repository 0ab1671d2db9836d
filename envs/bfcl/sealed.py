"""What upstream's simulators see of Python: the same in each process, thread, time zone and year, and no way out.

- the only modules are the eight that the files import, and builtins are those that they use: no `open`, no `eval`;
- `datetime` reads timestamps as UTC, and "now" is the day on which the pinned wheel appeared, where upstream takes
  the host's zone and clock (TravelAPI compares dates of birth with today);
- sets iterate and print sorted, where upstream's order of strings changes with each process;
- `mpmath` has one context per thread, where upstream sets the precision of the whole process.

This is no sandbox: it makes trusted code repeatable. That the code can be trusted rests on the pinned hashes alone.
"""

import _strptime  # type: ignore[import-not-found] - has no stub
import copy
import datetime
import decimal
import marshal
import math
import random
import threading
import time
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Self

BUILTINS = [
    "Exception",
    "KeyError",
    "OverflowError",
    "TypeError",
    "ValueError",
    "__build_class__",
    "abs",
    "any",
    "bool",
    "dict",
    "dir",
    "float",
    "getattr",
    "id",
    "int",
    "isinstance",
    "len",
    "list",
    "max",
    "min",
    "object",
    "range",
    "reversed",
    "round",
    "sorted",
    "str",
    "sum",
    "super",
    "vars",
    "zip",
]
NOW = datetime.datetime(2025, 8, 6)


class SortedSet(set[Any]):
    """A set whose order does not depend on the process."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__(), key=repr))

    def __sub__(self, other: Any) -> "SortedSet":
        return SortedSet(super().__sub__(other))

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self))}}}" if self else "set()"


def deep_copy(value: Any) -> Any:
    """`copy.deepcopy`, many times as fast for JSON-like data."""
    try:
        return marshal.loads(marshal.dumps(value))  # noqa: S302 - what was dumped a moment ago
    except ValueError:
        return {key: deep_copy(item) for key, item in value.items()} if type(value) is dict else copy.deepcopy(value)


class _UtcDatetime(datetime.datetime):
    """`datetime` on a machine in UTC whose clock stands still."""

    @classmethod
    def fromtimestamp(cls, timestamp: float, tz: datetime.tzinfo | None = None) -> Self:
        moment = super().fromtimestamp(timestamp, tz or datetime.UTC)
        return moment if tz else moment.replace(tzinfo=None)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Self:
        return cls(NOW.year, NOW.month, NOW.day, tzinfo=tz)

    @classmethod
    def today(cls) -> Self:
        return cls.now()

    def timestamp(self) -> float:
        return super().timestamp() if self.tzinfo else self.replace(tzinfo=datetime.UTC).timestamp()


class _Mpmath(threading.local):
    """What the simulators use of mpmath, on a context of this thread's own."""

    def __init__(self) -> None:
        import mpmath

        self.mp = mpmath.MPContext()

    def log(self, number: Any) -> Any:
        with _LOGARITHMS:
            return self.mp.log(number)


_LOGARITHMS = threading.Lock()
"""mpmath memoises constants and their precision in two steps: a thread in between would compute nonsense."""


class _LazyMpmath:
    """Loads mpmath when the first logarithm is taken."""

    def __init__(self) -> None:
        self._contexts: _Mpmath | None = None

    def __getattr__(self, name: str) -> Any:
        if self._contexts is None:
            self._contexts = _Mpmath()
        return getattr(self._contexts, name)


MODULES: Mapping[str, Any] = {
    "copy": types.SimpleNamespace(deepcopy=deep_copy),
    "datetime": types.SimpleNamespace(datetime=_UtcDatetime, time=datetime.time, timedelta=datetime.timedelta),
    "decimal": decimal,
    "math": math,
    "mpmath": _LazyMpmath(),
    "random": random,
    "subprocess": types.SimpleNamespace(),
    "typing": typing,
    # No simulator imports these: the methods of `datetime` do, in the frame of whoever calls them.
    "_strptime": _strptime,
    "time": time,
}
