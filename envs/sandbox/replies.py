"""From the jail's replies to results: what ended a submission, and what it claims. Pure functions."""

import json
from collections.abc import Sequence
from typing import Any

from envs.sandbox import values, wire
from envs.sandbox.limits import Limits
from envs.sandbox.results import CallResult, ProgramResult, Status, Usage

SIGXCPU = 24
SKIPPED = CallResult(Status.SKIPPED, None, "an earlier call ended the module", 0.0, b"")
NO_USAGE = Usage(0.0, 0.0, 0, ())
SPENDING = frozenset((Status.TIME_LIMIT, Status.MEMORY_LIMIT, Status.CRASHED, Status.GARBLED))
"""After these a jail is replaced."""

Row = tuple[str, float, bytes]
"""One reply: its kind (see supervisor.py), seconds, body."""


def usage(report: dict[str, Any]) -> Usage:
    return Usage(float(report["cpu"]), report["rss"] / 1024, int(report["left"]), tuple(map(str, report["traces"])))


def program_result(reply: wire.Frame, limits: Limits) -> ProgramResult:
    header, report = reply.header, reply.header["report"]
    stdout, stderr = reply.blobs
    lingered = header["cause"] == "OverTime" and "J" in header["marks"]
    cause = "" if lingered else header["cause"]
    status = _STATUSES.get(cause) or _end_status(report, limits)
    if status is Status.OK and not lingered and "M" in header["marks"] and report["exit"] == 1:
        status = Status.MEMORY_LIMIT
    exit_code = 0 if lingered else int(report["exit"])
    return ProgramResult(
        Status.OK if lingered else status, stdout, stderr, exit_code, float(header["wall"]), usage(report), lingered
    )


_STATUSES = {"OverTime": Status.TIME_LIMIT, "OverSize": Status.OUTPUT_LIMIT, "Garbled": Status.GARBLED}


def _end_status(report: dict[str, Any], limits: Limits) -> Status:
    """What the end of a process says by itself."""
    if report["killed"] == "memory":
        return Status.MEMORY_LIMIT
    if _over_cpu(report, limits):
        return Status.TIME_LIMIT
    return Status.CRASHED if report["exit"] < 0 else Status.OK


def _over_cpu(report: dict[str, Any], limits: Limits) -> bool:
    if limits.cpu_s is None:
        return False
    return report["exit"] == -SIGXCPU or report["cpu"] > limits.cpu_s


def call_results(
    rows: Sequence[tuple[str, float, bytes]], report: dict[str, Any], limits: Limits, *, decode: bool
) -> list[CallResult]:
    return [_call_result(*row, report, limits, decode=decode) for row in rows]


def _call_result(
    kind: str, took: float, body: bytes, report: dict[str, Any], limits: Limits, *, decode: bool
) -> CallResult:
    if kind == "V":
        return _value(took, body) if decode else CallResult(Status.OK, None, "", took, body)
    if kind == "~":
        return SKIPPED
    if kind == "-":
        told = json.loads(body)
        status, text = _ending(told["cause"], told["report"] or report, limits)
        return CallResult(status, None, text, took, b"")
    return _claim(kind, took, body)


def _value(took: float, body: bytes) -> CallResult:
    try:
        return CallResult(Status.OK, values.decode(body), "", took, body)
    except values.Undecodable as error:
        return CallResult(Status.UNDECODABLE, None, str(error), took, b"")


def _ending(cause: str, report: dict[str, Any], limits: Limits) -> tuple[Status, str]:
    if cause != "Ended":
        return _STATUSES[cause], cause
    if not report:
        return Status.EXITED, "ended without a result"
    status = _end_status(report, limits)
    text = f"signal {-report['exit']}" if report["exit"] < 0 else f"exit status {report['exit']}"
    return (Status.EXITED, f"{text} without a result") if status is Status.OK else (status, text)


def _claim(kind: str, took: float, body: bytes) -> CallResult:
    """A reply without a value. The code may have forged it, so any content has to do."""
    text = body.decode("utf-8", "replace")
    if kind == "U":
        return CallResult(Status.UNDECODABLE, None, text[:2000], took, b"")
    if kind == "S":
        return CallResult(Status.EXITED, None, f"SystemExit {text[:200]}", took, b"")
    raised = _raised(text)
    if kind not in ("R", "M") or raised is None:
        return CallResult(Status.GARBLED, None, "a reply of no known form", took, b"")
    status = Status.MEMORY_LIMIT if kind == "M" else Status.ERROR
    return CallResult(status, None, f"{raised[0]}: {raised[1]}", took, b"", raised)


def _raised(text: str) -> tuple[str, str, str] | None:
    try:
        name, said, form = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return _told(name, said, form) if all(type(part) is str for part in (name, said, form)) else None


def _told(name: str, said: str, form: str) -> tuple[str, str, str]:
    """Without lone surrogates, which no file and no terminal takes."""
    name, said, form = (part.encode("utf-8", "replace").decode() for part in (name, said, form))
    return name, said, form
