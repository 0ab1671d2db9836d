"""Values of expressions that models write, without running any: literals, and what is built of them by signs, + and *.

Upstream evaluates such text in the grader's own process. What goes beyond this (names, calls, comprehensions) has no value here.
"""

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

MOST_CHARACTERS = 100_000
MOST_ITEMS = 1_000_000
"""Length of a list or a text that an operation may make."""
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
        return _value(node)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise NoValue(str(error)) from error


def _value(node: ast.expr | None) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.List(elts=items):
            return _items(items)
        case ast.Tuple(elts=items):
            return tuple(_items(items))
        case ast.Set(elts=items):
            return set(_items(items))
        case ast.Dict(keys=keys, values=values):
            return dict(zip(map(_value, keys), map(_value, values), strict=True))
        case ast.UnaryOp(op=sign, operand=inner) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_value(inner))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATIONS:
            return _OPERATIONS[type(sign)](_value(left), _value(right))
        case _:
            raise NoValue(f"{type(node).__name__} has no value here")


def _items(nodes: Sequence[ast.expr]) -> list[Any]:
    return [_value(node) for node in nodes]


def _sum(left: Any, right: Any) -> Any:
    if _size(left) + _size(right) > MOST_ITEMS:
        raise NoValue("the value is too long")
    return left + right


def _product(left: Any, right: Any) -> Any:
    sized, number = (left, right) if _size(left) else (right, left)
    if _size(sized) and isinstance(number, int) and _size(sized) * number > MOST_ITEMS:
        raise NoValue("the value is too long")
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MOST_BITS:
        raise NoValue("the number is too long")
    return left * right


def _size(value: Any) -> int:
    return len(cast("Sequence[Any]", value)) if isinstance(value, list | tuple | str | bytes) else 0


_SIGNS: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {ast.Add: _sum, ast.Mult: _product, ast.Sub: operator.sub}
