"""From a model's raw output to a verdict: one path for live episodes, stored trajectories and predictions files.

Raw output is what upstream keeps in a result file: for a single turn a text (prompt mode), or a list of
`{name: arguments}` with the arguments as JSON text or object (function calling); for multi-turn a list of turns, each
a list of steps, each such a raw output. What can't be decoded fails as upstream lets it fail; nothing here raises for
what a model wrote.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from envs.bfcl.checker import check_calls, check_relevance
from envs.bfcl.dataset import Row
from envs.bfcl.decode import DecodeError, decode_ast, decode_execute, native_ast, native_execute
from envs.bfcl.multi_turn import check_multi_turn, check_multi_turn_strict
from envs.bfcl.outcome import Outcome, RawOutput
from envs.bfcl.strict import check_calls_strict, check_relevance_strict
from trajectories.schema import Action, Verdict, clean_text

STRICT_VERSION = 1
"""Bump it when `strict` may give another verdict on the same input."""

NO_RESPONSE = "no_response"
"""The error type of an episode that was over before the model said anything: silence passes no task, an empty text may."""

WRONG_TYPE = "wrong_type"
"""The error type of a single-turn output that is neither text nor a list. Known difference: upstream takes it, and null, for a refusal."""

_LONGEST_DETAIL = 2_000
_LONGEST_INT = 1_024


def grader_id(grader: str, data_version: str) -> str:
    return f"strict{STRICT_VERSION}@{data_version}" if grader == "strict" else f"{grader}@{data_version}"


def raw_step(action: Action, mode: str) -> Any:
    """What upstream's result file would hold for this action. In function calling, text counts where no tool is called."""
    if mode == "prompt" or not action.tool_calls:
        return action.content
    return [{call.name: call.arguments} for call in action.tool_calls]


def decode_single(value: Any, language: str, *, native: bool) -> Any:
    """The calls of a single-turn output, or the DecodeError that says why there are none.

    `native`: text is no call, as upstream's function-calling handlers have it; a list is read natively anyhow.
    """
    try:
        if isinstance(value, str):
            return native_ast(cast("Any", value)) if native else decode_ast(value, language)
        return native_ast(_calls(value))
    except DecodeError as error:
        return error if isinstance(value, str) else DecodeError(str(error), _as_text(value))


def decode_step(value: Any, *, native: bool) -> list[str] | DecodeError:
    """The call strings of one step of a multi-turn output, or the DecodeError; `native` as above."""
    try:
        if isinstance(value, str):
            return native_execute(cast("Any", value)) if native else decode_execute(value)
        return native_execute(_calls(value))
    except DecodeError as error:
        return error


def _calls(value: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise DecodeError(f"The output is of type {type(value).__name__}, neither text nor a list of calls.")
    items = cast("list[Any]", value)
    strange = next((item for item in items if not isinstance(item, dict)), None)
    if strange is not None:
        raise DecodeError(f"The list holds {type(strange).__name__} {str(strange)[:60]!r}, which is no call.")
    return cast("list[Mapping[str, Any]]", items)


def _as_text(value: Any) -> str:
    """A list that holds no readable calls as the text that it would be: blocks of text, or JSON of what was called."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    blocks = [item if isinstance(item, str) else json.dumps({"arguments": item}) for item in items]
    return "\n".join(blocks)


def outcome(row: Row, output: RawOutput, grader: str) -> Outcome:
    """The verdict of `official` or `strict` on one raw output."""
    if row.multi_turn:
        found = _multi_turn(row, output, grader)
        return found if output.answered else found._replace(valid=False, error_type=NO_RESPONSE)
    if not output.answered or output.value is None:
        return Outcome(False, NO_RESPONSE)
    if not isinstance(output.value, str | list):
        return Outcome(False, WRONG_TYPE, {"message": f"The output is of type {type(output.value).__name__}."})
    decoded = decode_single(output.value, row.language, native=output.native)
    strict = grader == "strict"
    if "relevance" in row.category:
        return (check_relevance_strict if strict else check_relevance)(decoded, row.category)
    if isinstance(decoded, DecodeError):
        return Outcome(False, "ast_decoder:decoder_failed", {"message": str(decoded)})
    return (check_calls_strict if strict else check_calls)(
        row.functions,
        decoded,
        row.ground_truth or [],
        row.language,
        row.category,
        underscore_to_dot=output.underscores,
    )


def _multi_turn(row: Row, output: RawOutput, grader: str) -> Outcome:
    if not isinstance(output.value, list):
        return Outcome(False, "multi_turn:inference_error", {"message": "The output is no list of turns."})
    turns = [_decoded_turn(turn, output.native) for turn in cast("list[Any]", output.value)]
    return (check_multi_turn_strict if grader == "strict" else check_multi_turn)(turns, row)


def _decoded_turn(turn: Any, native: bool) -> list[list[str]]:
    """The steps that call something. A turn that is no list has none."""
    steps = cast("list[Any]", turn) if isinstance(turn, list) else []
    decoded = [decode_step(step, native=native) for step in steps]
    return [step for step in decoded if not isinstance(step, DecodeError) and step]


def verdict(row: Row, output: RawOutput, grader: str, data_version: str) -> Verdict:
    found = outcome(row, output, grader)
    detail = {"category": row.category, "error_type": found.error_type, **found.detail}
    return Verdict(
        grader=grader_id(grader, data_version),
        passed=found.valid,
        score=1.0 if found.valid else 0.0,
        detail=plain(detail),
    )


def plain(value: Any) -> Any:
    """A JSON value for people to read: long text is cut, and what JSON can't say is printed as Python prints it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _LONGEST_INT else f"a whole number of {value.bit_length()} bits"
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, Mapping):
        return {_cut(str(key)): plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return _cut(repr(value))


def _cut(value: str) -> str:
    value = clean_text(value)
    return value if len(value) <= _LONGEST_DETAIL else f"{value[:_LONGEST_DETAIL]}… ({len(value)} characters)"
