"""JavaScript source in a model's answer: calls `name(parameter = value, ...)`, and values by declared type.

Source: the JavaScript parser and type converter of bfcl-eval 2025.8.6.2, with tree-sitter-javascript 0.21.4, the grammar
that it pins. Its quirks are kept: elements are split at commas without regard to quotes, objects are read one level deep
up to the first `}`, an exponent makes no float. The patterns are searched in linear time.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from envs.bfcl.grammar import language, line_until, parse

if TYPE_CHECKING:
    from tree_sitter import Language, Node

TYPES: Final[dict[str, type]] = {
    "String": str,
    "integer": int,
    "float": float,
    "Bigint": int,
    "Boolean": bool,
    "dict": dict,
    "array": list,
    "any": str,
}
"""Declared type to Python's."""


def decode_javascript(source: str) -> Any:
    """The first call that is a statement of its own, as [{name: {parameter: source text}}]; None if there is none.

    A bare identifier or `true` among the arguments has the parameter None. Raises SyntaxError where the parse has
    errors, ValueError for a repeated parameter.
    """
    for statement in parse(_grammar(), source).children:
        if statement.type == "expression_statement":
            for part in statement.children:
                if part.type == "call_expression":
                    return [{_text(part.children[0]): _arguments(part.children[1])}]
    return None


@cache
def _grammar() -> "Language":
    import tree_sitter_javascript

    return language(tree_sitter_javascript.language())


def _text(node: "Node") -> str:
    return (node.text or b"").decode()


def _arguments(node: "Node") -> dict[str | None, str]:
    arguments: dict[str | None, str] = {}
    for child in node.children:
        if child.type == "assignment_expression":
            name, value = _text(child.children[0]), _unquoted(_text(child.children[2]))
        elif child.type in ("identifier", "true"):
            name, value = None, _text(child)
        else:
            continue
        if name in arguments:
            raise ValueError("a parameter is given twice")
        arguments[name] = value
    return arguments


def _unquoted(text: str) -> str:
    quoted = (text.startswith('"') and text.endswith('"')) or (text.startswith("'") and text.endswith("'"))
    return text[1:-1] if quoted else text


_WHOLE: Final = re.compile(r"-?\d+$")
_DECIMAL: Final = re.compile(r"-?\d+(\.\d+)?$")
_BIG: Final = re.compile(r"-?\d+n$")


def read_javascript(text: str, kind: str, item_kind: str | None = None) -> Any:
    """The value of source text for a declared type; the text itself where it doesn't look like that type.

    `item_kind` is the declared type of an array's items, None to guess each. Raises KeyError for a type that isn't in
    `TYPES`, ValueError for an integer of over 4,300 digits or a Bigint that ends in a line break.
    """
    if kind == "array":
        return _array(text.strip(), item_kind)
    if kind == "dict":
        return _object(text.strip())
    return _scalar(text, kind)


def _scalar(text: str, kind: str) -> Any:
    if kind == "Boolean":
        return text == "true" if text in ("true", "false") else text
    if kind == "Bigint":
        return int(text[:-1]) if _BIG.match(text) else text
    if kind == "integer":
        return int(text) if _WHOLE.match(text) else text
    if kind == "float":
        return float(text) if _DECIMAL.match(text) else text
    if kind == "String":
        return _unquoted(text)
    return {"any": text}[kind]


def _guess(text: str) -> Any:
    """A value without a declared type."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    bare = _unquoted(text)
    if bare is not text:
        return bare
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


_NESTED_START: Final = re.compile(r"\[\s*\[|new\s+Array\(\s*\[")
_FLAT_START: Final = re.compile(r"\[|new\s+Array\(")


def _array(source: str, item_kind: str | None) -> Any:
    nested = _nested_array(source)
    if nested is not None:
        return [_row(row, first=index == 0) for index, row in enumerate(_bracketed(nested))]
    start = _FLAT_START.match(source)
    inside = None if start is None else line_until(source, start.end(), _closer(source))
    if inside is None:
        return source
    parts = [part.strip() for part in inside.split(",")] if inside.strip() else []
    if not item_kind:
        return [_guess(part) for part in parts]
    try:
        return [read_javascript(part, item_kind) for part in parts]
    except (ValueError, KeyError):
        return source


def _closer(source: str) -> str:
    return "]" if source.startswith("[") else ")"


def _row(inside: str, *, first: bool) -> list[Any]:
    inside = inside.strip()
    if first:
        inside = inside.removeprefix("[")
    return [_guess(part) for part in inside.split(",")]


def _bracketed(text: str) -> Iterator[str]:
    """What stands between each `[` and the next `]` of its line."""
    position = text.find("[")
    while position >= 0:
        inside = line_until(text, position + 1, "]")
        position += 1
        if inside is not None:
            yield inside
            position += len(inside) + 1
        position = text.find("[", position)


_AFTER_ROW: Final = re.compile(r"\s*(?:(,\s*\[)|([\])]))?")


def _nested_array(source: str) -> str | None:
    """The beginning of the source that is an array of arrays, None if it doesn't begin with one.

    A row ends at a `]` that is followed by `, [` and another row, or by the end of the array. Rows may hold anything but
    line breaks, further `]` too, so of all ways to read it the one with the shortest first row, then the longest list
    counts, then the shortest second row, and so on. Read from the right, each `]` is decided once.
    """
    start = _NESTED_START.match(source)
    if start is None:
        return None
    ends: dict[int, int | None] = {}
    close = source.rfind("]")
    while close >= start.end():
        end = _end_after_row(source, ends, close + 1)
        ends[close] = _next_end(source, ends, close + 1) if end is None else end
        close = source.rfind("]", 0, close)
    end = _next_end(source, ends, start.end())
    return None if end is None else source[:end]


def _end_after_row(source: str, ends: dict[int, int | None], position: int) -> int | None:
    """Where the array ends if a row ends just before `position`; None if it can't."""
    after = _AFTER_ROW.match(source, position)
    if after is not None and after.group(1):
        end = _next_end(source, ends, after.end())
        if end is not None:
            return end
    if after is not None and after.group(2) == _closer(source):
        return after.end()
    return None


def _next_end(source: str, ends: dict[int, int | None], position: int) -> int | None:
    """Where the array ends if its current row ends at the next `]` of this line or a later one; None if it can't."""
    close = source.find("]", position)
    if close < 0 or source.find("\n", position, close) >= 0:
        return None
    return ends[close]


def _object(source: str) -> Any:
    inside = line_until(source, 1, "}") if source.startswith("{") else None
    if inside is None:
        return source
    return {key.strip().strip("'\""): _property(value.strip()) for key, value in _pairs(inside)}


def _property(value: str) -> Any:
    if value.startswith("[") and value.endswith("]"):
        return _array(value, None)
    return _guess(value.strip("'\""))


def _pairs(inside: str) -> Iterator[tuple[str, str]]:
    """Key and value text: a key reaches to the next colon, a value to a comma that another key follows, or to the end."""
    position = 0
    while (colon := inside.find(":", position + 1)) >= 0:
        if inside[position] == ":":
            position += 1
            continue
        value_start = len(inside) - len(inside[colon + 1 :].lstrip())
        value_end, next_key = _value_end(inside, value_start)
        yield inside[position:colon], inside[value_start:value_end]
        position = next_key


def _value_end(inside: str, start: int) -> tuple[int, int]:
    """Where a value ends, and where the key after it starts."""
    comma = inside.find(",", start)
    while comma >= 0:
        following = inside.find(",", comma + 1)
        part = inside[comma + 1 : following if following >= 0 else len(inside)]
        blank = len(part) - len(part.lstrip())
        if part.find(":", blank + 1) >= 0:
            return comma, comma + 1 + blank
        if blank and part[blank : blank + 1] == ":":
            return comma, comma + blank
        comma = following
    return len(inside), len(inside)
