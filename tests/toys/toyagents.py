"""Agents for tests of the harness itself, plugged in as `module:toyagents:NAME`."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from trajectories.failures import InfrastructureError, InputError
from trajectories.schema import Action, Message, ToolCall, ToolSpec, Usage


class Adder:
    """Calls `add` with 0 at each step."""

    name = "adder"
    config: Mapping[str, Any] = {}

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        return Action(
            tool_calls=(ToolCall(id="call_0", name="add", arguments={"number": 0}),),
            usage=Usage(prompt_tokens=10, completion_tokens=5, cost_usd=0.001),
        )


class Paced(Adder):
    """Takes 30 ms a step, or as many seconds as TOY_PACE says, and adds what its seed says."""

    name = "paced"

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        time.sleep(float(os.environ.get("TOY_PACE", "0.03")))
        number = seed % 3 * int(history[0].content.split("toy_")[1].split(".")[0])
        return Action(tool_calls=(ToolCall(id="call_0", name="add", arguments={"number": number}),))


class Slow(Adder):
    """Takes 0.1 s a step."""

    name = "slow"

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        time.sleep(0.1)
        return super().act(history, tools, seed=seed)


class Hanging(Adder):
    """Never answers."""

    name = "hanging"

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        time.sleep(3600)
        raise AssertionError


class Broken(Adder):
    """Raises what an agent can't help."""

    name = "broken"

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        raise ZeroDivisionError("my own fault")


class Offline(Adder):
    """Its endpoint is down."""

    name = "offline"

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        raise InfrastructureError("The endpoint does not answer")


class Misused(Adder):
    """Finds out when it acts that the user must change something."""

    name = "misused"

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        raise InputError("The model has no template for tools: play it with --mode prompt.")


class Configured(Adder):
    """Another temperature makes another agent."""

    name = "configured"

    def __init__(self, temperature: float = 0.0) -> None:
        self.config = {"temperature": temperature}


hot = Configured(1.0)
cold = Configured(0.0)
