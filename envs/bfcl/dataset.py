"""The BFCL-v3 tasks as rows: loaded once per data folder, shared, and read only.

`test` is the official split, from the data of the last `harness data pull bfcl-v3`. `sample` is the handful of
self-written tasks in `envs/samples/bfcl/`, which has the layout of the wheel's own data folder.
One row of a question file: {"id": "simple_0", "question": [[{"role": "user", "content": "..."}]], "function": [...]}.
Questions and answers are joined by id, where upstream joins by position after sorting: on the pinned data the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from envs import data
from envs.base import unknown_name
from envs.bfcl.simulator_code import Found, find
from envs.bfcl.source import (
    CATEGORIES,
    CLASS_FILES,
    DATA,
    has_answers,
    index_of,
    question_file,
    read_lines,
)
from trajectories.failures import InputError
from trajectories.schema import digest

SPLITS = ("test", "sample")
SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "bfcl"
PULL_FIRST = "run 'harness data pull bfcl-v3'"


@dataclass(frozen=True, eq=False)
class Row:
    """One task. `functions` of a multi-turn row are the documents of all involved classes, held-out ones included.

    `question` has one list of messages a turn, empty in a reveal turn. `ground_truth` is None where upstream has no
    answers; for multi-turn it has one list of call strings a turn, else one `{name: {parameter: allowed}}` a call.
    `held_out` maps a turn's index to the names that are revealed in it.
    """

    id: str
    category: str
    language: str
    question: list[list[dict[str, Any]]]
    functions: list[dict[str, Any]]
    ground_truth: list[Any] | None
    held_out: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    initial_config: dict[str, Any] = field(default_factory=dict[str, Any])
    involved_classes: tuple[str, ...] = ()
    simulators: Path | None = None
    """The folder of upstream's simulator modules, for multi-turn rows; no part of the digest."""

    @property
    def multi_turn(self) -> bool:
        return self.category.startswith("multi_turn")

    @property
    def long_context(self) -> bool:
        return "long_context" in self.category

    @cached_property
    def digest(self) -> str:
        """Over all that an episode or a grade depends on; keys of upstream's that nobody reads don't count."""
        parts = (self.id, self.question, self.functions, self.ground_truth)
        held_out = {str(turn): names for turn, names in self.held_out.items()}
        return digest([*parts, held_out, self.initial_config, self.involved_classes])


@dataclass(frozen=True, eq=False)
class Dataset:
    """The rows of one split, sorted as upstream sorts: by category name, then by the number in the id.

    `missing` says in one sentence each what this copy of the data can't offer, and the way out. `counts` has the tasks of
    each question file by category, those that can't be played here included.
    """

    rows: Mapping[str, Row]
    version: str
    categories: tuple[str, ...]
    missing: tuple[str, ...]
    counts: Mapping[str, int]


def load(split: str = "test") -> Dataset:
    """All rows of a split. InputError for an unknown split, and for `test` where nothing is pulled."""
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    pulled = data.current("bfcl-v3")
    if split == "sample":
        return _load_samples(pulled)
    if pulled is None:
        raise InputError(f"The BFCL-v3 data is not pulled: {PULL_FIRST}.")
    return _load_pulled(pulled)


@lru_cache(maxsize=4)
def _load_samples(pulled: data.Pulled | None) -> Dataset:
    hashes = {
        path.relative_to(SAMPLES).as_posix(): data.file_sha256(path)
        for path in SAMPLES.rglob("*")
        if path.suffix == ".json"
    }
    return _read(SAMPLES, f"samples:{data.tree_sha256(hashes)[:8]}", pulled)


@lru_cache(maxsize=4)
def _load_pulled(pulled: data.Pulled) -> Dataset:
    return _read(pulled.path / DATA, pulled.version, pulled)


def _read(folder: Path, version: str, pulled: data.Pulled | None) -> Dataset:
    """Read a data folder; function documents that it lacks come from the pulled data."""
    tools = _Tools(find(pulled), _Documents(folder, pulled.path / DATA if pulled else None))
    read = {category: _read_category(folder, category, tools) for category in CATEGORIES}
    rows = [row for found in read.values() for row in found.rows]
    rows.sort(key=lambda row: (row.category, index_of(row.id)))
    categories = tuple(category for category, found in read.items() if found.rows)
    missing = tuple(found.reason for found in read.values() if found.reason)
    counts = {category: found.size for category, found in read.items() if found.size}
    return Dataset({row.id: row for row in rows}, version, categories, missing, counts)


class _Documents:
    """The function documents of the simulators, read once per class."""

    def __init__(self, *folders: Path | None) -> None:
        self._folders = [folder / "multi_turn_func_doc" for folder in folders if folder]
        self._read: dict[str, list[dict[str, Any]] | None] = {}

    def of(self, classes: list[str]) -> list[dict[str, Any]] | None:
        """The documents of all classes in their order, None if one has none."""
        found = [self._of_class(name) for name in classes]
        return None if None in found else [document for documents in found for document in documents or ()]

    def _of_class(self, name: str) -> list[dict[str, Any]] | None:
        if name not in self._read:
            stem = CLASS_FILES.get(name)
            paths = [folder / f"{stem}.json" for folder in self._folders]
            path = next((path for path in paths if path.is_file()), None)
            self._read[name] = [value for _, value in read_lines(path)] if path else None
        return self._read[name]


class _Tools(NamedTuple):
    """What multi-turn rows need beside their own records."""

    simulators: Found
    documents: _Documents


class _Category(NamedTuple):
    """The rows of one category that can be played, how many its file has, and why some or all of them are missing."""

    rows: list[Row]
    size: int
    reason: str | None = None


def _read_category(folder: Path, category: str, tools: _Tools) -> _Category:
    questions = folder / Path(question_file(category)).name
    if not questions.is_file():
        lacking = f"No questions of {category}: {PULL_FIRST} for all of them."
        return _Category([], 0, None if folder == SAMPLES else lacking)
    records = [value for _, value in read_lines(questions)]
    answers = folder / "possible_answer" / questions.name
    if has_answers(category) and not answers.is_file():
        lacking = f"No answers of {category}, so it can't be graded: {PULL_FIRST} for all of them."
        return _Category([], len(records), lacking)
    truths = {value["id"]: value["ground_truth"] for _, value in read_lines(answers)} if has_answers(category) else {}
    if not category.startswith("multi_turn"):
        return _Category([_single_turn(record, category, truths) for record in records], len(records))
    if tools.simulators.problem:
        return _Category([], len(records), f"{category} is left out. {tools.simulators.problem}")
    rows = [_multi_turn(record, category, truths, tools) for record in records]
    kept = [row for row in rows if row is not None]
    lost = len(rows) - len(kept)
    lacking = f"{lost} tasks of {category} lack their function documents: {PULL_FIRST}." if lost else None
    return _Category(kept, len(rows), lacking)


def _single_turn(record: dict[str, Any], category: str, truths: dict[str, Any]) -> Row:
    language = {"java": "Java", "javascript": "JavaScript"}.get(category, "Python")
    return Row(record["id"], category, language, record["question"], record["function"], truths.get(record["id"]))


def _multi_turn(record: dict[str, Any], category: str, truths: dict[str, Any], tools: _Tools) -> Row | None:
    functions = tools.documents.of(record["involved_classes"])
    if functions is None:
        return None
    return Row(
        record["id"],
        category,
        "Python",
        record["question"],
        functions,
        truths[record["id"]],
        held_out={int(turn): list(names) for turn, names in record.get("missed_function", {}).items()},
        initial_config=record["initial_config"],
        involved_classes=tuple(record["involved_classes"]),
        simulators=tools.simulators.folder,
    )
