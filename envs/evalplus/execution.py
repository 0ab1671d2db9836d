"""Running a solution on a set of tests in the jail: the results of its calls, as bytes, up to what decides the verdict.

Upstream's limits (spec 2.4, HEAD): a call may take max(4 s, 4 times the reference's time); a process min(60 s, the sum of these) and
then 2 s more. Every set has a process of its own. Known difference: a process may also take twice as long as the reference did, since
the reference of Mbpp/599 alone takes almost a minute on a slow machine.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from envs import judging
from envs.evalplus.preludes import EACH, GUARD, ITEMS, MEASURE
from envs.evalplus.problems import TEST_SETS, Problem, TestSet
from envs.evalplus.references import References, measured
from envs.sandbox.limits import Limits
from envs.sandbox.results import CallResult, Status
from envs.sandbox.worker import Code, Request, request

LEAST_S = 4.0
FACTOR = 4.0
LONGEST_S = 60.0
GRACE_S = 2.0
SLACK = 2.0
MEMORY_MIB = 4096
OUTPUT_BYTES = 1 << 20
LARGEST_OUTPUT = 1 << 27
HASTE_S = 0.5
"""Tests are first run in ways that are cheap and hasty: all by one call that may take little more than this, then all in one exchange, where
no call may take longer than this or its share of the process' time. Where that does not settle it they are run again in small
batches, with the real limits. So the whole stays within bounds without a look at each call."""
BATCH_S = 60.0
BATCH_BYTES = 1 << 24

Passes = Callable[[int, CallResult], bool]


class Run(NamedTuple):
    """What came of a process: the load, and the calls made, in order. `results` ends with the first that did not pass, or later."""

    load: CallResult
    results: Sequence[CallResult]
    settled: bool = False
    """Whether all results were the expected ones byte for byte; then they are left out."""
    joint: bool = False
    """Whether one call made all calls, so that a result may have been changed by calls that came after it."""

    def doubtful(self, index: int) -> bool:
        """Whether this result, if it is wrong, may have been right when it was returned: only what is in a container can change."""
        return self.joint and index < len(self.results) and self.results[index].body[:1] in (b"[", b"{")


def limits_s(references: References) -> list[float]:
    """Seconds that each call may take."""
    return [max(LEAST_S, FACTOR * references[index].seconds) for index in range(len(references))]


def process_s(references: References) -> float:
    """Seconds that all calls and the load may take together."""
    own = sum(references[index].seconds for index in range(len(references)))
    return max(min(LONGEST_S, sum(limits_s(references))), SLACK * own) + GRACE_S


def run(problem: Problem, tests: TestSet, source: str, references: References, passes: Passes, *, guard: bool) -> Run:
    """Run the tests in one process; `passes` tells what ends it early. SandboxError where the jail breaks."""
    work = _Work(problem, tests, source, references, guard)
    late = False
    if work.quick:
        (found,) = _jointly([work])
        if isinstance(found, Run) and not found.doubtful(_first_failure(found, passes)):
            return found
        late = found is Status.TIME_LIMIT
    if work.uniform and not late:
        found = _at_once(work)
        if work.hasty_s == LEAST_S or not _too_hasty(found, passes):
            return found
    return _in_batches(work, passes)


def _first_failure(run: Run, passes: Passes) -> int:
    """Index of the first result that does not pass, or of the end."""
    failures = (index for index, result in enumerate(run.results) if not passes(index, result))
    return next(failures, len(run.results))


def run_both(
    problem: Problem, source: str, references: Mapping[TestSet, References], passes: Passes
) -> tuple[Run, Run | None] | None:
    """Run both sets in one process, with the guard: the base tests, and the extra ones too if all base results were the expected ones.

    The first is what a process of its own would have given; the second tells nothing where it fails, since the base tests came
    before. `passes` is for the base tests. None: this is no way to run them.
    """
    works = [
        _Work(problem, tests, source, references[tests], guard=True) for tests in TEST_SETS if len(references[tests])
    ]
    if len(works) < len(TEST_SETS) or not all(work.quick for work in works):
        return None
    base, plus = _jointly(works)
    if not isinstance(base, Run) or base.doubtful(_first_failure(base, passes)):
        return None
    return base, plus if base.settled and isinstance(plus, Run) and plus.settled else None


class _Work:
    """A solution and its tests, with the limits that hold for them."""

    def __init__(self, problem: Problem, tests: TestSet, source: str, references: References, guard: bool) -> None:
        self.problem, self.source, self.references = problem, source, references
        self.tests: TestSet = tests
        self.guard = guard
        self.limits = limits_s(references)
        self.total_s = process_s(references)
        self.sizes = [references[index].size for index in range(len(references))]
        self.stop = problem.comparison != "something"  # there a result of any type will do
        self.uniform = set(self.limits) == {LEAST_S} and sum(self.sizes) <= BATCH_BYTES
        self.hasty_s = min(LEAST_S, max(HASTE_S, self.total_s / len(self.limits)))
        own = sum(references[index].seconds for index in range(len(references)))
        self.joint_s = min(LEAST_S, HASTE_S + FACTOR * own)
        self.quick = self.uniform and self.stop and self.joint_s < LEAST_S and not _any_huge(references)

    def code(self, prelude: str = "") -> Code:
        return Code(self.source, prelude=_prelude(self.problem, self.references, guard=self.guard) + prelude)

    def requests(self) -> list[Request]:
        return list(_requests(self.problem, self.tests, self.references))


def run_nothing(problem: Problem, source: str, *, guard: bool) -> Run:
    """Load a solution that there are no tests for; the result is that of looking its function up."""
    code = Code(source, prelude=GUARD if guard else "")
    with judging.lease() as worker:
        called = worker.call_all(
            code,
            [request(f"{problem.entry_point}.__hash__")],
            _limits(LEAST_S, LEAST_S, 0),
            load_s=GRACE_S,
            decode=False,
        )
    return Run(called.load, called.results)


def _prelude(problem: Problem, references: References, *, guard: bool) -> str:
    parts = ((guard, GUARD), (_any_huge(references), MEASURE), (problem.comparison == "sets", ITEMS))
    return "".join(text for wanted, text in parts if wanted)


def _any_huge(references: References) -> bool:
    return any(references[index].huge for index in range(len(references)))


def _requests(problem: Problem, tests: TestSet, references: References) -> Iterator[Request]:
    inputs = problem.inputs(tests) if _any_huge(references) else []
    for index, plain in enumerate(problem.requests[tests]):
        yield measured(problem, inputs[index]) if references[index].huge else plain


def _limits(wall_s: float, cpu_s: float, largest: int) -> Limits:
    return Limits(
        wall_s=wall_s, cpu_s=cpu_s, memory_mib=MEMORY_MIB, output_bytes=min(LARGEST_OUTPUT, OUTPUT_BYTES + 2 * largest)
    )


def _jointly(works: Sequence[_Work]) -> list[Run | Status]:
    """All calls of each set made by one; the status in which that gave no result, which the other ways then look into.

    Where all of them together were in time, each was. All sets are run in one process, in order.
    """
    limits = _limits(
        max(work.joint_s for work in works), max(work.total_s for work in works), max(sum(work.sizes) for work in works)
    )
    requests = [work.problem.joint_requests[work.tests] for work in works]
    with judging.lease() as worker:
        called = worker.call_all(works[0].code(EACH), requests, limits, load_s=works[0].total_s, decode=False)
    if called.load.status is not Status.OK:
        return [Run(called.load, [])] * len(works)
    return [_joint_run(work, called.load, result) for work, result in zip(works, called.results, strict=True)]


def _joint_run(work: _Work, load: CallResult, result: CallResult) -> Run | Status:
    if result.status is Status.OK and result.body == work.references.joint:
        return Run(load, [], settled=True)
    results = _parted(result.body, len(work.sizes)) if result.status is Status.OK else None
    return result.status if results is None else Run(load, results, joint=True)


def _parted(body: bytes, count: int) -> list[CallResult] | None:
    """The results that one call gave for all; None for what it can't have given."""
    try:
        parts, raised = _parts(body.decode())
    except (ValueError, IndexError, RecursionError):
        return None
    results = [CallResult(Status.OK, None, "", 0.0, part.encode()) for part in parts]
    if isinstance(raised, str) and len(parts) < count:
        return [*results, CallResult(Status.ERROR, None, raised, 0.0, b"", (raised, "", ""))]
    return results if raised is None and len(parts) == count else None


_DECODER = json.JSONDecoder()


def _parts(text: str) -> tuple[list[str], Any]:
    """The items of the first list in `[[...], x]` as they are written, and x. ValueError or IndexError for another form."""
    parts: list[str] = []
    position = 2
    if not text.startswith("[["):
        raise ValueError("no list of results")
    while text[position] != "]":
        _, end = _DECODER.raw_decode(text, position)
        parts.append(text[position:end])
        position = end + (text[end] == ",")
    return parts, json.loads(text[position + 2 : -1])


def _at_once(work: _Work) -> Run:
    """Call by call in one exchange, none of which may take longer than its share."""
    limits = _limits(work.hasty_s, work.total_s, max(work.sizes))
    with judging.lease() as worker:
        called = worker.call_all(
            work.code(), work.requests(), limits, load_s=work.total_s, stop=work.stop, decode=False
        )
    return Run(called.load, called.results)


def _too_hasty(found: Run, passes: Passes) -> bool:
    """Whether a call was cut short before anything had failed."""
    late = next((index for index, result in enumerate(found.results) if result.status is Status.TIME_LIMIT), None)
    return late is not None and all(passes(index, result) for index, result in enumerate(found.results[:late]))


def _in_batches(work: _Work, passes: Passes) -> Run:
    """Call by call with the real limits, a few at a time."""
    limits = _limits(LEAST_S, work.total_s, max(work.sizes))
    requests = work.requests()
    results: list[CallResult] = []
    with judging.lease() as worker, worker.open_calls(work.code(), limits, load_s=work.total_s) as calls:
        left = work.total_s - calls.load.wall_s
        for batch in _batches(work.limits, work.sizes) if calls.load.status is Status.OK else ():
            if left <= 0:
                break
            wall_s = work.limits[batch.start]
            found = calls.run([requests[index] for index in batch], wall_s=wall_s, stop=work.stop, decode=False)
            results += found
            left -= sum(result.wall_s for result in found)
            if not all(passes(index, result) for index, result in zip(batch, found, strict=True)):
                break
    return Run(calls.load, results)


def _batches(limits: Sequence[float], sizes: Sequence[int]) -> Iterator[range]:
    """Neighbours with the same limit, few enough for BATCH_S and BATCH_BYTES."""
    start = 0
    while start < len(limits):
        stop, size = start + 1, sizes[start]
        while (
            stop < len(limits)
            and limits[stop] == limits[start]
            and (stop + 1 - start) * limits[start] <= BATCH_S
            and size + sizes[stop] <= BATCH_BYTES
        ):
            size += sizes[stop]
            stop += 1
        yield range(start, stop)
        start = stop
