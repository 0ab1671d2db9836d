"""What an agent is: conversation in, action out."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from trajectories.schema import Action, Message, Record, ToolSpec


class Agent(Protocol):
    """Decides on the next action from what was said so far.

    An agent keeps no state between calls: many episodes are played at once, from several threads. The same history,
    tools and seed should give the same action as far as the model allows.
    """

    name: str
    """As in the leaderboard, such as `openai:gpt-4o` or `scripted:oracle`."""
    config: Mapping[str, Any]
    """JSON values that decide what the agent does (model, sampling, templates). No keys, ports or paths: it is part of
    each trajectory's identity, and a resumed run refuses another one."""

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        """The next assistant message. `seed` is this step's own, derived from the episode's.

        An exception is an agent failure (scored 0), unless it is InfrastructureError (retried, never scored)
        or ContextWindowExceeded (the episode is truncated and graded).
        """
        ...


@runtime_checkable
class PerEpisode(Protocol):
    """An agent that needs the environment itself, as the oracle does, or an own process per episode."""

    def for_episode(self, env: Any, *, seed: int) -> Agent:
        """The agent that plays this one episode. `env` is the unwrapped, already reset environment."""
        ...


@runtime_checkable
class Closing(Protocol):
    """An agent that holds something (a process, a model, connections) until the run is over."""

    def close(self) -> None: ...


@runtime_checkable
class Waiting(Protocol):
    """An agent that itself waits for another side, and asks it again."""

    def watch(self, stopping: threading.Event) -> None:
        """Once the event is set nothing is waited for any longer: what would be sent again is InfrastructureError."""

    def trouble(self) -> str | None:
        """What it waits on right now; None: nothing worth a word."""
        ...


class Sampling(Record):
    """How a model samples. A field that is None is left to the model's side."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None


class AgentOptions(Record):
    """What the command line says about agents; each kind reads what concerns it and refuses what it can't honour."""

    mode: Literal["prompt", "fc"] = "fc"
    """`fc`: tools are passed natively; `prompt`: the environment puts them into the text and `tools` is empty."""
    sampling: Sampling = Sampling()
    base_url: str | None = None
    """Endpoint of an OpenAI-compatible server. Never part of the identity."""
    request_timeout_s: float = 600.0
    concurrency: int = 1
    """How many episodes are played at once: the most that a batching agent has to serve."""


def shown_url(url: str) -> str:
    """A URL without what may be secret: user, password, query and fragment."""
    plain = url.partition("#")[0].partition("?")[0]
    scheme, found, rest = plain.rpartition("://")
    host, slash, path = rest.partition("/")
    return scheme + found + host.rpartition("@")[2] + slash + path
