"""What the harness itself costs: `python tests/perf/overhead.py [steps|memory|progress|bfcl]...` (all without a name).

steps     seconds per step and episode of a null agent in a toy environment, the store on
memory    resident memory while 20,000 episodes are played (OVERHEAD_EPISODES sets another number)
progress  CPU seconds of a run with the bar and without
bfcl      the oracle playing every BFCL-v3 task through environment, runner and store

Prints one JSON object a study. Two cores are assumed nowhere; compare figures of one run only.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "toys"))

import toybench

from agents.scripted import Oracle
from envs.base import EnvSettings
from harness.progress import Bar, Played, Progress, Silent, Tally
from harness.run_dir import AgentPlan, BenchmarkPlan, episode_key
from harness.runner import Job, Runner, Settings
from trajectories.store import Store

TOY = BenchmarkPlan(
    name="toy", env_version="1", data="toy-1", split="test", settings=EnvSettings(), tasks=1, task_digest=""
)


class Terminal(io.StringIO):
    """A stream on which tqdm draws as on a real terminal."""

    def isatty(self) -> bool:
        return True


def jobs(episodes: int) -> Iterator[Job]:
    toy, agent = toybench.Toy(), Oracle()
    plan = AgentPlan(spec="scripted:oracle", name=agent.name, config={})
    for index in range(episodes):
        task = toybench.task_of(index)
        key = episode_key(task, TOY, plan, seed=0, attempt=0)
        yield Job(key, lambda task_id=task.id: toy.make(task_id, EnvSettings()), agent, "toy-1")


def play(
    episodes: int,
    *,
    concurrency: int = 1,
    show: Callable[[Tally], Progress] | None = None,
    watch: Callable[[Job], Job] = lambda job: job,
) -> dict[str, float]:
    """Play toy episodes of three steps each; seconds of wall and CPU time."""
    tally = Tally(episodes)
    progress = (show or (lambda tally: Silent(tally, sys.stderr)))(tally)
    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "store") as store:
        wall, cpu = time.perf_counter(), time.process_time()
        Runner(store, map(watch, jobs(episodes)), progress, Settings(concurrency=concurrency)).run()
        spent = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    progress.close()
    assert tally.scored == episodes
    assert tally.score == 1.0
    return spent


def steps() -> dict[str, Any]:
    play(50)
    episodes = 2000
    found: dict[str, Any] = {"study": "steps", "episodes": episodes, "steps_each": toybench.STEPS}
    for concurrency in (1, 4):
        spent = play(episodes, concurrency=concurrency)
        per_step = {name: 1000 * value / episodes / toybench.STEPS for name, value in spent.items()}
        found[f"threads_{concurrency}"] = {"ms_per_step_wall": per_step["wall_s"], "ms_per_step_cpu": per_step["cpu_s"]}
    return found


def memory() -> dict[str, Any]:
    episodes = int(os.environ.get("OVERHEAD_EPISODES", "20000"))
    play(5000, concurrency=4)  # the store has sealed once: what that loads is there
    seen: list[float] = []
    counted = 0

    def watch(job: Job) -> Job:
        nonlocal counted
        if counted % (episodes // 20) == 0:
            seen.append(resident_mib())
        counted += 1
        return job

    play(episodes, concurrency=4, watch=watch)
    quarter = len(seen) // 4
    return {"study": "memory", "episodes": episodes, "mib": [round(value, 1) for value in seen],
            "mib_after_a_quarter": seen[quarter], "mib_at_the_end": seen[-1]}  # fmt: skip


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Timed(Bar):
    """A bar that adds up the CPU seconds of its own calls."""

    spent_s = 0.0

    def add(self, played: Played) -> None:
        started = time.thread_time()
        super().add(played)
        self.spent_s += time.thread_time() - started


def progress() -> dict[str, Any]:
    """The bar's share of the CPU time of a run without a model, which is its worst case: by its calls, and on against off."""
    episodes, rounds = 2000, 5
    cpu: dict[str, list[float]] = {"off": [], "on": []}
    bars: list[Timed] = []
    play(50)

    def show(tally: Tally) -> Progress:
        bars.append(Timed(tally, Terminal()))
        return bars[-1]

    for _ in range(rounds):
        cpu["off"].append(play(episodes, concurrency=4)["cpu_s"])
        cpu["on"].append(play(episodes, concurrency=4, show=show)["cpu_s"])
    best = {name: min(values) for name, values in cpu.items()}
    return {
        "study": "progress",
        "episodes": episodes,
        "share_by_calls": sum(bar.spent_s for bar in bars) / sum(cpu["on"]),
        "share_on_against_off": best["on"] / best["off"] - 1,
        "cpu_s": cpu,
    }


def bfcl() -> dict[str, Any]:
    """All tasks, all official verdicts; needs `harness data pull bfcl-v3`."""
    from harness.evaluate import Command, evaluate

    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        flags = {"benchmark": ("bfcl-v3",), "agent": ("scripted:oracle",), "output": f"{folder}/run", "concurrency": 2}
        with contextlib.redirect_stdout(sys.stderr):
            code = evaluate(Command(quiet=True), None, flags)
        spent = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return {"study": "bfcl", "exit_code": code, **spent}


STUDIES = {"steps": steps, "memory": memory, "progress": progress, "bfcl": bfcl}

if __name__ == "__main__":
    for name in sys.argv[1:] or STUDIES:
        print(json.dumps(STUDIES[name]()), flush=True)
