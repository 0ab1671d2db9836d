"""Reads BFCL call strings as upstream's `eval` would, without running anything.

The one thing upstream does to the text before is to put the instance's variable before each known `name(`; `NAME`
finds those places. Errors are Python's own.
"""

import ast
import re
from functools import lru_cache
from typing import Any, NamedTuple

from envs.parsing import parse_quietly

DENIED = frozenset({"kill", "exit", "quit", "remove", "unlink", "popen", "Popen", "run"})
NAME = re.compile(r"\b([a-zA-Z_]\w*)\s*(?=\()")
"""A name before a parenthesis, and the spaces between; also inside string literals, as upstream has it."""
_CACHED_LENGTH = 1000


class UnknownName(NameError):
    """A name that is no tool; the message is Python's."""


class Plan(NamedTuple):
    """Text that is one call and holds no other. `constants` are its arguments, where all are immutable."""

    name: str
    node: ast.Call
    constants: tuple[list[Any], dict[str, Any]] | None


def plan_of(call: str) -> Plan | None:
    """How to run text that rewriting would not change but for the name at its start; None for any other text."""
    return _cached_plan(call) if len(call) < _CACHED_LENGTH else _plan(call)


def _plan(call: str) -> Plan | None:
    head = NAME.match(call)
    if head is None or NAME.search(call, head.end()) is not None:
        return None
    name = head.group(1)
    refuse_denied(name)
    node = parse(call).body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != name:
        return None
    refuse_repeated(node)
    return Plan(name, node, _constants(node))


_cached_plan = lru_cache(maxsize=4096)(_plan)


def _constants(node: ast.Call) -> tuple[list[Any], dict[str, Any]] | None:
    arguments = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    keywords = {
        keyword.arg: keyword.value.value
        for keyword in node.keywords
        if isinstance(keyword.value, ast.Constant) and keyword.arg is not None
    }
    complete = len(arguments) == len(node.args) and len(keywords) == len(node.keywords)
    return (arguments, keywords) if complete else None


def parse(text: str) -> ast.Expression:
    """What `eval` would compile, with its errors and without its warnings."""
    return parse_quietly(text.lstrip(" \t"), "eval", "<string>")


def refuse_denied(text: str) -> None:
    name = text.split("(")[0]
    if "." in name:
        name = name.split(".")[1]
    if name in DENIED:
        raise UnknownName(f"Function call {name} is not allowed.")


def refuse_repeated(node: ast.Call) -> None:
    """The parser leaves keywords that are given twice to the compiler, which never sees our trees."""
    seen: set[str | None] = set()
    for keyword in node.keywords:
        if keyword.arg in seen and keyword.arg is not None:
            raise SyntaxError(f"keyword argument repeated: {keyword.arg}", ("<string>", keyword.lineno, None, None))
        seen.add(keyword.arg)
