"""BFCL predictions files: official result files as they are, and rows `{"task_id", "output"}` (design 10).

One example row each: {"id": "simple_0", "result": "[area(base=10, height=5)]", ...} ·
{"id": "simple_0", "result": [{"area": "{\"base\": 10, \"height\": 5}"}]} · {"task_id": "simple_0", "output": "[area(base=10, height=5)]"}.
Rows stand one a line or in one JSON array; the file may be gzipped. Unknown keys are ignored. A folder stands for all official
result files below it (`*_result.json*`), in the order of their paths.

Whether a model's names have `_` for each `.` is a matter of the model's configuration upstream. Here the file says it:
list rows may, if no call of the file has a name with a dot.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from envs.base import Prediction, unknown_name
from envs.bfcl.outcome import RawOutput
from envs.bfcl.source import CATEGORIES
from envs.bfcl.v4 import RENAMED, MultiTurnVersion, v3_id
from trajectories.failures import InputError


class ResultRow(NamedTuple):
    """A row as read. `attempt` None: counted in file order."""

    written_id: str
    task_id: str
    attempt: int | None
    value: Any


def read(path: Path, options: Mapping[str, str], questions: Mapping[str, list[Any]]) -> Iterator[Prediction]:
    """The solutions of a file in its order. Repeated ids are further attempts.

    `options`: `category` keeps one category's rows, `dots` is `keep` or `underscore`. `questions` are the known
    multi-turn tasks' turns (see `v4.py`). InputError names file, line and rule.
    """
    category, dots = _checked(options)
    seen: dict[str, int] = {}
    for file in _files(path):
        rows = list(_rows(file, MultiTurnVersion(file, questions)))
        if not rows:
            raise InputError(f"{str(file)!r} holds no rows: give result rows, one JSON object a line.")
        underscores = _underscores(rows, dots)
        for row in rows:
            attempt = seen.get(row.task_id, 0) if row.attempt is None else row.attempt
            seen[row.task_id] = attempt + 1
            if category is None or row.task_id.rsplit("_", 1)[0] == category:
                listed = isinstance(row.value, list)
                output = RawOutput(row.value, underscores and listed, listed and _calls_natively(row.value))
                yield Prediction(row.task_id, attempt, output, row.written_id)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.rglob("*_result.json*"))
    if not found:
        raise InputError(f"{str(path)!r} holds no result files: they are named like BFCL_v3_simple_result.json.")
    return found


def _checked(options: Mapping[str, str]) -> tuple[str | None, Literal["keep", "underscore"] | None]:
    category, dots = options.get("category"), options.get("dots")
    if category is not None and RENAMED.get(category, category) not in CATEGORIES:
        raise unknown_name("category of bfcl-v3", category, CATEGORIES)
    if dots not in (None, "keep", "underscore"):
        raise InputError(f"--dots is {dots!r}: it is 'keep' (names as in the data) or 'underscore' (`_` for each `.`).")
    return (None if category is None else RENAMED.get(category, category)), dots


def _calls_natively(turns: list[Any]) -> bool:
    """Whether a multi-turn row has a step that is a list: then upstream's handler takes its text steps for no calls."""
    steps = [step for turn in turns if isinstance(turn, list) for step in cast("list[Any]", turn)]
    return any(isinstance(step, list) for step in steps)


def _underscores(rows: Iterable[ResultRow], dots: str | None) -> bool:
    if dots is not None:
        return dots == "underscore"
    return not any("." in name for row in rows for name in _names(row.value))


def _names(value: Any) -> Iterator[str]:
    """The function names in a raw output, however deep its lists are nested."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += cast("list[Any]", item)
        elif isinstance(item, dict):
            yield from (str(name) for name in cast("dict[Any, Any]", item))


def _rows(path: Path, version: MultiTurnVersion) -> Iterator[ResultRow]:
    for where, value in _values(path):
        row = _row(value, where)
        version.watch(row.written_id, value)
        yield row
    version.check()


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """Place (for messages) and value of each row: one a line, or the elements of one array."""
    text = _text(path)
    if text.lstrip().startswith("["):
        values = _parse(text, repr(str(path)))
        yield from ((f"{str(path)!r}, element {index}", value) for index, value in enumerate(values, 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{str(path)!r}, line {number}"
            yield where, _parse(line, where)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{str(path)!r} can't be read: {error.strerror or error}.") from error
    except (EOFError, zlib.error) as error:
        raise InputError(f"{str(path)!r} is damaged: it starts as gzip and breaks off ({error}).") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8 text (byte {error.start}): give JSON lines.") from error


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: no JSON ({error}). A row is one JSON object on one line.") from error


def _row(value: Any, where: str) -> ResultRow:
    if not isinstance(value, dict):
        raise InputError(f"{where}: a row is a JSON object, not {type(value).__name__}.")
    fields = cast("dict[str, Any]", value)
    written = fields.get("task_id", fields.get("id"))
    if not isinstance(written, str):
        hint = " This looks like a score file: grade the result file." if "accuracy" in fields else ""
        raise InputError(f'{where}: a row needs "task_id" or "id", a text.{hint}')
    key = next((key for key in ("output", "result") if key in fields), None)
    if key is None:
        raise InputError(f'{where}: the row of {written!r} has neither "output" nor "result".')
    return ResultRow(written, v3_id(written), _attempt(fields, where), fields[key])


def _attempt(fields: Mapping[str, Any], where: str) -> int | None:
    attempt = fields.get("attempt")
    if attempt is not None and (type(attempt) is not int or attempt < 0):
        raise InputError(f'{where}: "attempt" is {attempt!r}, not a whole number from 0.')
    return attempt
