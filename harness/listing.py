"""The bodies of `harness list` and `harness data`."""

import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.base import unknown_name
from harness.console import out, out_json, say, terminal_width
from trajectories.failures import InputError

Row = dict[str, Any]


def show(what: str | None, *, as_json: bool) -> None:
    """Print one kind of thing, or all kinds; InputError for a kind that isn't there."""
    if what is not None and what not in _KINDS:
        raise unknown_name("kind of thing", what, [*_KINDS, "tasks"])
    rows = {kind: list(rows()) for kind, rows in _KINDS.items() if what in (None, kind)}
    if as_json:
        out_json(rows[what] if what else rows)
        return
    for kind, found in rows.items():
        if what is None:
            out(f"{kind}:")
        if kind == "benchmarks":
            _print_named(found)
        else:
            _print_rows(found)


def show_tasks(name: str | None, split: str | None, categories: Sequence[str], *, as_json: bool) -> None:
    """Print the tasks of a benchmark by id, each with its category; InputError for names that aren't there, or data."""
    from envs.registry import BENCHMARKS, load
    from harness.config import EvalOptions
    from harness.plan import choose, split_of

    if name is None:
        raise InputError(f"Whose tasks? Write 'harness list tasks BENCH'. There are: {', '.join(sorted(BENCHMARKS))}.")
    benchmark = load(name)
    options = EvalOptions(benchmark=(name,), split=split, category=tuple(categories))
    reason = benchmark.unavailable(split_of(benchmark, options))
    if reason is not None:
        raise InputError(reason)
    rows = [{"id": task.id, "category": task.category} for task in choose(benchmark, options)]
    if as_json:
        out_json(rows)
    else:
        _print_rows(rows)


def show_data(*, as_json: bool) -> None:
    """Print the known data sources and what is installed of them."""
    from envs import data

    rows = [
        {
            "name": listed.name,
            "pinned": listed.pinned,
            "installed": listed.pulled.version if listed.pulled else "-",
            "path": str(listed.pulled.path) if listed.pulled else "",
            "missing": list(listed.pulled.missing) if listed.pulled else [],
            "problem": listed.problem or "",
        }
        for listed in data.listing()
    ]
    if as_json:
        out_json(rows)
    else:
        _print_rows(rows)


def pull(name: str, source: Path | None, options: Mapping[str, str], *, as_json: bool) -> None:
    """Install data and print what was installed; `options` are the source's own, such as `release`."""
    from envs import data

    pulled = data.pull(name, source, options)
    if as_json:
        out_json({**pulled._asdict(), "path": str(pulled.path)})
        return
    out(f"{pulled.name} {pulled.version}: {pulled.path}")
    if pulled.missing:
        say(
            f"This copy lacks {', '.join(pulled.missing)}; the rest works.",
        )


def verify(name: str | None, *, as_json: bool) -> int:
    """Check one source, or all that are installed; 1 if any is damaged."""
    from envs import data

    names = [name] if name else [listed.name for listed in data.listing() if listed.pulled or listed.problem]
    rows = [_verified(data.verify, each) for each in names]
    if as_json:
        out_json(rows)
    else:
        _print_rows(
            [_in_words(row) for row in rows] or [{"data": "nothing is installed: 'harness data pull NAME' does that"}]
        )
    return int(any(not row["ok"] for row in rows))


def _verified(check: Callable[[str], Any], name: str) -> Row:
    try:
        pulled = check(name)
    except InputError as error:
        return {"name": name, "ok": False, "what": str(error)}
    return {"name": name, "ok": True, "what": pulled.version}


def _in_words(row: Row) -> Row:
    return {**row, "ok": "ok" if row["ok"] else "problem"}


def _benchmarks() -> Iterator[Row]:
    from envs.registry import BENCHMARKS, load

    for name in BENCHMARKS:
        benchmark = load(name)
        yield {
            "name": name,
            "title": benchmark.title,
            "splits": list(benchmark.splits),
            "categories": list(benchmark.categories),
            "languages": list(benchmark.languages),
            "profiles": list(benchmark.profiles),
            "unavailable": {split: reason for split in benchmark.splits if (reason := benchmark.unavailable(split))},
        }


def _agents() -> Iterator[Row]:
    from agents.registry import names

    yield from ({"name": name} for name in names())


def _metrics() -> Iterator[Row]:
    from evaluators.behaviour import METRICS

    for metric in METRICS:
        yield {"name": metric.name, "unit": metric.unit, "description": metric.description}


def _runs() -> Iterator[Row]:
    """The runs in `runs/` and `datasets/` of the current folder, oldest first."""
    from harness.run_dir import RunDir

    for path in sorted(path for folder in ("runs", "datasets") for path in Path(folder).glob("*/run.json")):
        try:
            plan = RunDir.open(path.parent).record.plan
        except InputError as error:
            yield {"run": str(path.parent), "problem": str(error)}
            continue
        yield {
            "run": str(path.parent),
            "benchmarks": [benchmark.name for benchmark in plan.benchmarks],
            "agents": [agent.name for agent in plan.agents],
            "episodes": plan.episodes(),
        }


_KINDS: Mapping[str, Callable[[], Iterator[Row]]] = {
    "benchmarks": _benchmarks,
    "agents": _agents,
    "metrics": _metrics,
    "runs": _runs,
}


def _print_rows(rows: Sequence[Row]) -> None:
    """One line a row, values in columns; lists joined, empty ones left out. A terminal's lines are wrapped to its width."""
    cells = [[_text(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=False)]
    for line in cells:
        padded = (cell.ljust(min(width, 40)) for cell, width in zip(line, widths, strict=False) if width)
        _print_wrapped("  ".join(padded).rstrip())


def _print_named(rows: Sequence[Row]) -> None:
    """Name and title of each row on a line, and each other field that says something on one of its own."""
    for row in rows:
        _print_wrapped(f"{row['name']}: {row['title']}")
        for name, value in row.items():
            if value and name not in ("name", "title"):
                _print_wrapped(f"{name}: {_text(value)}", "    ")


def _print_wrapped(text: str, indent: str = "  ") -> None:
    width = terminal_width(sys.stdout)
    if width is None:
        out(indent + text)
        return
    for part in textwrap.wrap(
        text, max(width, 20), initial_indent=indent, subsequent_indent="      ", break_on_hyphens=False
    ):
        out(part)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}: {item}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
