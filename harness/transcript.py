"""A trajectory as lines that a person reads. Pure: no files, no terminal.

What a model or a tool wrote can't act on the terminal: control characters, escape sequences and direction overrides
are shown as `\\x1b` and the like.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from harness.tables import cell_width
from trajectories.schema import CallRecord, Message, Step, ToolSpec, Trajectory, Verdict, canonical_json

Style = Literal["title", "role", "dim", "call", "error", "plain"]

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


class Line(NamedTuple):
    """One line of output and what it is."""

    style: Style
    text: str


def safe(text: str) -> str:
    """The text with everything escaped that could move a cursor, change a colour or reorder characters."""
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    return _UNSAFE.sub(lambda found: _escape(found[0]), text)


def safe_line(text: str) -> str:
    """The same on one line."""
    return safe(text).replace("\n", "\\n")


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns; wide characters count two. Words stay whole where they fit a line."""
    return [part for line in text.split("\n") for part in _wrap_line(line, max(width, 2))]


def transcript(trajectory: Trajectory, width: int) -> Iterator[Line]:
    """The whole episode: what it was, what was said, and what became of each call."""
    return (Line(style, safe_line(text)) for style, text in _lines(trajectory, width))


def _lines(trajectory: Trajectory, width: int) -> Iterator[Line]:
    yield from _head(trajectory, width)
    yield from _tools("tools", trajectory.tools, width)
    for message in trajectory.opening:
        yield from _message(message, width)
    for number, step in enumerate(trajectory.steps, 1):
        yield from _step(number, step, width)
    yield from _end(trajectory, width)


def _head(trajectory: Trajectory, width: int) -> Iterator[Line]:
    key, task = trajectory.key, trajectory.task
    yield Line("title", f"trajectory {safe_line(trajectory.id)}")
    rows = {
        "task": f"{task.benchmark} · {task.id} · {task.category} · {task.split} · {task.language}",
        "agent": f"{key.agent} · attempt {key.attempt} · seed {key.seed}",
        "settings": canonical_json(key.env_settings),
        "config": canonical_json(key.agent_config),
        "data": trajectory.data,
    }
    for name, value in rows.items():
        if value:
            yield from _block(f"{name:<9}", value, "dim", width)


def _tools(name: str, tools: Sequence[ToolSpec], width: int) -> Iterator[Line]:
    if tools:
        yield from _block(f"{name:<9}", ", ".join(tool.name for tool in tools), "dim", width)


def _message(message: Message, width: int) -> Iterator[Line]:
    yield Line("plain", "")
    yield Line("role", message.role if message.name is None else f"{message.role} {safe_line(message.name)}")
    yield from _said(message.reasoning, message.content, width)


def _said(reasoning: str | None, content: str, width: int) -> Iterator[Line]:
    if reasoning:
        yield from _block("  (thinks) ", reasoning, "dim", width)
    if content:
        yield from _block("  ", content, "plain", width)


def _step(number: int, step: Step, width: int) -> Iterator[Line]:
    yield Line("plain", "")
    yield Line("dim", " · ".join(_step_facts(number, step)))
    yield Line("role", "assistant")
    yield from _said(step.action.reasoning, step.action.content, width)
    if step.parse_error:
        yield from _block("  ! ", f"not understood: {step.parse_error}", "error", width)
    calls = step.calls or _paired(step)
    for call in calls:
        yield from _call(call, width)
    results = {call.result for call in calls}
    for message in step.observation:
        if message.role != "tool" or message.content not in results:
            yield from _message(message, width)
    if step.tools is not None:
        yield from _tools("tools now", step.tools, width)


def _step_facts(number: int, step: Step) -> Iterator[str]:
    yield f"step {number}"
    yield f"turn {step.turn + 1}"
    if step.timing is not None:
        yield f"agent {step.timing.agent_s:.3f} s"
        yield f"env {step.timing.env_s:.3f} s"
    usage = step.action.usage
    if usage is not None and usage.completion_tokens is not None:
        yield f"{usage.completion_tokens} tokens"
    if step.reward:
        yield f"reward {step.reward:g}"


def _paired(step: Step) -> list[CallRecord]:
    """The calls of an environment that keeps no call records, with the messages that answer them."""
    answers = {message.tool_call_id: message.content for message in step.observation if message.role == "tool"}
    return [
        CallRecord(name=call.name, arguments=call.arguments, result=answers.get(call.id))
        for call in step.action.tool_calls
    ]


def _call(call: CallRecord, width: int) -> Iterator[Line]:
    yield from _block("  → ", f"{call.name}({_arguments(call.arguments)})", "call", width)
    label = f"[{call.error}] " if call.error else ""
    if call.result is None:
        yield Line("error" if call.error else "dim", f"  ← {label}(no result)")
    else:
        yield from _block("  ← ", label + call.result, "error" if call.error else "plain", width)


def _arguments(arguments: dict[str, Any] | str) -> str:
    if isinstance(arguments, str):
        return arguments
    return ", ".join(f"{name}={canonical_json(value)}" for name, value in arguments.items())


def _end(trajectory: Trajectory, width: int) -> Iterator[Line]:
    yield Line("plain", "")
    how = trajectory.ended + (f" by {trajectory.limit}" if trajectory.limit else "")
    yield Line("title", f"{how} · reward {trajectory.reward:g} · {len(trajectory.steps)} steps · {_cost(trajectory)}")
    for name, verdict in sorted(trajectory.verdicts.items()):
        yield from _verdict(name, verdict, width)
    failure = trajectory.failure
    if failure is not None:
        yield from _block("  ! ", f"{failure.boundary}: {failure.kind}: {failure.message}", "error", width)
        if failure.traceback:
            yield from _block("    ", failure.traceback, "dim", width)


def _cost(trajectory: Trajectory) -> str:
    usage = trajectory.usage
    facts = [f"{usage.prompt_tokens or 0} tokens in, {usage.completion_tokens or 0} out"]
    if usage.cost_usd is not None:
        facts.append(f"{usage.cost_usd:.4f} USD")
    if trajectory.timing is not None:
        facts.append(f"{trajectory.timing.wall_s:.2f} s")
    return " · ".join(facts)


def _verdict(name: str, verdict: Verdict, width: int) -> Iterator[Line]:
    said = f"{'passed' if verdict.passed else 'failed'}, score {verdict.score:g} ({verdict.grader})"
    detail = f" {canonical_json(verdict.detail)}" if verdict.detail else ""
    yield from _block(f"  {safe_line(name):<9}", said + detail, "plain" if verdict.passed else "error", width)


def _block(label: str, text: str, style: Style, width: int) -> Iterator[Line]:
    """The text under a label, its further lines indented alike."""
    indent = " " * len(label)
    for at, line in enumerate(wrap(safe(text), width - len(label))):
        yield Line(style, ((indent if at else label) + line).rstrip())


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _wrap_line(line: str, width: int) -> Iterator[str]:
    if line.isascii() and len(line) <= width:
        yield line
        return
    start, used, blank = 0, 0, -1
    at = 0
    while at < len(line):
        columns = cell_width(line[at])
        if used + columns > width and at > start:
            end = blank if blank > start else at
            yield line[start:end]
            start = end + 1 if end == blank else end
            at, used, blank = start, 0, -1
            continue
        if line[at] == " ":
            blank = at
        used += columns
        at += 1
    yield line[start:]
