"""The right grading of one solution: a program is a real process on real pipes, a function gets a fresh object for each test.

What official rejects of honest code passes here (Q1 to Q13). Upstream's imports are there for those who rely on them, but run before
the source, not in it. Comparison is as exact as upstream's, and reads as numbers only what programs print as numbers.

Codes: True passed, -2 wrong, -3 time limit, -4 all else that ends a test: an exception, a signal, an exit status other than 0,
the memory or output limit. The list ends at the first failure; `Ran.error` names the cause.
"""

import json
from collections.abc import Iterator
from typing import Any

from envs.livecodebench.compare import plain_number, same_output, strict_equality
from envs.livecodebench.official import LOAD_S, MEMORY_MIB, TIME_LIMIT_S, arguments, batches, size_of
from envs.livecodebench.outcome import Ran
from envs.livecodebench.prelude import INT_DIGITS, PRELUDE
from envs.livecodebench.records import Problem
from envs.sandbox.limits import SOURCE_BYTES, Limits
from envs.sandbox.results import CallResult, ProgramResult, Status
from envs.sandbox.worker import Calls, Code, Worker, request

_START = f"{PRELUDE}sys.set_int_max_str_digits({INT_DIGITS})\n"

PROGRAM = f"""{_START}
exec(compile(sys.argv.pop(), "solution.py", "exec", dont_inherit=True))
"""
"""Runs the solution, its last argument, as `__main__` after the imports."""

CALLER = f"""{_START}
_imported = dict(globals())

def _call_solution(_name, _arguments):
    _class = globals().get("Solution")
    if isinstance(_class, type) and hasattr(_class, _name):
        return getattr(_class(), _name)(*_arguments)
    if globals().get(_name) is _imported.get(_name):
        raise NameError(f"the solution has no function {{_name!r}}")
    return globals()[_name](*_arguments)
"""
"""Calls the solution's own function: a name that the imports brought, such as `add`, is none."""


def grade(worker: Worker, problem: Problem, code: str, time_limit_s: int = TIME_LIMIT_S) -> Ran:
    """Run a solution on the tests of its problem until one fails. SandboxError where the jail broke."""
    limits = Limits(wall_s=float(time_limit_s), memory_mib=MEMORY_MIB, output_bytes=size_of(problem).output_bytes)
    if len(code.encode("utf-8", "surrogatepass")) > SOURCE_BYTES:
        return Ran((-4,), -4, f"The source has more than {SOURCE_BYTES} bytes.")
    run = _programs if problem.kind == "stdin" else _calls
    codes: list[bool | int] = []
    seconds = 0.0
    for ran in run(worker, problem, code, limits):
        seconds += ran.seconds
        codes += ran.codes
        if not ran.passed:
            return ran._replace(
                codes=tuple(codes), passed_tests=len(codes) - 1, failed_test=len(codes) - 1, seconds=seconds
            )
    return Ran(tuple(codes), passed_tests=len(codes), seconds=seconds)


def run_program(worker: Worker, code: str, stdin: str, limits: Limits) -> ProgramResult:
    """A solution on one standard input, as `grade` runs it."""
    return worker.run_program(PROGRAM, stdin, limits, args=[code])


def _programs(worker: Worker, problem: Problem, code: str, limits: Limits) -> Iterator[Ran]:
    """Test by test."""
    for test in problem.tests:
        yield _program_test(run_program(worker, code, test.input, limits), test.output)


def _program_test(result: ProgramResult, expected: str) -> Ran:
    if result.status is not Status.OK:
        return _failed(result.status, _last_line(result.stderr), result.wall_s)
    if result.exit_code:
        return Ran((-4,), -4, _last_line(result.stderr) or f"exit status {result.exit_code}", seconds=result.wall_s)
    got = result.stdout.decode("utf-8", "replace")
    if same_output(got, expected, plain_number):
        return Ran((True,), seconds=result.wall_s)
    return Ran((-2,), -2, "wrong answer", got, seconds=result.wall_s)


def _calls(worker: Worker, problem: Problem, code: str, limits: Limits) -> Iterator[Ran]:
    """Test by test, in one process."""
    with worker.open_calls(Code(code, CALLER), limits, load_s=LOAD_S + limits.wall_s) as calls:
        if calls.load.status is not Status.OK:
            yield _call_failed(calls.load)
            return
        for batch in batches(len(problem.tests), size_of(problem)):
            yield from _batch(calls, problem, batch)


def _batch(calls: Calls, problem: Problem, batch: range) -> Iterator[Ran]:
    tests = problem.tests[batch.start : batch.stop]
    requests = [request("_call_solution", problem.function, arguments(test)) for test in tests]
    for result, test in zip(calls.run(requests, stop=True), tests, strict=True):
        yield _call_test(result, json.loads(test.output))


def _call_test(result: CallResult, expected: Any) -> Ran:
    if result.status is not Status.OK:
        return _call_failed(result)
    if strict_equality(result.value, expected):
        return Ran((True,), seconds=result.wall_s)
    return Ran((-2,), -2, "wrong answer", result.value, seconds=result.wall_s)


def _call_failed(result: CallResult) -> Ran:
    if result.status is Status.UNDECODABLE:
        return Ran((-2,), -2, f"wrong answer: a value of type {result.text}"[:300], seconds=result.wall_s)
    return _failed(result.status, result.text, result.wall_s)


def _failed(status: Status, text: str, seconds: float) -> Ran:
    code = -3 if status is Status.TIME_LIMIT else -4
    return Ran((code,), code, f"{status.value.replace('_', ' ')}: {text}".removesuffix(": ")[:300], seconds=seconds)


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
