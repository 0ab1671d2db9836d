"""Java source in a model's answer: calls `Class.method(name = value, ...)`, and values by declared type.

Source: the Java parser and type converter of bfcl-eval 2025.8.6.2, with tree-sitter-java 0.21.0, the grammar that it
pins. Its quirks are kept: offsets count bytes but cut characters, so calls with non-ASCII text come out shifted; the body
of an anonymous class is dropped (`new HashMap<>() {{ put(...) }}` decodes to an empty map); elements are split at commas
without regard to quotes; what doesn't look like its type stays text. The patterns are searched in linear time.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from envs.bfcl.grammar import language, line_until, parse

if TYPE_CHECKING:
    from tree_sitter import Language, Node

TYPES: Final[dict[str, type]] = {
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": bool,
    "char": str,
    "String": str,
    "any": str,
    "Array": list,
    "ArrayList": list,
    "HashMap": dict,
}
"""Declared type to Python's. Upstream also lists Set, Hashtable, Queue and Stack, and crashes on their values."""

_VERBATIM: Final = frozenset({"identifier", "class_literal", "type_identifier", "method_invocation"})
_QUOTED: Final = frozenset({"string_literal", "character_literal"})
_PUNCTUATION: Final = frozenset({",", "(", ")"})


def decode_java(source: str) -> Any:
    """The first call in the source as [{name: {parameter: source text}}]; `{}` if there is none.

    A bare identifier among the arguments has the parameter None. Raises SyntaxError where the parse has errors, ValueError for
    a repeated parameter, LookupError for an array without braces.
    """
    root = parse(_grammar(), source)
    invocation = _first_invocation(root)
    if invocation is None:
        return {}
    return [{_name(invocation, source): _arguments(invocation, source)}]


@cache
def _grammar() -> "Language":
    import tree_sitter_java

    return language(tree_sitter_java.language())


def _first_invocation(node: "Node") -> "Node | None":
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current.type == "method_invocation":
            return current
        waiting.extend(reversed(current.children))
    return None


def _field(node: "Node", name: str) -> "Node":
    return node.child_by_field_name(name)  # type: ignore[return-value] - present in a tree without errors


def _text(node: "Node", source: str) -> str:
    return source[node.start_byte : node.end_byte]


def _name(invocation: "Node", source: str) -> str:
    method = _text(_field(invocation, "name"), source)
    owner = invocation.child_by_field_name("object")
    return method if owner is None else f"{_text(owner, source)}.{method}"


def _arguments(invocation: "Node", source: str) -> dict[str | None, str]:
    arguments: dict[str | None, str] = {}
    for child in _field(invocation, "arguments").children:
        if child.type == "assignment_expression":
            name, value = _text(child.children[0], source), _value(child.children[2], source)
        elif child.type in ("identifier", "class_literal"):
            name, value = None, _value(child, source)
        else:
            continue
        if name in arguments:
            raise ValueError("a parameter is given twice")
        arguments[name] = value
    return arguments


def _value(node: "Node", source: str) -> str:
    if node.type in _QUOTED:
        return _text(node, source)[1:-1]
    return _compact(node, source)


def _compact(node: "Node", source: str) -> str:
    """Source text of a node without the whitespace between its parts; names and calls stay as they are."""
    kind = node.type
    if kind in _QUOTED or kind in _VERBATIM:
        return _text(node, source)
    if kind == "array_creation_expression":
        return f"new {_compact(_field(node, 'type'), source)}[]{_compact(_braces(node), source)}"
    if kind == "object_creation_expression":
        return _creation(node, source)
    if node.child_count == 0:
        return _text(node, source)
    return "".join(_compact(child, source) for child in node.children)


def _braces(node: "Node") -> "Node":
    braces = node.child_by_field_name("value")
    if braces is None:
        raise LookupError("an array without braces")
    return braces


def _creation(node: "Node", source: str) -> str:
    made = _compact(_field(node, "type"), source)
    given = node.child_by_field_name("arguments")
    parts = (
        [] if given is None else [_compact(child, source) for child in given.children if child.type not in _PUNCTUATION]
    )
    return f"new {made}({', '.join(parts)})"


def read_java(text: str, kind: str, item_kind: str | None = None) -> Any:
    """The value of source text for a declared type; the text itself where it doesn't look like that type.

    `item_kind` is the declared type of a collection's items, None to guess each. Raises KeyError for a type that isn't
    in `TYPES`, ValueError for an integer of over 4,300 digits.
    """
    if kind == "ArrayList":
        return _array_list(text, item_kind)
    if kind == "Array":
        return _array(text, item_kind)
    if kind == "HashMap":
        return _hash_map(text)
    return _scalar(text, kind)


_WHOLE: Final = re.compile(r"-?\d+$")
_LONG: Final = re.compile(r"-?\d+[lL]$")
_DOUBLE: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?$")
_FLOAT: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?[fF]$")


def _scalar(text: str, kind: str) -> Any:
    wanted = TYPES[kind]
    if wanted is bool:
        return text == "true" if text in ("true", "false") else text
    if kind == "long":
        return int(text.rstrip("\n")[:-1]) if _LONG.match(text) else text
    if wanted is int:
        return int(text) if _WHOLE.match(text) else text
    if kind == "float":
        return float(text.rstrip("\n")[:-1]) if _FLOAT.match(text) else text
    if wanted is float:
        return float(text) if _DOUBLE.match(text) else text
    return text


def _guess(text: str) -> Any:
    """A value without a declared type."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    if _LONG.match(text):
        return int(text[:-1])
    if _FLOAT.match(text):
        return float(text[:-1])
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _item(text: str, kind: str | None) -> Any:
    return read_java(text, kind) if kind else _guess(text)


def _list_item(text: str, kind: str | None) -> Any:
    return text[1:-1] if kind in ("char", "String") else _item(text, kind)


_ARRAY: Final = re.compile(r"new\s+\w+\[\]\s*\{")
_LIST: Final = re.compile(r"new\s+ArrayList<\w*>\(\)")
_LIST_OF: Final = re.compile(r"new\s+ArrayList<\w*>\(Arrays\.asList\(")
_LIST_BODY: Final = re.compile(r"new\s+ArrayList<\w*>\(\)\s*\{\{\s*")


def _array(text: str, kind: str | None) -> Any:
    for start in _ARRAY.finditer(text):
        inside = line_until(text, start.end(), "}")
        if inside is not None:
            return [_item(part.strip(), kind) for part in inside.split(",") if part.strip()]
    return text


def _array_list(text: str, kind: str | None) -> Any:
    for start in _LIST_OF.finditer(text):
        inside = line_until(text, start.end(), "))", at_least=1)
        if inside is not None:
            return [_list_item(part.strip(), kind) for part in inside.split(",")]
    if (body := _LIST_BODY.search(text)) and text.find("}}", body.end() + 1) >= 0:
        inside = text[body.end() : text.find("}}", body.end() + 1)]
        return [_list_item(added.strip(), kind) for added in _added(inside)]
    return [] if _LIST.search(text) else text


def _added(body: str) -> Iterator[str]:
    """What stands in the parentheses of each `add(...)`: at least one character, up to the next `)` of its line."""
    position = body.find("add(")
    while position >= 0:
        start = position + len("add(")
        inside = line_until(body, start, ")", at_least=1)
        if inside is not None:
            yield inside
            start += len(inside) + 1
        position = body.find("add(", start)


_MAP: Final = re.compile(r"new\s+HashMap<")
_MAP_BODY: Final = re.compile(r">\s*\(\)\s*\{\s*\{?\s*")
_SPACE: Final = re.compile(r"\s*")
_EMPTY_MAP_PARTS: Final = re.compile(r"(new\s+HashMap<)|(>\s*\(\))|\n")


def _hash_map(text: str) -> Any:
    body = _map_body(text)
    if body is not None:
        return {key: _guess(value.strip()) for key, value in _puts(body)}
    return {} if _makes_map(text) else text


def _map_body(text: str) -> str | None:
    if (made := _MAP.search(text)) is None or (opened := _MAP_BODY.search(text, made.end())) is None:
        return None
    start = opened.end()
    close = text.find("}", start)
    return None if close < 0 else text[start:close].rstrip()


def _makes_map(text: str) -> bool:
    """Whether `new HashMap<` and a later `>()` stand with no line break between."""
    opened = False
    for part in _EMPTY_MAP_PARTS.finditer(text):
        if part.group(2) and opened:
            return True
        if not part.group(2):
            opened = bool(part.group(1))
    return False


def _puts(body: str) -> Iterator[tuple[str, str]]:
    """Key and value text of each `put("key", value)`."""
    position = body.find('put("')
    while position >= 0:
        start = position + len('put("')
        pair = _pair(body, start)
        if pair is not None:
            key, value, start = pair
            yield key, value
        position = body.find('put("', start)


def _pair(body: str, start: int) -> tuple[str, str, int] | None:
    """The key from `start` to a `",` of its line, the value from there to the next `)` of its line, and where it ends.

    The value may stand on a later line than the key. It is the first `",` after which a value can be found.
    """
    line_end = body.find("\n", start)
    line_end = len(body) if line_end < 0 else line_end
    for comma in (body.find('",', start, line_end), body.rfind('",', start, line_end)):
        if comma < 0:
            return None
        value_start = _SPACE.match(body, comma + 2).end()  # type: ignore[union-attr] - always matches
        value = line_until(body, value_start, ")")
        if value is not None:
            return body[start:comma], value, value_start + len(value) + 1
    return None
