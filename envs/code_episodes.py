"""Episodes in which a program is written (spec 3), for every benchmark that judges code.

Profiles: `single` (also called `default`), one answer that is graded; and `tools`, in which the model may run code, run the public tests
and submit. How much it is told in between is its feedback level:

| profile        | run_code | run_public_tests | a submission that fails                                                        |
|----------------|----------|------------------|--------------------------------------------------------------------------------|
| tools-none     | yes      | no               | ends the episode                                                               |
| tools          | yes      | yes              | ends the episode                                                               |
| tools-verdict  | yes      | yes              | is told that it failed; the episode goes on                                    |
| tools-full     | yes      | yes              | is told which hidden test failed and how; the verdict says `leaks_hidden`       |

Whatever the profile, the reward is what the benchmark's one grade function says of the last submission. An answer without a tool call
and with a fenced block is a submission. Where a limit ends the episode, the last code that was seen is graded. In `prompt` mode the tools
stand in the system message and calls are written as `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

What code prints and how it ends is told without times, so that the same actions give the same bytes; hidden inputs and expected
values are told in `tools-full` alone.
"""

import json
import random
import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from envs import judging
from envs.base import Answer, EnvSettings, HarnessEnv, Opening, unknown_name
from envs.parsing import parse_qwen3
from envs.sandbox.limits import Limits
from envs.sandbox.results import ProgramResult, Status
from trajectories.schema import Action, CallError, CallRecord, Message, Step, ToolCall, ToolSpec, Verdict

PROFILES = ("default", "single", "tools-none", "tools", "tools-verdict", "tools-full")


@dataclass(frozen=True)
class Budget:
    """How much an episode with tools may use; passing one of the first three truncates it, by the limit of that name."""

    max_turns: int = 8
    max_tool_calls: int = 24
    exec_seconds: float = 60.0
    """CPU seconds of code that the model ran by tools, all together. Grading is not in it."""
    run_seconds: float = 10.0
    """Wall seconds of one run of code."""
    output_characters: int = 2000
    """Of one tool's answer; the middle of more is left out."""


BUDGET = Budget()
_STDIN_CHARACTERS = 1 << 20
_SHOWN_TESTS = 2
_FENCE = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)

RUN_CODE = ToolSpec(
    name="run_code",
    description="Runs a Python program in a fresh process and returns what it printed and its exit code. It sees no tests.",
    parameters={
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "The whole program."},
            "stdin": {"type": "string", "description": "What it can read from standard input. Default: nothing."},
        },
        "required": ["code"],
    },
)
RUN_PUBLIC_TESTS = ToolSpec(
    name="run_public_tests",
    description="Runs a solution on the tests that the task itself shows, and returns what became of each.",
    parameters={
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The whole solution."}},
        "required": ["code"],
    },
)
SUBMIT = ToolSpec(
    name="submit",
    description="Hands in a solution. It is run on all tests, hidden ones included.",
    parameters={
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The whole solution."}},
        "required": ["code"],
    },
)
TOOLS_TEXT = (
    "You can call tools. To call one, write\n"
    '<tool_call>{{"name": "run_code", "arguments": {{"code": "..."}}}}</tool_call>\n'
    "with the arguments as JSON. The tools:\n{tools}\n"
)
WORK_TEXT = "You may try your code out with the tools. When it is ready, hand it in with `submit`."
NO_CODE = "That was neither a tool call nor an answer with code. Call a tool, or hand in your solution with `submit`."
WRONG = "The submission does not pass all tests. You can go on."
NO_PUBLIC_TESTS = "This task shows no tests."


class PublicTest(NamedTuple):
    """What became of one public test. `error` is empty where a value came."""

    passed: bool
    input: str
    expected: str
    got: str
    error: str = ""


class Hint(NamedTuple):
    """A hidden test that a submission failed, for `tools-full`."""

    input: str
    expected: str
    got: str


class _Reply(NamedTuple):
    """What a tool says; `error` as in `CallRecord`."""

    text: str
    error: CallError | None = None


class HandedIn(NamedTuple):
    """What is graded. `raw`: a model's text, from which the code has to be taken first; else it is a program."""

    text: str
    raw: bool


class _Seen:
    """Which code was seen last, of what can be graded: programs that were only run give way to all others."""

    def __init__(self) -> None:
        self._handed_in: HandedIn | None = None
        self._scratch = HandedIn("", raw=False)

    def call(self, name: str, code: str) -> None:
        if name == RUN_CODE.name:
            self._scratch = HandedIn(code, raw=False)
        else:
            self._handed_in = HandedIn(code, raw=False)

    def answer(self, text: str) -> None:
        self._handed_in = HandedIn(text, raw=True)

    @property
    def last(self) -> HandedIn:
        return self._handed_in or self._scratch


def handed_in(steps: Iterable[Step], profile: str) -> HandedIn:
    """What was to be graded at the end of a stored episode."""
    seen = _Seen()
    for step in steps:
        if not profile.startswith("tools") or (not step.calls and step.parse_error is None):
            seen.answer(step.action.content)
        for call in step.calls if profile.startswith("tools") else ():
            if call.error is None and isinstance(call.arguments, dict):
                seen.call(call.name, str(call.arguments["code"]))
    return seen.last


def marked(verdict: Verdict, profile: str) -> Verdict:
    """The verdict, which says so where hidden tests were shown: then it is a score of repair."""
    if profile != "tools-full":
        return verdict
    return verdict.model_copy(update={"detail": {**verdict.detail, "leaks_hidden": True}})


class CodeEnv(HarnessEnv):
    """One episode; a benchmark's subclass says what the task is, what in an answer is code, and what code is worth."""

    budget = BUDGET

    @abstractmethod
    def _question(self) -> tuple[Message, ...]:
        """The task as the model is told it."""

    @abstractmethod
    def _extracted(self, text: str) -> str:
        """The code in an answer, by the benchmark's own rule; empty where there is none."""

    @abstractmethod
    def _grade(self, handed_in: HandedIn) -> dict[str, Verdict]:
        """The one grade function: every grader's verdict."""

    @abstractmethod
    def _public_tests(self, code: str) -> Sequence[PublicTest]:
        """Runs code on the tests that the task shows."""

    @abstractmethod
    def _hint(self, code: str) -> Hint | None:
        """The first hidden test that the code fails, where that can be told."""

    @abstractmethod
    def _reference_code(self) -> str:
        """A right solution."""

    # Episodes

    def _open(self, rng: random.Random) -> Opening:
        self._seen = _Seen()
        self._found: dict[str, Verdict] | None = None
        self._calls = 0
        self._exec_s = 0.0
        messages = self._question()
        if not self._with_tools:
            return Opening(messages)
        tools = tools_of(self.settings.profile)
        messages = _with_text(messages, WORK_TEXT)
        if self.settings.mode == "fc":
            return Opening(messages, tools)
        return Opening((_system(messages, tools), *(message for message in messages if message.role != "system")))

    def _answer(self, action: Action) -> Answer:
        if not self._with_tools:
            self._hand_in(action.content)
            return Answer((), True, None, tuple(_ignored(call) for call in action.tool_calls))
        calls, parse_error = self._called(action)
        if calls:
            return self._work(action, calls)
        code = self._fenced(action.content)
        if code and parse_error is None:
            return self._answered(action, code)
        error = parse_error or "the answer holds neither a call nor code"
        return Answer((Message(role="user", content=NO_CODE),), False, self._limit(), parse_error=error)

    def verdicts(self) -> dict[str, Verdict]:
        if self._found is None:
            found = self._grade(self._seen.last)
            self._found = {name: marked(verdict, self.settings.profile) for name, verdict in found.items()}
        return dict(self._found)

    def reference_actions(self) -> tuple[Action, ...]:
        code = self._reference_code()
        if not self._with_tools:
            return (Action(content=f"```python\n{code}\n```"),)
        arguments = {"code": code}
        names = [tool.name for tool in tools_of(self.settings.profile) if tool is not RUN_CODE]
        return tuple(self._call_action(name, arguments) for name in names)

    @property
    def _with_tools(self) -> bool:
        return self.settings.profile.startswith("tools")

    @property
    def _feedback(self) -> str:
        return {"tools": "public"}.get(self.settings.profile, self.settings.profile.removeprefix("tools-"))

    def _hand_in(self, answer: str) -> None:
        self._seen.answer(answer)
        self._found = None

    def _use(self, name: str, code: str) -> None:
        self._seen.call(name, code)
        self._found = None

    def _call_action(self, name: str, arguments: dict[str, Any]) -> Action:
        if self.settings.mode == "fc":
            return Action(tool_calls=(ToolCall(id="call_0", name=name, arguments=arguments),))
        return Action(content=f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>")

    def _called(self, action: Action) -> tuple[Sequence[ToolCall], str | None]:
        if self.settings.mode == "fc":
            return action.tool_calls, None
        parsed = parse_qwen3(action.content)
        return parsed.calls, parsed.error

    def _fenced(self, text: str) -> str:
        return self._extracted(text) if _FENCE.search(text) else ""

    # Tools

    def _work(self, action: Action, calls: Sequence[ToolCall]) -> Answer:
        """Answers the calls one after the other, until one ends the episode or a budget does."""
        replies: list[tuple[ToolCall, _Reply]] = []
        ended = False
        for call in calls:
            if ended or self._limit_of_calls():
                replies.append((call, _Reply("Not run.", "not_executed")))
                continue
            self._calls += 1
            reply, ended = self._run_tool(call)
            replies.append((call, reply))
        limit = None if ended else self._limit()
        return Answer(self._told(replies), ended, limit, tuple(_record(call, reply) for call, reply in replies))

    def _run_tool(self, call: ToolCall) -> tuple[_Reply, bool]:
        """The reply, and whether it ends the episode."""
        known = [tool.name for tool in tools_of(self.settings.profile)]
        if call.name not in known:
            return _Reply(
                f"There is no tool {call.name[:100]!r}. There are: {', '.join(known)}.", "unknown_tool"
            ), False
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        code, stdin = arguments.get("code"), arguments.get("stdin", "")
        if not isinstance(code, str) or not isinstance(stdin, str):
            return _Reply('The arguments have to be a JSON object with "code" as text.', "bad_arguments"), False
        self._use(call.name, code)
        if call.name == "submit":
            return self._judged(code)
        if call.name == "run_code":
            return self._ran(code, stdin[:_STDIN_CHARACTERS]), False
        return _Reply(self._cut(_public_text(self._public_tests(code)))), False

    def _judged(self, code: str) -> tuple[_Reply, bool]:
        """What a submission is told, and whether it ends the episode."""
        if self._feedback in ("none", "public") or self.verdicts()["official"].passed:
            return _Reply("Handed in."), True
        hint = self._hint(code) if self._feedback == "full" else None
        return _Reply(self._cut(WRONG if hint is None else f"{WRONG}\n{_hint_text(hint)}")), False

    def _answered(self, action: Action, code: str) -> Answer:
        """An answer with a fenced block is graded as a single answer is."""
        self._hand_in(action.content)
        reply, ended = self._judged(code)
        messages = () if ended else (Message(role="user", content=reply.text),)
        return Answer(messages, ended, None if ended else self._limit())

    def _ran(self, code: str, stdin: str) -> _Reply:
        left = self.budget.exec_seconds - self._exec_s
        with judging.lease() as worker:
            result = worker.run_program(code, stdin, Limits(wall_s=max(0.1, min(self.budget.run_seconds, left))))
        self._exec_s += result.cpu_s if result.status is not Status.TIME_LIMIT else result.wall_s
        return _Reply(_program_text(result, self.budget.output_characters))

    def _limit_of_calls(self) -> str | None:
        if self._calls >= self.budget.max_tool_calls:
            return "max_tool_calls"
        return "exec_seconds" if self._exec_s >= self.budget.exec_seconds else None

    def _limit(self) -> str | None:
        """Which budget is used up, after this action."""
        return "max_turns" if self._steps + 1 >= self.budget.max_turns else self._limit_of_calls()

    def _told(self, replies: Sequence[tuple[ToolCall, _Reply]]) -> tuple[Message, ...]:
        if self.settings.mode == "fc":
            return tuple(
                Message(role="tool", content=reply.text, tool_call_id=call.id, name=call.name)
                for call, reply in replies
            )
        text = "\n".join(f"<tool_response>\n{reply.text}\n</tool_response>" for _, reply in replies)
        return (Message(role="user", content=text),)

    def _cut(self, text: str) -> str:
        return cut(text, self.budget.output_characters)


def resolve(settings: EnvSettings, benchmark: str) -> EnvSettings:
    """`default` is `single`. InputError for an unknown profile."""
    if settings.profile not in PROFILES:
        raise unknown_name(f"profile of {benchmark}", settings.profile, PROFILES)
    return settings.model_copy(update={"profile": "single"}) if settings.profile == "default" else settings


def tools_of(profile: str) -> tuple[ToolSpec, ...]:
    return (RUN_CODE, SUBMIT) if profile == "tools-none" else (RUN_CODE, RUN_PUBLIC_TESTS, SUBMIT)


def cut(text: str, most: int) -> str:
    """The text without its middle where it is longer."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _record(call: ToolCall, reply: _Reply) -> CallRecord:
    return CallRecord(name=call.name, arguments=call.arguments, result=reply.text, error=reply.error)


def _ignored(call: ToolCall) -> CallRecord:
    return CallRecord(name=call.name, arguments=call.arguments, error="not_executed")


def _with_text(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """The messages with a paragraph more in the last one."""
    *before, last = messages
    return (*before, last.model_copy(update={"content": f"{last.content}\n\n{text}"}))


def _system(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
    listed = "\n".join(json.dumps(tool.model_dump(mode="json"), ensure_ascii=False) for tool in tools)
    own = [message.content for message in messages if message.role == "system"]
    return Message(role="system", content="\n\n".join([*own, TOOLS_TEXT.format(tools=listed)]))


def _public_text(tests: Sequence[PublicTest]) -> str:
    if not tests:
        return NO_PUBLIC_TESTS
    passed = sum(test.passed for test in tests)
    failed = sorted((test for test in tests if not test.passed), key=lambda test: len(test.input))[:_SHOWN_TESTS]
    return "\n\n".join([f"{passed} of {len(tests)} public tests passed.", *map(_failure_text, failed)])


def _failure_text(test: PublicTest) -> str:
    end = f"error: {_brief(test.error)}" if test.error else f"got: {_brief(test.got)}"
    return f"input: {_brief(test.input)}\nexpected: {_brief(test.expected)}\n{end}"


def _hint_text(hint: Hint) -> str:
    return f"input: {_brief(hint.input)}\nexpected: {_brief(hint.expected)}\ngot: {_brief(hint.got)}"


def _brief(text: str) -> str:
    """At most 250 characters of at most 8 lines."""
    return cut("\n".join(text.split("\n")[:8]), 250)


_ENDS = {
    Status.TIME_LIMIT: "It ran out of time.",
    Status.MEMORY_LIMIT: "It ran out of memory.",
    Status.OUTPUT_LIMIT: "It printed too much.",
    Status.CRASHED: "It crashed.",
}


def _program_text(result: ProgramResult, most: int) -> str:
    parts = [_ENDS.get(result.status, f"exit code: {result.exit_code}")]
    for name, data in (("stdout", result.stdout), ("stderr", result.stderr)):
        text = data.decode("utf-8", "replace")
        parts += [f"{name}:\n{cut(text, most // 2)}"] if text else []
    return "\n".join(parts)
