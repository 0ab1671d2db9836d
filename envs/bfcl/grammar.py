"""What the readers of Java and JavaScript share: tree-sitter, and a search within a line."""

import ctypes
from typing import TYPE_CHECKING, Any

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
    """The root of the parse. Raises SyntaxError where it has errors; missing tokens (`;`) are no errors."""
    from tree_sitter import Parser

    root = Parser(grammar).parse(source.encode()).root_node
    if root.has_error and "ERROR" in str(root):
        raise SyntaxError("the source has errors")
    return root


def line_until(text: str, start: int, end: str, at_least: int = 0) -> str | None:
    """Text from `start` up to the first `end` that is `at_least` characters on; None if there is none on this line."""
    stop = text.find(end, start + at_least)
    if stop < 0 or text.find("\n", start, stop) >= 0:
        return None
    return text[start:stop]
