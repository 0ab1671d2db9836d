"""Runs call strings on a simulator's methods. Nothing is ever handed to `eval`.

Upstream (`execute_multi_turn_func_call`, bfcl-eval 2025.8.6.2) puts the instance's variable before every known
`name(` in the text, also inside string arguments, and evaluates the result as Python. Here the rewritten text is
parsed and walked: calls of known methods, literals, and what can be done with those without side effects. The result
strings and error texts are upstream's own. Known differences, none of which a decoded honest answer can reach:

- A name that is neither a known method nor an instance "is not defined", where upstream also finds builtins
  (`len`, `open`) and the executor's own variables (`json`, `initial_config`).
- Attribute access (other than an instance's known methods), comprehensions, lambdas, conditionals, comparisons,
  f-strings, `**`, shifts, starred arguments and slices give an error text that says so. `+ - * / // %` work on numbers.
- Powers whose digits Python would refuse to print, precisions over 100,000 digits and roundings to more than 100,000
  places give an error at once, where upstream computes them first.
- A keyword that is given twice, text that is no Python, and a wrong argument give Python's own messages, as upstream's.
"""

import ast
import json
import operator
import re
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trajectories.schema import CallError

Methods = Mapping[str, Callable[..., Any]]

DENIED = frozenset({"kill", "exit", "quit", "remove", "unlink", "popen", "Popen", "run"})
LARGEST_PRECISION = 100_000

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
_NAME = re.compile(r"\b([a-zA-Z_]\w*)\s*(?=\()")
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
_PARSING = threading.Lock()


class Executed(NamedTuple):
    """What a call string gave: the text that the model sees, and the class of the error in it, None for none."""

    text: str
    error: CallError | None


class _Refused(Exception):
    """Python that upstream would run and we don't; the message says what."""


class _UnknownName(NameError):
    """A name that is no tool; the message is Python's."""


class _BadArguments(Exception):
    """A call that its method does not accept; the message is Python's."""


class Executor:
    """Runs call strings against known methods. `instances` maps each method to the name of its instance's variable."""

    def __init__(self, methods: Methods, instances: Mapping[str, str]) -> None:
        self._methods = methods
        self._instances = instances
        self._variables = frozenset(instances.values())

    def run(self, call: str) -> Executed:
        """Run one call string. Never raises for what the string holds."""
        text = _NAME.sub(self._qualified, call)
        try:
            self._refuse_denied(text)
            value = self._value(_parse(text).body)
            return Executed(_as_text(value), _tool_error(value))
        except _Refused as error:
            return _failure(error, "exception")
        except _BadArguments as error:
            return _failure(error, "bad_arguments")
        except _UnknownName as error:
            return _failure(error, "unknown_tool")
        except SyntaxError as error:
            return _failure(error, "bad_arguments" if _first_name(call) in self._methods else "unknown_tool")
        except _TOOL_ERRORS as error:
            return _failure(error, "exception")

    def _qualified(self, match: re.Match[str]) -> str:
        name = match.group(1)
        return f"{self._instances[name]}.{name}" if name in self._instances else name

    @staticmethod
    def _refuse_denied(text: str) -> None:
        name = text.split("(")[0]
        if "." in name:
            name = name.split(".")[1]
        if name in DENIED:
            raise _UnknownName(f"Function call {name} is not allowed.")

    def _value(self, node: ast.expr) -> Any:
        evaluate = _EVALUATE.get(type(node))
        if evaluate is None:
            raise _Refused(f"{type(node).__name__} expressions are not supported, only calls with literal arguments")
        return evaluate(self, node)

    def call(self, node: ast.Call) -> Any:
        method = self._method(node.func)
        arguments = [self._value(argument) for argument in node.args]
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _Refused("'**' arguments are not supported, only calls with literal arguments")
            keywords[keyword.arg] = self._value(keyword.value)
        _refuse_costly(method.__name__, arguments, keywords)
        try:
            return method(*arguments, **keywords)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise _BadArguments(str(error)) from error
            raise

    def _method(self, node: ast.expr) -> Callable[..., Any]:
        """The method that a call names, in rewritten text always as `<instance>.<method>`."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if self._instances.get(node.attr) == node.value.id:
                return self._methods[node.attr]
        value = self._value(node)
        raise TypeError(f"{type(value).__name__!r} object is not callable")

    def name(self, node: ast.Name) -> Any:
        if node.id in self._variables:
            raise _Refused("an instance is no value, only its tools can be called")
        raise _UnknownName(f"name {node.id!r} is not defined")

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


def _parse(text: str) -> ast.Expression:
    """What `eval` would compile, with its errors and without its warnings."""
    text = text.lstrip(" \t")
    if "\\" not in text:
        return _checked(ast.parse(text, "<string>", "eval"))
    with _PARSING, warnings.catch_warnings():  # a stray backslash warns, which must not depend on the caller's filters
        warnings.simplefilter("ignore")
        return _checked(ast.parse(text, "<string>", "eval"))


def _checked(tree: ast.Expression) -> ast.Expression:
    """The parser leaves keywords that are given twice to the compiler, which never sees this tree."""
    for node in _calls(tree.body):
        names = [keyword.arg for keyword in node.keywords if keyword.arg is not None]
        if len(set(names)) < len(names):
            twice = next(name for index, name in enumerate(names) if name in names[:index])
            raise SyntaxError(f"keyword argument repeated: {twice}", ("<string>", node.lineno, None, None))
    return tree


def _calls(node: ast.AST) -> list[ast.Call]:
    if isinstance(node, ast.Constant):
        return []
    found = [node] if isinstance(node, ast.Call) else []
    for child in ast.iter_child_nodes(node):
        found += _calls(child)
    return found


def _refuse_costly(name: str, arguments: list[Any], keywords: Mapping[str, Any]) -> None:
    """Stops the three computations that one short call can make endless."""
    names = _COSTLY.get(name)
    if names is None:
        return
    bound = {**dict(zip(names, arguments, strict=False)), **keywords}
    amount = bound.get(names[-1])
    if not isinstance(amount, int):
        return
    base = bound.get("base")
    if name == "power" and isinstance(base, int) and (abs(base).bit_length() - 1) * amount > 4 * LARGEST_PRECISION:
        raise ValueError(
            "Exceeds the limit (4300 digits) for integer string conversion; use sys.set_int_max_str_digits() to "
            "increase the limit"
        )
    if name != "power" and abs(amount) > LARGEST_PRECISION:
        raise ValueError(f"{names[-1]} {amount} is over {LARGEST_PRECISION}, the harness's limit")


_COSTLY: Mapping[str, tuple[str, ...]] = {
    "power": ("base", "exponent"),
    "square_root": ("number", "precision"),
    "logarithm": ("value", "base", "precision"),
    "round_number": ("number", "decimal_places"),
}


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
    if isinstance(value, dict):
        return "tool_error" if "error" in value else None
    return "tool_error" if isinstance(value, str) and value.startswith("Error:") else None


def _failure(error: Exception, kind: CallError) -> Executed:
    return Executed(f"Error during execution: {error}", kind)


def _first_name(call: str) -> str:
    return call.split("(")[0].strip()
