"""Starts the real command line in child processes, with the toy benchmark and agents, and reads what it left."""

import os
import subprocess
import sys
from pathlib import Path

from harness.run_dir import RunDir

TOYS = Path(__file__).parent
CLI = (sys.executable, str(TOYS / "toycli.py"))


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(TOYS), **more}


def start(*arguments: str, **more: str) -> subprocess.Popen[str]:
    """The command, running."""
    return subprocess.Popen(
        [*CLI, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**more)
    )


def harness(
    *arguments: str, cwd: Path | None = None, timeout_s: float = 60, **more: str
) -> subprocess.CompletedProcess[str]:
    """The command, run to its end."""
    return subprocess.run(
        [*CLI, *arguments], capture_output=True, text=True, env=environment(**more), cwd=cwd, timeout=timeout_s
    )


def contents(run: Path) -> list[bytes]:
    """What the run's trajectories hold, clock left out, sorted."""
    with RunDir.open(run).store() as store:
        return sorted(trajectory.content_bytes() for trajectory in store)


def reports(run: Path) -> dict[str, bytes]:
    """The report files that don't depend on the clock."""
    return {path.name: path.read_bytes() for path in sorted(run.glob("report.*"))}
