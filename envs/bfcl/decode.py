"""From a model's answer to calls: BFCL's default decoders for prompting and for function calling.

Source: `default_decode_ast_prompting`, `default_decode_execute_prompting` and the OpenAI handler of bfcl-eval
2025.8.6.2; the formats stand in that benchmark's own prompts. Upstream's quirks are kept, since the official score rests
on them: positional arguments are dropped, any unary operator means minus, a bare name is its text, a code fence with a
language tag fails.

Known differences, all on the side of refusing:
- arithmetic is computed by `arithmetic.py`, never by `eval`: an operator over calls, names, attributes, subscripts,
  comparisons or f-strings raises DecodeError, where upstream evaluates it (and mostly fails with a NameError);
- texts over `MAX_TEXT` characters (`grammar.MAX_SOURCE` bytes of Java or JavaScript), and those over the limits of nesting
  or work, raise DecodeError;
- where upstream's recursion limit is reached depends on the caller's stack there as here.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from envs.bfcl.arithmetic import compute
from envs.bfcl.plain_calls import read_plain
from envs.parsing import parse_quietly

MAX_TEXT: Final = 100_000
"""Characters of an answer that may hold calls; 32,000 tokens hold about as many. Longer ones are refused unread."""

_FAULTS: Final = (
    SyntaxError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)


class DecodeError(ValueError):
    """The answer holds no calls that can be read. `text` is the answer where it is text, else empty."""

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


def decode_ast(text: str, language: str = "Python") -> Any:
    """Calls in prompt mode, as a list of one-key dicts {function name: {parameter: value}}.

    Values of Java and JavaScript calls are source text. Source that parses but holds no call gives `{}` (Java) or None
    (JavaScript), as upstream does: the checker calls that a wrong output format. Raises DecodeError only.
    """
    decoder = _DECODERS[language]
    try:
        return decoder(_bracketed(text))
    except _FAULTS as fault:
        raise _refusal(fault, text) from fault


def decode_execute(text: str) -> list[str]:
    """Python call strings in prompt mode, for multi-turn execution: `name(parameter=literal, ...)`.

    A dict argument whose values are all dicts is printed as a call, an upstream quirk; an empty dict can't be printed
    that way and raises. Raises DecodeError only.
    """
    calls = decode_ast(text)
    try:
        return [_call_text(name, arguments) for call in calls for name, arguments in call.items()]
    except _FAULTS as fault:
        raise _refusal(fault, text) from fault


def native_ast(calls: Sequence[Mapping[str, str | Mapping[str, Any]]]) -> Any:
    """Calls of a function-calling answer, where a call is {name: arguments as JSON text, or as an object}.

    JSON that is no object is passed on for the checker to refuse. A text answer raises, except the empty one, which
    gives no calls. Raises DecodeError only. Difference: upstream's handler refuses arguments that are objects already.
    """
    try:
        return [_native_call(call) for call in calls]
    except _FAULTS as fault:
        raise _refusal(fault, calls) from fault


def native_execute(calls: Sequence[Mapping[str, str | Mapping[str, Any]]]) -> list[str]:
    """Python call strings of a function-calling answer. Raises DecodeError only."""
    listed = [calls] if isinstance(calls, Mapping) else calls
    try:
        return [_native_text(name, arguments) for call in listed for name, arguments in call.items()]
    except _FAULTS as fault:
        raise _refusal(fault, calls) from fault


def _bracketed(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise ValueError(f"the answer has {len(text)} characters; at most {MAX_TEXT} are read")
    body = text.strip("`\n ")
    if not body.startswith("["):
        body = "[" + body
    return body if body.endswith("]") else body + "]"


def _refusal(fault: Exception, answer: object) -> DecodeError:
    sentence = f"No calls can be read: {type(fault).__name__}: {str(fault)[:200]}"
    return DecodeError(sentence, answer if isinstance(answer, str) else "")


def _decode_python(body: str) -> list[dict[str, Any]]:
    source = body.strip("[]'")
    plain = read_plain(source)
    if plain is not None:
        return plain
    tree = parse_quietly(source, "eval").body
    if isinstance(tree, ast.Call):
        return [_call(tree)]
    if not isinstance(tree, ast.Tuple | ast.List | ast.Set):
        raise ValueError(f"a {type(tree).__name__} is no call or list of calls")
    return [_only_call(item) for item in tree.elts]


def _only_call(node: ast.expr) -> dict[str, Any]:
    if not isinstance(node, ast.Call):
        raise ValueError(f"a {type(node).__name__} stands among the calls")
    return _call(node)


def _call(node: ast.Call) -> dict[str, Any]:
    return {_dotted(node.func): {keyword.arg: _value(keyword.value) for keyword in node.keywords}}


def _dotted(node: ast.expr) -> str:
    """`a.b.c`; what stands before the first dot is dropped where it is no name."""
    if isinstance(node, ast.Name):
        return node.id
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def _value(node: ast.expr | None) -> Any:
    match node:
        case ast.Constant():
            return "..." if node.value is Ellipsis else node.value
        case ast.Name():
            return node.id
        case ast.List():
            return [_value(item) for item in node.elts]
        case ast.Tuple():
            return tuple([_value(item) for item in node.elts])
        case ast.Dict():
            return {_value(key): _value(item) for key, item in zip(node.keys, node.values, strict=True)}
        case ast.UnaryOp():
            return _negated(node.operand)
        case ast.Call():
            return _call(node) if node.keywords else ast.unparse(node)
        case ast.BinOp():
            return compute(node)
        case ast.Subscript():
            return f"{ast.unparse(node.value)}[{ast.unparse(node.slice)}]"
        case _:
            raise ValueError(f"a {type(node).__name__} is no value")


def _negated(operand: ast.expr) -> Any:
    if not isinstance(operand, ast.Constant):
        raise ValueError("an operator before something that is no constant")
    return -operand.value  # type: ignore[operator] - a TypeError is the answer where it is no number


def _decode_java(body: str) -> Any:
    from envs.bfcl.java import decode_java

    return decode_java(body[1:-1])


def _decode_javascript(body: str) -> Any:
    from envs.bfcl.javascript import decode_javascript

    return decode_javascript(body[1:-1])


_DECODERS: Final = {"Python": _decode_python, "Java": _decode_java, "JavaScript": _decode_javascript}


def _call_text(name: str, arguments: Mapping[Any, Any]) -> str:
    return f"{name}({', '.join(f'{key}={_literal(value)}' for key, value in arguments.items())})"


def _literal(value: Any) -> str:
    if not isinstance(value, dict):
        return repr(value)
    if not all(isinstance(item, dict) for item in value.values()):
        return "{" + ", ".join(f"'{key}': {_literal(item)}" for key, item in value.items()) + "}"
    if not value:
        raise LookupError("an empty dict can't be printed")
    name, arguments = next(iter(value.items()))
    return _call_text(name, arguments)


def _native_call(call: Mapping[str, Any]) -> dict[str, Any]:
    if not call:
        raise LookupError("a call must be an object {name: arguments}")
    name, arguments = next(iter(call.items()))
    return {name: dict(arguments) if isinstance(arguments, Mapping) else _from_json(arguments)}


def _native_text(name: str, arguments: Any) -> str:
    decoded = _from_json(arguments) if isinstance(arguments, str) else arguments
    return f"{name}({','.join(f'{key}={value!r}' for key, value in decoded.items())})"


def _from_json(text: str) -> Any:
    if len(text) > MAX_TEXT:
        raise ValueError(f"{len(text)} characters of arguments; at most {MAX_TEXT} are read")
    return json.loads(text)
