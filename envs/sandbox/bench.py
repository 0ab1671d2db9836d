"""What the sandbox costs: solutions a second and CPU per solution, on all sides of the wall; waiting time of one tool call.

CPU is what counts on shared machines: of this process, of the jails (supervisor, zygote, children), and of the engine's daemons.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from envs.sandbox.limits import Limits
from envs.sandbox.pool import Pool
from envs.sandbox.worker import Code, Request, Worker, request

ENGINE = frozenset(("dockerd", "containerd", "containerd-shim", "containerd-shim-runc-v2"))
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
SORT = "def sort_pairs(pairs, key):\n    return sorted(((b, a) for a, b in pairs), key=lambda pair: pair[0] * key)\n"
LIMITS = Limits(wall_s=5)


class Job(NamedTuple):
    """A solution, its calls, and what each has to give."""

    code: Code
    requests: Sequence[Request]
    expected: Sequence[object]


class Cost(NamedTuple):
    """Of a number of solutions. CPU in milliseconds each."""

    solutions: int
    wrong: int
    seconds: float
    host_ms: float
    jail_ms: float
    engine_ms: float

    @property
    def per_second(self) -> float:
        return self.solutions / self.seconds

    @property
    def cpu_ms(self) -> float:
        return self.host_ms + self.jail_ms + self.engine_ms


class Waits(NamedTuple):
    """Milliseconds that one `run_code` call takes on a warm pool, lease included."""

    calls: int
    p50_ms: float
    p99_ms: float


def sample_job(calls: int = 100) -> Job:
    """A small module with a hundred small calls: the size of an MBPP+ task."""
    inputs = [([(n, (n * 7) % 11 - 5) for n in range(size % 20)], 1 if size % 3 else -1) for size in range(calls)]
    expected = [sorted(((b, a) for a, b in pairs), key=lambda pair: pair[0] * key) for pairs, key in inputs]
    return Job(Code(SORT), [request("sort_pairs", *given) for given in inputs], expected)


def cost(pool: Pool, workers: int, jobs: Sequence[Job]) -> Cost:
    """Run all jobs on all workers, with the comparison out here, and count the CPU of everybody who has a part in it."""
    warm_up(pool, workers)
    jail, engine = _reader(_jail_roots(pool), _tree), _reader(list(_engine_pids()), _alone)
    before = time.monotonic(), time.process_time(), jail(), engine()
    with ThreadPoolExecutor(workers) as threads:
        right = sum(threads.map(lambda first: _share(pool, jobs[first::workers]), range(workers)))
    after = time.monotonic(), time.process_time(), jail(), engine()
    seconds, host, jails, engines = (late - early for early, late in zip(before, after, strict=True))
    count = len(jobs)
    return Cost(count, count - right, seconds, 1000 * host / count, 1000 * jails / count, 1000 * engines / count)


def waits(pool: Pool, calls: int = 200) -> Waits:
    """How long a caller waits for one small program."""
    took: list[float] = []
    for number in range(calls):
        started = time.perf_counter()
        with pool.lease() as worker:
            worker.run_program(f"print(sum(range({number})))")
        took.append(1000 * (time.perf_counter() - started))
    return Waits(calls, statistics.median(took), statistics.quantiles(took, n=100)[98])


def warm_up(pool: Pool, workers: int) -> None:
    """Have every jail stand and used once."""
    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(lambda _: _hold(pool), range(workers)))


def _hold(pool: Pool) -> None:
    with pool.lease() as worker:
        worker.run_program("print(1)")
        time.sleep(0.5)


def _share(pool: Pool, jobs: Sequence[Job]) -> int:
    """How many came out right, on one lease: a jail that is replaced would take its count of CPU with it."""
    with pool.lease() as worker:
        return sum(_right(worker, job) for job in jobs)


def _right(worker: Worker, job: Job) -> bool:
    called = worker.call_all(job.code, job.requests, LIMITS)
    return [result.value for result in called.results] == list(job.expected)


def _jail_roots(pool: Pool) -> list[int]:
    return [root for jail in pool.jails() for root in _roots(jail.kind, jail.name)]


def _roots(kind: str, name: str) -> list[int]:
    if kind != "docker":
        return [int(name)]
    from envs.sandbox import docker

    return [docker.process_of(name)]


def _reader(roots: Sequence[int], below: Callable[[int], Iterable[int]]) -> Callable[[], float]:
    """CPU seconds so far of these processes and of those `below` names for each."""
    return lambda: sum(_cpu_s(pid, reaped=below is _tree) for root in roots for pid in below(root))


def _alone(pid: int) -> Iterator[int]:
    yield pid


def _tree(root: int) -> Iterator[int]:
    yield root
    for tasks in Path(f"/proc/{root}/task").glob("*/children"):
        for child in tasks.read_text().split():
            yield from _tree(int(child))


def _cpu_s(pid: int, *, reaped: bool) -> float:
    """Of a process, and of the children that it has reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if reaped else 13])) / TICKS


def _engine_pids() -> Iterator[int]:
    """The daemons, each without what runs below it."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _name(folder) in ENGINE:
            yield int(folder.name)


def _name(folder: Path) -> str:
    try:
        return (folder / "comm").read_text().strip()
    except OSError:
        return ""
