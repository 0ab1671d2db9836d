"""How a leaderboard looks: sections of tables, CSV rows, JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath
from typing import Any, NamedTuple

from envs.base import GRADERS
from evaluators.leaderboard import Entry, all_whole, by_benchmark, ranked, varying
from evaluators.scores import MEAN, AgentScores
from harness.report_text import (
    NONE,
    Said,
    csv_text,
    headline,
    notes,
    number,
    score_columns,
    values_of,
    with_interval,
)
from harness.run_dir import NotRun, together
from harness.tables import Section, Table


class Measure(NamedTuple):
    """The heading of a metric's column, and what it says in a few words."""

    heading: str
    legend: str


BEHAVIOUR_COLUMNS: Mapping[str, Measure] = {
    "steps": Measure("Steps", "model responses"),
    "calls_emitted_per_step": Measure("Calls/step", "calls in a response"),
    "calls_repeated_share": Measure("Repeated", "share of calls that were made before"),
    "first_response_characters": Measure("First resp., chars", "length of the first response"),
    "first_response_tokens": Measure("First resp., tokens", "the same in tokens"),
    "reward_per_call": Measure("Reward/call", "reward by calls"),
    "error_recovery": Measure("Recovery", "share of errors after which the next step has a call that ran"),
    "prompt_tokens": Measure("Prompt tokens", "tokens read"),
    "completion_tokens": Measure("Compl. tokens", "tokens written"),
    "wall_seconds": Measure("Seconds", "wall time"),
    "cost_usd": Measure("USD", "cost"),
}
"""Metric -> its column. All are means of an episode."""

SECONDS = "wall_seconds"
LEAST_SECONDS = 0.01
"""Seconds below this are not told: they measure the machine, and there is nothing to choose by them."""


def document(rows: Sequence[Entry], mixed: Sequence[str], not_run: Sequence[tuple[str, NotRun]]) -> list[Section]:
    """Agents by benchmarks where there are several, then one ranked table for each benchmark."""
    short = _short([*(row.run for row in rows), *(run for run, _ in not_run)])
    shown = [row.model_copy(update={"run": short[row.run]}) for row in rows]
    groups = by_benchmark(shown)
    sections = [Section("Leaderboard", [f"Mixed: {sentence}" for sentence in mixed], 1)]
    if len(groups) > 1:
        sections.append(Section("Agents by benchmarks", [_matrix(groups)]))
    sections += [_section(name, entries, mixed=bool(mixed)) for name, entries in groups.items()]
    skipped = [f"Not run: {each.benchmark} in {short[run]}: {each.reason}" for run, each in not_run]
    if skipped:
        sections.append(Section("Not run", skipped))
    if not rows:
        sections.append(Section("Nothing to rank", ["No run has an agent on a benchmark."]))
    return sections


def _short(runs: Iterable[str]) -> dict[str, str]:
    """Runs without the folders that all of them share; one alone has its own name."""
    parts = {run: PurePath(run).parts for run in runs}
    levels = zip(*(each[:-1] for each in parts.values()), strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, levels))
    return {run: str(PurePath(*each[shared:])) if each else run for run, each in parts.items()}


def _matrix(groups: Mapping[str, Sequence[Entry]]) -> Table:
    cell = {
        (name, each.scores.agent, each.run): with_interval(each.scores.graders["official"].lead)
        for name, group in groups.items()
        for each in group
    }
    agents = list(dict.fromkeys((agent, run) for _, agent, run in cell))
    rows = [(agent, run, *(cell.get((name, agent, run), NONE) for name in groups)) for agent, run in agents]
    header = [f"{name}: {group[0].scores.lead}" for name, group in groups.items()]
    return Table(("Agent", "Run", *header), rows, left=2)


def _section(name: str, entries: Sequence[Entry], *, mixed: bool) -> Section:
    scores = [entry.scores for entry in entries]
    numbers, measures, settings = score_columns(scores, "official"), _used_columns(entries), varying(entries)
    header = (
        "Rank",
        "Agent",
        "Run",
        *(each.capitalize() for each in settings),
        *(column.title for column in numbers),
        *(BEHAVIOUR_COLUMNS[each].heading for each in measures),
    )
    places = ranked(entries)
    rows = [
        (
            NONE if place.rank is None else str(place.rank),
            place.entry.scores.agent,
            place.entry.run,
            *(place.entry.settings.get(each, NONE) for each in settings),
            *(column.cell(place.entry.scores) for column in numbers),
            *(_measured(place.entry, each) for each in measures),
        )
        for place in places
    ]
    table = Table(header, rows, left=3 + len(settings))
    title = f"{name}: {scores[0].headline if all_whole(scores) else MEAN}"
    return Section(title, [table, _identity(scores), *_notes([place.entry for place in places], measures, mixed=mixed)])


def _notes(entries: Sequence[Entry], measures: Sequence[str], *, mixed: bool) -> Iterator[str]:
    """One note for each run where their tasks differ, else one for all."""
    several = len({entry.run for entry in entries}) > 1
    yield from notes([Said(entry.scores, entry.run if mixed else "") for entry in entries], "official")
    for entry in entries:
        if entry.owed:
            where = f" in {entry.run}" if several else ""
            yield f"{entry.scores.agent}{where} has no rank until its {entry.owed} owed episodes are played."
    reasons: dict[str, list[str]] = {}
    for sentence in dict.fromkeys(sentence for entry in entries for sentence in entry.left_out):
        runs = dict.fromkeys(entry.run for entry in entries if sentence in entry.left_out)
        reasons.setdefault(", ".join(runs), []).append(sentence)
    for runs, sentences in reasons.items():
        yield from (f"Left out in {runs}: {text}" for text in together(sentences))
    legend = "; ".join(f"{BEHAVIOUR_COLUMNS[each].heading}: {BEHAVIOUR_COLUMNS[each].legend}" for each in measures)
    if legend:
        yield f"Means of an episode. {legend}."


def _identity(scores: Sequence[AgentScores]) -> str:
    ids = sorted({name for each in scores for found in each.graders.values() for name in found.ids})
    data = sorted({version for each in scores for version in each.data})
    return f"Graders: {', '.join(ids) or NONE}. Data: {', '.join(data) or NONE}."


def _behaviour(entry: Entry) -> dict[str, float | None]:
    return {mean.name: mean.mean for mean in entry.behaviour}


def _measured(entry: Entry, name: str) -> str:
    value = _behaviour(entry).get(name)
    if name == SECONDS and value is not None and value < LEAST_SECONDS:
        return f"<{LEAST_SECONDS}"
    return number(value)


def _used_columns(entries: Sequence[Entry]) -> list[str]:
    """The behaviour columns that tell something of at least one row."""
    found = [_behaviour(entry) for entry in entries]
    least = {SECONDS: LEAST_SECONDS}
    return [
        name
        for name in BEHAVIOUR_COLUMNS
        if any((value := values.get(name)) is not None and value >= least.get(name, value) for values in found)
    ]


def as_json(rows: Sequence[Entry], mixed: Sequence[str], not_run: Iterable[tuple[str, NotRun]]) -> dict[str, Any]:
    """`benchmarks`: name -> ranked rows; `mixed`: why they may not be comparable; `not_run`."""
    return {
        "benchmarks": {
            name: [_row(place.rank, place.entry) for place in ranked(entries)]
            for name, entries in by_benchmark(rows).items()
        },
        "mixed": list(mixed),
        "not_run": [{"run": run, **each.model_dump()} for run, each in not_run],
    }


def _row(rank: int | None, entry: Entry) -> dict[str, Any]:
    scores = entry.scores
    return {
        "rank": rank,
        "agent": scores.agent,
        "run": entry.run,
        "score": scores.headline,
        "whole": scores.whole,
        "official": entry.official.model_dump(),
        "strict": entry.strict.model_dump(),
        "mean": {name: found.mean.model_dump() for name, found in scores.graders.items()},
        "episodes": scores.denominators.model_dump(),
        "tasks": scores.tasks,
        "benchmark_tasks": scores.benchmark_tasks,
        "attempts": scores.attempts,
        "graders": {name: list(found.ids) for name, found in scores.graders.items()},
        "data": list(scores.data),
        "task_digest": entry.task_digest,
        "settings": entry.settings,
        "left_out": list(entry.left_out),
        "behaviour": _behaviour(entry),
    }


def as_csv(rows: Sequence[Entry]) -> str:
    """One row for each agent, run and benchmark, by rank; shares as they are. The official headlines of a part are left empty."""
    counts = ("planned", "ended", "agent_failed", "missing", "not_started")
    kinds = ("official", "strict", "mean_official", "mean_strict")
    scores = tuple(f"{kind}{end}" for kind in kinds for end in ("", "_low", "_high"))
    settings = varying(rows)
    header = ("benchmark", "rank", "agent", "run", *scores, "whole", *counts, *settings, *BEHAVIOUR_COLUMNS)
    return csv_text(
        header,
        (
            (
                name,
                place.rank,
                place.entry.scores.agent,
                place.entry.run,
                *(value for grader in GRADERS for value in values_of(headline(place.entry.scores, grader))),
                *(value for grader in GRADERS for value in values_of(place.entry.scores.graders[grader].mean)),
                place.entry.scores.whole,
                *(getattr(place.entry.scores.denominators, count) for count in counts),
                *(place.entry.settings.get(each) for each in settings),
                *(_behaviour(place.entry).get(column) for column in BEHAVIOUR_COLUMNS),
            )
            for name, entries in by_benchmark(rows).items()
            for place in ranked(entries)
        ),
    )
