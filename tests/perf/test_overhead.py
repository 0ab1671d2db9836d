"""Bounds on what the harness itself costs, wide enough for a busy machine; `overhead.py` prints the figures."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def measured(study: str, **more: str) -> dict[str, Any]:
    script = Path(__file__).with_name("overhead.py")
    done = subprocess.run(
        [sys.executable, str(script), study],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **more},
        timeout=500,
    )
    print(done.stdout)
    return json.loads(done.stdout)


@pytest.mark.study
def test_the_harness_costs_less_than_a_millisecond_of_cpu_a_step() -> None:
    found = measured("steps")
    assert found["threads_1"]["ms_per_step_cpu"] < 1.0
    assert found["threads_4"]["ms_per_step_cpu"] < 1.0


@pytest.mark.study
def test_progress_costs_less_than_two_percent() -> None:
    assert measured("progress")["share_by_calls"] < 0.02


@pytest.mark.study
def test_memory_does_not_grow_with_the_number_of_episodes() -> None:
    found = measured("memory", OVERHEAD_EPISODES=os.environ.get("OVERHEAD_EPISODES", "8000"))
    assert found["mib_at_the_end"] - found["mib_after_a_quarter"] < 24
