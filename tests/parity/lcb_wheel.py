"""The wheel nvidia-livecodebench, a fork of LiveCodeBench's evaluation, in a venv of its own: for speed, and as an oracle where it is one.

Its grader is that of LiveCodeBench 28fef95 but for the mock of standard input, which lacks `buffer` and reads on from where it was. So it
says how functions are graded, and programs that read with `input()` alone.
"""

import fcntl
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.livecodebench.records import Problem

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".cache" / "nvidia-livecodebench"
PINS = ("nvidia-livecodebench==26.3", "numpy==2.4.6", "tqdm==4.67.1")

GRADE = """
import json, os, sys
sys.stdout = open(os.devnull, "w")
from livecodebench.evaluation.compute_code_generation_metrics import evaluate_generations_by_problem
work = [json.loads(line) for line in sys.stdin.readlines()]  # whole: what is graded may read from the same descriptor
for sample, code, timeout in work:
    results, metadata = evaluate_generations_by_problem(([code], sample, False, timeout))
    print(json.dumps([results[0], metadata[0].get("error_code")]), file=sys.__stdout__, flush=True)
"""


def ensure() -> Path:
    """The interpreter of the venv, which is made first where it is missing. Safe to call from many processes."""
    stamp = VENV / "pins"
    VENV.parent.mkdir(exist_ok=True)
    with (VENV.parent / "nvidia-livecodebench.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text() != "\n".join(PINS):
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
            pip = [str(python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *PINS]
            subprocess.run(pip, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stamp.write_text("\n".join(PINS))
    return python()


def python() -> Path:
    return VENV / "bin" / "python"


def sample(problem: Problem) -> dict[str, str]:
    """A problem's tests as upstream's grader takes them."""
    return {
        "input_output": json.dumps({
            "inputs": [test.input for test in problem.tests],
            "outputs": [test.output for test in problem.tests],
            "fn_name": problem.function,
        })
    }  # fmt: skip


def codes(work: Sequence[tuple[Problem, str]], timeout: int) -> list[tuple[list[Any], int | None]]:
    """What the wheel says of each solution: its result codes and its error code."""
    given = "".join(json.dumps([sample(problem), code, timeout]) + "\n" for problem, code in work)
    done = subprocess.run([str(ensure()), "-c", GRADE], input=given, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]
