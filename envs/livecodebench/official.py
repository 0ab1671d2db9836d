"""Upstream's grading of one solution (LiveCodeBench 28fef95), its quirks included: spec 1.5 and 1.6.

The solution runs in the jail between functions that give it upstream's surroundings (`inside.py`), one process for all
tests, and stops at the first failure. Outputs come out and are compared here, so the expected ones never go in.

Codes: True; False (wrong result of a function) or -2 (wrong output of a program); -3 time limit; -4 an exception in a test, or [-4]
alone for whatever fails before the tests; [-2] alone with error code -5 where the process ended without a result.

Known differences: objects that upstream's `==` would have asked for their opinion are wrong here; memory is limited; a test that
still runs at twice the time limit (it ignores the alarm, or sits in one long call of C code) ends the process, where upstream
waits (limit + 1) x tests + 5 s and then says the same; one that was right but late is -3, where upstream looks at no clock
but the alarm; and an empty array is -4.
"""

import json
import marshal
import platform
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from envs.livecodebench.compare import Uncomparable, official_equality, same_output
from envs.livecodebench.outcome import Code, Ran
from envs.livecodebench.prelude import PRELUDE
from envs.livecodebench.records import Problem, Test
from envs.sandbox.limits import Limits
from envs.sandbox.results import CallResult, Status
from envs.sandbox.worker import Calls, Request, Worker, request
from envs.sandbox.worker import Code as Module

TIME_LIMIT_S = 6
LOAD_S = 20.0
"""For our own part in the jail, before the solution."""
MEMORY_MIB = 2048
FIRST_BATCH = 3
"""Tests that are sent at first: few, since a wrong solution is wrong soon."""


class Size(NamedTuple):
    """How much one output may have, and how many tests are sent at once, so that what comes back has a bound too."""

    output_bytes: int
    batch: int


SMALL, LARGE = Size(2 * 2**20, 32), Size(32 * 2**20, 4)


def grade(worker: Worker, problem: Problem, code: str, time_limit_s: int = TIME_LIMIT_S) -> Ran:
    """Run a solution on all tests of its problem. SandboxError where the jail broke."""
    size = size_of(problem)
    limits = Limits(wall_s=2.0 * time_limit_s, memory_mib=MEMORY_MIB, output_bytes=size.output_bytes)
    with worker.open_calls(inside(worker.jail.python), limits, load_s=LOAD_S) as calls:
        loading = request("load", code, PRELUDE, problem.function, time_limit_s)
        tests = _Tests(problem, time_limit_s)
        return tests.run(calls, loading)


@cache
def inside(python: str) -> Module:
    """Our part in the jail. For the Python that runs here too it is sent compiled, which saves a tenth of a problem's CPU."""
    path = Path(__file__).with_name("inside.py")
    source = path.read_text("utf-8")
    if python == f"{sys.implementation.name}-{platform.python_version()}":
        source = f"import marshal\nexec(marshal.loads({marshal.dumps(compile(source, path.name, 'exec'))!r}))\n"
    return Module(source, name="livecodebench_inside", file=path.name)


class _Tests:
    """The tests of one problem on their way through the jail."""

    def __init__(self, problem: Problem, time_limit_s: int) -> None:
        self.problem = problem
        self.time_limit_s = time_limit_s
        self.codes: list[Code] = []
        self.seconds = 0.0

    def run(self, calls: Calls, loading: Request) -> Ran:
        requests, expected = self._prepared()
        for batch in batches(len(self.problem.tests) if requests is not None else 0, size_of(self.problem)):
            head = [loading] if batch.start == 0 else []
            results = calls.run(head + (requests or [])[batch.start : batch.stop], stop=True)
            if head and (fault := self._loaded(results.pop(0))):
                return fault
            if requests is None or expected is None:
                return Ran((-4,), -4, "a test is no JSON")
            for index, result in zip(batch, results, strict=True):
                if end := self._judge(index, result, expected[index]):
                    return end
        return Ran(tuple(self.codes), passed_tests=len(self.codes), seconds=self.seconds)

    def _prepared(self) -> tuple[list[Request] | None, list[Any] | None]:
        """Requests and expected values; None where a line of a functional test is no JSON, such as an empty one."""
        tests = self.problem.tests
        if self.problem.kind == "stdin":
            return [request("run", test.input) for test in tests], [test.output for test in tests]
        try:
            return [request("call", arguments(test)) for test in tests], [json.loads(test.output) for test in tests]
        except (ValueError, RecursionError):
            return None, None

    def _loaded(self, result: CallResult) -> Ran | None:
        if result.status is Status.OK:
            return None
        if result.status is Status.ERROR or (result.status is Status.MEMORY_LIMIT and result.raised):
            return Ran((-4,), -4, result.text)
        return Ran((-2,), -5, result.text)

    def _judge(self, index: int, result: CallResult, expected: Any) -> Ran | None:
        """None if the test passed."""
        self.seconds += result.wall_s
        codes = self._codes(result, expected)
        if codes is None:
            return Ran((-2,), -5, result.text, failed_test=index, seconds=self.seconds)
        self.codes += codes
        if codes == [True]:
            return None
        error = -2 if codes[-1] in (False, -2) else int(codes[-1])
        got = result.value if result.status is Status.OK else None
        kept = tuple(self.codes) if codes != [_NO_LIST] else (-4,)
        return Ran(kept, error, result.text, got, index, failed_test=index, seconds=self.seconds)

    def _codes(self, result: CallResult, expected: Any) -> list[Code] | None:
        """What upstream appends for one test; None where its process is gone."""
        wrong: Code = False if self.problem.kind == "call" else -2
        if result.status is Status.OK:
            return [-3] if result.wall_s > self.time_limit_s + 1 else self._compared(result.value, expected)
        if result.raised is not None:
            if result.raised[0] == "Unprintable":
                return [wrong, -4]
            return [-3 if "timeoutexception" in result.raised[2].lower() else -4]
        if result.status in (Status.UNDECODABLE, Status.OUTPUT_LIMIT):
            return [wrong]
        return None

    def _compared(self, got: Any, expected: Any) -> list[Code]:
        if self.problem.kind == "call":
            return official_equality(got, expected)
        if not isinstance(got, str):  # our part in the jail was taken over
            return [-2]
        try:
            return [True if same_output(got, expected) else -2]
        except Uncomparable:
            return [_NO_LIST]


_NO_LIST = -40
"""In place of a code: upstream's grader fails, and all codes so far give way to [-4]."""


def arguments(test: Test) -> Sequence[Any]:
    """The arguments of one functional test. ValueError where a line is no JSON."""
    return [json.loads(line) for line in test.input.split("\n")]


def size_of(problem: Problem) -> Size:
    """By the longest output that is expected. Two sizes only: more of it is no business of the jail's."""
    return SMALL if max((len(test.output) for test in problem.tests), default=0) < 2**19 else LARGE


def batches(count: int, size: Size) -> Iterator[range]:
    """Indices of the tests that are sent at once: at least one batch, empty where there is no test."""
    yield range(min(count, FIRST_BATCH))
    for start in range(FIRST_BATCH, count, size.batch):
        yield range(start, min(count, start + size.batch))
