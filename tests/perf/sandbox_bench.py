"""MBPP+ through the sandbox: all canonical solutions, in each kind of jail, compared on the host.

    python tests/perf/sandbox_bench.py [--kind local|docker] [--workers 2] [--data MbppPlus.jsonl.gz]

Expected values are what the same solutions gave in a first pass, so `wrong` counts disagreement between two runs. Inputs are those
of the file, tuples as lists: some solutions raise on them, and then raise again. Solutions of more than 0.1 s of CPU (about 15) are left out.
"""

import argparse
import gzip
import json
from pathlib import Path

from envs.sandbox.bench import LIMITS, Job, cost, waits
from envs.sandbox.pool import Pool, open_pool
from envs.sandbox.worker import Code, request

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "evalplus" / "MbppPlus-v0.2.0.jsonl.gz"
HEAVY = frozenset(("Mbpp/255", "Mbpp/599"))
"""Outputs of hundreds of megabytes, and minutes of work."""
LONG_S = 0.1
"""A solution that needs more CPU than this for its calls is left out of the comparison."""


def jobs(path: Path, pool: Pool) -> list[Job]:
    """One for each task; those whose own work would be most of what is measured are left out."""
    with gzip.open(path, "rt") as file:
        rows = [row for row in map(json.loads, file) if row["task_id"] not in HEAVY]
    found = [_job(row, pool) for row in rows]
    return [job for job in found if job is not None]


def _job(row: dict, pool: Pool) -> Job | None:
    code = Code(row["prompt"] + row["canonical_solution"])
    requests = [request(row["entry_point"], *given) for given in [*row["base_input"], *row["plus_input"]]]
    with pool.lease() as worker:
        called = worker.call_all(code, requests, LIMITS)
    if called.usage.cpu_s > LONG_S:
        return None
    return Job(code, requests, [result.value for result in called.results])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="docker")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    with open_pool(options.kind, options.workers, "bench") as pool:
        work = jobs(options.data, pool)
    with open_pool(options.kind, options.workers, "bench") as pool:
        calls = sum(len(job.requests) for job in work)
        found = cost(pool, options.workers, work)
        print(
            f"{pool.id}, {options.workers} workers: {found.solutions} solutions, {calls} calls, {found.wrong} disagree"
        )
        print(f"{found.per_second:.1f} solutions/s, CPU {found.cpu_ms:.2f} ms each: ", end="")
        print(f"host {found.host_ms:.2f}, jail {found.jail_ms:.2f}, engine {found.engine_ms:.2f}")
        wait = waits(pool)
        print(f"run_code: p50 {wait.p50_ms:.1f} ms, p99 {wait.p99_ms:.1f} ms; replaced {pool.replaced}")


if __name__ == "__main__":
    main()
