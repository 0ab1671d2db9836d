"""The command line around its commands: help, exit codes, faults of ours, streams."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import toyrun
from typer.main import get_command

from harness import doctor, listing
from harness.cli import app

Cli = Callable[..., Any]
ORACLE = ("eval", "-b", "toy", "-a", "scripted:oracle", "-o", "run")


def test_help_names_every_command_and_its_subject(cli: Cli) -> None:
    ran = cli("--help")
    assert (ran.code, ran.err) == (0, "")
    for name in (
        "eval",
        "collect",
        "list",
        "data",
        "grade",
        "rescore",
        "report",
        "leaderboard",
        "trajectories",
        "doctor",
    ):
        assert f"\n  {name} " in ran.out


def test_no_arguments_show_the_help_and_are_no_success(cli: Cli) -> None:
    ran = cli()
    assert ran.code == 2
    assert "Commands:" in ran.err


def test_the_version_is_the_distributions(cli: Cli) -> None:
    from importlib.metadata import version

    assert cli("--version").out == version("lopd-harness") + "\n"


def test_each_kind_of_thing_is_listed_for_people_and_as_json(cli: Cli) -> None:
    everything = json.loads(cli("list", "--json").out)
    assert set(everything) == {"benchmarks", "agents", "metrics", "runs"}
    for kind in everything:
        assert json.loads(cli("list", kind, "--json").out) == everything[kind]
        assert cli("list", kind).code == 0
    assert "toy" in [row["name"] for row in everything["benchmarks"]]
    assert {"name": "scripted:oracle"} in everything["agents"]
    assert all(row["unit"] and row["description"] for row in everything["metrics"])


def test_a_benchmark_is_listed_with_what_its_options_may_be(cli: Cli) -> None:
    lines = cli("list", "benchmarks").out.splitlines()
    at = lines.index("  toy: Toy")
    assert lines[at + 1 : at + 5] == [
        "    splits: test, sample",
        "    categories: even, odd",
        "    languages: en",
        "    profiles: default",
    ]


def test_the_tasks_of_a_benchmark_are_listed_with_their_categories(cli: Cli) -> None:
    rows = json.loads(cli("list", "tasks", "toy", "--category", "od*", "--json").out)
    assert rows == [{"id": f"toy_{n:05d}", "category": "odd"} for n in (1, 3, 5, 7)]
    assert cli("list", "tasks", "toy", "--split", "sample").out.splitlines()[1].split() == ["toy_00001", "odd"]
    assert "Write 'harness list tasks BENCH'" in cli("list", "tasks").error()
    assert "Did you mean 'toy'" in cli("list", "tasks", "toi").error()
    assert "Unknown category 'oddd'" in cli("list", "tasks", "toy", "--category", "oddd").error()
    assert "Unknown split of toy: 'tests'" in cli("list", "tasks", "toy", "--split", "tests").error()
    assert "Only 'harness list tasks BENCH'" in cli("list", "agents", "toy").error()


def test_a_terminals_lines_are_wrapped_to_its_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listing.show("metrics", as_json=False)
    whole = capsys.readouterr().out
    monkeypatch.setattr(listing, "terminal_width", lambda stream: 60)
    listing.show("metrics", as_json=False)
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, whole.splitlines()))
    assert narrow.split() == whole.split()


def test_data_is_verified_in_words(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    ran = cli("data", "verify", "bfcl-v3")
    assert (ran.code, ran.out.split()[:2]) == (1, ["bfcl-v3", "problem"])


def test_every_option_says_what_it_is() -> None:
    def options(command: Any, path: str) -> Iterator[tuple[str, str | None]]:
        for name, each in getattr(command, "commands", {}).items():
            yield from options(each, f"{path} {name}")
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield f"{path} {parameter.opts[0]}", parameter.help

    found = dict(options(get_command(app), "harness"))
    assert "harness trajectories ls --truncated-by" in found
    assert [name for name, text in found.items() if not text] == []


def test_runs_are_listed_and_a_damaged_one_is_named_not_hidden(cli: Cli) -> None:
    cli("eval", "-b", "toy", "-a", "scripted:oracle", "-o", "runs/good")
    Path("runs/bad").mkdir()
    Path("runs/bad/run.json").write_text("{")
    bad, good = json.loads(cli("list", "runs", "--json").out)
    assert good == {"run": "runs/good", "benchmarks": ["toy"], "agents": ["scripted:oracle"], "episodes": 8}
    assert "damaged" in bad["problem"]


def test_a_run_can_be_reported_ranked_and_looked_into(cli: Cli) -> None:
    cli(*ORACLE)
    assert "100.00" in cli("report", "run").out
    assert json.loads(cli("report", "run", "--json").out)["runs"][0]["run"] == "run"
    assert "scripted:oracle" in cli("leaderboard", "run").out
    assert json.loads(cli("leaderboard", "run", "--json").out)
    listed = json.loads(cli("trajectories", "ls", "run", "--category", "odd", "-n", "2", "--json").out)
    assert [row["task_id"] for row in listed] == ["toy_00001", "toy_00003"]
    assert "add" in cli("trajectories", "show", "run", "toy_00001").out
    assert "8" in cli("trajectories", "stats", "run").out
    assert cli("trajectories", "verify", "run").code == 0
    assert cli("trajectories", "compact", "run").code == 0
    assert cli("rescore", "run").code == 0
    assert len(toyrun.contents(Path("run"))) == 8


def test_doctor_says_what_is_there_and_what_is_not(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    checks = {check["what"]: check for check in json.loads(cli("doctor", "--json").out)}
    assert checks["python"]["state"] == "ok"
    assert checks["package pydantic"]["state"] == "ok"
    assert checks["data bfcl-v3"]["state"] == "optional"
    assert "harness data pull bfcl-v3" in checks["data bfcl-v3"]["detail"]
    assert (checks["docker"]["state"], "no daemon answers" in checks["docker"]["detail"]) == ("optional", True)
    assert cli("doctor").code == 0


def test_doctor_names_each_package_once_and_no_tools_of_ours(cli: Cli) -> None:
    names = [check["what"] for check in json.loads(cli("doctor", "--json").out)]
    assert len(names) == len(set(names))
    assert not {"package ruff", "package pytest", "package pyright"} & set(names)


@pytest.mark.parametrize(
    ("driver", "torch", "state", "detail"),
    [
        (False, None, "optional", "no driver is loaded"),
        (True, None, "optional", "torch is not: pip install 'lopd-harness[hf]'"),
        (True, "print('H200 (139 of 140 GiB free)')", "ok", "H200 (139 of 140 GiB free)"),
        (True, "print('')", "optional", "torch sees no GPU (it was built without CUDA"),
        (True, "raise OSError('no libcuda')", "optional", "torch sees no GPU (OSError: no libcuda)"),
    ],
)
def test_doctor_says_what_gpu_torch_sees(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: bool, torch: str | None, state: str, detail: str
) -> None:
    monkeypatch.setattr(doctor, "GPU_DRIVERS", (str(tmp_path if driver else tmp_path / "none"),))
    monkeypatch.setattr(doctor, "_ASK_TORCH", torch)
    monkeypatch.setattr(doctor, "_has_torch", lambda: torch is not None)
    check = doctor._gpu()
    assert (check.state, detail in check.detail) == (state, True), check


def test_doctor_fails_where_something_that_all_commands_need_is_missing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.doctor.DISK_MIB", 10**12)
    ran = cli("doctor", "--json")
    assert ran.code == 1
    assert "are needed" in next(check["detail"] for check in json.loads(ran.out) if check["state"] == "missing")


CORE_ONLY = """
import sys
EXTRAS = {"torch", "transformers", "peft", "jinja2", "tokenizers", "safetensors", "faiss", "docker", "pytest"}
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Lacking())
from harness.cli import run
for command in (
    "eval -b bfcl-v3 --split sample -a scripted:oracle -a scripted:random -o run -q",
    "list", "doctor", "report run", "leaderboard run", "trajectories stats run", "rescore run",
    "eval -b bfcl-v3 --split sample -a hf:nowhere",
):
    print(command.split()[0], run(command.split()), file=sys.stderr)
"""


def test_a_core_install_plays_scripted_agents_and_says_what_a_local_model_needs(tmp_path: Path) -> None:
    environment = {**os.environ, "HARNESS_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", CORE_ONLY], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    said = done.stderr.splitlines()
    for line in ("eval 0", "list 0", "doctor 0", "report 0", "leaderboard 0", "trajectories 0", "rescore 0", "eval 2"):
        assert line in said, done.stderr
    assert "pip install 'lopd-harness[hf]'" in said[-2]


FAULT = "from harness import cli; import harness.listing; harness.listing.show = lambda *a, **k: 1 // 0; cli.main()"


def test_a_fault_of_ours_is_one_sentence_and_its_traceback_is_in_a_file(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    arguments = [sys.executable, "-c", FAULT, "list"]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("Error: this is a fault of ours (ZeroDivisionError: ")
    (trace,) = tmp_path.glob("harness-*.txt")
    assert str(trace) in done.stderr
    assert "Traceback" in trace.read_text()
    debug = subprocess.run(
        arguments, capture_output=True, text=True, env={**environment, "HARNESS_DEBUG": "1"}, check=False
    )
    assert "Traceback" in debug.stderr


def test_a_reader_that_leaves_early_causes_no_complaint() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "harness", "list", "metrics"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_another_distributions_package_of_our_name_is_named_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "harness", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert f"The package 'agents' of lopd-harness is shadowed by {tmp_path}" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("with_catalogue", [True, False])
def test_a_damaged_segment_is_said_by_whatever_reads_it_and_there_is_a_way_on(cli: Cli, with_catalogue: bool) -> None:
    cli(*ORACLE)
    (segment,) = Path("run/trajectories/segments").iterdir()
    content = segment.read_bytes()
    middle = slice(len(content) // 8, len(content) * 7 // 8)
    segment.write_bytes(content[: middle.start] + bytes(b ^ 0xFF for b in content[middle]) + content[middle.stop :])
    if not with_catalogue:
        for file in Path("run/trajectories").glob("catalogue.sqlite*"):
            file.unlink()
    for command in (("report", "run"), ("leaderboard", "run"), ("eval", "--resume", "-o", "run", "-q")):
        ran = cli(*command)
        assert ran.code == 1
        assert ran.err.splitlines()[-1].startswith("Error: ")
        assert "`harness trajectories compact run/trajectories --drop-damaged`" in ran.err.splitlines()[-1]
    assert "is damaged" in cli("trajectories", "verify", "run").out
    assert cli("trajectories", "compact", "run", "--drop-damaged").code == 0
    assert cli("eval", "--resume", "-o", "run").code == 0
    assert len(toyrun.contents(Path("run"))) == 8
