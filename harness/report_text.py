"""How a report looks: sections of sentences and tables, CSV rows, and the command that runs it again."""

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from envs.base import GRADERS
from evaluators.averages import MetricMean
from evaluators.scores import AgentScores, Cell, Estimate, GraderScores
from harness.config import EvalOptions
from harness.run_dir import BenchmarkPlan, NotRun
from harness.tables import Block, Code, Section, Table

if TYPE_CHECKING:
    from harness.report import Report, Result

NONE = "-"


def percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.2f}"


def with_interval(estimate: Estimate) -> str:
    """`62.10 [58.90, 65.20]`, in percent."""
    if estimate.low is None or estimate.high is None:
        return percent(estimate.value)
    return f"{percent(estimate.value)} [{percent(estimate.low)}, {percent(estimate.high)}]"


def number(value: float | None) -> str:
    """Three decimals below 10, two below 1,000, none above."""
    if value is None:
        return NONE
    size = abs(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:.2f}" if size >= 10 else f"{value:.3f}"


def again(options: Mapping[str, Any], command: str) -> str:
    """The command line that plays the same again, into a new folder. Options at their defaults are left out."""
    words = ["harness", command]
    for name, field in EvalOptions.model_fields.items():
        value = options.get(name)
        default = field.get_default(call_default_factory=True)
        if name in ("output",) or value is None or value == default or value == []:
            continue
        flag = "--" + name.replace("_", "-")
        for each in value if isinstance(value, list) else [value]:
            words += [flag, str(each)]
    return shlex.join(words)


def document(report: "Report", run: str = "") -> list[Section]:
    """The whole report. `run` names it where several stand together."""
    return [
        Section(f"Run {run}" if run else "Report", [], 1),
        *headlines(report),
        *(_scores_section(result, report.plan.grader) for result in report.results),
        *(_behaviour_section(results) for results in _by_benchmark(report)),
        _endings_section(report),
        _failures_section(report),
        _error_types_section(report),
        _identity_section(report),
    ]


def headlines(report: "Report") -> list[Section]:
    """One row for each agent and benchmark, and the sentences without which it can't be read."""
    scores = list(_ranked(report))
    blocks: list[Block] = []
    if scores:
        columns = score_columns(scores, report.plan.grader)
        header = ("Benchmark", "Agent", "Score", *(column.title for column in columns))
        rows = [
            (each.benchmark, each.agent, each.headline, *(column.cell(each) for column in columns)) for each in scores
        ]
        blocks += [Table(header, rows, left=3), *notes(scores, report.plan.grader)]
    blocks.extend(_not_run(report.plan.not_run))
    if report.not_planned:
        blocks.append(f"{report.not_planned} stored episodes are not in the plan, and in no number here.")
    return [Section("Scores", blocks or ["Nothing was planned."])]


def _ranked(report: "Report") -> Iterator[AgentScores]:
    """Benchmark by benchmark, as planned, the best agent first."""
    for benchmark in report.plan.benchmarks:
        found = [result.scores for result in report.results if result.scores.benchmark == benchmark.name]
        yield from sorted(found, key=lambda scores: -(headline(scores, report.plan.grader).value or 0.0))


class Column(NamedTuple):
    """A column of numbers about one agent on one benchmark."""

    title: str
    cell: Callable[[AgentScores], str]


_COUNTS = {"Agent failed": "agent_failed", "Missing": "missing", "Not started": "not_started"}


def score_columns(rows: Sequence[AgentScores], lead: str) -> list[Column]:
    """Headlines and denominators. What would say the same or 0 in every row is left out; graded and planned always stand."""
    other = next(name for name in GRADERS if name != lead)
    columns = [Column(f"{lead.capitalize()}, %", lambda scores: with_interval(headline(scores, lead)))]
    if not _agree(rows):
        columns.append(Column(f"{other.capitalize()}, %", lambda scores: with_interval(headline(scores, other))))
    if any(_partial(scores) for scores in rows):
        columns.append(Column("Mean of planned, %", lambda scores: with_interval(scores.graders[lead].mean)))
    columns.append(Column("Graded", lambda scores: str(scores.denominators.ended + scores.denominators.agent_failed)))
    columns.append(_count_column("Planned", "planned"))
    used = [title for title, name in _COUNTS.items() if any(getattr(each.denominators, name) for each in rows)]
    return columns + [_count_column(title, _COUNTS[title]) for title in used]


def _count_column(title: str, name: str) -> Column:
    return Column(title, lambda scores: str(getattr(scores.denominators, name)))


def headline(scores: AgentScores, grader: str) -> Estimate:
    return scores.graders[grader].table[0].estimate


def _agree(rows: Iterable[AgentScores]) -> bool:
    return all(headline(each, "official") == headline(each, "strict") for each in rows)


def _partial(scores: AgentScores) -> bool:
    return scores.benchmark_tasks > scores.tasks


def notes(rows: Sequence[AgentScores], lead: str) -> Iterator[str]:
    """What would mislead if it were not said under the table of `score_columns`."""
    agree = " The official and the strict grader agree." if _agree(rows) else ""
    yield (
        f"Percent, with 95 % intervals over tasks.{agree} Graded: ended, or failed by the agent, which scores 0. "
        "Planned episodes that are not graded broke outside the agent or were not started: they are owed, and in no score."
    )
    partial = {each.benchmark: each for each in rows if _partial(each)}
    for each in partial.values():
        yield (
            f"{each.benchmark}: {each.tasks} of {each.benchmark_tasks} tasks were planned. {each.headline} is over all of "
            "them, as upstream has it; the mean of the planned ones stands beside it."
        )
    for each in rows:
        yield from _warnings(each, lead)


def _warnings(scores: AgentScores, lead: str) -> Iterator[str]:
    who = f"{scores.agent} on {scores.benchmark}"
    counts = scores.denominators
    owed = counts.missing + counts.not_started
    if owed:
        worst = percent(scores.graders[lead].missing_as_zero)
        yield f"{who}: {owed} of {counts.planned} episodes have no verdict. If all had failed, {scores.headline} would be {worst}."
    for name in GRADERS:
        if len(scores.graders[name].ids) > 1:
            yield f"{who}: the {name} grader changed within the run ({', '.join(scores.graders[name].ids)}): rescore it."
    if len(scores.data) > 1:
        yield f"{who}: episodes were played on several versions of the data ({', '.join(scores.data)})."


def _not_run(skipped: Iterable[NotRun]) -> Iterator[str]:
    for each in skipped:
        yield f"Not run: {each.benchmark}: {each.reason}"


def _scores_section(result: "Result", lead: str) -> Section:
    scores = result.scores
    names = (lead, *(name for name in GRADERS if name != lead))
    return Section(
        f"{scores.benchmark}: {scores.agent}",
        [_score_table(scores, names), *_score_notes(scores, names), *_attempts_table(scores, names)],
    )


def _score_table(scores: AgentScores, names: Sequence[str]) -> Table:
    tables = [scores.graders[name].table for name in names]
    rows = [_score_row(cells) for cells in zip(*tables, strict=True)]
    means = [with_interval(scores.graders[name].mean) for name in names]
    rows.append(("mean of the planned tasks", *means, NONE, str(scores.tasks)))
    return Table(("Score", *(f"{name.capitalize()}, %" for name in names), "Graded tasks", "Tasks"), rows)


def _score_row(cells: Sequence[Cell]) -> tuple[str, ...]:
    return (cells[0].name, *(with_interval(cell.estimate) for cell in cells), str(cells[0].graded), str(cells[0].n))


def _score_notes(scores: AgentScores, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        found = scores.graders[name]
        yield f"{name.capitalize()} grader: {', '.join(found.ids) or 'nothing graded'}. Data: {', '.join(scores.data) or NONE}."
    if scores.unwinnable:
        without = ", ".join(f"{percent(scores.graders[name].without_unwinnable)} ({name})" for name in names)
        yield (
            f"Planned tasks that the official grader passes for no answer ({len(scores.unwinnable)}): "
            f"{', '.join(scores.unwinnable)}. {scores.headline} without them: {without}."
        )


def _attempts_table(scores: AgentScores, names: Sequence[str]) -> Iterator[str | Table]:
    if scores.attempts == 1:
        return
    yield f"{scores.attempts} attempts: {scores.headline} as the mean over attempts, and if a task is won where any, or all, of k attempts pass."
    rows = [("mean, interval over attempts", *(_over_attempts(scores.graders[name]) for name in names), NONE)]
    for found in zip(*(scores.graders[name].pass_at_k for name in names), strict=True):
        k, tasks = found[0].k, str(found[0].tasks)
        rows.append((f"pass@{k} (any of {k})", *(with_interval(each.any) for each in found), tasks))
        rows.append((f"pass^{k} (all of {k})", *(with_interval(each.all) for each in found), tasks))
    yield Table(("Attempts", *(f"{name.capitalize()}, %" for name in names), "Tasks with k graded"), rows)


def _over_attempts(found: GraderScores) -> str:
    return with_interval(found.attempts) if found.attempts else NONE


def _by_benchmark(report: "Report") -> list[list["Result"]]:
    found: dict[str, list[Result]] = {}
    for result in report.results:
        found.setdefault(result.scores.benchmark, []).append(result)
    return list(found.values())


def _behaviour_section(results: Sequence["Result"]) -> Section:
    header = ("Metric", "Unit", *(f"{result.scores.agent} (n)" for result in results))
    rows = [_behaviour_row(means) for means in zip(*(result.behaviour for result in results), strict=True)]
    note = (
        "Means over the n episodes that count and to which the metric applies; 'harness list metrics' says what each is. "
        "Seconds are in timing.json."
    )
    return Section(f"{results[0].scores.benchmark}: behaviour", [Table(header, rows, left=2), note])


def _behaviour_row(means: Sequence[MetricMean]) -> tuple[str, ...]:
    return (means[0].name, means[0].unit, *(f"{number(mean.mean)} ({mean.episodes})" for mean in means))


def _endings_section(report: "Report") -> Section:
    rows = [
        (result.scores.benchmark, result.scores.agent, ending.name, str(ending.episodes))
        for result in report.results
        for ending in result.endings
    ]
    table = Table(("Benchmark", "Agent", "Ending", "Episodes"), rows, left=3)
    return Section("How episodes ended", [table if rows else "No episode was recorded."])


def _failures_section(report: "Report") -> Section:
    rows = [
        (
            result.scores.benchmark,
            result.scores.agent,
            group.boundary,
            group.kind,
            ", ".join(f"{each.task} #{each.attempt} ({each.trajectory[:12]})" for each in group.examples),
            group.message[:200],
            str(group.count),
        )
        for result in report.results
        for group in result.failures
    ]
    header = ("Benchmark", "Agent", "Boundary", "Kind", "Examples", "Message of the first", "Episodes")
    return Section("Failures", [Table(header, rows, left=6) if rows else "No episode failed."])


def _error_types_section(report: "Report") -> Section:
    rows = [
        (
            result.scores.benchmark,
            result.scores.agent,
            each.name,
            *(str(each.episodes.get(name, 0)) for name in GRADERS),
        )
        for result in report.results
        for each in result.error_types
    ]
    table = Table(("Benchmark", "Agent", "Error type", *map(str.capitalize, GRADERS)), rows, left=3)
    return Section("Why graders failed episodes that ended", [table if rows else "They failed none."])


def _identity_section(report: "Report") -> Section:
    plan = report.plan
    rows = [("Harness", report.harness_version), ("Seed", str(plan.seed)), ("Attempts", str(plan.attempts))]
    rows += [("Leading grader", plan.grader), ("Sampling", _pairs(plan.sampling.model_dump(exclude_none=True)))]
    rows.append(("Limits", _pairs({name: value for name, value in plan.limits.model_dump().items() if value})))
    rows += [(f"Benchmark {each.name}", _benchmark(each)) for each in plan.benchmarks]
    rows += [(f"Agent {each.name}", f"{each.spec}; {_pairs(each.config)}") for each in plan.agents]
    command = Code(again(report.options, report.command))
    return Section(
        "What was run", [Table(("What", "Value"), rows, left=2), "Play it again, into a new folder:", command]
    )


def _benchmark(plan: BenchmarkPlan) -> str:
    filters = {"categories": plan.categories, "languages": plan.languages, "tasks": plan.globs, "limit": plan.limit}
    given = {name: value for name, value in filters.items() if value}
    values = {"version": plan.env_version, "data": plan.data, "split": plan.split, **plan.settings.model_dump()}
    return f"{_pairs(values)}; {plan.tasks} tasks, digest {plan.task_digest}" + (f"; {_pairs(given)}" if given else "")


def _pairs(values: Mapping[str, Any]) -> str:
    texts = (f"{name} {' '.join(value) if isinstance(value, tuple) else value}" for name, value in values.items())
    return ", ".join(texts) or NONE


# CSV

CSV_HEADER = ("benchmark", "agent", "section", "name", "grader", "value", "low", "high", "n", "graded")


def as_csv(reports: Iterable[tuple[str, "Report"]]) -> str:
    """One row a number, full precision, shares as they are; with a first column `run` where runs are named."""
    named = list(reports)
    has_names = any(name for name, _ in named)
    header = ("run", *CSV_HEADER) if has_names else CSV_HEADER
    rows = (
        (name, *row) if has_names else row
        for name, report in named
        for result in report.results
        for row in _csv_rows(result)
    )
    return csv_text(header, rows)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def _csv_rows(result: "Result") -> Iterator[tuple[object, ...]]:
    scores = result.scores
    who = (scores.benchmark, scores.agent)
    for name, found in scores.graders.items():
        for cell in found.table:
            yield (*who, "score", cell.name, name, *values_of(cell.estimate), cell.n, cell.graded)
        for label, estimate in _further(found).items():
            yield (*who, "score", label, name, *values_of(estimate), scores.tasks, None)
    for name, count in scores.denominators.model_dump().items():
        yield (*who, "episodes", name, None, count, None, None, None, None)
    for mean in result.behaviour:
        yield (*who, "behaviour", mean.name, None, mean.mean, None, None, mean.episodes, None)
    for ending in result.endings:
        yield (*who, "ending", ending.name, None, ending.episodes, None, None, None, None)
    for each in result.error_types:
        for grader, count in each.episodes.items():
            yield (*who, "error_type", each.name, grader, count, None, None, None, None)
    for group in result.failures:
        yield (*who, "failure", f"{group.boundary} {group.kind}", None, group.count, None, None, None, None)


def _further(found: GraderScores) -> dict[str, Estimate]:
    """Further values of a grader beside its table, where they exist."""
    values = {"mean of the planned tasks": found.mean}
    values["headline, missing as zero"] = Estimate(value=found.missing_as_zero)
    if found.without_unwinnable is not None:
        values["headline without unwinnable"] = Estimate(value=found.without_unwinnable)
    if found.attempts:
        values["headline over attempts"] = found.attempts
    for each in found.pass_at_k:
        values[f"pass@{each.k}"], values[f"pass^{each.k}"] = each.any, each.all
    return values


def values_of(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    return estimate.value, estimate.low, estimate.high
