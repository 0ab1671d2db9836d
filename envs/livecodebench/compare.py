"""Whether an output is the expected one. Pure functions, on the host; `official` as upstream, `strict` where that is too lax."""

import re
import warnings
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from envs.sandbox.values import array_items, spreads_too_far

Number = Callable[[str], Decimal]

_PLAIN_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")


_CANT_COMPARE = (ValueError, TypeError, ArithmeticError, RecursionError)


class Uncomparable(ValueError):
    """Upstream's grader fails on this output: [-4] for the whole solution."""


def same_output(got: str, expected: str, number: Number = Decimal) -> bool:
    """Line by line, both stripped: equal, or equal lists of exact decimal numbers. No tolerance.

    `number` reads one word and raises for one that is no number. Upstream's is `Decimal`, which takes `1_0` and full-width
    digits too. Raises Uncomparable for a signalling NaN.
    """
    lines, due = _lines(got), _lines(expected)
    return len(lines) == len(due) and all(_same_line(*pair, number) for pair in zip(lines, due, strict=True))


def plain_number(word: str) -> Decimal:
    """`strict`'s reading of a word: ASCII digits as programs print them; InvalidOperation for all else."""
    if _PLAIN_NUMBER.fullmatch(word) is None:
        raise InvalidOperation
    return Decimal(word)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(got: str, expected: str, number: Number) -> bool:
    if got == expected:
        return True
    try:
        numbers = [number(word) for word in got.split()]
        due = [number(word) for word in expected.split()]
    except (InvalidOperation, ValueError):
        return False
    try:
        return numbers == due
    except InvalidOperation as error:
        raise Uncomparable("a signalling NaN") from error


def official_equality(got: Any, expected: Any) -> list[bool | int]:
    """The result codes that upstream appends for one returned value: [True], [False], or for an array of several
    items (Q13) the first item's code and -4."""
    got = list(cast("tuple[Any, ...]", got)) if isinstance(got, tuple) else got
    if type(got).__module__ != "numpy":
        return [_equality(got, expected)]
    return _array_codes(got, expected)


def _equality(got: Any, expected: Any) -> bool | int:
    """-4 where comparing raises, as it does for arrays in a list."""
    if spreads_too_far(got, expected):
        return -4
    try:
        return bool(got == expected)
    except _CANT_COMPARE:
        return -4


def _array_codes(got: Any, expected: Any) -> list[bool | int]:
    if spreads_too_far(got, expected):
        return [-4]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            equal = got == expected
    except (ValueError, TypeError):
        return [-4]
    size = getattr(equal, "size", 1)
    if size == 0:
        return [-4]
    first = bool(equal.item(0)) if hasattr(equal, "item") else bool(equal)
    return [first] if size == 1 else [first, -4]


def strict_equality(got: Any, expected: Any) -> bool:
    """Equal as JSON values: a tuple as the whole result counts as a list, numpy's values count as Python's (Q13)."""
    got = _without_arrays(got) if array_items(got) else got
    if type(got).__module__ == "numpy":
        got = got.tolist()
    got = list(cast("tuple[Any, ...]", got)) if isinstance(got, tuple) else got
    try:
        return bool(got == expected)
    except _CANT_COMPARE:
        return False


def _without_arrays(value: Any) -> Any:
    """With lists in place of numpy's arrays, at any depth of lists, tuples and dicts."""
    if isinstance(value, list | tuple):
        parts = map(_without_arrays, cast("list[Any]", value))
        return list(parts) if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {key: _without_arrays(part) for key, part in cast("dict[Any, Any]", value).items()}
    return value.tolist() if type(value).__name__ == "ndarray" else value
