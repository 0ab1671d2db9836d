"""What became of each emitted call, for the behaviour metrics (spec G)."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from envs.bfcl.dataset import Row
from envs.bfcl.decode import DecodeError, decode_ast
from envs.bfcl.execute import Executed
from envs.bfcl.schemas import tool_name
from trajectories.schema import MAX_NESTING, Action, CallError, CallRecord

Emitted = list[tuple[str, Any]]
"""Name and arguments of each call, in the order emitted."""


def emitted(action: Action, mode: str, language: str = "Python") -> Emitted:
    """The calls of an answer. In prompt mode those that its text decodes to."""
    if mode == "fc":
        return [(call.name, call.arguments) for call in action.tool_calls]
    try:
        decoded = decode_ast(action.content, language)
    except DecodeError:
        return []
    calls = cast("list[dict[str, Any]]", decoded) if isinstance(decoded, list) else []
    return [(name, _jsonable(arguments)) for call in calls for name, arguments in call.items()]


def executed(calls: Emitted, results: Sequence[Executed]) -> list[CallRecord]:
    """Calls that a simulator ran."""
    return [
        CallRecord(name=name, arguments=arguments, result=result.text, error=result.error)
        for (name, arguments), result in zip(calls, results, strict=True)
    ]


def graded(calls: Emitted, row: Row, mode: str) -> list[CallRecord]:
    """Calls of a single-turn answer, which are graded and never run: checked against the documents alone."""
    docs = {tool_name(doc["name"]) if mode == "fc" else doc["name"]: doc for doc in row.functions}
    return [CallRecord(name=name, arguments=args, error=_misfit(docs.get(name), args)) for name, args in calls]


def ignored(calls: Emitted) -> list[CallRecord]:
    """Calls that the environment didn't take."""
    return [CallRecord(name=name, arguments=arguments, error="not_executed") for name, arguments in calls]


def native(action: Action) -> Emitted:
    """The native calls of an answer, whatever the mode."""
    return [(call.name, call.arguments) for call in action.tool_calls]


def _misfit(doc: Mapping[str, Any] | None, arguments: Any) -> CallError | None:
    if doc is None:
        return "unknown_tool"
    if not isinstance(arguments, dict):
        return "bad_arguments"
    given = set(cast("dict[str, Any]", arguments))
    known, required = doc["parameters"].get("properties", {}), doc["parameters"].get("required", ())
    return None if given <= set(known) and given >= set(required) else "bad_arguments"


def _jsonable(value: Any, levels: int = MAX_NESTING) -> Any:
    """Decoded arguments as a record can hold them: what JSON lacks, or nests too deep, as Python prints it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if levels and isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {key if isinstance(key, str) else repr(key): _jsonable(item, levels - 1) for key, item in pairs}
    if levels and isinstance(value, list | tuple):
        return [_jsonable(item, levels - 1) for item in cast("Sequence[Any]", value)]
    return repr(value)
