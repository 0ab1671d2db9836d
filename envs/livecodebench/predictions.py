"""LiveCodeBench predictions files: official output and `*_eval_all.json` files as they are, and rows of our own (design 10).

One example row each: {"question_id": "1873_A", "code_list": ["print(1)"], "output_list": [...], "graded_list": [...], ...} ·
{"task_id": "1873_A", "output": "```python\nprint(1)\n```"} · {"task_id": "1873_A", "code": "print(1)"}. Rows stand one a line or in one JSON
array; the file may be gzipped. Unknown keys are ignored: what a file says about its own verdicts is not read.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from envs.base import Prediction, unknown_name
from envs.livecodebench import extraction, lines
from trajectories.failures import InputError

Read = Callable[[str], str]


class Form(NamedTuple):
    """How a scenario's rows tell a task and its solutions. Of the keys, the first that is there counts; its value says how a text
    becomes a solution, None: it is one."""

    task_id: Callable[[Mapping[str, Any]], Any]
    lists: Mapping[str, Read | None]
    single: Mapping[str, Read | None]


CODE_GENERATION = Form(
    lambda record: record.get("question_id", record.get("task_id")),
    {"code_list": None, "output_list": extraction.official},
    {"code": None, "output": extraction.official},
)


class Code(NamedTuple):
    """A solution as it is graded. A result of another type than text is no code, and fails."""

    text: str


def read(
    path: Path, options: Mapping[str, str], categories: Mapping[str, str], form: Form = CODE_GENERATION
) -> Iterator[Prediction]:
    """The solutions of a file in its order, one for each code. Repeated ids are further attempts.

    `options`: `category` keeps the problems of one difficulty; `categories` has that of each known problem. InputError names the file and
    the rule.
    """
    wanted = options.get("category")
    if wanted is not None and wanted not in set(categories.values()):
        raise unknown_name("difficulty", wanted, set(categories.values()))
    seen: dict[str, int] = {}
    rows = 0
    for _, record in lines.records(path):
        rows += 1
        task_id = _task_id(record, path, form)
        for attempt, code in _solutions(record, path, form):
            number = seen.get(task_id, 0) if attempt is None else attempt
            seen[task_id] = number + 1
            if wanted is None or categories.get(task_id) == wanted:
                yield Prediction(task_id, number, Code(code))
    if not rows:
        raise InputError(f"{str(path)!r} holds no rows: give an official output file or JSON lines.")


def _task_id(record: Mapping[str, Any], path: Path, form: Form) -> str:
    value = form.task_id(record)
    value = str(value) if type(value) is int else value
    if not isinstance(value, str):
        raise InputError(f"{str(path)!r} holds a row that names no task (its keys: {', '.join(record)[:200]}).")
    return value


def _solutions(record: Mapping[str, Any], path: Path, form: Form) -> Iterator[tuple[int | None, str]]:
    """(attempt if the row tells it, code) of each solution of one row."""
    for key, rule in form.lists.items():
        if key in record:
            found = record[key]
            items = cast("list[Any]", found) if isinstance(found, list) else [found]
            yield from ((None, _code(item, rule)) for item in items)
            return
    attempt = record.get("attempt")
    for key, rule in form.single.items():
        if key in record:
            yield (attempt if type(attempt) is int and attempt >= 0 else None), _code(record[key], rule)
            return
    keys = ", ".join((*form.lists, *form.single))
    raise InputError(f"{str(path)!r}: the row of {_task_id(record, path, form)!r} has none of {keys}.")


def _code(value: Any, rule: Read | None) -> str:
    if not isinstance(value, str):
        return ""
    return rule(value) if rule is not None else value
