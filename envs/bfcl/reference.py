"""Correct answers to BFCL tasks, made from the ground truth: for the oracle and for tests, never shown to a model.

An answer file allows several values for a parameter and lets some be left out; not every choice passes upstream's
checker (spec E). `calls` tries few choices and takes the first that passes. Java and JavaScript values are written as
source text, since that is what upstream has a model pass.
"""

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, cast

from envs.bfcl.checker import check_calls
from envs.bfcl.dataset import Row
from envs.bfcl.decode import DecodeError, decode_ast

Call = dict[str, dict[str, Any]]
"""One call as decoded: `{function name: {parameter: value}}`."""

REFUSAL = "None of the functions can serve this request."


def calls(row: Row) -> list[Call]:
    """The calls of a single-turn row with answers, by the documents' names; Java and JavaScript values as source."""
    return [_passing_call(row, answer) for answer in row.ground_truth or ()]


def some_call(row: Row) -> Call:
    """A call of the first function with a value for each required parameter: what `relevance` asks for."""
    doc = row.functions[0]
    properties = doc["parameters"].get("properties", {})
    required = doc["parameters"].get("required", ())
    return {doc["name"]: {name: _any_value(properties.get(name, {})) for name in required}}


def turn_calls(row: Row, turn: Sequence[str]) -> list[Call]:
    """The calls of one ground-truth turn with all arguments by name, as upstream's decoders need them."""
    return [_keyword_call(row, text) for text in turn]


def text(row: Row, answer: Sequence[Call]) -> str:
    """The calls as a prompt-mode answer."""
    if row.language == "Python":
        return "[" + ", ".join(_python_text(call) for call in answer) + "]"
    return _source_text(row, answer[0])


def _python_text(call: Call) -> str:
    ((name, arguments),) = call.items()
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _keyword_call(row: Row, call: str) -> Call:
    node = ast.parse(call, mode="eval").body
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise ValueError(f"Ground truth of {row.id!r}: {call!r} is no call of a plain name.")
    doc = next(doc for doc in row.functions if doc["name"] == node.func.id)
    names = list(doc["parameters"]["properties"])
    arguments = {name: ast.literal_eval(value) for name, value in zip(names, node.args, strict=False)}
    arguments |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return {node.func.id: arguments}


def _passing_call(row: Row, answer: Mapping[str, Mapping[str, Any]]) -> Call:
    ((key, truth),) = answer.items()
    doc = next((doc for doc in row.functions if doc["name"] == key), row.functions[0])
    candidates = [{doc["name"]: arguments} for arguments in _choices(doc, truth, row.language)]
    return next((call for call in candidates if _passes(row, doc, call, answer)), candidates[0])


def _passes(row: Row, doc: dict[str, Any], call: Call, answer: Mapping[str, Any]) -> bool:
    return check_calls([doc], [call], [dict(answer)], row.language, "simple", underscore_to_dot=False).valid


def _choices(doc: dict[str, Any], truth: Mapping[str, Any], language: str) -> Iterator[dict[str, Any]]:
    """Arguments with the first or the last value allowed, or with empty dicts, with and without what may be left out."""
    parameters = doc["parameters"]
    for pick, optional in product((0, -1, None), (True, False)):
        chosen: dict[str, Any] = {}
        for name, allowed in truth.items():
            kept = name in parameters.get("required", ()) or (optional and name in parameters["properties"])
            values = [value for value in allowed if value != ""]
            if kept or "" not in allowed:
                chosen[name] = _written(
                    _concrete(values[pick or 0], pick) if values else "", name, parameters, language
                )
        yield chosen


def _concrete(value: Any, pick: int | None) -> Any:
    """An allowed value itself: the entries of allowed dicts are lists of allowed values again. `pick` None: no entries."""
    if isinstance(value, list):
        return [_concrete(item, pick) if isinstance(item, dict) else item for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    if pick is None:
        return {}
    entries = {key: _alternatives(allowed) for key, allowed in cast("dict[str, Any]", value).items()}
    return {key: values[pick] for key, values in entries.items() if values}


def _alternatives(allowed: Any) -> list[Any]:
    values = cast("list[Any]", allowed) if isinstance(allowed, list) else [allowed]
    return [value for value in values if value != ""]


def _written(value: Any, name: str, parameters: dict[str, Any], language: str) -> Any:
    schema = parameters["properties"].get(name, {})
    if language == "Python":
        return value
    return (_java if language == "Java" else _javascript)(value, schema.get("type"), schema.get("items") or {})


def _java(value: Any, declared: str | None, items: Mapping[str, Any]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return _java_list(cast("list[Any]", value), declared, items.get("type"))
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        puts = " ".join(f'put("{key}", {_java_element(item, None)});' for key, item in entries)
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    suffix = {"long": "L", "float": "f"}.get(str(declared), "") if isinstance(value, int | float) else ""
    return f"{value}{suffix}"


def _java_list(values: list[Any], declared: str | None, element: str | None) -> str:
    if declared == "Array":
        # Upstream strips the quotes of an ArrayList's Strings, and takes those of an Array's for a part of them.
        return f"new {element or 'Object'}[]{{{', '.join(_java(item, element, {}) for item in values)}}}"
    return f"new ArrayList<>(Arrays.asList({', '.join(_java_element(item, element) for item in values)}))"


def _java_element(value: Any, declared: str | None) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _java(value, declared, {})


def _javascript(value: Any, declared: str | None, items: Mapping[str, Any]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_javascript_element(item) for item in cast("list[Any]", value)) + "]"
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{key}: {_javascript_element(item)}" for key, item in entries) + "}"
    return f"{value}n" if declared == "Bigint" else str(value)


def _javascript_element(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else _javascript(value, None, {})


def _any_value(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    values = {"integer": 1, "float": 1.0, "number": 1.0, "boolean": True, "array": [], "tuple": [], "dict": {}}
    return values.get(str(schema.get("type")), "value")


def _source_text(row: Row, call: Call) -> str:
    """A Java or JavaScript call whose text decodes to just these values, if one of three ways to quote each does."""
    ((name, arguments),) = call.items()
    written = [f"{key}={_quoted(row, name, key, value)}" for key, value in arguments.items()]
    return f"[{name}({', '.join(written)})]"


def _quoted(row: Row, name: str, key: str, value: str) -> str:
    forms: tuple[Callable[[str], str], ...] = ('"{}"'.format, "'{}'".format, "{}".format, '"""\n{}\n"""'.format)
    for form in forms:
        try:
            decoded = decode_ast(f"[{name}({key}={form(value)})]", row.language)
        except DecodeError:
            continue
        if decoded == [{name: {key: value}}]:
            return form(value)
    return forms[-1](value)
