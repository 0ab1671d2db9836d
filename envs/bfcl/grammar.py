"""What the readers of Java and JavaScript share: tree-sitter, and a search within a line."""

import ctypes
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tree_sitter import Language, Node


def language(pointer: Any) -> "Language":
    """The language behind what a grammar's `language()` gives: a capsule, or an address from older grammars.

    tree-sitter takes addresses too, but warns that it won't for long, so an address is put into a capsule.
    """
    from tree_sitter import Language

    if isinstance(pointer, int):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        pointer = make(pointer, b"tree_sitter.Language", None)
    return Language(pointer)  # pyright: ignore[reportDeprecated] - it is a capsule


def parse(grammar: "Language", source: str) -> "Node":
    """The root of the parse. Raises SyntaxError where it has errors (missing tokens are none), ValueError over the limits.

    Ambiguity and recovery from errors take quadratic time and memory: 12,000 characters of `]+` cost 15 s, 90,000 of `a<`
    16 GiB. Work is counted, not timed, so that the same text always gets the same answer.
    """
    from tree_sitter import Parser

    parser, text = Parser(grammar), source.encode()
    if len(text) > MAX_SOURCE:
        raise ValueError(f"{len(text)} bytes of source; at most {MAX_SOURCE} are parsed")
    if len(text) <= _SHORT:
        root = parser.parse(text).root_node
    else:
        work = count(1)
        root = parser.parse(
            lambda offset, _point: text[offset:], progress_callback=lambda *_: next(work) > _MAX_WORK
        ).root_node
    if root.has_error and _holds_error(root):
        raise SyntaxError("the source has errors")
    return root


MAX_SOURCE: Final = 8_000
"""Bytes of Java or JavaScript that are parsed: several times the longest answer of BFCL's tasks."""
_SHORT: Final = 2_000
"""Bytes that are parsed without counting: at worst a third of a second."""
_MAX_WORK: Final = 20_000
"""Hundreds of parser operations, about a second. 8,000 bytes of calls take about 80."""


def _holds_error(root: "Node") -> bool:
    # Its text form says so too, but is made by recursion, and deep nesting ends the process there.
    cursor = root.walk()
    while True:
        if cursor.node is not None and cursor.node.is_error:
            return True
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False


def line_until(text: str, start: int, end: str, at_least: int = 0) -> str | None:
    """Text from `start` up to the first `end` that is `at_least` characters on; None if there is none on this line."""
    stop = text.find(end, start + at_least)
    if stop < 0 or text.find("\n", start, stop) >= 0:
        return None
    return text[start:stop]
