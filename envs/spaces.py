"""Gymnasium spaces for conversations: what an environment says, and what an agent may answer."""

from collections.abc import Callable, Sequence
from typing import Any

from gymnasium import Space

from trajectories.schema import Action, Message, ToolCall, ToolSpec


class ConversationSpace(Space[tuple[Message, ...]]):
    """Any tuple of messages. A sample is one short user message."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> tuple[Message, ...]:
        return (Message(role="user", content=f"message {self.np_random.integers(1_000_000)}"),)

    def contains(self, x: Any) -> bool:
        return isinstance(x, tuple) and all(isinstance(message, Message) for message in x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConversationSpace)

    @property
    def is_np_flattenable(self) -> bool:
        return False


class ActionSpace(Space[Action]):
    """Any `Action`. A sample is a call of one of the current tools with no arguments, or plain text if there is none."""

    def __init__(self, tools: Callable[[], Sequence[ToolSpec]] = tuple, seed: int | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)
        self._tools = tools

    def sample(self, mask: Any = None, probability: Any = None) -> Action:
        tools = self._tools()
        if not tools:
            return Action(content=f"answer {self.np_random.integers(1_000_000)}")
        tool = tools[int(self.np_random.integers(len(tools)))]
        return Action(tool_calls=(ToolCall(id="call_0", name=tool.name, arguments={}),))

    def contains(self, x: Any) -> bool:
        return isinstance(x, Action)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpace)

    @property
    def is_np_flattenable(self) -> bool:
        return False
