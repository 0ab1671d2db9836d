"""The shared words: frozen records of which an episode is made, as they are stored.

Everything above this package speaks in these types. Unknown keys are refused and each stored trajectory carries the
schema version, so that a reader can tell an older or newer file from a broken one. What depends on the clock stands
only in fields named `timing`; `Trajectory.content_bytes` leaves exactly those out.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

SCHEMA_VERSION = 1

MAX_NESTING = 100
"""Levels of lists and objects in a JSON value of a record. JSON readers stop at 200, the record's own levels included."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_text(value: Any) -> Any:
    """Text with lone surrogates replaced by U+FFFD: a model can emit them in JSON escapes, UTF-8 can't hold them."""
    if isinstance(value, str):
        return value if value.isascii() else _LONE_SURROGATE.sub("\ufffd", value)
    return value


def clean_json(value: Any) -> Any:
    """A JSON value with `clean_text` applied to every string and key in it; tuples become lists.

    ValueError for one that nests deeper than `MAX_NESTING`: it could be written and never be read again.
    """
    return _cleaned(value, MAX_NESTING)


def _cleaned(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if not levels:
        raise ValueError(f"A JSON value in a record nests at most {MAX_NESTING} levels deep.")
    if isinstance(value, Mapping):
        return {clean_text(key): _cleaned(item, levels - 1) for key, item in value.items()}
    return [_cleaned(item, levels - 1) for item in value]


Text = Annotated[str, BeforeValidator(clean_text)]
Json = Annotated[JsonValue, BeforeValidator(clean_json)]
JsonObject = Annotated[dict[str, JsonValue], BeforeValidator(clean_json)]


def canonical_json(value: Any) -> str:
    """One text per JSON value: sorted keys, no spaces, no escapes beyond what JSON needs. 1 and 1.0 stay apart."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """The first 32 hex digits of the SHA-256 of `canonical_json(value)`."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Record(BaseModel):
    """Frozen, and closed: a key that the schema doesn't know is an error, not a surprise."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class ToolSpec(Record):
    """A tool as the model sees it; `parameters` is a JSON schema object."""

    name: Text
    description: Text = ""
    parameters: JsonObject = Field(default_factory=dict)


class ToolCall(Record):
    """One call as emitted. `arguments` is the raw text where it was no JSON object."""

    id: Text
    name: Text
    arguments: JsonObject | Text


class Message(Record):
    """One message of the conversation. `tool_call_id` and `name` belong to role `tool` only."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Text = ""
    reasoning: Text | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: Text | None = None
    name: Text | None = None


class TokenTrace(Record):
    """What a local policy read and sampled: never re-tokenised.

    `logprobs` are natural logs under the distribution that was sampled from (after temperature, before top-p and
    top-k cuts), one for each completion id; for greedy answers they are those at temperature 1. `prompt_ids` is the whole prompt
    of this action; the token that ended the answer is the last of `completion_ids`.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


class Usage(Record):
    """Tokens and money of one model call, or their sums. None where the model's side did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    """How many of the completion tokens were reasoning."""
    cached_tokens: int | None = None
    cost_usd: float | None = None


class Action(Record):
    """One assistant message with zero or more tool calls: what an agent returns and `Env.step` takes."""

    content: Text = ""
    reasoning: Text | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: Text | None = None
    tokens: TokenTrace | None = None
    usage: Usage | None = None

    def message(self) -> Message:
        """The action as it stands in the conversation from now on."""
        return Message(role="assistant", content=self.content, reasoning=self.reasoning, tool_calls=self.tool_calls)


CallError = Literal["unknown_tool", "bad_arguments", "tool_error", "exception", "not_executed"]


class CallRecord(Record):
    """One emitted call and what became of it. `error` None: it ran and reported no error.

    `tool_error` is an error that the tool itself returned; `exception` one that the harness caught;
    `not_executed` a call that the environment ignored.
    """

    name: Text
    arguments: JsonObject | Text
    result: Text | None = None
    error: CallError | None = None


class StepTiming(Record):
    """Seconds of wall time inside the agent and inside the environment."""

    agent_s: float
    env_s: float


class Step(Record):
    """One model response and how the environment answered it."""

    action: Action
    observation: tuple[Message, ...] = ()
    """Messages that are new since the action; the action's own message is not repeated here."""
    tools: tuple[ToolSpec, ...] | None = None
    """The tools from now on, where they changed; None: as before."""
    reward: float = 0.0
    turn: int = 0
    """Index of the user turn in which the action was taken, from 0."""
    calls: tuple[CallRecord, ...] = ()
    parse_error: Text | None = None
    """Why the text held no usable call, where it should or may have; None: it parsed, or was plain text."""
    state: Text | None = None
    """Digest of the environment's state after the step; None where the environment has no such thing."""
    timing: StepTiming | None = None


class Task(Record):
    """One row of a benchmark. `digest` covers all of the row that an episode or a grade can depend on."""

    benchmark: str
    id: str
    category: str
    split: str
    language: str = "en"
    cluster: str
    """Tasks of one cluster are not independent (one dialogue, one problem, one world): intervals resample clusters."""
    digest: str


class EpisodeKey(Record):
    """What makes an episode this one and no other; ports, keys and paths are left out."""

    task: Task
    env_version: str
    env_settings: JsonObject
    agent: str
    agent_config: JsonObject
    seed: int
    attempt: int

    def trajectory_id(self) -> str:
        """The id under which this episode is stored, looked up and resumed: 32 hex digits.

        The task's cluster is left out: it says how intervals are made, not what is played.
        """
        return digest(self.model_dump(mode="json", exclude={"task": {"cluster"}}))


class Failure(Record):
    """Why an episode has no end of its own, and at which boundary it broke."""

    boundary: Literal["agent", "environment", "sandbox", "infrastructure"]
    kind: str
    """The exception's class name."""
    message: Text
    traceback: Text | None = None
    retry_after_s: float | None = None
    """Seconds after which the other side said it may be tried again."""

    @property
    def ours(self) -> bool:
        """True unless the agent is to blame: then the episode is owed again and never scored 0."""
        return self.boundary != "agent"


class Verdict(Record):
    """What one grader says of one episode or prediction. `score` is in [0, 1]."""

    grader: str
    """Versioned id, such as `official@bfcl-eval-2025.8.6.2`."""
    passed: bool
    score: float
    detail: JsonObject = Field(default_factory=dict)


class Timing(Record):
    """Start in seconds since the epoch, and seconds of wall time: of all, in the agent, in the environment.

    Of an episode that was tried again: the first start, and the sums over its tries without the waits between them.
    """

    started_at: float
    wall_s: float
    agent_s: float
    env_s: float


class Trajectory(Record):
    """All that happened in one episode."""

    schema_version: Literal[1] = 1
    id: str
    key: EpisodeKey
    opening: tuple[Message, ...] = ()
    """The first observation."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools at the start."""
    steps: tuple[Step, ...] = ()
    ended: Literal["terminated", "truncated", "failed"]
    limit: str | None = None
    """Which limit truncated the episode: `max_steps`, `force_quit`, `time`, `tokens`, `cost`, `context_window`, ..."""
    failure: Failure | None = None
    reward: float = 0.0
    verdicts: dict[str, Verdict] = Field(default_factory=dict)
    """By grader name: `official` and `strict`. Empty where the episode failed."""
    usage: Usage = Usage()
    """Of all tries, those that a fault of ours broke included; the steps' own usage stands in their actions."""
    tries: int = 1
    """How often the episode was started, retries after our own faults included."""
    data: str = ""
    """Which data the task came from: a pinned version, or `custom:` and the first 8 digits of its sha256."""
    harness_version: str = ""
    timing: Timing | None = None

    @property
    def task(self) -> Task:
        return self.key.task

    @property
    def done(self) -> bool:
        """Whether the episode counts: it ended, or the agent failed it. Faults of ours are owed again."""
        return self.failure is None or not self.failure.ours

    def messages(self) -> tuple[Message, ...]:
        """The whole conversation in order, actions included."""
        said = list(self.opening)
        for step in self.steps:
            said += (step.action.message(), *step.observation)
        return tuple(said)

    def content_bytes(self) -> bytes:
        """The trajectory as canonical JSON without what depends on the clock: equal episodes, equal bytes."""
        payload = self.model_dump(mode="json", exclude={"timing": True, "steps": {"__all__": {"timing"}}})
        return canonical_json(payload).encode()

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return cls.model_validate_json(text)
