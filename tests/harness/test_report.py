"""Reports and leaderboards of real run folders: what stands in them, and what changes nothing in them."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
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
from trajectories.schema import Failure, Task, Trajectory, Verdict

TASKS = [toybench.task_of(index) for index in range(6)]
AGENTS: dict[str, Agent] = {"oracle": Oracle(), "nop": Nop()}
FILES = ("report.json", "report.md", "report.csv")


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BENCHMARKS, "toy", "toybench:Toy")
    monkeypatch.setenv("TOY_TASKS", "6")


def plan(
    path: Path,
    *,
    agents: Iterable[str] = ("oracle", "nop"),
    attempts: int = 1,
    tasks: Sequence[Task] = TASKS,
    benchmark: dict[str, Any] | None = None,
    **fields: Any,
) -> RunDir:
    """A run of six tasks in which nothing was played yet."""
    chosen: dict[str, Any] = {"settings": EnvSettings(), "split_tasks": len(TASKS), **(benchmark or {})}
    planned_benchmark = BenchmarkPlan(
        name="toy",
        env_version="1",
        data="toy-1",
        split="test",
        tasks=len(tasks),
        task_digest=task_digest(tasks),
        **chosen,
    )
    planned = Plan(
        benchmarks=(planned_benchmark,),
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
    return RunDir.create(path, record, {"toy": tasks})


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


def table(of: RunDir, **options: Any) -> str:
    """What `eval` prints at its end."""
    out = io.StringIO()
    print_table(read_report(of), out, **options)
    return out.getvalue()


def part(path: Path, tasks: int) -> RunDir:
    """A finished run of the first tasks alone."""
    return finished(path, agents=["oracle"], tasks=TASKS[:tasks], benchmark={"globs": ("toy_0000[012]",)})


def test_of_a_part_of_the_benchmark_the_mean_leads_and_the_official_headline_is_left_to_the_json(
    tmp_path: Path,
) -> None:
    run = part(tmp_path / "part", 3)
    heading, _, row = table(run).splitlines()[3:6]
    assert re.split("  +", heading)[:4] == ["Benchmark", "Agent", "Mean of planned, %", "Official, %"]
    assert re.split("  +", row)[:4] == ["toy", "oracle", "100.00", "-"]
    assert "toy: 3 of 6 tasks were planned, so their mean leads." in table(run)
    scores = write_report(run).results[0].scores
    assert (scores.whole, scores.lead, scores.benchmark_tasks) == (False, "mean of the planned tasks", 6)
    assert "| overall | - | - | 3 | 3 |" in (run.path / "report.md").read_text()
    assert json.loads((run.path / "report.json").read_text())["results"][0]["scores"]["graders"]["official"]["table"][0]


def test_what_the_split_lacks_here_stands_in_the_table_and_in_every_report(tmp_path: Path) -> None:
    lacking = ("a is left out. No disk: buy one.", "b is left out. No disk: buy one.", "3 tasks have no answer.")
    run = finished(tmp_path / "run", benchmark={"left_out": lacking})
    sentences = ["Left out of toy: a, b. No disk: buy one.", "Left out of toy: 3 tasks have no answer."]
    write_report(run)
    for text in (table(run), (run.path / "report.md").read_text(), report.report([run.path], "text")):
        assert [text.count(sentence) for sentence in sentences] == [1, 1]
    plans = json.loads((run.path / "report.json").read_text())["plan"]["benchmarks"]
    assert plans[0]["left_out"] == list(lacking)
    assert "Left out in run: a, b. No disk: buy one." in leaderboard([run.path], "text")
    assert json.loads(leaderboard([run.path], "json"))["benchmarks"]["toy"][0]["left_out"] == list(lacking)


def test_episodes_that_were_cut_or_broke_are_told_under_the_first_table(tmp_path: Path) -> None:
    def cutting(episodes: list[Trajectory]) -> list[Trajectory]:
        cut = [each.model_copy(update={"ended": "truncated", "limit": "time"}) for each in episodes[:6]]
        return [*cut, *(failed(each, "agent", "boom") for each in episodes[6:])]

    run = finished(tmp_path / "run", cutting)
    first = next(each.id for each in run.planned() if each.agent.name == "nop")
    said = table(run, run="my runs/1")
    assert "oracle on toy: 6 of 6 episodes were truncated by time." in said
    assert (
        f"nop on toy: 6 of 6 failed in the agent, first: ValueError: boom (harness trajectories show 'my runs/1' {first[:12]})."
        in said
    )
    assert "An episode that the agent failed is graded: it scores 0." in said
    calm = table(finished(tmp_path / "calm"))
    assert not any(word in calm for word in ("truncated", "failed", "owed", "interval"))


def test_the_legend_speaks_of_what_the_table_shows(tmp_path: Path) -> None:
    agreeing = "The official and the strict grader agree on every pass and fail."
    assert agreeing in table(finished(tmp_path / "calm"))

    def swapped(episodes: list[Trajectory]) -> list[Trajectory]:
        """The graders differ on two episodes of the oracle, and come to the same mean."""
        changed = [(episodes[0], "official"), (episodes[1], "strict")]
        wrong = [
            each.model_copy(
                update={
                    "verdicts": {
                        **each.verdicts,
                        name: each.verdicts[name].model_copy(update={"passed": False, "score": 0.0}),
                    }
                }
            )
            for each, name in changed
        ]
        return [*wrong, *episodes[2:]]

    differing = table(finished(tmp_path / "differing", swapped))
    assert agreeing not in differing
    assert "Strict, %" in differing
    started = plan(tmp_path / "started")
    assert "they are owed" in table(store(started, played(started)[:3]))


@pytest.mark.parametrize(("name", "shown"), [("oracle", True), ("o" * 70, False)])
def test_the_first_table_says_how_agents_behaved_where_it_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, shown: bool
) -> None:
    monkeypatch.setitem(AGENTS, name, Oracle())
    heading = table(finished(tmp_path / "run", agents=[name])).splitlines()[3]
    assert ("Calls/step" in heading) == shown
    assert len(heading) <= 100 or not shown


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


def columns(text: str) -> list[str]:
    """The heading of the first table."""
    return re.split("  +", next(line for line in text.splitlines() if line.startswith("Rank")))


def test_runs_played_otherwise_are_told_apart_by_their_settings(tmp_path: Path) -> None:
    fc, prompt = EnvSettings(mode="fc"), EnvSettings(mode="prompt")
    paths = [
        finished(tmp_path / "runs" / name, agents=["nop"], seed=seed, benchmark={"settings": settings}).path
        for name, seed, settings in (("one", 1, fc), ("two", 2, prompt), ("three", 2, fc))
    ]
    text = leaderboard(paths, "text")
    assert columns(text)[:5] == ["Rank", "Agent", "Run", "Mode", "Seed"]
    rows = [re.split("  +", line)[:5] for line in text.splitlines() if line.startswith("1 ")]
    assert rows == [
        ["1", "nop", "one", "fc", "1"],
        ["1", "nop", "three", "fc", "2"],
        ["1", "nop", "two", "prompt", "2"],
    ]
    assert columns(leaderboard(paths[:1], "text"))[:4] == ["Rank", "Agent", "Run", "Official, %"]
    (found,) = csv.DictReader(io.StringIO(leaderboard(paths[:1], "csv")))
    assert found["run"] == str(paths[0])


def test_a_run_that_is_owed_episodes_is_listed_below_without_a_rank_and_with_the_reason(tmp_path: Path) -> None:
    whole = finished(tmp_path / "whole", agents=["nop"])
    begun = plan(tmp_path / "begun", agents=["oracle"])
    store(begun, played(begun)[:5])
    text = leaderboard([begun.path, whole.path], "text")
    places = [re.split("  +", line)[:2] for line in text.splitlines() if re.match("(1|-) ", line)]
    assert places == [["1", "nop"], ["-", "oracle"]]
    assert "oracle in begun has no rank until its 1 owed episodes are played." in text


def test_parts_are_ranked_by_their_means_and_each_run_has_its_note(tmp_path: Path) -> None:
    paths = [
        part(tmp_path / "one", 3).path,
        part(tmp_path / "two", 2).path,
        finished(tmp_path / "all", agents=["nop"]).path,
    ]
    text = leaderboard(paths, "text", allow_mixed=True)
    assert columns(text)[3:5] == ["Mean of planned, %", "Official, %"]
    assert [f"toy in {name}: {n} of 6 tasks were planned" in text for name, n in (("one", 3), ("two", 2), ("all", 6))] == [
        True, True, False,
    ]  # fmt: skip
    found = {row["run"]: row for row in csv.DictReader(io.StringIO(leaderboard(paths, "csv", allow_mixed=True)))}
    assert [
        (found[str(path)]["official"], found[str(path)]["mean_official"], found[str(path)]["whole"]) for path in paths
    ] == [("", "1.0", "False"), ("", "1.0", "False"), ("0.0", "0.0", "True")]


@pytest.mark.parametrize(("seconds", "shown"), [((0.001, 0.002), None), ((0.001, 0.5), ["<0.01", "0.500"])])
def test_seconds_too_few_to_mean_anything_are_not_told(
    tmp_path: Path, seconds: tuple[float, float], shown: list[str] | None
) -> None:
    def timed(wall_s: float) -> Callable[[list[Trajectory]], list[Trajectory]]:
        def change(episodes: list[Trajectory]) -> list[Trajectory]:
            timings = [each.timing.model_copy(update={"wall_s": wall_s}) for each in episodes if each.timing]
            return [each.model_copy(update={"timing": timing}) for each, timing in zip(episodes, timings, strict=True)]

        return change

    paths = [finished(tmp_path / str(s), timed(s), agents=["nop"]).path for s in seconds]
    text = leaderboard(paths, "text")
    if shown is None:
        assert "Seconds" not in text
        return
    at = columns(text).index("Seconds")
    assert [re.split("  +", line)[at] for line in text.splitlines() if line.startswith("1 ")] == shown
    assert "Seconds: wall time" in text


@pytest.mark.parametrize(
    ("names", "sentence"), [([], "No run is named"), (["one", "one"], "named twice"), (["none"], "no run in")]
)
def test_runs_that_cannot_be_read_are_one_sentence(tmp_path: Path, names: list[str], sentence: str) -> None:
    plan(tmp_path / "one")
    with pytest.raises(InputError, match=sentence):
        report.report([tmp_path / name for name in names])
