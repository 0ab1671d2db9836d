"""Values over the wall: inputs go in by `marshal` (we trust ourselves), results come out as JSON of a closed set of types.

The forms are told by `pack` in supervisor.py, which runs beside untrusted code: here each is checked before anything is built.
"""

import base64
import binascii
import json
import marshal
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

MAX_DEPTH = 220
"""Nesting of a value; the jail stops at 200."""
MAX_SET = 50_000
"""Items of a set or dict whose keys aren't all text: more could be chosen so that each collides with all others."""
MAX_EQUAL_HASHES = 64
MAX_FRACTION_BITS = 1 << 14
MAX_RANGE = 1 << 20
"""Items of a range, which has so many without taking any room: whoever puts them into a list or a set pays for them."""
MAX_SPREAD = 1 << 24
_DTYPE = re.compile(r"[<>|=]?[biufcSU][0-9]{1,7}")


class Undecodable(ValueError):
    """The bytes are no value, or a bomb."""


class Unsendable(ValueError):
    """An input of a type that can't go in."""


def encode_call(action: str, name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> bytes:
    """One request to the child. Unsendable for a type that `marshal` doesn't know (only builtin data goes in)."""
    try:
        return marshal.dumps((action, name, tuple(args), kwargs), 3)
    except ValueError as error:
        raise Unsendable(f"Only builtin data types can be sent into a sandbox: {error}.") from error


def decode(body: bytes) -> Any:
    """The value that these bytes stand for: None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range,
    deque, Fraction, Decimal, a numpy array or scalar. Raises Undecodable for all else."""
    try:
        value = json.loads(body, object_hook=_revive)
        if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
            _require_shallow(value)
    except Undecodable:
        raise
    except (ValueError, TypeError, LookupError, OverflowError, ArithmeticError, MemoryError, RecursionError) as error:
        raise Undecodable(f"{type(error).__name__}: {error}"[:200]) from error
    return value


def _revive(form: dict[str, Any]) -> Any:
    if len(form) != 1:
        raise Undecodable(f"a form with {len(form)} tags")
    ((tag, content),) = form.items()
    if tag not in _REVIVERS:
        raise Undecodable(f"no such tag: {tag[:20]!r}")
    return _REVIVERS[tag](content)


def _listed(content: Any) -> list[Any]:
    if type(content) is not list:
        raise Undecodable(f"a {type(content).__name__} where a list is due")
    return cast("list[Any]", content)


def _hashable(items: list[Any]) -> list[Any]:
    """The items, where putting them into a hash table is no attack on it."""
    if set(map(type, items)) <= {str} or len(items) <= MAX_EQUAL_HASHES:
        return items
    if len(items) > MAX_SET or max(Counter(map(hash, items)).values()) > MAX_EQUAL_HASHES:
        raise Undecodable(f"{len(items)} keys that a hash table would choke on")
    return items


def _dict(content: Any) -> dict[Any, Any]:
    items = _listed(content)
    return dict(zip(_hashable(items[::2]), items[1::2], strict=True))


def _int(content: Any) -> int:
    if type(content) is not str or not content.lstrip("-").startswith("0x"):
        raise Undecodable("a long int that is not in hex")
    return int(content, 16)


def _bytes(content: Any) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise Undecodable("bytes that are not in base 64") from error


def _complex(content: Any) -> complex:
    real, imaginary = _listed(content)
    return complex(_number(real), _number(imaginary))


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise Undecodable("a part that is no number")
    return float(value)


def _ints(content: Any, count: int) -> list[int]:
    values = _listed(content)
    if len(values) != count or any(type(value) is not int for value in values):
        raise Undecodable(f"not {count} ints")
    return cast("list[int]", values)


def _short_ints(content: Any) -> list[int]:
    """Two ints of which the greatest common divisor is soon found."""
    values = _ints(content, 2)
    if any(value.bit_length() > MAX_FRACTION_BITS for value in values):
        raise Undecodable("a fraction of very long ints")
    return values


def _decimal(content: Any) -> Decimal:
    if type(content) is not str or len(content) > 10_000:
        raise Undecodable("no decimal number")
    found = Decimal(content)
    if found.is_snan():
        raise Undecodable("a number that raises where it is compared")
    return found


def _range(content: Any) -> range:
    found = range(*_ints(content, 3))
    if len(found) > MAX_RANGE:
        raise Undecodable(f"a range of {len(found)} items")
    return found


def _array(content: Any) -> Any:
    """An array of plain numbers or text. The bytes have to be there: a shape alone allocates nothing."""
    import numpy as np

    code, shape, data = _listed(content)
    if type(code) is not str or not _DTYPE.fullmatch(code):
        raise Undecodable("no type of plain values")
    kind = np.dtype(code)
    raw = _bytes(data)
    sizes = _ints(shape, len(_listed(shape)))
    if any(size < 0 for size in sizes):
        raise Undecodable("an array of negative size")
    if len(raw) != math.prod(sizes) * kind.itemsize:
        raise Undecodable("an array whose shape and bytes disagree")
    if not kind.itemsize:
        return np.zeros(sizes, kind) if math.prod(sizes) <= len(data) + 1 else _refuse_empty()
    return np.frombuffer(raw, kind).reshape(sizes).copy()


def _refuse_empty() -> Any:
    raise Undecodable("an array of many empty items")


def _scalar(content: Any) -> Any:
    array = _array(content)
    if array.shape != ():
        raise Undecodable("a scalar with a shape")
    return array[()]


_REVIVERS: dict[str, Callable[[Any], Any]] = {
    "t": lambda content: tuple(_listed(content)),
    "s": lambda content: set(_hashable(_listed(content))),
    "f": lambda content: frozenset(_hashable(_listed(content))),
    "d": _dict,
    "i": _int,
    "b": _bytes,
    "c": _complex,
    "r": _range,
    "q": lambda content: Fraction(*_short_ints(content)),
    "m": _decimal,
    "u": lambda content: deque(_listed(content)),
    "n": _array,
    "g": _scalar,
}


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise Undecodable(f"nested deeper than {MAX_DEPTH}")


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        return [part for pair in pairs.items() for part in pair if isinstance(part, _CONTAINERS)]
    if isinstance(value, _CONTAINERS):
        return [part for part in cast("Iterable[Any]", value) if isinstance(part, _CONTAINERS)]
    return ()


_CONTAINERS = (list, tuple, set, frozenset, dict, deque)


def array_items(value: Any) -> int:
    """Items of all numpy arrays in a decoded value, 0 where there is none. Compared with a list, each may be spread over all of it."""
    found = 0
    level: list[Any] = [value]
    while level:
        found += sum(part.size for part in level if type(part).__name__ == "ndarray")
        level = [inner for part in level if isinstance(part, _CONTAINERS) for inner in _not_flat(part)]
    return found


def _not_flat(container: Any) -> Iterable[Any]:
    items: Any = container.values() if isinstance(container, dict) else container
    if set(map(type, items)) <= _FLAT:
        return ()
    return [item for item in items if type(item) not in _FLAT]


_FLAT = frozenset((int, float, str, bool, type(None)))


def spreads_too_far(value: Any, other: Any) -> bool:
    """Whether comparing a decoded value with `other`, which is ours, could take memory without bound."""
    items = array_items(value)
    return items > 1 and items * max(1, _leaves(other)) > MAX_SPREAD


def _leaves(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(map(_leaves, cast("Iterable[Any]", value)))
    return getattr(value, "size", 1)


def as_set(items: Iterable[Any]) -> set[Any]:
    """The set of items that came out of a jail. Undecodable where they were chosen so that a hash table chokes on them."""
    found: set[Any] = set()
    equal: Counter[int] = Counter()
    for item in items:
        before = len(found)
        key = hash(item)
        if equal[key] >= MAX_EQUAL_HASHES:
            raise Undecodable("items that a hash table would choke on")
        found.add(item)
        equal[key] += len(found) - before
    return found
