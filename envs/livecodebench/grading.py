"""From code to a verdict: one path for episodes, stored trajectories and predictions files."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from envs import judging
from envs.livecodebench import official, strict
from envs.livecodebench.errata import ERRATA
from envs.livecodebench.outcome import Ran
from envs.livecodebench.records import Problem
from envs.sandbox.worker import Worker
from trajectories.failures import SandboxError
from trajectories.schema import Verdict

UPSTREAM = "28fef95"
"""The commit of LiveCodeBench whose verdicts `official` gives."""
STRICT_VERSION = 1
"""Bump it when `strict` may give another verdict on the same code."""
TRIES = 3
"""How often a solution is run before a jail that breaks each time is told."""

MOST_CHARACTERS = 2_000_000
"""Longer code is not run. Upstream has no limit."""

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_GRADERS: Mapping[str, Callable[[Worker, Problem, str], Ran]] = {"official": official.grade, "strict": strict.grade}


def grader_id(grader: str, data_version: str) -> str:
    """Names the grader, its version, the Python that ran the code, and the data."""
    version = UPSTREAM if grader == "official" else str(STRICT_VERSION)
    return f"{grader}-{version}-{judging.python()}@{data_version}"


def steady(text: str) -> str:
    """A text without the addresses of objects, which differ from run to run."""
    return _ADDRESS.sub("0x...", text)


def run(problem: Problem, code: str, grader: str) -> Ran:
    """Run a solution in a jail. SandboxError where jails keep breaking: nothing is known of the code then."""
    if not code.strip():
        return Ran((-4,), -4, "the answer holds no code")
    if len(code) > MOST_CHARACTERS:
        return Ran((-4,), -4, f"the code has {len(code)} characters, more than {MOST_CHARACTERS}")
    for _ in range(TRIES - 1):
        try:
            with judging.lease() as worker:
                return _GRADERS[grader](worker, problem, code)
        except SandboxError:
            continue
    with judging.lease() as worker:
        return _GRADERS[grader](worker, problem, code)


def verdict(problem: Problem, ran: Ran, grader: str, data_version: str) -> Verdict:
    """The verdict, without what depends on the clock or would tell a hidden test."""
    detail: dict[str, Any] = {
        "codes": list(ran.codes),
        "category": problem.difficulty,
        "tests": len(problem.tests),
        "passed_tests": ran.passed_tests,
        "failed_test": ran.failed_test,
        "error_code": ran.error_code,
        "error": steady(ran.error)[:300] or None,
    }
    if problem.id in ERRATA:
        detail["errata"] = True
    return Verdict(
        grader=grader_id(grader, data_version),
        passed=ran.passed,
        score=1.0 if ran.passed else 0.0,
        detail=detail,
    )
