"""The common case of a Python call list, read several times faster than by a syntax tree.

Plain are calls such as `f(a=1, b='x', c=[1, 2]), g.h(x=True)`: dotted names, and keyword arguments that are texts without a
backslash or line break, whole or decimal numbers, True, False, None, or lists of these. Everything else is left to `ast`; what is read here
`ast` reads alike (the tests hold both against each other).
"""

import keyword
import re
from typing import Any, Final

_NAME: Final = "[A-Za-z_][A-Za-z_0-9]*"
# Lone surrogates are left to `ast`, which refuses them, as are the characters that end a line or a text.
_TEXT: Final = r"'([^'\\\n\r\0\ud800-\udfff]*)'|\"([^\"\\\n\r\0\ud800-\udfff]*)\""
_SCALAR: Final = rf"(?:{_TEXT}|(-?(?:0|[1-9][0-9]{{0,17}})(?:\.[0-9]+)?|True|False|None))"
_CALL: Final = re.compile(rf"({_NAME}(?:\.{_NAME})*)\((\))?")
_ARGUMENT: Final = re.compile(rf"({_NAME})=(?:{_SCALAR}(, ?|\))|\[(?:\](, ?|\)))?)")
_ITEM: Final = re.compile(rf"{_SCALAR}(?:, ?|\](, ?|\)))")
_CONSTANTS: Final = {"True": True, "False": False, "None": None}
_KEYWORDS: Final = frozenset(keyword.kwlist)


def read_plain(source: str) -> list[dict[str, dict[str, Any]]] | None:
    """The calls of a source without its outer brackets; None where it isn't plain, or is no call list at all."""
    calls: list[dict[str, dict[str, Any]]] = []
    position = 0
    while (head := _CALL.match(source, position)) is not None:
        name, closed = head.groups()
        arguments: dict[str, Any] = {}
        position = head.end() if closed else _read_arguments(source, head.end(), arguments)
        if not position or not _KEYWORDS.isdisjoint(name.split(".")):
            return None
        calls.append({name: arguments})
        if position == len(source):
            return calls
        if not source.startswith(", ", position):
            return None
        position += 2
    return None


def _read_arguments(source: str, position: int, arguments: dict[str, Any]) -> int:
    """Fills the arguments and gives the position after the closing parenthesis, 0 where they aren't plain."""
    while (argument := _ARGUMENT.match(source, position)) is not None:
        name, single, double, bare, end, after_empty = argument.groups()
        if name in _KEYWORDS:
            return 0
        position = argument.end()
        if single is not None:
            arguments[name] = single
        elif end is not None:
            arguments[name] = double if double is not None else _bare(bare)
        else:
            arguments[name] = items = []
            position, end = (position, after_empty) if after_empty else _read_items(source, position, items)
        if end == ")":
            return position
    return 0


def _read_items(source: str, position: int, items: list[Any]) -> tuple[int, str]:
    """Fills the list whose bracket is open; the position after its end and the end itself, `)` or a comma."""
    while (item := _ITEM.match(source, position)) is not None:
        single, double, bare, end = item.groups()
        items.append(single if single is not None else double if double is not None else _bare(bare))
        position = item.end()
        if end is not None:
            return position, end
    return len(source), ""


def _bare(text: str) -> Any:
    """A constant or a number."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return float(text) if "." in text else int(text)
