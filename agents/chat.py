"""Conversations in the form that chat templates and OpenAI-compatible servers read."""

import json
from collections.abc import Sequence
from typing import Any

from trajectories.schema import Message, ToolCall, ToolSpec


def tool_block(tool: ToolSpec) -> dict[str, Any]:
    """A tool as an OpenAI function."""
    parameters = tool.parameters or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def template_messages(history: Sequence[Message]) -> list[dict[str, Any]]:
    """For a chat template: arguments are objects where they are any, and reasoning stands as `reasoning_content`."""
    return [_message(message, _template_call, "reasoning_content") for message in history]


def wire_messages(history: Sequence[Message], reasoning_field: str) -> list[dict[str, Any]]:
    """For a server: arguments are JSON text. Reasoning goes back under the name under which the server sent it.

    Raw arguments, which were no JSON object, are sent as a JSON string: servers that decode arguments before they fill in their
    template answer 400 to anything else, and most templates then print the string as the model wrote it.
    """
    return [_message(message, _wire_call, reasoning_field) for message in history]


def _message(message: Message, call: Any, reasoning_field: str) -> dict[str, Any]:
    out: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        out[reasoning_field] = message.reasoning
    if message.tool_calls:
        out["tool_calls"] = [call(item) for item in message.tool_calls]
    if message.role == "tool":
        out["tool_call_id"] = message.tool_call_id or ""
        if message.name:
            out["name"] = message.name
    return out


def _template_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _wire_call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
