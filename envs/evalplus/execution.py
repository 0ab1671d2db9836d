"""Running a solution on a set of tests in the jail: the results of its calls, as bytes, up to what decides the verdict.

Upstream's limits (spec 2.4, HEAD): a call may take max(4 s, 4 times the reference's time); a process min(60 s, the sum of these) and
then 2 s more. Every set has a process of its own. Known difference: a process may also take twice as long as the reference did, since
the reference of Mbpp/599 alone takes almost a minute on a slow machine.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from envs import judging
from envs.evalplus.preludes import GUARD, ITEMS, MEASURE
from envs.evalplus.problems import Problem, TestSet
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
"""In one exchange for all tests no call may take longer than this, or its share of the process' time: where one does, the tests are
run again in small batches, with the real limits. So the whole stays within bounds without a look at each call."""
BATCH_S = 60.0
BATCH_BYTES = 1 << 24

Passes = Callable[[int, CallResult], bool]


class Run(NamedTuple):
    """What came of a process: the load, and the calls made, in order. `results` ends with the first that did not pass, or later."""

    load: CallResult
    results: Sequence[CallResult]


def limits_s(references: References) -> list[float]:
    """Seconds that each call may take."""
    return [max(LEAST_S, FACTOR * references[index].seconds) for index in range(len(references))]


def process_s(references: References) -> float:
    """Seconds that all calls and the load may take together."""
    own = sum(references[index].seconds for index in range(len(references)))
    return max(min(LONGEST_S, sum(limits_s(references))), SLACK * own) + GRACE_S


def run(problem: Problem, tests: TestSet, source: str, references: References, passes: Passes, *, guard: bool) -> Run:
    """Run the tests in one process; `passes` tells what ends it early. SandboxError where the jail breaks."""
    limits = limits_s(references)
    code = Code(source, prelude=_prelude(problem, references, guard=guard))
    stop = problem.comparison != "something"  # there a result of any type will do
    total = process_s(references)
    requests = list(_requests(problem, tests, references))
    sizes = [references[index].size for index in range(len(references))]
    if set(limits) == {LEAST_S} and sum(sizes) <= BATCH_BYTES:
        hasty = min(LEAST_S, max(HASTE_S, total / len(limits)))
        found = _at_once(code, requests, hasty, total, sizes, stop=stop)
        if hasty == LEAST_S or not _too_hasty(found, passes):
            return found
    return _in_batches(code, requests, limits, total, sizes, passes, stop=stop)


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


def _at_once(
    code: Code, requests: Sequence[Request], wall_s: float, total: float, sizes: Sequence[int], *, stop: bool
) -> Run:
    with judging.lease() as worker:
        called = worker.call_all(
            code, requests, _limits(wall_s, total, max(sizes)), load_s=total, stop=stop, decode=False
        )
    return Run(called.load, called.results)


def _too_hasty(found: Run, passes: Passes) -> bool:
    """Whether a call was cut short before anything had failed."""
    late = next((index for index, result in enumerate(found.results) if result.status is Status.TIME_LIMIT), None)
    return late is not None and all(passes(index, result) for index, result in enumerate(found.results[:late]))


def _in_batches(
    code: Code,
    requests: Sequence[Request],
    limits: Sequence[float],
    total: float,
    sizes: Sequence[int],
    passes: Passes,
    *,
    stop: bool,
) -> Run:
    results: list[CallResult] = []
    with judging.lease() as worker, worker.open_calls(code, _limits(LEAST_S, total, max(sizes)), load_s=total) as calls:
        left = total - calls.load.wall_s
        for batch in _batches(limits, sizes) if calls.load.status is Status.OK else ():
            if left <= 0:
                break
            found = calls.run([requests[index] for index in batch], wall_s=limits[batch.start], stop=stop, decode=False)
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
