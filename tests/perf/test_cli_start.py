"""The command line answers at once: nothing heavy is loaded before a command runs."""

import statistics
import subprocess
import sys
import time

import pytest

HEAVY = (
    "pydantic",
    "numpy",
    "torch",
    "transformers",
    "faiss",
    "docker",
    "gymnasium",
    "pyarrow",
    "openai",
    "tqdm",
    "rich",
)

ROUNDS = 10
HIGHEST_RATIO = 15.0
"""Times `python -c pass`; about 5 was measured. On a machine that starts Python in 10 ms it is well under 0.3 s."""


@pytest.mark.parametrize("command", [["--help"], ["eval", "--help"], ["trajectories", "--help"], ["--version"]])
def test_help_loads_no_heavy_package(command: list[str]) -> None:
    # Below the top level, typer itself takes pydantic to read flags.
    assert _loaded(command) in ([], ["pydantic"] if command != ["--help"] else [])


def _loaded(command: list[str]) -> list[str]:
    code = (
        "import sys; from harness.cli import run; code = run(sys.argv[1:]);"
        f"print('LOADED', *[name for name in {HEAVY!r} if name in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    label, *names = done.stdout.splitlines()[-1].split()
    assert label == "LOADED"
    return names


def test_help_is_answered_in_a_small_multiple_of_an_empty_python() -> None:
    empty = [sys.executable, "-c", "pass"]
    help_ = [sys.executable, "-m", "harness", "--help"]
    seconds: dict[str, list[float]] = {"empty": [], "help": []}
    for command in (empty, help_):
        _seconds(command)  # warm
    for _ in range(ROUNDS):  # in turn, so that a busy machine slows both
        seconds["empty"].append(_seconds(empty))
        seconds["help"].append(_seconds(help_))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["help"] / medians["empty"]
    print(f"--help {medians['help']:.3f} s, an empty Python {medians['empty']:.3f} s, ratio {ratio:.1f}")
    assert ratio < HIGHEST_RATIO


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started
