"""Arithmetic in a call's argument (`60 * 60`, `"a" + "b"`), computed from the syntax tree with limits.

Upstream passes such an argument to `eval`. Here only literals, displays of literals and Python's operators on them are
computed; the result is the one `eval` gives. What else may stand below an operator (a call, a name, an attribute, a
subscript, a comparison, an f-string) is refused, and so is a result over the limits.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

MAX_BITS: Final = 1 << 14
"""Longest integer, in bits: about 4,900 decimal digits."""
MAX_ITEMS: Final = 10_000
"""Most characters or items, nested ones included, of a string, list or tuple that is computed."""


class ArithmeticRefused(ValueError):
    """Not arithmetic on literals, or over the limits."""


def compute(node: ast.expr) -> Any:
    """The value of an expression of literals and operators.

    Raises ArithmeticRefused, or whatever Python's operator raises (TypeError, ZeroDivisionError, OverflowError, ...).
    """
    match node:
        case ast.Constant():
            return node.value
        case ast.BinOp():
            return _binary(type(node.op), compute(node.left), compute(node.right))
        case ast.UnaryOp():
            return _UNARY[type(node.op)](compute(node.operand))
        case ast.List():
            return [compute(item) for item in node.elts]
        case ast.Tuple():
            return tuple(compute(item) for item in node.elts)
        case ast.Set():
            return {compute(item) for item in node.elts}
        case ast.Dict():
            return {_key(key): compute(value) for key, value in zip(node.keys, node.values, strict=True)}
        case _:
            raise ArithmeticRefused(f"Only literals can be computed with, not a {type(node).__name__}.")


def _key(node: ast.expr | None) -> Any:
    if node is None:
        raise ArithmeticRefused("Only literals can be computed with, not an unpacked dict.")
    return compute(node)


def _binary(kind: type[ast.operator], left: Any, right: Any) -> Any:
    if (guard := _GUARDS.get(kind)) is not None:
        guard(left, right)
    result = _BINARY[kind](left, right)
    if weight(result) > MAX_ITEMS or (type(result) is int and result.bit_length() > MAX_BITS):
        raise ArithmeticRefused("The result is too large.")
    return result


def weight(value: Any) -> int:
    """Characters and items in a value, nested ones included; 1 for a number."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list | tuple | set):
        return 1 + sum(map(weight, value))
    if isinstance(value, dict):
        return 1 + sum(weight(key) + weight(item) for key, item in value.items())
    return 1


def _guard_product(left: Any, right: Any) -> None:
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, str | bytes | list | tuple) and isinstance(times, int):
            _refuse_over(weight(sequence) * max(times, 0), MAX_ITEMS)


def _guard_power(base: Any, exponent: Any) -> None:
    if isinstance(base, int) and isinstance(exponent, int):
        _refuse_over(base.bit_length() * abs(exponent), MAX_BITS)


def _guard_shift(_number: Any, places: Any) -> None:
    if isinstance(places, int):
        _refuse_over(places, MAX_BITS)


def _guard_format(text: Any, _values: Any) -> None:
    # '%999999999d' % 1 fills the memory: widths are four digits at most here, and `%*d` takes its width from a value.
    if isinstance(text, str | bytes):
        plain = text if isinstance(text, str) else text.decode("latin-1")
        _refuse_over(len(plain), MAX_ITEMS)
        if "*" in plain or any(len(digits) > 3 for digits in _digit_runs(plain)):
            raise ArithmeticRefused("A format's width is too large.")


def _digit_runs(text: str) -> list[str]:
    return "".join(char if char.isdecimal() else " " for char in text).split()


def _refuse_over(size: int, limit: int) -> None:
    if size > limit:
        raise ArithmeticRefused("The result would be too large.")


_GUARDS: Final[dict[type[ast.operator], Callable[[Any, Any], None]]] = {
    ast.Mult: _guard_product,
    ast.Pow: _guard_power,
    ast.LShift: _guard_shift,
    ast.Mod: _guard_format,
}
_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.MatMult: operator.matmul,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
