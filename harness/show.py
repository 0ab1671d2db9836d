"""What `harness trajectories ls|show|stats|verify|compact` print.

Each function takes a run folder or a store folder and a text stream. A damaged store is still listed and shown as far as it can be
read, with its problems named on `errors`; what is damaged is never counted silently.
"""

import os
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, Unpack, cast

from pydantic_core import to_json

from envs.base import unknown_name
from harness.console import terminal_width
from harness.run_dir import RunDir
from harness.transcript import Line, safe_line, transcript, wrap
from trajectories.failures import InputError
from trajectories.problems import CATALOGUE, way_out
from trajectories.store import Filters, Problem, Store, Summary, find_store

_COLOURS = {"title": "1", "role": "1;36", "dim": "2", "call": "33", "error": "31"}
_GROUPS = ("benchmark", "agent", "category", "ended", "limit", "boundary", "failure")
_SUMS = ("steps", "calls", "prompt_tokens", "completion_tokens", "cost_usd")


def ls(
    path: Path,
    *,
    json: bool = False,
    head: int | None = None,
    out: TextIO | None = None,
    errors: TextIO | None = None,
    **filters: Unpack[Filters],
) -> int:
    """One line, or one JSON object in an array, for each trajectory that passes the filters.

    At most `head` of them; None or 0: all. InputError for the name of something that the run doesn't have.
    """
    out = _stream(out)
    with _reading(path, errors) as store:
        check_names(path, store, filters)
        rows = islice(store.summaries(**filters), head or None)
        if json:
            _json_array((_summary_dict(summary) for summary in rows), out)
            return 0
        width = _width(out)
        columns = _columns(width)
        _print([Line("title", _line({name: name for name in columns}, columns, width))], out)
        shown = 0
        for summary in rows:
            _print([Line("plain" if summary.done else "error", _line(_texts(summary), columns, width))], out)
            shown += 1
        _print([Line("dim", f"{shown} of {len(store)} trajectories")], out)
    return 0


def show(
    path: Path,
    trajectory_id: str,
    *,
    json: bool = False,
    out: TextIO | None = None,
    errors: TextIO | None = None,
    **choice: Unpack[Filters],
) -> int:
    """One trajectory as a transcript, or as its JSON. An unambiguous prefix of its id, or its task's id, is enough.

    Where the task was played more than once it is the first attempt, unless `choice` (agent, attempt) says which.
    """
    out = _stream(out)
    with _reading(path, errors) as store:
        check_names(path, store, choice)
        trajectory = store.get(_resolve(store, trajectory_id, choice, _complaints(errors)))
    if json:
        out.write(trajectory.to_json() + "\n")
    else:
        _print(transcript(trajectory, _width(out)), out)
    return 0


def stats(path: Path, *, json: bool = False, out: TextIO | None = None, errors: TextIO | None = None) -> int:
    """Counts by benchmark, agent, category, end and failure; sums of steps, calls, tokens and money; bytes a step."""
    out = _stream(out)
    with _reading(path, errors) as store:
        figures = _figures(store)
    if json:
        out.write(_json(figures) + "\n")
    else:
        _print(_stats_lines(figures), out)
    return 0


def verify(path: Path, *, json: bool = False, out: TextIO | None = None) -> int:
    """Every problem of the store, one line each. 1 if any of them is an error, else 0."""
    out = _stream(out)
    with Store.open(find_store(path), damaged_ok=True) as store:
        problems, count = store.verify(), len(store)
    bad = [problem for problem in problems if problem.severity == "error"]
    if json:
        found = [problem._asdict() for problem in problems]
        out.write(_json({"trajectories": count, "ok": not bad, "problems": found}) + "\n")
        return 1 if bad else 0
    width = _width(out)
    for problem in problems:
        style = "error" if problem.severity == "error" else "dim"
        _print([Line(style, line) for line in wrap(safe_line(problem.sentence), width)], out)
    verdict = f"{len(bad)} errors" if bad else "everything can be read and agrees"
    _print([Line("error" if bad else "plain", f"{count} trajectories: {verdict}")], out)
    if any(problem.place != CATALOGUE for problem in bad):
        _print([Line("plain", line) for line in wrap(safe_line(way_out(path)), width)], out)
    return 1 if bad else 0


def compact(path: Path, *, drop_damaged: bool = False, json: bool = False, out: TextIO | None = None) -> int:
    """Merges segments and leaves out superseded records. With `drop_damaged` also what can't be read any more."""
    out = _stream(out)
    with Store.open(find_store(path), writable=True, damaged_ok=drop_damaged) as store:
        did = store.compact(drop_damaged=drop_damaged)
    if json:
        out.write(_json(did._asdict()) + "\n")
        return 0
    saved = f"{did.bytes_before:,} -> {did.bytes_after:,} bytes"
    _print([Line("plain", f"{did.records} trajectories, {did.superseded} superseded ones left out, {saved}")], out)
    for dropped in did.dropped:
        _print([Line("error", f"can't be read any more, owed again: {safe_line(dropped)}")], out)
    return 0


_COLUMNS = {"id": 12, "task": 32, "agent": 24, "k": 2, "ended": 22, "score": 5, "steps": 5, "calls": 5, "seconds": 8}
"""Columns of `ls` and their cells where there is room."""

_LEFT = {"id", "task", "agent", "ended"}

_GIVE_WAY = (
    ("id", 8), ("task", 20), ("agent", 14), ("seconds", 0), ("calls", 0), ("ended", 12), ("steps", 0), ("id", 0), ("k", 0),
    ("agent", 8), ("task", 12),
)  # fmt: skip
"""Which column gets narrower first in a narrow terminal, and down to what; 0: it goes. How it ended and the score stay."""


def _columns(width: int) -> dict[str, int]:
    """The columns that fit, and their cells."""
    columns = dict(_COLUMNS)
    for name, least in _GIVE_WAY:
        over = sum(columns.values()) + len(columns) - 1 - width
        if over > 0 and name in columns:
            columns[name] = max(least, columns[name] - over) if least else 0
            columns = {each: cells for each, cells in columns.items() if cells}
    return columns


def _line(texts: Mapping[str, str], columns: Mapping[str, int], width: int) -> str:
    line = " ".join(
        _fit(texts[name], cells) if name in _LEFT else f"{texts[name]:>{cells}}" for name, cells in columns.items()
    )
    return line[:width].rstrip()


def _texts(summary: Summary) -> dict[str, str]:
    return {
        "id": summary.id[:12],
        "task": summary.task_id,
        "agent": summary.agent,
        "k": str(summary.attempt),
        "ended": summary.limit or (f"{summary.boundary}: {summary.failure}" if summary.failure else summary.ended),
        "score": "-" if summary.official is None else f"{summary.official:.2f}",
        "steps": str(summary.steps),
        "calls": str(summary.calls),
        "seconds": "-" if summary.wall_s is None else f"{summary.wall_s:.2f}",
    }


def _fit(text: str, width: int) -> str:
    text = safe_line(text)
    return f"{text:<{width}}" if len(text) <= width else text[: width - 1] + "…"


def _figures(store: Store) -> dict[str, Any]:
    groups: dict[str, Counter[str]] = {name: Counter() for name in _GROUPS}
    sums: dict[str, float] = dict.fromkeys(_SUMS, 0)
    done = total = 0
    for summary in store.summaries():
        total += 1
        done += summary.done
        for name, counter in groups.items():
            counter[getattr(summary, name) or "-"] += 1
        for name in _SUMS:
            sums[name] += getattr(summary, name) or 0
    size = store.size_bytes()
    return {
        "trajectories": total,
        "done": done,
        "owed_again": total - done,
        **sums,
        "bytes": size,
        "bytes_per_step": round(size / sums["steps"], 1) if sums["steps"] else None,
        "by": {name: dict(counter.most_common()) for name, counter in groups.items()},
    }


def _stats_lines(figures: dict[str, Any]) -> Iterator[Line]:
    for name, value in figures.items():
        if name != "by":
            yield Line("plain", f"{name.replace('_', ' '):<20} {'-' if value is None else format(value, ',')}")
    for name, counts in figures["by"].items():
        if set(counts) - {"-"}:
            yield Line("title", f"by {name}")
            for value, count in counts.items():
                yield Line("plain", f"  {count:>8,} {safe_line(value)}")


def _resolve(store: Store, wanted: str, choice: Filters, errors: TextIO) -> str:
    of_task = sorted(store.summaries(task_id=wanted), key=lambda summary: summary.attempt)
    if of_task:
        return _of_task(store, of_task, choice, errors)
    found = store.ids(wanted, 6)
    if len(found) == 1 or wanted in found:
        if choice:
            raise InputError(f"{wanted!r} names one trajectory already: -a and -k choose among those of a task.")
        return found[0] if len(found) == 1 else wanted
    if found:
        raise InputError(f"{wanted!r} is the start of several ids: {_listed(found)}. Give more of it.")
    near = next(filter(None, (store.ids(wanted[:at], 3) for at in range(len(wanted) - 1, 0, -1))), [])
    hint = f"Near ones: {_listed(near)}." if near else "`harness trajectories ls` lists all."
    raise InputError(f"There is no trajectory {wanted!r} in {store.path}. {hint}")


def _of_task(store: Store, played: Sequence[Summary], choice: Filters, errors: TextIO) -> str:
    """The first that was chosen; the others are named on `errors`."""
    task = played[0].task_id
    wanted: Filters = {**choice, "task_id": task}
    fitting = {summary.id for summary in store.summaries(**wanted)}
    chosen = [summary for summary in played if summary.id in fitting]
    if not chosen:
        raise InputError(f"Task {task!r} was not played so: there is {_listed([_attempt(each) for each in played])}.")
    if len(chosen) > 1:
        others = _listed([_attempt(summary) for summary in chosen[1:]])
        errors.write(
            safe_line(f"This is {_attempt(chosen[0])}; {task} has also {others}: -a AGENT and -k ATTEMPT choose.")
            + "\n"
        )
    return chosen[0].id


def _attempt(summary: Summary) -> str:
    return f"attempt {summary.attempt} of {summary.agent} ({summary.id[:12]})"


def check_names(path: Path, store: Store, filters: Filters) -> None:
    """InputError, with the near names, for a name that neither the stored trajectories nor the plan have."""
    for kind, wanted in filters.items():
        if kind not in _NAMED:
            continue
        for name in [wanted] if isinstance(wanted, str) else cast("Sequence[str]", wanted):
            if name not in _NAMED[kind] and next(store.summaries(**cast("Filters", {kind: name})), None) is None:
                known = {*_NAMED[kind], *_stored(store, kind), *_planned(path, kind)}
                if known and name not in known:
                    raise unknown_name(f"{_CALLED.get(kind, kind)} in this run:", name, known)


_NAMED: Mapping[str, tuple[str, ...]] = {
    "benchmark": (),
    "agent": (),
    "category": (),
    "ended": ("terminated", "truncated", "failed"),
    "limit": ("max_steps", "time", "tokens", "cost", "context_window"),
    "boundary": ("agent", "environment", "sandbox", "infrastructure"),
}
"""Filters whose values are names, with those that every run may have."""

_CALLED = {"ended": "end", "limit": "limit that truncated"}


def _stored(store: Store, kind: str) -> set[str]:
    return {value for summary in store.summaries() if (value := getattr(summary, kind)) is not None}


def _planned(path: Path, kind: str) -> set[str]:
    """Names that the run will have once it is played. None for a store without a run."""
    if not (path / "run.json").is_file():
        return set()
    run = RunDir.open(path)
    plan = run.record.plan
    if kind == "category":
        return {task.category for benchmark in plan.benchmarks for task in run.tasks(benchmark)}
    found = {"benchmark": plan.benchmarks, "agent": plan.agents}
    return {each.name for each in found.get(kind, ())}


def _listed(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")


def _summary_dict(summary: Summary) -> dict[str, Any]:
    return {**summary._asdict(), "done": summary.done}


def _json(value: Any) -> str:
    return to_json(value, inf_nan_mode="strings").decode()


def _json_array(rows: Iterable[dict[str, Any]], out: TextIO) -> None:
    """Written as it is read, so that any number of rows takes no memory."""
    separator = "["
    for row in rows:
        out.write(separator + _json(row))
        separator = ",\n "
    out.write("[]\n" if separator == "[" else "]\n")


@contextmanager
def _reading(path: Path, errors: TextIO | None) -> Generator[Store]:
    with Store.open(find_store(path), damaged_ok=True) as store:
        for problem in store.problems:
            _complain(problem, _complaints(errors))
        yield store


def _complain(problem: Problem, errors: TextIO) -> None:
    errors.write(f"{safe_line(problem.sentence)} `harness trajectories verify` says more.\n")


def _complaints(errors: TextIO | None) -> TextIO:
    return sys.stderr if errors is None else errors


def _stream(out: TextIO | None) -> TextIO:
    return sys.stdout if out is None else out


def _width(out: TextIO) -> int:
    return terminal_width(out) or 132


def _print(lines: Iterable[Line], out: TextIO) -> None:
    coloured = out.isatty() and "NO_COLOR" not in os.environ
    for line in lines:
        code = _COLOURS.get(line.style) if coloured and line.text else None
        out.write(f"\x1b[{code}m{line.text}\x1b[0m\n" if code else f"{line.text}\n")
