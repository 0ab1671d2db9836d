"""Runs call strings on a simulator's methods. Nothing is ever handed to `eval`.

Upstream (`execute_multi_turn_func_call`, bfcl-eval 2025.8.6.2) puts the instance's variable before every known
`name(` in the text, also inside string arguments, and evaluates the result as Python. Here the rewritten text is
parsed and walked: calls of known methods, literals, and what can be done with those without side effects. The result
strings and error texts are upstream's own. Known differences, none of which a decoded honest answer can reach:

- A name that is neither a known method nor an instance "is not defined", where upstream also finds builtins
  (`len`, `open`) and the executor's own variables (`json`, `initial_config`).
- Attribute access (other than an instance's known methods), comprehensions, lambdas, conditionals, comparisons,
  f-strings, `**`, shifts, starred arguments and slices give an error text that says so. `+ - * / // %` work on numbers.
- Precisions over 10,000 digits and roundings to more than 10,000 places before the point give an error, where upstream
  computes them; a power with too many digits to be printed gives Python's error at once, not after computing it.
"""

import ast
import json
import marshal
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard, TypeVar

from envs.bfcl.call_syntax import NAME, Plan, UnknownName, parse, plan_of, refuse_denied, refuse_repeated
from trajectories.schema import CallError

LARGEST_PRECISION = 10_000
UNPRINTABLE_BITS = 20_000
"""An integer of so many bits has more digits than the 4,300 that Python agrees to print."""

_TOOL_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""All that Python code raises by mistake: a tool that breaks is an observation."""
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}


class Executed(NamedTuple):
    """What a call string gave: the text that the model sees, and the class of the error in it, None for none."""

    text: str
    error: CallError | None


class _Refused(Exception):
    """Python that upstream would run and we don't; the message says what."""


class _BadArguments(Exception):
    """A call that its method does not accept; the message is Python's."""


Key = str | bytes
"""A result that is compared and not shown: equal keys have equal result strings, other keys may have too."""
T = TypeVar("T")


class Executor:
    """Runs call strings on the instances that own the tools. `variables` are the names of upstream's variables for them.

    Without `rewrite` the text is taken as it is: no string argument changes.
    """

    def __init__(self, owners: Mapping[str, Any], variables: Mapping[int, str], *, rewrite: bool = True) -> None:
        self._owners = owners
        self._variables = variables
        self._rewrite = rewrite

    def run(self, call: str) -> Executed:
        """Run one call string. Never raises for what the string holds."""
        return self._attempt(call, _executed)

    def run_for_key(self, call: str) -> Key:
        """As `run`, for a result that is only compared."""
        outcome = self._attempt(call, _key)
        return outcome.text if isinstance(outcome, Executed) else outcome

    def _attempt(self, call: str, finish: Callable[[Any], T]) -> T | Executed:
        try:
            return finish(self._run(call))
        except _Refused as error:
            return _failure(error, "exception")
        except _BadArguments as error:
            return _failure(error, "bad_arguments")
        except UnknownName as error:
            return _failure(error, "unknown_tool")
        except SyntaxError as error:
            return _failure(error, "bad_arguments" if call.split("(")[0].strip() in self._owners else "unknown_tool")
        except _TOOL_ERRORS as error:
            return _failure(error, "exception")

    def _run(self, call: str) -> Any:
        plan = plan_of(call)
        if plan is not None:
            return self._run_plan(plan)
        text = NAME.sub(self._qualified, call) if self._rewrite else call
        refuse_denied(text)
        tree = parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                refuse_repeated(node)
        return self._value(tree.body)

    def _run_plan(self, plan: Plan) -> Any:
        method = self._tool(plan.name)
        if plan.constants is None:
            return self._call(method, plan.node)
        return _apply(method, *plan.constants)

    def _qualified(self, match: re.Match[str]) -> str:
        name = match.group(1)
        return f"{self._variable(name)}.{name}" if name in self._owners else name

    def _variable(self, name: str) -> str:
        return self._variables[id(self._owners[name])]

    def _tool(self, name: str) -> Callable[..., Any]:
        if name not in self._owners:
            raise UnknownName(f"name {name!r} is not defined")
        return getattr(self._owners[name], name)

    def _value(self, node: ast.expr) -> Any:
        evaluate = _EVALUATE.get(type(node))
        if evaluate is None:
            raise _Refused(f"{type(node).__name__} expressions are not supported, only calls with literal arguments")
        return evaluate(self, node)

    def call(self, node: ast.Call) -> Any:
        return self._call(self._callee(node.func), node)

    def _callee(self, node: ast.expr) -> Callable[..., Any]:
        """The method that a call names; in rewritten text it stands as `<instance>.<method>`."""
        if isinstance(node, ast.Name) and not self._rewrite:
            return self._tool(node.id)
        if self._rewrite and self._is_tool(node):
            return self._tool(node.attr)
        value = self._value(node)
        raise TypeError(f"{type(value).__name__!r} object is not callable")

    def _is_tool(self, node: ast.expr) -> TypeGuard[ast.Attribute]:
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return False
        return node.attr in self._owners and self._variable(node.attr) == node.value.id

    def _call(self, method: Callable[..., Any], node: ast.Call) -> Any:
        arguments = [self._value(argument) for argument in node.args]
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _Refused("'**' arguments are not supported, only calls with literal arguments")
            keywords[keyword.arg] = self._value(keyword.value)
        return _apply(method, arguments, keywords)

    def name(self, node: ast.Name) -> Any:
        if node.id in self._variables.values():
            raise _Refused("an instance is no value, only its tools can be called")
        raise UnknownName(f"name {node.id!r} is not defined")

    def attribute(self, node: ast.Attribute) -> Any:
        value = self._value(node.value)
        if hasattr(value, node.attr):
            raise _Refused(f"attributes such as {node.attr!r} are not supported, only calls with literal arguments")
        raise AttributeError(f"{type(value).__name__!r} object has no attribute {node.attr!r}")

    def items(self, node: ast.List | ast.Tuple | ast.Set) -> Any:
        return _SEQUENCES[type(node)]([self._value(item) for item in node.elts])

    def mapping(self, node: ast.Dict) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                raise _Refused("'**' in a dict is not supported, only calls with literal arguments")
            result[self._value(key)] = self._value(value)
        return result

    def unary(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self._value(node.operand))

    def binary(self, node: ast.BinOp) -> Any:
        compute = _BINARY.get(type(node.op))
        if compute is None:
            raise _Refused(f"the operator {type(node.op).__name__} is not supported, only calls with literal arguments")
        left, right = self._value(node.left), self._value(node.right)
        if not (isinstance(left, _NUMBER) and isinstance(right, _NUMBER)):
            raise _Refused(f"the operator {type(node.op).__name__} is only supported between numbers")
        return compute(left, right)

    def subscript(self, node: ast.Subscript) -> Any:
        container = self._value(node.value)
        return container[self._value(node.slice)]


_NUMBER = (int, float, complex)
_SEQUENCES: Mapping[type[ast.expr], Callable[[list[Any]], Any]] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}
_EVALUATE: Mapping[type[ast.expr], Callable[[Executor, Any], Any]] = {
    ast.Call: Executor.call,
    ast.Constant: lambda _, node: node.value,
    ast.Name: Executor.name,
    ast.List: Executor.items,
    ast.Tuple: Executor.items,
    ast.Set: Executor.items,
    ast.Dict: Executor.mapping,
    ast.UnaryOp: Executor.unary,
    ast.BinOp: Executor.binary,
    ast.Subscript: Executor.subscript,
    ast.Attribute: Executor.attribute,
}


def _apply(method: Callable[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    if method.__name__ in _COSTLY:
        _refuse_costly(method.__name__, arguments, keywords)
    try:
        return method(*arguments, **keywords)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise _BadArguments(str(error)) from error
        raise


def _refuse_costly(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Stops the computations that one short call can make endless."""
    names = _COSTLY[name]
    bound = {**dict(zip(names, arguments, strict=False)), **keywords}
    amount, base = bound.get(names[-1]), bound.get("base")
    if not isinstance(amount, int):
        return
    if name == "power":
        if isinstance(base, int) and (abs(base).bit_length() - 1) * amount > UNPRINTABLE_BITS:
            raise ValueError(
                "Exceeds the limit (4300 digits) for integer string conversion; use sys.set_int_max_str_digits() to "
                "increase the limit"
            )
    elif (-amount if name == "round_number" else amount) > LARGEST_PRECISION:
        raise ValueError(f"{names[-1]} {amount} is over {LARGEST_PRECISION}, the harness's limit")


_COSTLY: Mapping[str, tuple[str, ...]] = {
    "power": ("base", "exponent"),
    "square_root": ("number", "precision"),
    "logarithm": ("value", "base", "precision"),
    "round_number": ("number", "decimal_places"),
}


def _executed(value: Any) -> Executed:
    return Executed(_as_text(value), _tool_error(value))


def _key(value: Any) -> Key:
    if type(value) is not dict:
        return _as_text(value)
    try:
        return marshal.dumps(value, 2)  # the last version in which equal values always give equal bytes
    except ValueError:
        return _as_text(value)


def key_text(key: Key) -> str:
    """The result string of a key."""
    if isinstance(key, str):
        return key
    try:
        return _as_text(marshal.loads(key))  # noqa: S302 - made by `_key`
    except ValueError as error:
        return _failure(error, "exception").text


def _as_text(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is not dict:
        return str(value)
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _tool_error(value: Any) -> CallError | None:
    """Tools report an error as a dict with that key, some as a list of one such dict or of one sentence."""
    if isinstance(value, list) and value:
        value = value[0]
    if type(value) is dict:
        return "tool_error" if "error" in value else None
    return "tool_error" if isinstance(value, str) and value.startswith("Error:") else None


def _failure(error: Exception, kind: CallError) -> Executed:
    return Executed(f"Error during execution: {error}", kind)
