"""Reports and leaderboards of real run folders: what stands in them, and what changes nothing in them."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import toybench

from agents.base import Agent
from agents.scripted import Nop, Oracle
from envs import registry
from envs.base import EnvSettings
from harness import report
from harness.episode import run_episode
from harness.report import leaderboard, print_table, read_report, write_report
from harness.run_dir import AgentPlan, BenchmarkPlan, NotRun, Plan, RunDir, RunRecord, task_digest
from trajectories.failures import InfrastructureError, InputError
from trajectories.schema import Failure, Trajectory, Verdict

TASKS = [toybench.task_of(index) for index in range(6)]
AGENTS: dict[str, Agent] = {"oracle": Oracle(), "nop": Nop()}
FILES = ("report.json", "report.md", "report.csv")


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BENCHMARKS, "toy", "toybench:Toy")
    monkeypatch.setenv("TOY_TASKS", "6")


def plan(path: Path, *, agents: Iterable[str] = ("oracle", "nop"), attempts: int = 1, **fields: Any) -> RunDir:
    """A run of six tasks in which nothing was played yet."""
    benchmark = BenchmarkPlan(
        name="toy", env_version="1", data="toy-1", split="test", settings=EnvSettings(), tasks=len(TASKS),
        task_digest=task_digest(TASKS),
    )  # fmt: skip
    planned = Plan(
        benchmarks=(benchmark,),
        agents=tuple(AgentPlan(spec=f"scripted:{name}", name=name, config={}) for name in agents),
        attempts=attempts,
        **fields,
    )
    options: dict[str, Any] = {
        "benchmark": ["toy"],
        "agent": ["scripted:oracle", "scripted:nop"],
        "seed": 0,
        "split": None,
    }
    record = RunRecord(harness_version="9.9", command="eval", plan=planned, options=options)
    return RunDir.create(path, record, {"toy": TASKS})


def played(run: RunDir) -> list[Trajectory]:
    return [
        run_episode(toybench.ToyEnv(each.key.task.id), AGENTS[each.agent.name], each.key, data="toy-1")
        for each in run.planned()
    ]


def store(run: RunDir, trajectories: Iterable[Trajectory]) -> RunDir:
    with run.store(writable=True) as opened:
        for trajectory in trajectories:
            opened.append(trajectory)
    return run


def finished(path: Path, change: Callable[[list[Trajectory]], list[Trajectory]] = list, **fields: Any) -> RunDir:
    run = plan(path, **fields)
    return store(run, change(played(run)))


def failed(trajectory: Trajectory, boundary: Any, message: str = "broke") -> Trajectory:
    failure = Failure(boundary=boundary, kind="ValueError", message=message)
    changes: dict[str, Any] = {"ended": "failed", "failure": failure, "verdicts": {}, "reward": 0.0}
    return trajectory.model_copy(update=changes)


def contents(run: RunDir) -> dict[str, bytes]:
    return {name: (run.path / name).read_bytes() for name in FILES}


def test_a_finished_run_is_reported_in_three_forms_that_agree(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    written = write_report(run)
    assert {path.name for path in run.path.glob("report.*")} == set(FILES)
    from_disk = json.loads((run.path / "report.json").read_text())
    assert from_disk == written.model_dump(mode="json")
    rows = list(csv.DictReader(io.StringIO((run.path / "report.csv").read_text())))
    overall = {
        row["agent"]: float(row["value"]) for row in rows if (row["name"], row["grader"]) == ("overall", "official")
    }
    assert overall == {"oracle": 1.0, "nop": 0.0}
    markdown = (run.path / "report.md").read_text()
    assert "| toy | oracle | overall | 100.00 | 6 | 6 |" in markdown
    assert "harness eval --benchmark toy --agent scripted:oracle --agent scripted:nop" in markdown


def test_the_report_names_what_was_run(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    write_report(run)
    markdown = (run.path / "report.md").read_text()
    named = [
        "9.9",
        "toy-1",
        "official@toy-1",
        "strict@toy-1",
        task_digest(TASKS),
        "scripted:oracle",
        "mode fc",
        "| Seed | 0 |",
    ]
    assert [name for name in named if name not in markdown] == []


def test_the_files_are_the_same_bytes_whatever_the_clock_and_the_order_of_episodes(tmp_path: Path) -> None:
    one = finished(tmp_path / "one", attempts=2)
    write_report(one)
    other = finished(tmp_path / "other", lambda episodes: [_later(each) for each in reversed(episodes)], attempts=2)
    write_report(other)
    assert contents(one) == contents(other)
    assert (one.path / "timing.json").read_bytes() != (other.path / "timing.json").read_bytes()


def _later(trajectory: Trajectory) -> Trajectory:
    assert trajectory.timing is not None
    return trajectory.model_copy(
        update={"timing": trajectory.timing.model_copy(update={"wall_s": 77.0, "started_at": 1.0})}
    )


def test_a_run_that_is_owed_episodes_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    run = plan(tmp_path / "broken")
    episodes = played(run)
    store(run, [failed(episodes[0], "infrastructure"), *episodes[1:4]])
    counts = write_report(run).results[0].scores.denominators
    assert (counts.ended, counts.missing, counts.not_started) == (3, 1, 2)
    store(run, [episodes[0], *episodes[4:]])
    write_report(run)
    undisturbed = finished(tmp_path / "undisturbed")
    write_report(undisturbed)
    assert contents(run) == contents(undisturbed)


def test_failures_stand_in_the_report_with_their_boundary_and_examples(tmp_path: Path) -> None:
    def breaking(episodes: list[Trajectory]) -> list[Trajectory]:
        return [failed(episodes[0], "agent", "no | idea\x1b[0m"), failed(episodes[1], "sandbox"), *episodes[2:]]

    run = finished(tmp_path / "run", breaking)
    oracle = write_report(run).results[0]
    assert [(group.boundary, group.count) for group in oracle.failures] == [("agent", 1), ("sandbox", 1)]
    counts = oracle.scores.denominators
    assert (counts.planned, counts.ended, counts.agent_failed, counts.missing) == (6, 4, 1, 1)
    assert oracle.scores.graders["official"].table[0].estimate.value == pytest.approx(4 / 5)
    assert oracle.scores.graders["official"].missing_as_zero == pytest.approx(4 / 6)
    steps = {mean.name: mean.episodes for mean in oracle.behaviour}["steps"]
    assert steps == 5
    markdown = (run.path / "report.md").read_text()
    assert "toy_00000 #0" in markdown
    assert "no \\| idea?[0m" in markdown
    assert "1 of 6 episodes have no verdict. If all had failed, overall would be 66.67." in markdown


def test_a_run_in_which_nothing_was_played_is_a_report_too(tmp_path: Path) -> None:
    run = plan(tmp_path / "run", not_run=(NotRun(benchmark="other", reason="Its data is not pulled."),))
    write_report(run)
    markdown = (run.path / "report.md").read_text()
    assert "Not run: other: Its data is not pulled." in markdown
    assert "6 of 6 episodes have no verdict" in markdown
    assert "No episode was recorded." in markdown


def test_stored_episodes_that_are_not_planned_are_counted_and_in_no_number(tmp_path: Path) -> None:
    def adding(episodes: list[Trajectory]) -> list[Trajectory]:
        key = episodes[0].key.model_copy(update={"seed": 5})
        return [*episodes, episodes[0].model_copy(update={"key": key, "id": key.trajectory_id()})]

    found = write_report(finished(tmp_path / "run", adding))
    assert found.not_planned == 1
    assert found.results[0].scores.denominators.ended == 6


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = finished(tmp_path / "run")

    def refuse(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "write_file", refuse)
    with pytest.raises(InfrastructureError, match=r"^Can't write the report to '.*run': No space left on device\.$"):
        write_report(run)
    with pytest.raises(InfrastructureError, match="No space left"):
        report.report([run.path])


def test_the_report_command_brings_the_files_of_the_run_up_to_date(tmp_path: Path) -> None:
    run = plan(tmp_path / "run")
    write_report(run)
    store(run, played(run))
    report.report([run.path], "text")
    assert "| toy | oracle | overall | 100.00 | 6 | 6 |" in (run.path / "report.md").read_text()


def test_the_report_command_reads_a_run_that_belongs_to_someone_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(tmp_path / "run")

    def refuse(path: Path, content: bytes) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(report, "write_file", refuse)
    assert "100.00" in report.report([run.path], "text")
    assert not (run.path / "report.md").exists()


def test_the_terminal_table_keeps_both_denominators_and_the_width(tmp_path: Path) -> None:
    found = read_report(finished(tmp_path / "run"))
    out = io.StringIO()
    print_table(found, out, width=60)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert "Graded" in out.getvalue()
    assert "Planned" in out.getvalue()


def test_several_runs_are_reported_one_after_the_other(tmp_path: Path) -> None:
    paths = [finished(tmp_path / name).path for name in ("one", "two")]
    assert len(json.loads(report.report(paths, "json"))["runs"]) == 2
    assert f"Run {paths[1]}" in report.report(paths, "text")
    rows = csv.DictReader(io.StringIO(report.report(paths, "csv")))
    assert {row["run"] for row in rows} == {str(path) for path in paths}


def test_a_leaderboard_ranks_agents_of_several_runs(tmp_path: Path) -> None:
    paths = [finished(tmp_path / name, agents=[name]).path for name in ("nop", "oracle")]
    board = json.loads(leaderboard(paths, "json"))
    rows = board["benchmarks"]["toy"]
    assert [(row["rank"], row["agent"], row["official"]["value"]) for row in rows] == [
        (1, "oracle", 1.0),
        (2, "nop", 0.0),
    ]
    assert rows[0]["behaviour"]["calls_emitted_per_step"] == 1.0
    assert rows[0]["behaviour"]["wall_seconds"] > 0
    assert board["mixed"] == []
    for form in ("text", "md", "csv"):
        assert leaderboard(paths, form).index("oracle") < leaderboard(paths, form).index(
            ",nop" if form == "csv" else "nop "
        )


def test_a_leaderboard_refuses_runs_that_were_graded_otherwise_and_says_in_what(tmp_path: Path) -> None:
    def regraded(episodes: list[Trajectory]) -> list[Trajectory]:
        verdict = Verdict(grader="official@toy-2", passed=True, score=1.0)
        return [each.model_copy(update={"verdicts": {**each.verdicts, "official": verdict}}) for each in episodes]

    paths = [finished(tmp_path / "one").path, finished(tmp_path / "two", regraded).path]
    with pytest.raises(
        InputError, match=r"toy: the runs differ in official grader: .*@toy-1 in .*one; .*@toy-2 in .*two\."
    ):
        leaderboard(paths)
    board = json.loads(leaderboard(paths, "json", allow_mixed=True))
    assert len(board["mixed"]) == 1
    assert len(board["benchmarks"]["toy"]) == 4


@pytest.mark.parametrize(
    ("names", "sentence"), [([], "No run is named"), (["one", "one"], "named twice"), (["none"], "no run in")]
)
def test_runs_that_cannot_be_read_are_one_sentence(tmp_path: Path, names: list[str], sentence: str) -> None:
    plan(tmp_path / "one")
    with pytest.raises(InputError, match=sentence):
        report.report([tmp_path / name for name in names])
