"""What the reference solutions return, and how long they take: computed in the sandbox when a task is first judged, then kept.

Kept on disk under HARNESS_HOME, one file a task, by the digest of the task, the Python in the jail and the machine (times are the
machine's). Of an output over 32 KB only its digest is kept: a result with other bytes is compared with the output computed anew. One of a million
items is not even sent: the jail makes a digest of it (all outputs of Mbpp/255 would be hundreds of megabytes).
"""

import hashlib
import json
import os
import platform
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from envs import data, judging
from envs.evalplus.preludes import MEASURE, MEASURE_NAME
from envs.evalplus.problems import TEST_SETS, Problem, TestSet
from envs.sandbox import values
from envs.sandbox.limits import Limits
from envs.sandbox.results import CallResult, Status
from envs.sandbox.worker import Calls, Code, Request, request
from trajectories.failures import SandboxError

FORMAT = 1
KEPT_BYTES = 1 << 15
"""A longer output is kept as a digest."""
LIMITS = Limits(wall_s=300.0, memory_mib=judging.CEILING.memory_mib, output_bytes=1 << 27)
BATCH = 8


class Reference(NamedTuple):
    """The expected result of one test. `body` is empty where it is too long to keep."""

    body: bytes
    sha256: str
    size: int
    floats: bool
    """Whether the value is made of floats, for which upstream has a tolerance."""
    huge: bool
    """Whether it is the digest that `preludes.MEASURE` gives, for a result that no reply could hold."""
    seconds: float


class References:
    """The expected results of one set of tests."""

    def __init__(self, problem: Problem, tests: TestSet, rows: Sequence[Reference]) -> None:
        self._problem, self._rows = problem, rows
        self._tests: TestSet = tests

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Reference:
        return self._rows[index]

    def same(self, index: int, body: bytes) -> bool:
        """Whether these are the very bytes of the expected result."""
        row = self._rows[index]
        if row.body:
            return body == row.body
        return len(body) == row.size and hashlib.sha256(body).hexdigest() == row.sha256

    @cached_property
    def joint(self) -> bytes:
        """All expected results as the one call gives them that makes all calls; empty where that can't be compared by bytes."""
        body = b"[[" + b",".join(row.body for row in self._rows) + b"],null]"
        comparable = all(row.body for row in self._rows) and b"NaN" not in body and self._problem.comparison == "value"
        return body if comparable else b""

    def value(self, index: int) -> Any:
        """The expected value, freshly made."""
        row = self._rows[index]
        return values.decode(row.body or _again(self._problem, self._tests, index))


def is_floats(value: Any) -> bool:
    """A float, a non-empty list or tuple of nothing but floats, an array of floats."""
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return bool(items) and all(isinstance(item, float) for item in items)
    dtype = getattr(value, "dtype", None)
    return isinstance(value, float) or (
        dtype is not None and hasattr(value, "__len__") and dtype in ("float32", "float64")
    )


def _code(problem: Problem) -> Code:
    return Code(problem.reference, prelude=MEASURE)


_locks: dict[str, threading.Lock] = {}


def of(problem: Problem) -> Mapping[TestSet, References]:
    """The references of a task. SandboxError where the reference solution itself does not run."""
    key = _key(problem)
    with _locks.setdefault(key, threading.Lock()):
        rows = _rows(problem, key)
    return {tests: References(problem, tests, rows[tests]) for tests in TEST_SETS}


def _key(problem: Problem) -> str:
    return hashlib.sha256(f"{FORMAT} {problem.digest} {judging.python()} {_machine()}".encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def _machine() -> str:
    """Names the processor: times are not another one's."""
    with suppress(OSError):
        models = [
            line for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines() if line.startswith("model name")
        ]
        if models:
            return models[0]
    return platform.processor() or platform.machine()


_Rows = Mapping[TestSet, Sequence[Reference]]
_memory: dict[str, _Rows] = {}
_MEMORY = 600
"""Tasks kept in memory: all of a split."""


def _rows(problem: Problem, key: str) -> _Rows:
    if key not in _memory:
        path = data.home() / "references" / "evalplus" / f"{key}.json.zst"
        rows = _read(path) or _computed_and_written(problem, path)
        if len(_memory) >= _MEMORY:
            _memory.clear()
        _memory[key] = rows
    return _memory[key]


def _computed_and_written(problem: Problem, path: Path) -> _Rows:
    rows: _Rows = {tests: tuple(_computed(problem, tests)) for tests in TEST_SETS}
    _write(path, problem, rows)
    return rows


def _read(path: Path) -> _Rows | None:
    import zstandard

    try:
        stored = json.loads(zstandard.ZstdDecompressor().decompress(path.read_bytes()))
        return {tests: tuple(Reference(body.encode(), *rest) for body, *rest in stored[tests]) for tests in TEST_SETS}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zstandard.ZstdError):
        return None  # damaged: made anew


def _write(path: Path, problem: Problem, rows: _Rows) -> None:
    import zstandard

    stored = {tests: [[row.body.decode(), *row[1:]] for row in rows[tests]] for tests in TEST_SETS}
    packed = zstandard.ZstdCompressor().compress(json.dumps({"task": problem.id, **stored}).encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    with os.fdopen(descriptor, "wb") as out:
        out.write(packed)
    Path(scratch).replace(path)


def _computed(problem: Problem, tests: TestSet) -> Iterator[Reference]:
    requests = [measured(problem, arguments) for arguments in problem.inputs(tests)]
    with judging.lease() as worker, worker.open_calls(_code(problem), LIMITS, load_s=60.0) as calls:
        for start in range(0, len(requests), BATCH):
            for index, result in enumerate(_called(calls, requests[start : start + BATCH]), start):
                yield _reference(problem, tests, index, result)


def _called(calls: Calls, requests: Sequence[Request]) -> list[CallResult]:
    return calls.run(requests, decode=False) if calls.load.status is Status.OK else [calls.load] * len(requests)


def measured(problem: Problem, arguments: Sequence[Any]) -> Request:
    """The call whose result is a digest where it is huge."""
    return request(MEASURE_NAME, problem.entry_point, *arguments)


def _reference(problem: Problem, tests: TestSet, index: int, result: CallResult) -> Reference:
    if problem.comparison == "something":
        body, huge = _is_something(result), False
    else:
        body, huge = result.body, result.body.startswith(b'["digest",')
        body = body if huge else body[len(b'["value",') : -1]
    if not body:
        raise SandboxError(
            f"The reference solution of {problem.id} does not run on its own {tests} test {index}: {result.status.value} {result.text}"
        )
    floats = any(sign in body for sign in (b".", b"e", b"N", b"I")) and is_floats(values.decode(body))
    kept = body if len(body) <= KEPT_BYTES else b""
    return Reference(kept, hashlib.sha256(body).hexdigest(), len(body), floats, huge, round(result.wall_s, 6))


def _is_something(result: CallResult) -> bytes:
    """JSON of whether there is a result but None; empty where the call failed."""
    if result.status is Status.OK:
        return json.dumps(values.decode(result.body)[1] is not None).encode()
    return b"true" if result.status is Status.UNDECODABLE else b""


def _again(problem: Problem, tests: TestSet, index: int) -> bytes:
    """An expected result that was too long to keep."""
    with judging.lease() as worker:
        called = worker.call_all(
            Code(problem.reference), [problem.requests[tests][index]], LIMITS, load_s=60.0, decode=False
        )
    (result,) = called.results
    if result.status is not Status.OK:
        raise SandboxError(
            f"The reference solution of {problem.id} does not run on its own {tests} test {index}: {result.text}"
        )
    return result.body
