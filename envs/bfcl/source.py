"""Which files make the BFCL-v3 data, and how they are told in a wheel, an unpacked wheel, or its data folder.

Source: the wheel bfcl-eval 2025.8.6.2, the last one with v3 data (2025.8.25 is the first with v4 alone). Question and
answer files are told by their records' ids, not by their names; function documents have no ids and go by upstream's
file names. The installed layout is the wheel's own. Unknown keys in a record are ignored.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from envs.data import Selection, Source, from_package_index
from trajectories.failures import InputError

CATEGORIES = (
    "simple",
    "multiple",
    "parallel",
    "parallel_multiple",
    "java",
    "javascript",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
)
CLASS_FILES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""Simulator class -> the stem of its module and of its function document file."""

SIMULATOR_MODULES = ("long_context", *CLASS_FILES.values())

DATA = "bfcl_eval/data"
DOCS = f"{DATA}/multi_turn_func_doc"
SIMULATORS = "bfcl_eval/eval_checker/multi_turn_eval/func_source_code"
TEXTS = ("bfcl_eval/constants/default_prompts.py", "bfcl_eval/model_handler/utils.py")
"""Where upstream's prompt wording stands. It is read, never run."""

_V4_ONLY = ("simple_python", "simple_java", "simple_javascript", "memory", "web_search", "format_sensitivity")


class _Found(NamedTuple):
    kind: str
    category: str
    ids: tuple[str, ...]


def has_answers(category: str) -> bool:
    """Relevance and irrelevance are graded without an answer file."""
    return "relevance" not in category


def question_file(category: str) -> str:
    return f"{DATA}/BFCL_v3_{category}.json"


def answer_file(category: str) -> str:
    return f"{DATA}/possible_answer/BFCL_v3_{category}.json"


def index_of(task_id: str) -> int:
    """The position of a task in its category: upstream's sort key. ValueError for an id without one."""
    return int(task_id.rsplit("_", 1)[1].split("-")[0])


def select(copy: Path) -> Selection:
    """Pick the data's files from a folder. InputError where nothing of it is BFCL-v3, or a record is damaged."""
    if not copy.is_dir():
        raise InputError(f"{str(copy)!r} is neither a wheel nor a folder: BFCL-v3 comes as the wheel bfcl-eval.")
    files = _records(_data_folder(copy))
    if not files:
        raise InputError(
            f"{str(copy)!r} holds no BFCL-v3 records: give the wheel bfcl-eval 2025.8.6.2, the unpacked wheel, or its "
            "folder bfcl_eval/data."
        )
    _add_plain_files(files, copy)
    return Selection(files, tuple(_missing(files)))


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Line number and value of each non-empty line of a JSON lines file; InputError for a line that is no JSON."""
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, json.loads(line)
    except ValueError as error:
        raise InputError(f"{str(path)!r} is damaged ({error}): fetch it again.") from error


def _package(copy: Path) -> Path:
    return copy / "bfcl_eval" if (copy / "bfcl_eval").is_dir() else copy


def _data_folder(copy: Path) -> Path:
    data = _package(copy) / "data"
    return data if data.is_dir() else copy


def _records(folder: Path) -> dict[str, Path]:
    """The question and answer files below `folder`, by the place where they will lie."""
    files: dict[str, Path] = {}
    questions: dict[str, _Found] = {}
    answers: dict[str, _Found] = {}
    for path in sorted([*folder.glob("*.json*"), *folder.glob("possible_answer/*.json*")]):
        found = _identify(path) if path.is_file() else None
        if found is None:
            continue
        place = (question_file if found.kind == "questions" else answer_file)(found.category)
        if place in files and files[place].read_bytes() != path.read_bytes():
            raise InputError(
                f"{str(files[place])!r} and {str(path)!r} both hold {found.kind} of {found.category!r} and differ: "
                "leave one of them."
            )
        files[place] = path
        (questions if found.kind == "questions" else answers)[found.category] = found
    _refuse_unanswered(questions, answers)
    return files


def _identify(path: Path) -> _Found | None:
    """What a file holds by its records; None for a file of something else."""
    records: list[dict[str, Any]] = []
    for number, value in read_lines(path):
        if not isinstance(value, dict) or not isinstance(value.get("id"), str):
            if records:
                raise InputError(f"{str(path)!r}, line {number}: not a record with an id, as the lines before it are.")
            return None
        records.append(value)
    kind = _kind(records[0]) if records else None
    category = records[0]["id"].rsplit("_", 1)[0] if records else ""
    if category.startswith(_V4_ONLY):
        raise InputError(f"{str(path)!r} holds BFCL v4 tasks ({records[0]['id']!r}): they are other tasks than v3's.")
    if kind is None or category not in CATEGORIES:
        return None
    for record in records:
        _check(record, kind, category, path)
    return _Found(kind, category, tuple(record["id"] for record in records))


def _kind(record: dict[str, Any]) -> str | None:
    if "question" in record:
        return "questions"
    return "answers" if "ground_truth" in record else None


def _check(record: dict[str, Any], kind: str, category: str, path: Path) -> None:
    keys = {"answers": {"ground_truth": list}, "questions": {"question": list, "function": list}}[kind]
    if kind == "questions" and category.startswith("multi_turn"):
        keys = {"question": list, "initial_config": dict, "involved_classes": list}
    if record["id"].rsplit("_", 1)[0] != category:
        raise InputError(f"{str(path)!r} mixes {category!r} and {record['id']!r}: one file holds one category.")
    for key, kind_of_value in keys.items():
        if not isinstance(record.get(key), kind_of_value):
            raise InputError(f"{str(path)!r}: record {record['id']!r} has no {kind_of_value.__name__} {key!r}.")
    try:
        index_of(record["id"])
    except ValueError:
        raise InputError(f"{str(path)!r}: the id {record['id']!r} does not end in a number.") from None


def _refuse_unanswered(questions: dict[str, _Found], answers: dict[str, _Found]) -> None:
    for category, found in questions.items():
        if len(set(found.ids)) != len(found.ids):
            raise InputError(f"The questions of {category!r} hold an id twice: each task has one record.")
        if has_answers(category) and category in answers:
            lacking = sorted(set(found.ids) - set(answers[category].ids), key=index_of)
            if lacking:
                raise InputError(f"The answers of {category!r} lack {lacking[0]!r} ({len(lacking)} in all).")


def _add_plain_files(files: dict[str, Path], copy: Path) -> None:
    """Function documents, simulators and texts, which have no ids to be told by."""
    docs = {f"{DOCS}/{stem}.json": f"multi_turn_func_doc/{stem}.json" for stem in CLASS_FILES.values()}
    code = [*(f"{SIMULATORS}/{stem}.py" for stem in SIMULATOR_MODULES), *TEXTS]
    places = {place: _data_folder(copy) / inner for place, inner in docs.items()}
    places |= {place: _package(copy) / place.removeprefix("bfcl_eval/") for place in code}
    files |= {place: path for place, path in places.items() if path.is_file()}


def _missing(files: dict[str, Path]) -> Iterator[str]:
    for category in CATEGORIES:
        if question_file(category) not in files:
            yield f"questions of {category}"
        elif has_answers(category) and answer_file(category) not in files:
            yield f"answers of {category}"
    for name, stem in CLASS_FILES.items():
        if f"{DOCS}/{stem}.json" not in files:
            yield f"function documents of {name}"
    if any(f"{SIMULATORS}/{stem}.py" not in files for stem in SIMULATOR_MODULES):
        yield "simulators"
    if any(text not in files for text in TEXTS):
        yield "prompt texts"


SOURCE = Source(
    version="bfcl-eval-2025.8.6.2",
    sha256="fdb996ac963ed1c6fce1eb4884053aae4a6de282fb931665a46dbeed204a228d",
    tree_sha256="3ad30ac378fa702e0281a36bf237d52a46f75726e67a215fe68bb4c5c681a109",
    fetch=from_package_index("bfcl-eval==2025.8.6.2"),
    select=select,
)
