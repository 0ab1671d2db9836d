"""What a run came to: `write_report`, `print_table`, and the bodies of `harness report` and `harness leaderboard`.

This module reads runs and writes files; what the numbers are is `evaluators`' business, how they look `report_text`'s.

RUN_DIR/report.json   everything, for machines
RUN_DIR/report.md     the same for people
RUN_DIR/report.csv    one row a number: benchmark, agent, section, name, grader, value, low, high, n, graded
RUN_DIR/timing.json   seconds, in this file alone: all the others are the same bytes whenever, in whatever order and in
                      however many goes the same episodes were played
"""

import errno
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

from pydantic import Field

from envs.registry import load
from evaluators.averages import Averages, MetricMean
from evaluators.behaviour import CLOCK_METRICS, CONTENT_METRICS
from evaluators.failures import Ending, EndOf, ErrorType, FailureGroup, end_of, endings, error_types, failure_groups
from evaluators.leaderboard import AGENT, Entry, differences
from evaluators.scores import AgentScores, EpisodeScore, episode_score, score_agent
from harness.console import terminal_width
from harness.run_dir import AgentPlan, BenchmarkPlan, Plan, RunDir
from trajectories.durable import write_file
from trajectories.failures import InfrastructureError, InputError
from trajectories.schema import JsonObject, Record, Trajectory, canonical_json, digest

Format = Literal["text", "md", "csv", "json"]


class Result(Record):
    """One agent on one benchmark: scores over the planned episodes, behaviour over those that count.

    An episode counts if it ended or the agent failed it; one that our side broke is in `failures` and `endings` alone.
    """

    scores: AgentScores
    behaviour: tuple[MetricMean, ...]
    endings: tuple[Ending, ...]
    failures: tuple[FailureGroup, ...]
    error_types: tuple[ErrorType, ...]
    seconds: tuple[MetricMean, ...] = Field(default=(), exclude=True)
    """Kept out of the report's files; `timing.json` has it."""


class Report(Record):
    """All of `report.json`."""

    schema_version: Literal[1] = 1
    harness_version: str
    command: Literal["eval", "collect"]
    options: JsonObject
    """As given, without those that only say where and how fast."""
    plan: Plan
    results: tuple[Result, ...]
    """By agent, then benchmark, as planned."""
    not_planned: int
    """Stored episodes that the plan doesn't have; they are in no number."""


def write_report(run: RunDir) -> Report:
    """Read the whole run once and write its report files, each complete or not at all.

    InfrastructureError where the folder can't be written to.
    """
    found = read_report(run)
    try:
        _write_files(run, found)
    except OSError as error:
        raise InfrastructureError(f"Can't write the report to {str(run.path)!r}: {error.strerror}.") from None
    return found


def _write_files(run: RunDir, report: Report) -> None:
    for name, content in report_files(report):
        write_file(run.path / name, content.encode())


def _refreshed(run: RunDir) -> Report:
    """The report; the run's files are brought up to date, but for a folder that belongs to someone else."""
    found = read_report(run)
    try:
        _write_files(run, found)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise InfrastructureError(f"Can't write the report to {str(run.path)!r}: {error.strerror}.") from None
    return found


def report_files(report: Report) -> Iterator[tuple[str, str]]:
    """The name and content of each file that `write_report` writes."""
    from harness.report_text import as_csv, document
    from harness.tables import as_markdown

    yield "report.json", report.model_dump_json(indent=2) + "\n"
    yield "report.md", as_markdown(document(report))
    yield "report.csv", as_csv([("", report)])
    yield "timing.json", json.dumps(timing(report), indent=2) + "\n"


def timing(report: Report) -> list[dict[str, object]]:
    """The seconds of each agent on each benchmark."""
    return [
        {
            "benchmark": result.scores.benchmark,
            "agent": result.scores.agent,
            **{mean.name: {"mean": mean.mean, "total": mean.total} for mean in result.seconds},
        }
        for result in report.results
    ]


def print_table(report: Report, stream: TextIO | None = None, width: int | None = None, *, run: str = "RUN") -> None:
    """The headlines and what is to be known about them, as text for a terminal. `run` is the folder, as one would type it.

    `width` None: that of the terminal, and no limit where the stream is none.
    """
    from harness.report_text import headlines
    from harness.tables import as_text

    out = stream or sys.stdout
    out.write(as_text(headlines(report, run), width or terminal_width(out)))


class _Collected:
    """What one agent on one benchmark needs of its episodes, gathered in one pass."""

    def __init__(self) -> None:
        self.episodes: list[EpisodeScore] = []
        self.ends: list[EndOf] = []
        self.content = Averages(CONTENT_METRICS)
        self.clock = Averages(CLOCK_METRICS)

    def add(self, trajectory: Trajectory) -> None:
        self.episodes.append(episode_score(trajectory))
        self.ends.append(end_of(trajectory))
        if trajectory.done:
            self.content.add(trajectory)
            self.clock.add(trajectory)


def read_report(run: RunDir) -> Report:
    """The report of a run as it stands, also while it is still being played."""
    plan = run.record.plan
    where = {planned.id: (planned.agent.name, planned.benchmark.name) for planned in run.planned()}
    collected = {(agent.name, bench.name): _Collected() for agent in plan.agents for bench in plan.benchmarks}
    strangers = _collect(run, where, collected)
    results = [_result(run, agent.name, bench, collected) for agent in plan.agents for bench in plan.benchmarks]
    return Report(
        harness_version=run.record.harness_version,
        command=run.record.command,
        options=run.record.options,
        plan=plan,
        results=tuple(results),
        not_planned=strangers,
    )


def _collect(run: RunDir, where: dict[str, tuple[str, str]], collected: dict[tuple[str, str], _Collected]) -> int:
    """Reads every trajectory once; how many of them are not planned."""
    if not run.has_store:
        return 0
    strangers = 0
    with run.store() as store:
        for trajectory in store:
            if trajectory.id in where:
                collected[where[trajectory.id]].add(trajectory)
            else:
                strangers += 1
    return strangers


def _result(run: RunDir, agent: str, benchmark: BenchmarkPlan, collected: dict[tuple[str, str], _Collected]) -> Result:
    found = collected[agent, benchmark.name]
    tasks = run.tasks(benchmark)
    # One seed for all agents of a benchmark: they are resampled alike.
    seed = int(digest([benchmark.task_digest, run.record.plan.attempts])[:16], 16)
    scores = score_agent(
        load(benchmark.name),
        agent,
        tasks,
        run.record.plan.attempts,
        found.episodes,
        seed=seed,
        split_tasks=benchmark.split_tasks,
    )
    return Result(
        scores=scores,
        behaviour=found.content.means(),
        endings=endings(found.ends),
        failures=failure_groups(found.ends),
        error_types=error_types(found.ends),
        seconds=found.clock.means(),
    )


class Named(NamedTuple):
    """A report with the name under which its run is shown."""

    name: str
    report: Report


def open_runs(paths: Sequence[Path]) -> list[tuple[str, RunDir]]:
    """Runs by the names under which they are shown; InputError for none, for one named twice, or a folder without one."""
    if not paths:
        raise InputError("No run is named: give the folder of at least one run.")
    resolved = [path.resolve() for path in paths]
    for path, whole in zip(paths, resolved, strict=True):
        if resolved.count(whole) > 1:
            raise InputError(f"The run {str(path)!r} is named twice: once is enough.")
    return [(str(path), RunDir.open(path)) for path in paths]


def report(paths: Sequence[Path], form: Format = "text", *, width: int | None = None) -> str:
    """What `harness report RUN...` prints; the report files of the runs are brought up to date."""
    from harness import report_text
    from harness.tables import as_markdown, as_text

    named = [Named(name, _refreshed(run)) for name, run in open_runs(paths)]
    if form == "json":
        runs = [
            {"run": each.name, **each.report.model_dump(mode="json"), "timing": timing(each.report)} for each in named
        ]
        return json.dumps({"runs": runs}) + "\n"
    if form == "csv":
        return report_text.as_csv(named)
    sections = [
        section for each in named for section in report_text.document(each.report, each.name if len(named) > 1 else "")
    ]
    return as_markdown(sections) if form == "md" else as_text(sections, width)


def entries(named: Iterable[Named]) -> list[Entry]:
    """One leaderboard entry for each agent and benchmark of each run."""
    found: list[Entry] = []
    for each in named:
        plan = each.report.plan
        for result in each.report.results:
            benchmark = next(planned for planned in plan.benchmarks if planned.name == result.scores.benchmark)
            agent = next(planned for planned in plan.agents if planned.name == result.scores.agent)
            entry = Entry(
                run=each.name,
                task_digest=benchmark.task_digest,
                scores=result.scores,
                behaviour=(*result.behaviour, *result.seconds),
                settings=_settings(each.report, benchmark, agent),
                left_out=benchmark.left_out,
            )
            found.append(entry)
    return found


def _settings(report: Report, benchmark: BenchmarkPlan, agent: AgentPlan) -> dict[str, str]:
    """How an agent's episodes were played, beyond what has to agree; `-` for what was not set."""
    plan = report.plan
    values: dict[str, Any] = {
        **benchmark.settings.model_dump(),
        "attempts": plan.attempts,
        "seed": plan.seed,
        **plan.sampling.model_dump(),
        **{f"limit on {name}": value or None for name, value in plan.limits.model_dump().items()},
        "environment": benchmark.env_version,
        "harness": report.harness_version,
        **{f"{AGENT}{name}": value for name, value in agent.config.items()},
    }
    values["max_steps"] = values["max_steps"] or None
    return {name.replace("_", " "): _shown(value) for name, value in values.items()}


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else canonical_json(value)


def leaderboard(
    paths: Sequence[Path], form: Format = "text", *, allow_mixed: bool = False, width: int | None = None
) -> str:
    """What `harness leaderboard RUN...` prints.

    InputError where runs of one benchmark differ in tasks, data or grader, unless `allow_mixed`; it names in what.
    """
    from harness import leaderboard_text
    from harness.tables import as_markdown, as_text

    named = [Named(name, read_report(run)) for name, run in open_runs(paths)]
    rows = entries(named)
    mixed = differences(rows)
    if mixed and not allow_mixed:
        raise InputError(" ".join([*mixed, "They can't be ranked together: --allow-mixed shows them all the same."]))
    not_run = [(each.name, skipped) for each in named for skipped in each.report.plan.not_run]
    if form == "json":
        return json.dumps(leaderboard_text.as_json(rows, mixed, not_run)) + "\n"
    if form == "csv":
        return leaderboard_text.as_csv(rows)
    sections = leaderboard_text.document(rows, mixed, not_run)
    return as_markdown(sections) if form == "md" else as_text(sections, width)
