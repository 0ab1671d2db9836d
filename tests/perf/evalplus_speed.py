"""EvalPlus evaluation, ours beside upstream's wheel in one run: `python tests/perf/evalplus_speed.py [--sandbox docker|local] [--count N]`.

Both sides judge the same programs, base and plus, one after the other: the reference solutions of N tasks of each data set, leaving out
those whose reference takes long, so that the judging is measured and not the programs. Upstream holds the expected outputs of the
whole data set in its memory, and with them each of its forks is dear: it runs once with a small parent, without those of the few tasks
whose outputs are most of it (for MBPP+ it is Mbpp/255), and once as shipped, with them. (Tasks whose reference takes seconds are left out
of both, which makes it cheaper.) Ours runs in the jail, hardened as it is, and compares on the host; our
CPU is that of this process, of the jail (the container's own counter), and of the Docker daemon, which carries the bytes.

Prints solutions a second and CPU milliseconds a solution, and exits with 1 below 10 times upstream as shipped or 3 times with a small
parent, in CPU a solution.
"""

import argparse
import json
import os
import random
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "parity"))
os.environ.setdefault("HARNESS_HOME", str(ROOT / ".cache" / "home"))

from evalplus_oracle import ask  # noqa: E402 - the two settings above come first

from envs import data, judging  # noqa: E402
from envs.evalplus import grading, references  # noqa: E402
from envs.evalplus.problems import Problem, load  # noqa: E402

COPY = ROOT.parent / "shared" / "data" / "evalplus"
FILES = {"mbpp": "MbppPlus-v0.2.0.jsonl.gz", "humaneval": "HumanEvalPlus-v0.1.10.jsonl.gz"}
HELD = {"mbpp": ["Mbpp/255"], "humaneval": ["HumanEval/15", "HumanEval/130", "HumanEval/83", "HumanEval/100"]}
"""The tasks with the largest expected outputs."""
SLOW = ("Mbpp/599", "Mbpp/583")
"""Tasks whose reference takes the better part of a minute."""
SLOW_S = {"mbpp": 0.02, "humaneval": 0.1}
"""Seconds of a reference for all its tests, about 100 and about 750: what takes longer is not judged here."""
HELD_S = 2.0
"""What takes longer is not held in memory."""
RUN_ID = "evalplus-speed"
MOST = 90
TICKS = os.sysconf("SC_CLK_TCK")
SHIPPED, SMALL = 10.0, 3.0


class Measured(NamedTuple):
    """Of `count` solutions, all of which passed."""

    name: str
    count: int
    wall_s: float
    cpu_s: float
    note: str = ""

    def line(self) -> str:
        rate, cost = self.count / self.wall_s, 1000 * self.cpu_s / self.count
        return f"{self.name:32} {rate:7.1f} solutions/s {cost:8.2f} ms of CPU each   {self.note}"


def chosen(category: str, count: int) -> list[Problem]:
    """Tasks whose reference is quick. Computes references where there are none yet."""
    problems = [problem for problem in load("test").problems.values() if problem.category == category]
    random.Random(5).shuffle(problems)
    quick: list[Problem] = []
    for problem in problems:
        if (
            len(quick) < count
            and problem.id not in {*SLOW, *HELD[category]}
            and _reference_s(problem) < SLOW_S[category]
        ):
            quick.append(problem)
    return quick


def _reference_s(problem: Problem) -> float:
    return sum(rows[index].seconds for rows in references.of(problem).values() for index in range(len(rows)))


def ours(problems: Sequence[Problem], sandbox: str) -> Measured:
    for problem in problems:
        _ = problem.joint_requests, [rows.joint for rows in references.of(problem).values()]
    judging.close()  # a jail ends after 200 submissions, and its counter with it
    grading.verdicts(problems[0], problems[0].reference, "data", ("official",))
    parts, started = _spent(sandbox), time.monotonic()
    passed = [
        grading.verdicts(problem, problem.reference, "data", ("official",))["official"].passed for problem in problems
    ]
    wall = time.monotonic() - started
    host, jail, daemon = (after - before for after, before in zip(_spent(sandbox), parts, strict=True))
    if not all(passed):
        raise RuntimeError(f"{passed.count(False)} reference solutions fail.")
    shares = ", ".join(
        f"{name} {1000 * part / len(problems):.2f}"
        for name, part in (("host", host), ("jail", jail), ("daemon", daemon))
    )
    return Measured(f"ours ({judging.sandbox_id().split(':')[0]})", len(problems), wall, host + jail + daemon, shares)


def _spent(sandbox: str) -> tuple[float, float, float]:
    """CPU seconds so far of this process, of our jail, and of the Docker daemon with the helper that carries our container's bytes.

    Whoever else uses the daemon meanwhile is counted too.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    host = usage.ru_utime + usage.ru_stime
    if sandbox == "local":
        return host, _children_s(), 0.0
    jail, helpers = _container()
    return (
        host,
        jail,
        sum(stat.own_s for pid, stat in _stats().items() if pid in helpers or stat.name in ("dockerd", "containerd")),
    )


def _container() -> tuple[float, set[int]]:
    """CPU seconds of our containers by their own counter, and the processes that hold them."""
    import docker

    client = docker.from_env()
    found = client.containers.list(filters={"label": f"lopd-harness.run={RUN_ID}"})
    total = sum(each.stats(stream=False)["cpu_stats"]["cpu_usage"]["total_usage"] for each in found)
    stats = _stats()
    holders = {stats[each.attrs["State"]["Pid"]].parent for each in found if each.attrs["State"]["Pid"] in stats}
    client.close()
    return total / 1e9, holders


class Stat(NamedTuple):
    """A process. `own_s` and `all_s` are CPU seconds, without and with those of the children that it has waited for."""

    name: str
    parent: int
    own_s: float
    all_s: float


def _stats() -> dict[int, Stat]:
    found: dict[int, Stat] = {}
    for entry in filter(str.isdigit, (path.name for path in Path("/proc").iterdir())):
        try:
            text = Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        own_s, waited_s = (sum(map(int, rest[start : start + 2])) / TICKS for start in (11, 13))
        found[int(entry)] = Stat(name, int(rest[1]), own_s, own_s + waited_s)
    return found


def _children_s() -> float:
    """All below this process."""
    stats = _stats()
    total, level = 0.0, {os.getpid()}
    while level:
        level = {pid for pid, stat in stats.items() if stat.parent in level}
        total += sum(stats[pid].all_s for pid in level)
    return total


def upstream(problems: Sequence[Problem], category: str) -> list[Measured]:
    """As shipped, and with a small parent."""
    rest = [
        problem.id
        for problem in load("test").problems.values()
        if problem.category == category and _held_by_all(problem)
    ]
    answers: list[dict[str, Any]] = ask(
        do="check",
        data=[str(COPY / FILES[category])],
        held=[rest, HELD[category]],
        least_s=4.0,
        rows=[[problem.id, problem.reference] for problem in problems],
    )
    for answer in answers:
        failed = [
            problem.id
            for problem, verdict in zip(problems, answer["verdicts"], strict=True)
            if verdict != ["pass", "pass"]
        ]
        if failed and failed != ["HumanEval/32"]:  # which the wheel can't pass
            raise RuntimeError(f"Upstream fails the reference solutions of {failed}.")
    names = ("evalplus 0.3.1, small parent", "evalplus 0.3.1, as shipped")
    small, shipped = (
        Measured(name, len(problems), answer["wall_s"], answer["cpu_s"], f"{answer['rss_mib']:.0f} MiB in the parent")
        for name, answer in zip(names, answers, strict=True)
    )
    return [shipped, small]


def _held_by_all(problem: Problem) -> bool:
    return problem.id not in SLOW and problem.id not in HELD[problem.category] and _reference_s(problem) < HELD_S


def compare(category: str, count: int, sandbox: str) -> bool:
    """Prints the three rows; whether both targets are met."""
    problems = chosen(category, count)
    tests = sum(len(rows) for problem in problems for rows in references.of(problem).values()) / len(problems)
    mine = ours(problems, sandbox)
    theirs = upstream(problems, category)
    print(f"\n{category}: {len(problems)} reference solutions, {tests:.0f} tests each")
    for row in (mine, *theirs):
        print(row.line())
    ratios = [row.cpu_s / mine.cpu_s for row in theirs]
    print(
        f"{'':32} {ratios[0]:.1f} times as cheap as shipped, {ratios[1]:.1f} times as with a small parent", flush=True
    )
    return ratios[0] >= SHIPPED and ratios[1] >= SMALL


def main() -> int:
    parser = argparse.ArgumentParser(description="EvalPlus evaluation, ours beside upstream's.")
    parser.add_argument("--sandbox", default="docker", choices=("docker", "local"))
    parser.add_argument("--count", type=int, default=60, help="solutions of each data set, 90 at most")
    options = parser.parse_args()
    if not 0 < options.count <= MOST:
        parser.error(f"--count is {options.count}: from 1 to {MOST}, for which one jail does.")
    if data.current("evalplus") is None:
        data.pull("evalplus", COPY)
    judging.use_sandbox(options.sandbox, 1, RUN_ID)
    print(json.dumps({"sandbox": judging.sandbox_id(), "cpus": os.cpu_count(), "load": os.getloadavg()}))
    met = [compare(category, options.count, options.sandbox) for category in ("mbpp", "humaneval")]
    judging.close()
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
