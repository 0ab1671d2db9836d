"""The two scenarios with records of their own: test output prediction and code execution. One question, one answer each.

Their data are the Hugging Face sets livecodebench/test_generation (442 tasks) and livecodebench/execution-v2 (479), or copies of them by
`harness data pull NAME --from FILE`.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from envs import data, judging
from envs.base import unknown_name
from envs.data import Selection, Source
from envs.livecodebench import execution, hub, lines, output_prediction
from envs.livecodebench.records import UNRATED
from envs.livecodebench.source import HUB_RECORD, files_with
from trajectories.failures import InputError
from trajectories.schema import Message, digest

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "livecodebench"
SPLITS = ("test", "sample")


class Scenario(NamedTuple):
    """One scenario: its records, its question and its rule. `profile` is the style that is played."""

    name: str
    title: str
    repository: str
    file: str
    keys: tuple[str, ...]
    profiles: tuple[str, ...]
    needs_sandbox: bool
    question_of: Callable[[Mapping[str, Any], str], Any]
    messages: Callable[[Any, str], tuple[Message, ...]]
    extract: Callable[[str, str], str]
    passes: Callable[[Any, str, str], tuple[bool, str]]
    """(question, extracted answer, grader) -> (whether it is right, why not)."""
    reference: Callable[[Any], str]
    """A right answer, as text."""


class Row(NamedTuple):
    """One task."""

    id: str
    category: str
    contest_date: str
    problem: str
    """The problem it is about: tasks of one problem are not independent."""
    question: Any
    digest: str


class Rows(NamedTuple):
    """The tasks of a split by id, in upstream's order."""

    rows: Mapping[str, Row]
    version: str


def _run_execution(question: execution.Question, answer: str, grader: str) -> tuple[bool, str]:
    with judging.lease() as worker:
        return execution.passes(worker, question, answer, grader)


OUTPUT_PREDICTION = Scenario(
    name="livecodebench-testoutput",
    title="LiveCodeBench, test output prediction",
    repository="livecodebench/test_generation",
    file="test.jsonl",
    keys=output_prediction.KEYS,
    profiles=("default",),
    needs_sandbox=False,
    question_of=output_prediction.question_of,
    messages=lambda question, profile: output_prediction.messages(question),
    extract=lambda text, profile: output_prediction.extract(text),
    passes=output_prediction.passes,
    reference=lambda question: f"assert {question.function}() == {json.loads(question.expected)!r}",
)
CODE_EXECUTION = Scenario(
    name="livecodebench-execution",
    title="LiveCodeBench, code execution",
    repository="livecodebench/execution-v2",
    file="test.jsonl",
    keys=execution.KEYS,
    profiles=("default", "cot"),
    needs_sandbox=True,
    question_of=execution.question_of,
    messages=lambda question, profile: execution.messages(question, profile == "cot"),
    extract=lambda text, profile: execution.extract(text, profile == "cot"),
    passes=_run_execution,
    reference=lambda question: f"[ANSWER]\nassert {question.call} == {question.expected}\n[/ANSWER]",
)


def load(scenario: Scenario, split: str) -> Rows:
    """The tasks of a split. InputError for an unknown one, and where nothing is pulled."""
    if split not in SPLITS:
        raise unknown_name(f"split of {scenario.name}:", split, SPLITS)
    if split == "sample":
        return _read(scenario, (SAMPLES / f"{scenario.name}.jsonl",), "")
    pulled = data.current(scenario.name)
    if pulled is None:
        raise InputError(f"The data of {scenario.name} is not pulled: run 'harness data pull {scenario.name}'.")
    names = sorted(path for path in pulled.path.iterdir() if path.name not in (data.RECORD, HUB_RECORD))
    return _read(scenario, tuple(names), pulled.version)


@lru_cache(maxsize=8)
def _read(scenario: Scenario, paths: tuple[Path, ...], version: str) -> Rows:
    found = [_row(scenario, record, path) for path in paths for _, record in lines.records(path)]
    found.sort(key=lambda row: _order(row.id))
    version = version or f"samples:{data.tree_sha256({path.name: data.file_sha256(path) for path in paths})[:8]}"
    return Rows({row.id: row for row in found}, version)


def _order(task_id: str) -> tuple[str, int, str]:
    """By the text before the last `_`, then by the number after it: question and test, or `sample` and number."""
    head, _, tail = task_id.rpartition("_")
    return head, int(tail) if tail.isdigit() else -1, tail


def _row(scenario: Scenario, record: Mapping[str, Any], path: Path) -> Row:
    question = _checked(scenario, record, repr(str(path)))
    problem = str(record.get("question_id") or question.id)
    category, when = record.get("difficulty") or UNRATED, record.get("contest_date") or ""
    return Row(question.id, category, when, problem, question, digest([category, *question]))


def _checked(scenario: Scenario, record: Mapping[str, Any], where: str) -> Any:
    try:
        return scenario.question_of(record, where)
    except (KeyError, TypeError, ValueError, LookupError) as error:
        raise InputError(f"{where}: a record of {scenario.name} is damaged ({error!r:.200}).") from error


def _select(scenario: Scenario, copy: Path) -> Selection:
    found = files_with(copy, scenario.keys, lambda path: partial(_checked, scenario))
    if not found:
        raise InputError(f"{str(copy)!r} holds no records of {scenario.name}, which have {', '.join(scenario.keys)}.")
    told = copy / HUB_RECORD
    extra = {HUB_RECORD: told} if copy.is_dir() and told.is_file() else {}
    return Selection({path.name: path for path in found} | extra, ())


def _fetch(scenario: Scenario, folder: Path) -> Path:
    snap = hub.snapshot(scenario.repository)
    hub.fetch(snap, [scenario.file], folder)
    told = {"repository": scenario.repository, "commit": snap.commit}
    (folder / HUB_RECORD).write_text(json.dumps(told), "utf-8")
    return folder


def _source(scenario: Scenario) -> Source:
    version = scenario.repository.split("/")[1]
    return Source(version, "", "", partial(_fetch, scenario), partial(_select, scenario), lambda place, path: False)


TEST_OUTPUT = _source(OUTPUT_PREDICTION)
EXECUTION = _source(CODE_EXECUTION)
