"""Problems a CPU second of LiveCodeBench's grading, ours in the sandbox and the wheel nvidia-livecodebench's, in one run.

    python tests/perf/livecodebench_speed.py [--problems 100] [--tests 15] [--kind local]

The wheel is a fork of LiveCodeBench's evaluation with the same processes; it is measured for speed alone, in a venv that this script makes
in `.cache/`. Both grade the same right solutions of generated problems, half programs and half functions, with as many workers, and both have
to pass them all. CPU is that of all processes that have a part in it. Exits with 1 where ours is less than three times as fast.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "parity"))

import lcb_wheel

from envs.judging import CEILING, PRELOAD
from envs.livecodebench import generator, official, strict
from envs.livecodebench.records import Problem, problem_of
from envs.sandbox import bench
from envs.sandbox.pool import Pool, open_pool

DUE = 3.0
MOST_STRICT = 16
"""A jail takes 200 submissions, and `strict` makes one for each test of a program."""

THEIRS = """
import contextlib, io, json, resource, sys, time
from livecodebench.evaluation import codegen_metrics
samples, codes, workers = json.load(sys.stdin)
started = time.monotonic()
with contextlib.redirect_stdout(io.StringIO()):
    metrics, results, _ = codegen_metrics(samples, codes, k_list=[1], num_process_evaluate=workers, timeout=6)
seconds = time.monotonic() - started
spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([seconds, sum(one.ru_utime + one.ru_stime for one in spent), metrics["pass@1"]]))
"""


class Work(NamedTuple):
    """Problems and one right solution each."""

    problems: Sequence[Problem]
    codes: Sequence[str]


class Spent(NamedTuple):
    """Wall and CPU seconds."""

    wall_s: float
    cpu_s: float


def work(problems: int, tests: int) -> Work:
    tasks = generator.generate(seed=1, count=problems, tests=tests)
    return Work([problem_of(task.record, "generated") for task in tasks], [task.solution for task in tasks])


def ours(pool: Pool, grader: Any, found: Work, workers: int) -> Spent:
    bench.warm_up(pool, workers)
    jails = bench._reader(bench._jail_roots(pool), bench._tree)
    before = time.monotonic(), time.process_time() + jails()
    with ThreadPoolExecutor(workers) as threads:
        passed = sum(threads.map(lambda pair: _passes(pool, grader, *pair), zip(*found, strict=True)))
    spent = Spent(time.monotonic() - before[0], time.process_time() + jails() - before[1])
    if passed != len(found.codes):
        raise RuntimeError(f"Ours passes {passed} of {len(found.codes)} right solutions.")
    return spent


def _passes(pool: Pool, grader: Any, problem: Problem, code: str) -> bool:
    with pool.lease() as worker:
        return grader.grade(worker, problem, code).passed


def theirs(found: Work, workers: int) -> Spent:
    samples = [lcb_wheel.sample(problem) for problem in found.problems]
    given = json.dumps([samples, [[code] for code in found.codes], workers])
    done = subprocess.run(
        [str(lcb_wheel.ensure()), "-c", THEIRS], input=given, capture_output=True, text=True, check=True
    )
    wall_s, cpu_s, passed = json.loads(done.stdout)
    if passed != 1.0:
        raise RuntimeError(f"The wheel passes {passed:.0%} of the right solutions.")
    return Spent(wall_s, cpu_s)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--tests", type=int, default=15)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kind", choices=("local", "docker"), default="local")
    options = parser.parse_args()
    found = work(options.problems, options.tests)
    upstream = theirs(found, options.workers)
    _show("nvidia-livecodebench", upstream, found)
    ratios = [_measured(grader, found, upstream.cpu_s / len(found.codes), options) for grader in ("official", "strict")]
    return 0 if ratios[0] >= DUE else 1


def _measured(name: str, found: Work, their_cpu_s: float, options: argparse.Namespace) -> float:
    """How many times as many problems a CPU second as theirs. A jail that is replaced takes its count along, so none may be."""
    grader = {"official": official, "strict": strict}[name]
    if grader is strict:
        found = Work(found.problems[:MOST_STRICT], found.codes[:MOST_STRICT])
    with open_pool(options.kind, options.workers, "speed", ceiling=CEILING, preload=PRELOAD) as pool:
        spent = ours(pool, grader, found, options.workers)
        if pool.replaced:
            raise RuntimeError(f"Jails were replaced in the middle of the count: {pool.replaced}.")
    ratio = their_cpu_s * len(found.codes) / spent.cpu_s
    _show(f"{name}, {options.kind}", spent, found, f", {ratio:.1f} times the wheel's per CPU")
    return ratio


def _show(name: str, spent: Spent, found: Work, more: str = "") -> None:
    count = len(found.codes)
    print(
        f"{name}: {count} problems, {count / spent.wall_s:.1f}/s of wall time, {count / spent.cpu_s:.1f} per CPU second, "
        f"{1000 * spent.cpu_s / count:.1f} ms of CPU each{more}"
    )


if __name__ == "__main__":
    sys.exit(main())
