"""How a leaderboard looks: sections of tables, CSV rows, JSON."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluators.leaderboard import Entry, by_benchmark, ranked
from evaluators.scores import AgentScores
from harness.report_text import NONE, csv_text, notes, number, score_columns, values_of, with_interval
from harness.run_dir import NotRun
from harness.tables import Section, Table

BEHAVIOUR_COLUMNS: Mapping[str, str] = {
    "steps": "Steps",
    "calls_emitted_per_step": "Calls/step",
    "calls_repeated_share": "Repeated",
    "first_response_characters": "First resp., chars",
    "first_response_tokens": "First resp., tokens",
    "reward_per_call": "Reward/call",
    "error_recovery": "Recovery",
    "prompt_tokens": "Prompt tokens",
    "completion_tokens": "Compl. tokens",
    "wall_seconds": "Seconds",
    "cost_usd": "USD",
}
"""Metric -> heading. All are means of an episode."""


def document(rows: Sequence[Entry], mixed: Sequence[str], not_run: Iterable[tuple[str, NotRun]]) -> list[Section]:
    """Agents by benchmarks where there are several, then one ranked table for each benchmark."""
    groups = by_benchmark(rows)
    sections = [Section("Leaderboard", [f"Mixed: {sentence}" for sentence in mixed], 1)]
    if len(groups) > 1:
        sections.append(Section("Agents by benchmarks", [_matrix(groups)]))
    sections += [_section(name, entries) for name, entries in groups.items()]
    skipped = [f"Not run: {each.benchmark} in {run}: {each.reason}" for run, each in not_run]
    if skipped:
        sections.append(Section("Not run", skipped))
    if not rows:
        sections.append(Section("Nothing to rank", ["No run has an agent on a benchmark."]))
    return sections


def _matrix(groups: Mapping[str, Sequence[Entry]]) -> Table:
    cell = {(name, e.scores.agent, e.run): with_interval(e.official) for name, group in groups.items() for e in group}
    agents = list(dict.fromkeys((agent, run) for _, agent, run in cell))
    rows = [(agent, run, *(cell.get((name, agent, run), NONE) for name in groups)) for agent, run in agents]
    return Table(("Agent", "Run", *groups), rows, left=2)


def _section(name: str, entries: Sequence[Entry]) -> Section:
    scores = [entry.scores for entry in entries]
    numbers = score_columns(scores, "official")
    measures = _used_columns(entries)
    header = (
        "Rank",
        "Agent",
        "Run",
        *(column.title for column in numbers),
        *(BEHAVIOUR_COLUMNS[each] for each in measures),
    )
    rows = [
        (
            NONE if place.rank is None else str(place.rank),
            place.entry.scores.agent,
            place.entry.run,
            *(column.cell(place.entry.scores) for column in numbers),
            *(number(_behaviour(place.entry).get(each)) for each in measures),
        )
        for place in ranked(entries)
    ]
    return Section(
        f"{name}: {scores[0].headline}", [Table(header, rows, left=3), _identity(scores), *notes(scores, "official")]
    )


def _identity(scores: Sequence[AgentScores]) -> str:
    ids = sorted({name for each in scores for found in each.graders.values() for name in found.ids})
    data = sorted({version for each in scores for version in each.data})
    return f"Graders: {', '.join(ids) or NONE}. Data: {', '.join(data) or NONE}."


def _behaviour(entry: Entry) -> dict[str, float | None]:
    return {mean.name: mean.mean for mean in entry.behaviour}


def _used_columns(entries: Sequence[Entry]) -> list[str]:
    """The behaviour columns that at least one row has a value for."""
    found = [_behaviour(entry) for entry in entries]
    return [name for name in BEHAVIOUR_COLUMNS if any(values.get(name) is not None for values in found)]


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
        "official": entry.official.model_dump(),
        "strict": entry.strict.model_dump(),
        "episodes": scores.denominators.model_dump(),
        "tasks": scores.tasks,
        "benchmark_tasks": scores.benchmark_tasks,
        "attempts": scores.attempts,
        "graders": {name: list(found.ids) for name, found in scores.graders.items()},
        "data": list(scores.data),
        "task_digest": entry.task_digest,
        "behaviour": _behaviour(entry),
    }


def as_csv(rows: Sequence[Entry]) -> str:
    """One row for each agent, run and benchmark, by rank; shares as they are."""
    counts = ("planned", "ended", "agent_failed", "missing", "not_started")
    scores = ("official", "official_low", "official_high", "strict", "strict_low", "strict_high")
    header = ("benchmark", "rank", "agent", "run", *scores, *counts, *BEHAVIOUR_COLUMNS)
    return csv_text(
        header,
        (
            (
                name,
                place.rank,
                place.entry.scores.agent,
                place.entry.run,
                *values_of(place.entry.official),
                *values_of(place.entry.strict),
                *(getattr(place.entry.scores.denominators, count) for count in counts),
                *(_behaviour(place.entry).get(column) for column in BEHAVIOUR_COLUMNS),
            )
            for name, entries in by_benchmark(rows).items()
            for place in ranked(entries)
        ),
    )
