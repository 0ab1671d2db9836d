"""From a model's text to the program that upstream grades (spec 2.3): the largest block that parses, cut down to what the entry point uses.

Source: evalplus at 26d6d00, `sanitize`; the same answer without its cubic cost. What is lost by it is upstream's own: functions without
a `return`, decorated ones, imports inside `try`, top-level statements that are neither import, definition nor assignment.
"""

import ast
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

LONGEST_TEXT = 256 * 1024
"""Bytes. No block is looked for in a longer text: it is its own."""
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FIRST_WINDOW = 8
_OPEN_ENDED = re.compile(r"never closed|unterminated|EOF|expected an indented block|expected 'except'")
"""Errors that further lines may mend, or that are told at a line before the one that causes them."""
_parsing = threading.Lock()


def sanitized(text: str, entry_point: str) -> str:
    """The program in a model's answer. Empty only where the block is."""
    block = largest_block(text)
    return _needed(block, entry_point) or block


def largest_block(text: str) -> str:
    """The lines that parse as Python and of which the most are not blank; the first of equals; the first line where there are none.

    Two lines at least, as upstream has it.
    """
    text = _ESCAPES.sub("", text)
    lines = text.split("\n")
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST_TEXT:
        return text
    best = _Block(0, 0, 0)
    filled = _running_count(lines)
    for start in range(len(lines)):
        if filled[-1] - filled[start] <= best.filled:
            break
        found = _longest_from(lines, start, filled, best.filled)
        best = found or best
    return "\n".join(lines[best.start : best.stop + 1])


class _Block(NamedTuple):
    """Lines `start` to `stop`, both included; `filled` of them are not blank."""

    start: int
    stop: int
    filled: int


def _running_count(lines: Sequence[str]) -> list[int]:
    """How many of the first n lines are not blank."""
    counts = [0]
    for line in lines:
        counts.append(counts[-1] + bool(line.strip()))
    return counts


def _longest_from(lines: Sequence[str], start: int, filled: Sequence[int], beaten: int) -> _Block | None:
    """The block that begins at this line and has the most filled lines, more than `beaten`; of equals the shortest."""
    stop = _last_hope(lines, start)
    while stop > start and filled[stop + 1] - filled[start] > beaten:
        error = _error_line("\n".join(lines[start : stop + 1]))
        if error is None:
            return _without_blank_end(lines, start, stop, filled)
        stop = min(stop - 1, start + error - 1)
    return None


def _last_hope(lines: Sequence[str], start: int) -> int:
    """The last line that a block from `start` can have: found in windows that grow until an error shows that nothing after it can mend."""
    window = _FIRST_WINDOW
    while start + window < len(lines):
        error = _final_error_line("\n".join(lines[start : start + window]))
        if error is not None and error < window - 1:
            return start + error - 1
        window *= 2
    return len(lines) - 1


def _without_blank_end(lines: Sequence[str], start: int, stop: int, filled: Sequence[int]) -> _Block:
    count = filled[stop + 1] - filled[start]
    shorter = stop
    while shorter - 1 > start and filled[shorter] - filled[start] == count:
        shorter -= 1
        if _error_line("\n".join(lines[start : shorter + 1])) is None:
            stop = shorter
    return _Block(start, stop, count)


def _error_line(source: str) -> int | None:
    """Index of the line at which parsing fails at the latest; None where the source parses."""
    error = _syntax_error(source)
    if error is None:
        return None
    lineno = error.lineno if isinstance(error, SyntaxError) else None
    return lineno - 1 if lineno else source.count("\n")


def _final_error_line(source: str) -> int | None:
    """The same, where no further line can mend it; None also where one might."""
    error = _syntax_error(source)
    if not isinstance(error, SyntaxError) or not error.lineno or _OPEN_ENDED.search(str(error.msg)):
        return None
    return error.lineno - 1


def _syntax_error(source: str) -> Exception | None:
    try:
        _parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        return error
    return None


def _parse(source: str) -> None:
    if "\\" not in source and not re.search(r"\d[a-zA-Z]", source):
        ast.parse(source)
        return
    with (
        _parsing,
        warnings.catch_warnings(),
    ):  # stray backslashes and `1if` warn, which must not depend on the caller's filters
        warnings.simplefilter("ignore")
        ast.parse(source)


class _Definition(NamedTuple):
    name: str | None
    node: Any


def _needed(block: str, entry_point: str) -> str:
    """All imports, then the definitions that the entry point reaches, in their order. Empty where there is neither."""
    data = block.encode("utf-8", "surrogatepass")
    children = _parser().parse(data).root_node.children
    imports = [node for node in children if node.type in ("import_statement", "import_from_statement")]
    definitions = _first_of_each_name(children)
    reached = _reached(entry_point, definitions)
    kept = imports + [definition.node for definition in definitions if definition.name in reached]
    return "\n".join(data[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass") for node in kept).strip()


@cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_python

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_python.language()))


def _first_of_each_name(children: Sequence[Any]) -> list[_Definition]:
    found: dict[str | None, _Definition] = {}
    for child in children:
        node = _definition_node(child)
        if node is not None:
            name = _name(node)
            found.setdefault(name, _Definition(name, node))
    return list(found.values())


def _definition_node(child: Any) -> Any:
    """The class, the function with a `return`, or the assignment that a top-level statement is; None for all else."""
    if child.type == "class_definition" or (child.type == "function_definition" and _returns(child)):
        return child
    if child.type == "expression_statement" and child.children[0].type == "assignment":
        return child.children[0]
    return None


def _returns(node: Any) -> bool:
    return any(inner.type == "return_statement" for inner in _inside(node))


def _name(node: Any) -> str | None:
    return next((_text(child) for child in node.children if child.type == "identifier"), None)


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))


def _inside(node: Any) -> Iterator[Any]:
    """All nodes below, and the node itself."""
    stack = [node]
    while stack:
        inner = stack.pop()
        yield inner
        stack += inner.children


def _reached(entry_point: str, definitions: Sequence[_Definition]) -> set[str | None]:
    """The entry point and every name that what it needs needs."""
    needs = {
        name: {_text(inner) for inner in _inside(node) if inner.type == "identifier"} for name, node in definitions
    }
    reached: set[str | None] = {entry_point}
    queue = [entry_point]
    while queue:
        new = needs.get(queue.pop(), set()) - reached
        reached |= new
        queue += new
    return reached
