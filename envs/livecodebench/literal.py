"""Values of expressions that models write, without running any: literals, and what is built of them by signs, + and *.

Upstream evaluates such text in the grader's own process. What goes beyond this (names, calls, comprehensions) has no value here.
"""

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

MOST_CHARACTERS = 100_000
MOST_ITEMS = 1_000_000
"""Items, characters and bytes that the operations of one expression may make, all together."""
MOST_BITS = 20_000


class NoValue(ValueError):
    """The text is no such expression, or its value would be too large."""


def value_of(text: str) -> Any:
    """The value of an expression. Raises NoValue."""
    return evaluate(parsed(text, "eval").body)


def parsed(text: str, mode: str) -> Any:
    """The syntax tree of a text of bounded length. Raises NoValue."""
    if len(text) > MOST_CHARACTERS:
        raise NoValue(f"{len(text)} characters, more than {MOST_CHARACTERS}")
    try:
        return ast.parse(text.strip(), mode=mode)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise NoValue(f"no Python: {error}") from error


def evaluate(node: ast.expr) -> Any:
    """The value of a syntax tree. Raises NoValue."""
    try:
        return _Evaluation().value(node)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise NoValue(str(error)) from error


class _Evaluation:
    """One expression, with room for MOST_ITEMS in all that its operations make."""

    def __init__(self) -> None:
        self._room = MOST_ITEMS

    def value(self, node: ast.expr | None) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.List(elts=items):
                return self._items(items)
            case ast.Tuple(elts=items):
                return tuple(self._items(items))
            case ast.Set(elts=items):
                return set(self._items(items))
            case ast.Dict(keys=keys, values=values):
                return dict(zip(map(self.value, keys), map(self.value, values), strict=True))
            case ast.UnaryOp(op=sign, operand=inner) if type(sign) in _SIGNS:
                return _SIGNS[type(sign)](self.value(inner))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATIONS:
                return self._combined(type(sign), self.value(left), self.value(right))
            case _:
                raise NoValue(f"{type(node).__name__} has no value here")

    def _items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        return [self.value(node) for node in nodes]

    def _combined(self, sign: type, left: Any, right: Any) -> Any:
        sizes = _size(left), _size(right)
        if sign is ast.Mult:
            number = left if isinstance(left, int) else right
            self._take(max(sizes) * max(0, number) if isinstance(number, int) else 0)
            _require_short_product(left, right)
        else:
            self._take(sum(sizes))
        return _OPERATIONS[sign](left, right)

    def _take(self, items: int) -> None:
        self._room -= items
        if self._room < 0:
            raise NoValue("the value is too long")


def _require_short_product(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MOST_BITS:
        raise NoValue("the number is too long")


def _size(value: Any) -> int:
    """Items at all depths: a list that is repeated holds those of its lists again and again, for whoever walks through it."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list | tuple):
        return len(cast("Sequence[Any]", value)) + sum(map(_size, cast("Sequence[Any]", value)))
    return 0


_SIGNS: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
}
