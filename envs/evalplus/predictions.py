"""EvalPlus samples as upstream takes them, and rows `{"task_id", "output"}` (design 10).

- JSON lines (or one array) of {"task_id": "HumanEval/0", "solution": a program} or {..., "completion": what follows the prompt};
- a folder with a folder a task (`HumanEval_0/`) and a program a file in it (`0.py`, `1.py`, ...);
- `*_eval_results.json`, whose solutions are graded anew; its `hash` tells which data they are of;
- {"task_id": ..., "output": a model's answer}, from which the program is taken as in an episode.
All of it may be in gzip. A program is graded as it is, as upstream does: sanitising is a step of its own there.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from envs.base import Prediction, unknown_name
from envs.code_episodes import HandedIn
from envs.evalplus import problems, source
from trajectories.failures import InputError

_KEYS = ("solution", "completion", "output")
_FOLDER = re.compile(r"(HumanEval|Mbpp)_(\d+)")


class Solution(NamedTuple):
    """A row's value under one of the three keys; it may be of any type."""

    kind: str
    value: Any

    def handed_in(self, prompt: str) -> HandedIn | None:
        """What is to be graded; None for a value that is no text."""
        if not isinstance(self.value, str):
            return None
        if self.kind == "completion":
            return HandedIn(prompt + self.value, raw=False)
        return HandedIn(self.value, raw=self.kind == "output")


class _Row(NamedTuple):
    task_id: str
    attempt: int | None
    solution: Solution


def read(path: Path, options: Mapping[str, str]) -> Iterator[Prediction]:
    """The solutions in order. `options`: `category` keeps humaneval or mbpp, `split` names the data (`test`). InputError says where."""
    category, split = options.get("category"), options.get("split")
    if category is not None and category not in problems.CATEGORIES:
        raise unknown_name("category of evalplus", category, problems.CATEGORIES)
    if split is not None and split not in problems.SPLITS:
        raise unknown_name("split of evalplus", split, problems.SPLITS)
    told, rows = _rows(path)
    seen: dict[str, int] = {}
    for row in rows:
        attempt = seen.get(row.task_id, 0) if row.attempt is None else row.attempt
        seen[row.task_id] = attempt + 1
        if category is None or _category(row.task_id) == category:
            yield Prediction(_own_id(row.task_id, split or told), attempt, row.solution, row.task_id)


def _own_id(task_id: str, split: str) -> str:
    return task_id if "@" in task_id else problems.own_id(task_id, split)


def _category(task_id: str) -> str:
    return "humaneval" if task_id.startswith("HumanEval/") else "mbpp"


def _rows(path: Path) -> tuple[str, list[_Row]]:
    """The split that the file tells, and its rows."""
    if path.is_dir():
        return "test", _of_folder(path)
    text = _text(path)
    results = _eval_results(text)
    if results is not None:
        return _split_of_hash(results.get("hash")), list(_of_results(results, path))
    rows = list(_of_values(text, path))
    if not rows:
        raise InputError(
            f'{str(path)!r} holds no rows: give samples, {{"task_id", "solution"}}, one JSON object a line.'
        )
    return "test", rows


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8 text (byte {error.start}): give JSON lines.") from error
    except (EOFError, zlib.error) as error:
        raise InputError(f"{str(path)!r} is damaged: it starts as gzip and breaks off ({error}).") from error
    except OSError as error:
        raise InputError(f"{str(path)!r} can't be read: {error.strerror or error}.") from error


def _eval_results(text: str) -> dict[str, Any] | None:
    """The object of an official result file; None for another file."""
    if '"eval"' not in text[:10_000] and '"eval"' not in text:
        return None
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) and isinstance(value.get("eval"), dict) else None


def _split_of_hash(md5: Any) -> str:
    part = next((part.name for part in source.PARTS.values() if part.md5 == md5), "")
    return next((split for split, parts in problems.PARTS.items() if part in parts), "test")


def _of_results(results: Mapping[str, Any], path: Path) -> Iterator[_Row]:
    for task_id, attempts in results["eval"].items():
        if not isinstance(attempts, list):
            raise InputError(
                f'{str(path)!r}: "eval" of {task_id!r} is no list of solutions: give a newer result file, or the samples.'
            )
        for attempt in cast("list[Any]", attempts):
            if not isinstance(attempt, dict) or "solution" not in attempt:
                raise InputError(f'{str(path)!r}: an attempt at {task_id!r} has no "solution".')
            yield _Row(str(task_id), None, Solution("solution", attempt["solution"]))


def _of_values(text: str, path: Path) -> Iterator[_Row]:
    if text.lstrip().startswith("["):
        for index, value in enumerate(_parse(text, repr(str(path))), 1):
            yield _row(value, f"{str(path)!r}, element {index}")
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{str(path)!r}, line {number}"
            yield _row(_parse(line, where), where)


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: no JSON ({error}). A row is one JSON object on one line.") from error


def _row(value: Any, where: str) -> _Row:
    if not isinstance(value, dict):
        raise InputError(f"{where}: a row is a JSON object, not {type(value).__name__}.")
    fields = cast("dict[str, Any]", value)
    task_id, attempt = fields.get("task_id"), fields.get("attempt")
    if not isinstance(task_id, str):
        raise InputError(f'{where}: a row needs "task_id", a text.')
    kind = next((key for key in _KEYS if key in fields), None)
    if kind is None:
        raise InputError(f'{where}: the row of {task_id!r} has neither "solution" nor "completion" nor "output".')
    if attempt is not None and (type(attempt) is not int or attempt < 0):
        raise InputError(f'{where}: "attempt" is {attempt!r}, not a whole number from 0.')
    return _Row(task_id, attempt, Solution(kind, fields[kind]))


def _of_folder(folder: Path) -> list[_Row]:
    """One row a program, by task number, then by file name."""
    found = [
        (match, inner) for inner in folder.iterdir() if inner.is_dir() and (match := _FOLDER.fullmatch(inner.name))
    ]
    found.sort(key=lambda pair: (pair[0][1], int(pair[0][2])))
    rows = [
        _Row(f"{match[1]}/{match[2]}", None, Solution("solution", _text(file)))
        for match, inner in found
        for file in sorted(inner.glob("*.py"), key=lambda file: (len(file.stem), file.stem))
    ]
    if not rows:
        raise InputError(
            f"{str(folder)!r} holds no solutions: give folders named HumanEval_0 or Mbpp_2 with .py files in them."
        )
    return rows
