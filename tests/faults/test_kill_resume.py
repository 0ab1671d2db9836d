"""Nothing is lost: runs that are killed, interrupted or out of disk go on where they stood, and end the same."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from toyrun import contents, harness, reports, start

EPISODES = 300
KILLS = int(os.environ.get("HARNESS_KILLS", "5"))
"""25 in the full study."""
PACE = {"TOY_PACE": str(max(0.03, 0.005 * KILLS))}
"""The more kills, the slower the play: each is to meet a run that is not done yet, also on a fast machine."""
AIMS = (
    "",
    "",
    "write_all:2",
    "write_all:9",
    "write_all:17",
    "sync:2",
    "sync:11",
    "publish:2",
    "publish:3",
    "publish_after:2",
    "publish_after:3",
    "remove:1",
    "remove:2",
    "sync_folder:3",
    "sync_folder:5",
)
"""Calls in which a process dies (`toys/dying.py`): journal writes and syncs, sealing, its renames and removals. '': none."""


def run_arguments(run: Path, agent: str = "module:toyagents:Paced", *more: str) -> list[str]:
    return ["eval", "-b", "toy", "-a", agent, "-o", str(run), "-c", "4", "--seed", "7", *more]


@pytest.mark.study
def test_a_run_that_is_killed_again_and_again_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    rng = random.Random(KILLS)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    undisturbed = start(*run_arguments(whole), TOY_TASKS=str(EPISODES), **PACE)
    deaths = 0
    for _ in range(KILLS):
        deaths += _killed(run_arguments(killed, "module:toyagents:Paced", "--resume"), rng)
    last = harness(*run_arguments(killed, "module:toyagents:Paced", "--resume"), TOY_TASKS=str(EPISODES), **PACE)
    table, _ = undisturbed.communicate(timeout=120)
    assert last.returncode == undisturbed.returncode == 0, last.stderr
    assert deaths == KILLS
    assert last.stdout == table
    assert contents(killed) == contents(whole)
    assert len(set(contents(killed))) == len(contents(killed)) == EPISODES
    assert reports(killed) == reports(whole)


def _killed(arguments: list[str], rng: random.Random) -> bool:
    """Start the command and see it die: in the aimed call, or at a random moment. Whether it did not end by itself."""
    process = start(*arguments, TOY_TASKS=str(EPISODES), TOY_DIE=rng.choice(AIMS), **PACE)
    try:
        process.communicate(timeout=rng.uniform(0.2, 2.2))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode == -signal.SIGKILL


def _when_stored(process: subprocess.Popen[str], run: Path, episodes: int) -> None:
    """Wait until the running process has stored so many episodes."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        if (run / "trajectories/store.json").exists() and len(contents(run)) >= episodes:
            return
        time.sleep(0.05)
    raise AssertionError("nothing was stored within 30 s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_running_episodes_finish_and_the_rest_is_played_by_resume(
    tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    process = start(*run_arguments(run), TOY_TASKS="100")
    _when_stored(process, run, 3)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "the running episodes finish" in said
    assert "Go on with 'harness eval --resume -o" in said
    assert "Traceback" not in said
    stored = contents(run)
    assert 3 <= len(stored) < 100
    resumed = harness("eval", "--resume", "-o", str(run), TOY_TASKS="100")
    assert resumed.returncode == 0, resumed.stderr
    assert len(contents(run)) == 100
    assert set(stored) < set(contents(run))


def test_the_second_signal_ends_at_once_and_what_was_stored_stays(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = [
        "eval",
        "-b",
        "toy",
        "-a",
        "module:toyagents:Hanging",
        "-a",
        "scripted:oracle",
        "-o",
        str(run),
        "-c",
        "2",
    ]
    process = start(*arguments, TOY_TASKS="4")
    while not (run / "trajectories/store.json").exists():  # it hears signals from here on
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None  # the hanging episodes are still running
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    last = said.splitlines()[-1]
    assert last.startswith("Interrupted at once: what was stored is kept. Go on with 'harness eval ")
    assert f"--resume -o {run}" in last
    assert "Traceback" not in said


def test_a_second_process_on_the_same_run_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = start(*run_arguments(run), TOY_TASKS="100")
    _when_stored(first, run, 1)
    second = harness(*run_arguments(run, "module:toyagents:Paced", "--resume"), TOY_TASKS="100")
    assert (second.returncode, second.stdout) == (2, "")
    assert f"in use by process {first.pid} on " in second.stderr
    assert second.stderr.count("\n") == 1
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert len(contents(run)) == 100


@pytest.mark.parametrize("call", ["write_all:40", "sync:9", "publish:2"])
def test_a_full_disk_stops_the_run_in_one_sentence_and_resume_plays_the_rest(tmp_path: Path, call: str) -> None:
    run = tmp_path / "run"
    full = harness(*run_arguments(run, "scripted:random"), TOY_TASKS="100", TOY_FULL=call)
    assert full.returncode == 1
    assert full.stdout == ""
    assert "No space left" in full.stderr.splitlines()[-1]
    assert "Traceback" not in full.stderr
    resumed = harness(*run_arguments(run, "scripted:random", "--resume"), TOY_TASKS="100")
    assert resumed.returncode == 0, resumed.stderr
    harness(*run_arguments(tmp_path / "whole", "scripted:random"), TOY_TASKS="100")
    assert contents(run) == contents(tmp_path / "whole")
    assert reports(run) == reports(tmp_path / "whole")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_really_is_full_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        full = harness(*run_arguments(disk / "run", "scripted:random"), TOY_TASKS="2000")
        assert full.returncode == 1
        assert full.stderr.splitlines()[-1].startswith("Error: ")
        assert "No space left" in full.stderr.splitlines()[-1]
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        resumed = harness(*run_arguments(disk / "run", "scripted:random", "--resume"), TOY_TASKS="2000")
        assert resumed.returncode == 0, resumed.stderr
        assert len(contents(disk / "run")) == 2000
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        closed = harness(*run_arguments(disk / "run", "scripted:random", "--resume"), TOY_TASKS="2000")
        assert (closed.returncode, closed.stderr.count("\n")) == (2, 1)
        assert "Can't write" in closed.stderr
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("aim", ["write_all:9", "sync:2", "publish:3", "remove:2"])
def test_a_death_in_a_write_in_sealing_or_in_a_rename_is_mended_by_the_next_start(tmp_path: Path, aim: str) -> None:
    arguments = run_arguments(tmp_path / "run", "scripted:random", "--resume")
    died = harness(*arguments, TOY_TASKS="60", TOY_DIE=aim)
    assert died.returncode == -signal.SIGKILL
    assert harness(*arguments, TOY_TASKS="60").returncode == 0
    assert len(set(contents(tmp_path / "run"))) == 60
