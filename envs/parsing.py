"""Text protocols of tool calls: what a local model writes, taken apart at the edge, with `json` and `ast` alone.

`qwen3` (also Hermes and most ChatML tunes): a `<tool_call>` block a call, with a JSON object inside. `olmo3`: one
`<function_calls>` block with a Python call a line, JSON's `true`, `false` and `null` allowed. `llama3`: the whole answer is one
JSON object, or several separated by `;`, with `name` and `parameters`.

A text with a block that can't be read has no calls: all of it stays content, and `error` says why. Arguments that are no
JSON object are no such case: the call stands, with its arguments as raw text.
"""

import ast
import json
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

from pydantic import ValidationError

from trajectories.schema import JsonObject, ToolCall

THINK_END = "</think>"
THINK_START = "<think>"

_QWEN3_BLOCK = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_OLMO3_BLOCK = re.compile(r"<function_calls>\s*(.*?)\s*</function_calls>", re.DOTALL)
_LLAMA3_START = "<|python_tag|>"
# What may make the parser warn: a stray backslash, and a number run into a keyword or a name that begins as one (`1is`).
_MAY_WARN = re.compile(r"\\|(?:(?<!\w)\d|(?<=\d)\.)\w*?(?:and|else|for|i[fns]|not|or)")
_WARNINGS_LOCK = threading.Lock()

_JSON_NAMES = {"true": True, "false": False, "null": None}


class Parsed(NamedTuple):
    """What an answer says apart from its reasoning. `error`: why it holds no usable call, though it seems to try."""

    content: str
    calls: tuple[ToolCall, ...] = ()
    error: str | None = None


class _Unreadable(ValueError):
    """A block that holds no call."""


def split_reasoning(text: str, *, opened: bool = False) -> tuple[str | None, str]:
    """Reasoning and answer, apart at the last `</think>`. `opened`: the prompt ended inside the reasoning.

    Reasoning that never ends has no answer. Only the tags and the blank lines beside them are dropped.
    """
    before, end, after = text.rpartition(THINK_END)
    if end:
        return before.removeprefix(THINK_START).strip("\n"), after.lstrip("\n")
    if opened or text.lstrip().startswith(THINK_START):
        return text.lstrip().removeprefix(THINK_START).strip("\n"), ""
    return None, text


def read_arguments(text: str) -> JsonObject | str:
    """The JSON object that the text is, or the text as it is where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return cast("JsonObject", value) if isinstance(value, dict) else text


def tool_call(call_id: str, name: str, arguments: Any) -> ToolCall:
    """A call as emitted; arguments that are no JSON object, or too deep for a record, are kept as text."""
    given: Any = read_arguments(arguments) if isinstance(arguments, str) else arguments
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    try:
        return ToolCall(id=call_id, name=name, arguments=given if isinstance(given, dict) else raw)
    except (ValidationError, RecursionError):
        return ToolCall(id=call_id, name=name, arguments=raw)


def parse_qwen3(text: str) -> Parsed:
    """Content before and between the blocks, and a call for each block."""
    if "<tool_call>" not in text:
        return Parsed(text)
    left = _QWEN3_BLOCK.sub("", text)
    if "<tool_call>" in left or "</tool_call>" in left:
        return Parsed(text, error="a <tool_call> block is not closed")
    return _collect(text, left, [(_from_object, body, "arguments") for body in _QWEN3_BLOCK.findall(text)])


def parse_olmo3(text: str) -> Parsed:
    """Content around the block, and a call for each line in it."""
    if "<function_calls>" not in text:
        return Parsed(text)
    left = _OLMO3_BLOCK.sub("", text)
    if "<function_calls>" in left or "</function_calls>" in left:
        return Parsed(text, error="a <function_calls> block is not closed")
    try:
        nodes = [node for body in _OLMO3_BLOCK.findall(text) for node in _python_calls(body)]
    except _Unreadable as error:
        return Parsed(text, error=str(error))
    return _collect(text, left, [(_from_python, node, "") for node in nodes])


def parse_llama3(text: str) -> Parsed:
    """Either all of the text is calls, or none of it."""
    body = text.strip().removeprefix(_LLAMA3_START).strip()
    if not body.startswith("{"):
        return Parsed(text)
    try:
        objects = _json_sequence(body)
    except _Unreadable as error:
        return Parsed(text, error=str(error))
    if not all(isinstance(item, dict) and "name" in item for item in objects):
        return Parsed(text)
    return _collect(text, "", [(_from_object, json.dumps(item), "parameters") for item in objects])


PROTOCOLS: dict[str, Callable[[str], Parsed]] = {"qwen3": parse_qwen3, "olmo3": parse_olmo3, "llama3": parse_llama3}


def parse_quietly(text: str, mode: Literal["eval", "exec"], name: str = "<unknown>") -> Any:
    """`ast.parse`, whatever the caller does with warnings. `name` stands for the file in messages of errors."""
    if _MAY_WARN.search(text) is None:
        return ast.parse(text, name, mode)
    with _WARNINGS_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, name, mode)


def _collect(text: str, left: str, parts: list[tuple[Callable[[int, Any, str], ToolCall], Any, str]]) -> Parsed:
    try:
        calls = tuple(read(index, part, key) for index, (read, part, key) in enumerate(parts))
    except _Unreadable as error:
        return Parsed(text, error=str(error))
    return Parsed(left.strip(), calls)


def _from_object(index: int, body: str, key: str) -> ToolCall:
    try:
        item: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"call {index + 1} is no JSON: {error}") from error
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise _Unreadable(f"call {index + 1} is no JSON object with a name")
    return tool_call(f"call_{index}", item["name"], item.get(key, {}))


def _python_calls(body: str) -> list[ast.Call]:
    try:
        nodes = parse_quietly(body, "exec").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _Unreadable(f"the calls are no Python: {error}") from error
    calls = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    if len(calls) != len(nodes):
        raise _Unreadable("the block holds something other than calls")
    return calls


def _from_python(index: int, node: ast.Call, key: str) -> ToolCall:
    if node.args or any(keyword.arg is None for keyword in node.keywords):
        raise _Unreadable(f"call {index + 1} has arguments without a name")
    arguments = {str(keyword.arg): _literal(keyword.value, index) for keyword in node.keywords}
    return tool_call(f"call_{index}", ast.unparse(node.func), arguments)


def _literal(node: ast.expr, index: int) -> Any:
    if isinstance(node, ast.Name) and node.id in _JSON_NAMES:
        return _JSON_NAMES[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item, index) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {_key(key, index): _literal(value, index) for key, value in zip(node.keys, node.values, strict=True)}
    try:
        value: Any = ast.literal_eval(node)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"call {index + 1} has an argument that is no literal: {ast.unparse(node)[:80]}") from error
    if not isinstance(value, str | int | float | None):
        raise _Unreadable(f"call {index + 1} has an argument that JSON can't hold: {ast.unparse(node)[:80]}")
    return value


def _key(node: ast.expr | None, index: int) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise _Unreadable(f"call {index + 1} has an object whose key is no text")
    return node.value


def _json_sequence(body: str) -> list[Any]:
    """JSON values separated by `;`."""
    decoder, values, at = json.JSONDecoder(), list[Any](), 0
    while at < len(body):
        try:
            value, at = decoder.raw_decode(body, at)
        except (ValueError, RecursionError) as error:
            raise _Unreadable(f"the answer starts as a JSON object but is none: {error}") from error
        values.append(value)
        rest = body[at:].lstrip("; \n\t")
        at = len(body) - len(rest)
    return values
