"""What goes to an OpenAI-compatible server and what comes back: pure reading and writing, no connection.

A server's answer is trusted in nothing. What is no chat completion raises `Malformed`: it is a fault of the server and
never a model's answer. What the model may do wrong (arguments that are no JSON, no text at all, calls of tools that don't exist) passes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from agents.base import Sampling
from agents.chat import tool_block, wire_messages
from envs.parsing import tool_call
from trajectories.schema import Action, Message, ToolCall, ToolSpec, Usage

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Where servers put reasoning; the first is also what we send where a server has not yet said any."""

OPENAI_URL = "https://api.openai.com/v1"

_CONTEXT = re.compile(
    r"context[ _-]?(length|window|size)|longer than the model|prompt is too long|input (is )?too long|input token count exceeds|too many (input )?tokens",
    re.IGNORECASE,
)


class Malformed(ValueError):
    """A 200 answer that is no chat completion."""


class Answer(NamedTuple):
    """A chat completion, read. `reasoning_field` is the name under which reasoning came, None where there was none."""

    action: Action
    reasoning_field: str | None


def request(
    model: str,
    history: Sequence[Message],
    tools: Sequence[ToolSpec],
    sampling: Sampling,
    *,
    seed: int,
    official: bool,
    reasoning_field: str,
) -> dict[str, Any]:
    """Arguments for `chat.completions.create`. `official`: OpenAI's own API, which has another name for `max_tokens`."""
    wanted: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_completion_tokens" if official else "max_tokens": sampling.max_tokens,
        "tools": [tool_block(tool) for tool in tools] or None,
        "extra_body": None if sampling.top_k is None else {"top_k": sampling.top_k},
    }
    given = {key: value for key, value in wanted.items() if value is not None}
    return {"model": model, "messages": wire_messages(history, reasoning_field), "seed": seed % 2**31, **given}


def read_answer(body: bytes) -> Answer:
    """The action in a chat completion; Malformed with the reason where it is none."""
    document = _document(body)
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Malformed(f"no choices: {_shown(body)}")
    choice = cast("dict[str, Any]", choices[0])
    message = choice.get("message")
    if not isinstance(message, dict) or choice.get("error"):
        raise Malformed(f"no message: {_shown(body)}")
    return _read_message(cast("dict[str, Any]", message), choice.get("finish_reason"), document.get("usage"))


def too_long(message: str) -> bool:
    """Whether a refusal says that the conversation does not fit the model."""
    return _CONTEXT.search(message) is not None


def _document(body: bytes) -> dict[str, Any]:
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON: {_shown(body)}") from error
    if not isinstance(document, dict):
        raise Malformed(f"no JSON object: {_shown(body)}")
    if document.get("error"):
        raise Malformed(f"an error in a 200 answer: {_shown(body)}")
    return cast("dict[str, Any]", document)


def _read_message(message: Mapping[str, Any], finish_reason: Any, usage: Any) -> Answer:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise Malformed(f"tool_calls is no list but {type(calls).__name__}")
    field = next((name for name in REASONING_FIELDS if isinstance(message.get(name), str) and message[name]), None)
    action = Action(
        content=_text(message.get("content")) or _text(message.get("refusal")),
        reasoning=message[field] if field else None,
        tool_calls=_read_calls(cast("list[Any]", calls)),
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        usage=_read_usage(usage),
    )
    return Answer(action, field)


def _text(content: Any) -> str:
    """Content may be text, nothing, or a list of parts of which the text ones count."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise Malformed(f"content is neither text nor a list but {type(content).__name__}")
    parts = cast("list[Any]", content)
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _read_calls(calls: Sequence[Any]) -> tuple[ToolCall, ...]:
    """Ids that are missing or taken are replaced, so that each result finds its call."""
    read: list[ToolCall] = []
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise Malformed(f"tool call {index + 1} has no function")
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in {other.id for other in read}:
            call_id = f"call_{index}"
        read.append(tool_call(call_id, str(function.get("name") or ""), function.get("arguments", "")))
    return tuple(read)


def _read_usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    said = cast("dict[str, Any]", usage)
    prompt, completion = _part(said, "prompt_tokens_details"), _part(said, "completion_tokens_details")
    cost = said.get("cost")
    return Usage(
        prompt_tokens=_count(said.get("prompt_tokens")),
        completion_tokens=_count(said.get("completion_tokens")),
        reasoning_tokens=_count(completion.get("reasoning_tokens")),
        cached_tokens=_count(prompt.get("cached_tokens")),
        cost_usd=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0 else None,
    )


def _part(usage: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = usage.get(name)
    return cast("dict[str, Any]", part) if isinstance(part, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _shown(body: bytes) -> str:
    text = body[:200].decode(errors="replace")
    return repr(text) if body else "an empty body"
