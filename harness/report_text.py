"""How a report looks: sections of sentences and tables, CSV rows, and the command that runs it again."""

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from envs.base import GRADERS
from evaluators.averages import MetricMean
from evaluators.failures import TRUNCATED
from evaluators.leaderboard import all_whole
from evaluators.scores import MEAN, AgentScores, Cell, Estimate, GraderScores
from harness.config import EvalOptions
from harness.run_dir import BenchmarkPlan, NotRun, together
from harness.tables import Block, Code, Section, Table, width_of

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
        *headlines(report, run or "RUN"),
        *(_scores_section(result, report.plan.grader) for result in report.results),
        *(_behaviour_section(results) for results in _by_benchmark(report)),
        _endings_section(report),
        _failures_section(report),
        _error_types_section(report),
        _identity_section(report),
    ]


WIDTH = 100
"""Cells that the table of headlines may take with the columns that it can do without."""

_BEHAVIOUR = {"steps": "Steps", "calls_emitted_per_step": "Calls/step"}
"""Metric -> heading of what stands beside the headlines."""


def headlines(report: "Report", run: str = "RUN") -> list[Section]:
    """One row for each agent and benchmark, and the sentences without which it can't be read. `run` names the folder."""
    results = list(_ranked(report))
    scores = [result.scores for result in results]
    lead = report.plan.grader
    blocks: list[Block] = []
    if scores:
        blocks += [_headline_table(results, lead), *notes([Said(each) for each in scores], lead)]
        blocks += [sentence for result in results for sentence in _ends(result, run)]
    blocks.extend(_left_out(report))
    blocks.extend(_not_run(report.plan.not_run))
    if report.not_planned:
        blocks.append(f"{report.not_planned} stored episodes are not in the plan, and in no number here.")
    return [Section("Scores", blocks or ["Nothing was planned."])]


def _headline_table(results: Sequence["Result"], lead: str) -> Table:
    """With as much of how the agents behaved as fits in `WIDTH`."""
    rows = [result.scores for result in results]
    named = [Column("Headline", lambda scores: scores.headline)] if any(row.whole for row in rows) else []
    columns = [*named, *score_columns(rows, lead)]
    cells = [(row.benchmark, row.agent, *(column.cell(row) for column in columns)) for row in rows]
    table = Table(("Benchmark", "Agent", *(column.title for column in columns)), cells, left=2 + len(named))
    for name, title in _BEHAVIOUR.items():
        means = [next((mean.mean for mean in result.behaviour if mean.name == name), None) for result in results]
        wider = [(*row, number(mean)) for row, mean in zip(table.rows, means, strict=True)]
        more = Table((*table.header, title), wider, table.left)
        table = more if width_of(more) <= WIDTH else table
    return table


def _ranked(report: "Report") -> Iterator["Result"]:
    """Benchmark by benchmark, as planned, the best agent first."""
    for benchmark in report.plan.benchmarks:
        found = [result for result in report.results if result.scores.benchmark == benchmark.name]
        yield from sorted(found, key=lambda result: -(result.scores.graders[report.plan.grader].lead.value or 0.0))


class Column(NamedTuple):
    """A column of numbers about one agent on one benchmark."""

    title: str
    cell: Callable[[AgentScores], str]


_COUNTS = {"Agent failed": "agent_failed", "Missing": "missing", "Not started": "not_started"}


def score_columns(rows: Sequence[AgentScores], lead: str) -> list[Column]:
    """What leads, the headlines, and denominators; graded and planned always stand.

    What would say the same or 0 in every row is left out. Where not every row has the whole split the means of the planned
    tasks come first, and a row with a part has no headline.
    """
    graders = [lead, *(name for name in GRADERS if name != lead and not _agree(rows))]
    columns = [] if all_whole(rows) else [_mean_column(name, name == lead) for name in graders]
    columns += [_headline_column(name) for name in (graders if any(row.whole for row in rows) else [lead])]
    columns.append(Column("Graded", lambda scores: str(_graded(scores))))
    columns.append(_count_column("Planned", "planned"))
    used = [title for title, name in _COUNTS.items() if any(getattr(each.denominators, name) for each in rows)]
    return columns + [_count_column(title, _COUNTS[title]) for title in used]


def _mean_column(grader: str, leads: bool) -> Column:
    title = "Mean of planned, %" if leads else f"{grader.capitalize()} mean, %"
    return Column(title, lambda scores: with_interval(scores.graders[grader].mean))


def _headline_column(grader: str) -> Column:
    return Column(f"{grader.capitalize()}, %", lambda scores: with_interval(headline(scores, grader)))


def _count_column(title: str, name: str) -> Column:
    return Column(title, lambda scores: str(getattr(scores.denominators, name)))


def _graded(scores: AgentScores) -> int:
    return scores.denominators.ended + scores.denominators.agent_failed


def headline(scores: AgentScores, grader: str) -> Estimate:
    """The official headline; of a part of the split there is none."""
    return scores.graders[grader].table[0].estimate if scores.whole else Estimate(value=None)


def _agree(rows: Iterable[AgentScores]) -> bool:
    return all(not row.disagreements and len({str(row.graders[name].lead) for name in GRADERS}) == 1 for row in rows)


class Said(NamedTuple):
    """A row that notes speak of. `run` names it where rows are of several runs."""

    scores: AgentScores
    run: str = ""

    @property
    def who(self) -> str:
        where = f" in {self.run}" if self.run else ""
        return f"{self.scores.agent} on {self.scores.benchmark}{where}"


def notes(said: Sequence[Said], lead: str) -> Iterator[str]:
    """What would mislead if it were not said under the table of `score_columns`."""
    rows = [each.scores for each in said]
    yield " ".join(_legend(rows, lead))
    yield from dict.fromkeys(_of_part(each) for each in said if not each.scores.whole)
    for each in said:
        yield from _warnings(each, lead)


def _legend(rows: Sequence[AgentScores], lead: str) -> Iterator[str]:
    graded = [row for row in rows if _graded(row)]
    yield "Percent, with 95 % intervals over tasks." if _has_intervals(rows, lead) else "Percent."
    if graded and _agree(graded):
        yield "The official and the strict grader agree on every pass and fail."
    if any(row.denominators.agent_failed for row in rows):
        yield "An episode that the agent failed is graded: it scores 0."
    if any(_graded(row) < row.denominators.planned for row in rows):
        yield (
            "Planned episodes that are not graded broke outside the agent or were not started: they are owed, and in no "
            "score."
        )


def _has_intervals(rows: Sequence[AgentScores], lead: str) -> bool:
    shown = [headline(row, lead) for row in rows] + [row.graders[lead].mean for row in rows if not all_whole(rows)]
    return any(estimate.low is not None for estimate in shown)


def _of_part(said: Said) -> str:
    scores = said.scores
    where = f"{scores.benchmark} in {said.run}" if said.run else scores.benchmark
    return (
        f"{where}: {scores.tasks} of {scores.benchmark_tasks} tasks were planned, so their mean leads. The official "
        f"headline, {scores.headline}, counts 0 for the others and stands in report.json alone."
    )


def _warnings(said: Said, lead: str) -> Iterator[str]:
    scores, who = said.scores, said.who
    counts = scores.denominators
    owed = counts.missing + counts.not_started
    if owed:
        worst = percent(scores.graders[lead].missing_as_zero)
        what = scores.lead if scores.whole else f"the {scores.lead}"
        yield f"{who}: {owed} of {counts.planned} episodes have no verdict. If all had failed, {what} would be {worst}."
    for name in GRADERS:
        if len(scores.graders[name].ids) > 1:
            yield f"{who}: the {name} grader changed within the run ({', '.join(scores.graders[name].ids)}): rescore it."
    if len(scores.data) > 1:
        yield f"{who}: episodes were played on several versions of the data ({', '.join(scores.data)})."


def _ends(result: "Result", run: str) -> Iterator[str]:
    """What a score alone would not say: episodes that a limit cut, and those that broke."""
    who, planned = Said(result.scores).who, result.scores.denominators.planned
    for ending in result.endings:
        if ending.name.startswith(TRUNCATED):
            yield f"{who}: {ending.episodes} of {planned} episodes were {ending.name}."
    for boundary in dict.fromkeys(group.boundary for group in result.failures):
        groups = [group for group in result.failures if group.boundary == boundary]
        first = groups[0]
        message = f"{first.kind}: {' '.join(first.message.split())[:120].rstrip('.')}"
        look = f"harness trajectories show {shlex.quote(run)} {first.examples[0].trajectory[:12]}"
        count = sum(group.count for group in groups)
        yield f"{who}: {count} of {planned} failed in the {boundary}, first: {message} ({look})."


def _left_out(report: "Report") -> Iterator[str]:
    for benchmark in report.plan.benchmarks:
        yield from (f"Left out of {benchmark.name}: {text}" for text in together(benchmark.left_out))


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
    if not scores.whole:
        rows[0] = (scores.headline, *(NONE for _ in names), *rows[0][1 + len(names) :])
    means = [with_interval(scores.graders[name].mean) for name in names]
    rows.append((MEAN, *means, NONE, str(scores.tasks)))
    return Table(("Score", *(f"{name.capitalize()}, %" for name in names), "Graded tasks", "Tasks"), rows)


def _score_row(cells: Sequence[Cell]) -> tuple[str, ...]:
    return (cells[0].name, *(with_interval(cell.estimate) for cell in cells), str(cells[0].graded), str(cells[0].n))


def _score_notes(scores: AgentScores, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        found = scores.graders[name]
        yield f"{name.capitalize()} grader: {', '.join(found.ids) or 'nothing graded'}. Data: {', '.join(scores.data) or NONE}."
    if not scores.whole:
        yield "Only a part of the split was planned: a group of categories counts 0 for those that were not."
    if scores.unwinnable:
        without = ", ".join(f"{percent(scores.graders[name].without_unwinnable)} ({name})" for name in names)
        yield (
            f"Planned tasks that the official grader passes for no answer ({len(scores.unwinnable)}): "
            f"{', '.join(scores.unwinnable)}. {_capital(scores.lead)} without them: {without}."
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text == MEAN else text


def _attempts_table(scores: AgentScores, names: Sequence[str]) -> Iterator[str | Table]:
    if scores.attempts == 1:
        return
    yield f"{scores.attempts} attempts: {scores.lead} as the mean over attempts, and if a task is won where any, or all, of k attempts pass."
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
        "What was run",
        [
            Table(("What", "Value"), rows, left=2),
            "When, and by which commit of the harness: run.json.",
            "Play it again, into a new folder:",
            command,
        ],
    )


def _benchmark(plan: BenchmarkPlan) -> str:
    filters = {"categories": plan.categories, "languages": plan.languages, "tasks": plan.globs, "limit": plan.limit}
    given = {name: value for name, value in filters.items() if value}
    values = {"version": plan.env_version, "data": plan.data, "split": plan.split, **plan.settings.model_dump()}
    return f"{_pairs(values)}; {plan.tasks} of {plan.split_tasks or plan.tasks} tasks, digest {plan.task_digest}" + (
        f"; {_pairs(given)}" if given else ""
    )


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
        for label, estimate in _further(found, "headline" if scores.whole else "mean").items():
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


def _further(found: GraderScores, lead: str) -> dict[str, Estimate]:
    """Further values of a grader beside its table, where they exist; `lead` says of what they are."""
    values = {MEAN: found.mean}
    values[f"{lead}, missing as zero"] = Estimate(value=found.missing_as_zero)
    if found.without_unwinnable is not None:
        values[f"{lead} without unwinnable"] = Estimate(value=found.without_unwinnable)
    if found.attempts:
        values[f"{lead} over attempts"] = found.attempts
    for each in found.pass_at_k:
        values[f"pass@{each.k}"], values[f"pass^{each.k}"] = each.any, each.all
    return values


def values_of(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    return estimate.value, estimate.low, estimate.high
