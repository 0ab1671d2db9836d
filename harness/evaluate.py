"""The bodies of `harness eval` and `harness collect`: resolve, play what is missing, report.

`collect` plays the same episodes; it keeps them as a dataset and shows what was collected instead of a score table.
"""

import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from harness.config import EvalOptions, operational, read_options, recorded
from harness.console import out_json, say
from harness.identity import harness_commit, harness_version
from harness.interrupts import Interrupts
from harness.limits import RETRIES, Retry
from harness.plan import Resolved, check_resumable, of_one_category, resolve
from harness.progress import Tally, show
from harness.run_dir import Lock, Planned, RunDir, RunRecord, check_free, together
from harness.runner import Job, NothingGetsThrough, Runner, Settings
from harness.sandbox import choose_sandbox, described
from trajectories.failures import InfrastructureError, InputError
from trajectories.schema import Record, Trajectory
from trajectories.store import Store

INTERRUPTED = 130


class Command(NamedTuple):
    """How a command was called, beyond the options that the plan is made from."""

    name: Literal["eval", "collect"] = "eval"
    resume: bool = False
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False


class Outcome(Record):
    """What `--json` prints of a run, beside the report."""

    run: str
    planned: int
    stored: int
    """Episodes that count: they ended, or the agent failed them."""
    owed: int
    """Planned episodes that a fault of ours broke, or that were not started."""
    interrupted: bool
    last_fault: str = ""
    """What the last episode broke on that is owed."""


def evaluate(command: Command, config: Path | None, flags: Mapping[str, Any]) -> int:
    """Run the command and return its exit code. InputError and InfrastructureError go through."""
    options = _options(command, config, flags)
    choose_sandbox(options.sandbox, min(options.concurrency, os.cpu_count() or 1))
    resolved = resolve(options)
    try:
        if command.dry_run:
            _print_plan(resolved, options)
            return 0
        if not resolved.plan.benchmarks:
            return _nothing_runs(resolved, options)
        return _run(command, options, resolved)
    except KeyboardInterrupt:
        say("Interrupted at once: what was stored is kept, --resume goes on.")
        return INTERRUPTED
    finally:
        resolved.close()


def _options(command: Command, config: Path | None, flags: Mapping[str, Any]) -> EvalOptions:
    options = read_options(config, flags)
    if not command.resume:
        return options
    if options.output is None:
        raise InputError("--resume goes on with a run: name its folder by --output (-o).")
    path = Path(options.output)
    named = bool(options.benchmark or options.agent)
    if named and not (path / "run.json").exists():
        return options
    before = RunDir.open(path).record.options
    return read_options(config, flags, {"base_url": before.get("base_url")} if named else before)


def _run(command: Command, options: EvalOptions, resolved: Resolved) -> int:
    path = Path(options.output) if options.output else _new_path(command, resolved)
    if not (command.resume and (path / "run.json").exists()):
        check_free(path)
    with Lock(path / "lock"):
        run = _open(path, command, options, resolved)
        say(f"Run: {path}")
        if any(benchmark.runs_code for benchmark in resolved.benchmarks.values()):
            say(described(options.sandbox))
        for skipped in resolved.plan.not_run:
            say(f"Not run: {skipped.benchmark}: {skipped.reason}")
        for benchmark in resolved.plan.benchmarks:
            for sentence in together(benchmark.left_out):
                say(f"Left out of {benchmark.name}: {sentence}")
        for sentence in of_one_category(resolved):
            say(sentence)
        try:
            with Interrupts() as interrupts, run.store(writable=True) as store:
                outcome = _play(run, store, resolved, options, interrupts, quiet=command.quiet or command.as_json)
        except KeyboardInterrupt:
            say(f"Interrupted at once: what was stored is kept. Go on with '{_resuming(command, options, path)}'.")
            return INTERRUPTED
        except NothingGetsThrough as error:
            resume = _resuming(command, options, path)
            raise InfrastructureError(f"{error} Then go on with '{resume}'.") from error
    return _conclude(command, options, run, outcome)


def _open(path: Path, command: Command, options: EvalOptions, resolved: Resolved) -> RunDir:
    """The run's folder with the plan in it: a new one, or an old one whose plan the new one holds whole."""
    record = RunRecord(
        harness_version=harness_version(),
        commit=harness_commit(),
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        command=command.name,
        plan=resolved.plan,
        options=recorded(options),
    )
    if not (path / "run.json").exists():
        if command.resume:
            say(f"There is no run in {str(path)!r} yet: starting it.")
        return RunDir.create(path, record, resolved.tasks)
    run = RunDir.open(path)
    check_resumable(run, resolved)
    if run.record.plan != resolved.plan or run.record.options != record.options:
        run.write(record.model_copy(update=run.record.model_dump(include={"commit", "started"})), resolved.tasks)
    return run


def _play(
    run: RunDir, store: Store, resolved: Resolved, options: EvalOptions, interrupts: Interrupts, *, quiet: bool
) -> Outcome:
    """Play what the store lacks."""
    plan = run.record.plan
    tally = Tally(plan.episodes(), alone=len(plan.agents) * len(plan.benchmarks) == 1)
    for summary in store.summaries():
        if summary.done:
            score = summary.official if plan.grader == "official" else summary.strict
            tally.carry(score or 0.0)
    progress = show(tally, quiet=quiet)
    settings = Settings(plan.limits, options.concurrency, plan.grader, _retries(options))
    runner = Runner(store, _jobs(run, store, resolved), progress, settings, interrupts)
    try:
        runner.run()
    finally:
        progress.close()
    stored = len(store.done_ids())
    return Outcome(
        run=str(run.path),
        planned=tally.total,
        stored=stored,
        owed=tally.total - stored,
        interrupted=interrupts.heard and stored < tally.total,
        last_fault=tally.last_fault,
    )


def _jobs(run: RunDir, store: Store, resolved: Resolved) -> Iterator[Job]:
    done = store.done_ids()
    owed = {summary.id for summary in store.summaries(done=False)}
    for planned in run.planned():
        if planned.id not in done:
            yield _job(planned, resolved, store.get(planned.id) if planned.id in owed else None)


def _job(planned: Planned, resolved: Resolved, before: Trajectory | None) -> Job:
    benchmark = resolved.benchmarks[planned.benchmark.name]
    settings = planned.benchmark.settings
    return Job(
        planned.key,
        lambda: benchmark.make(planned.key.task.id, settings),
        resolved.agents[planned.agent.name],
        planned.benchmark.data,
        before,
    )


def _retries(options: EvalOptions) -> dict[str, Retry]:
    if options.retries is None:
        return RETRIES
    again = {name: RETRIES[name]._replace(times=options.retries) for name in ("sandbox", "infrastructure")}
    return {**RETRIES, **again, "environment": Retry(min(RETRIES["environment"].times, options.retries))}


def _conclude(command: Command, options: EvalOptions, run: RunDir, outcome: Outcome) -> int:
    """Write the report, print the table, say what is owed; the exit code."""
    from harness.report import print_table, write_report
    from harness.show import stats

    report = write_report(run)
    resume = f"'{_resuming(command, options, run.path)}'"
    if command.as_json:
        out_json({**outcome.model_dump(), "report": report.model_dump(mode="json")})
    elif command.name == "collect":
        stats(run.path)
    else:
        print_table(report, run=str(run.path))
    if command.name == "eval":
        say(f"Report: {run.path / 'report.md'}")
    if outcome.interrupted:
        say(f"Interrupted: {outcome.stored} of {outcome.planned} episodes are stored. Go on with {resume}.")
        return INTERRUPTED
    if outcome.owed:
        fault = " ".join(outcome.last_fault.split()).rstrip(".")
        reason = f" (the last: {fault})" if fault else ""
        say(f"{outcome.owed} of {outcome.planned} episodes broke outside the agent{reason} and are owed: {resume}.")
        return 1
    return 0


def _resuming(command: Command, options: EvalOptions, run: Path) -> str:
    """The command line that goes on: the run knows what it plays, but not how fast it goes."""
    from harness.report_text import again

    return f"{again(operational(options), command.name)} --resume -o {shlex.quote(str(run))}"


def _nothing_runs(resolved: Resolved, options: EvalOptions) -> int:
    reasons = " ".join(f"Not run: {skipped.benchmark}: {skipped.reason}" for skipped in resolved.plan.not_run)
    if options.split != "sample":
        raise InputError(f"Nothing can be run here. {reasons}")
    say(reasons)
    return 0


def _print_plan(resolved: Resolved, options: EvalOptions) -> None:
    """The plan as JSON, with or without `--json`: people and programs read the same."""
    plan = {"episodes": resolved.plan.episodes(), **resolved.plan.model_dump(mode="json")}
    out_json({**plan, "operational": operational(options)})


def _new_path(command: Command, resolved: Resolved) -> Path:
    """`runs/<time>-<benchmarks>-<agents>`; `datasets/...` for a collection."""
    names = [*resolved.benchmarks, *resolved.agents]
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(names))[:80].strip("-_.")
    folder = Path("runs" if command.name == "eval" else "datasets")
    base = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{slug}"
    path, number = base, 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path
