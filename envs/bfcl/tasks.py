"""BFCL rows by id across the splits, as the harness' `Task`s, and the settings that an episode of a split really has."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from envs import data
from envs.base import EnvSettings, unknown_name
from envs.bfcl import dataset, prompts
from envs.bfcl.dataset import Row
from envs.bfcl.outcome import RawOutput
from trajectories.failures import InputError
from trajectories.schema import Task

NAME = "bfcl-v3"
PROFILES = ("default",)
FIRST_SAMPLE = 90_000
"""The self-written tasks are numbered from here on, where upstream has none, so that an id names its split."""

UNWINNABLE: Mapping[str, str] = {
    "multi_turn_base_154": "five questions, and six turns of ground truth",
    "live_simple_106-63-0": "a required parameter is missing from the answer",
    "live_simple_112-68-0": "a required parameter has no allowed value",
    "live_multiple_862-181-3": "the answer demands a parameter that the function lacks",
    "live_multiple_964-207-0": "the function requires 'statement', the answer allows only 'question'",
    "java_36": "the answer mixes texts, numbers and booleans in a list whose items are always read as texts",
    "java_65": "the answer mixes texts and booleans in a list whose items are always read as texts",
}
"""Tasks of the pinned data that the official grader passes for no answer of an episode, and why."""


class Found(NamedTuple):
    """A row, and whence it is. `data_version` names the data as scores do."""

    row: Row
    split: str
    data_version: str


def split_of(task_id: str) -> str:
    """The split that an id of this form belongs to, whether or not it has such a task."""
    number = task_id.rsplit("_", 1)[-1].split("-")[0]
    return "sample" if number.isdigit() and int(number[:9]) >= FIRST_SAMPLE else "test"


def find(task_id: str) -> Found:
    """InputError for an id that the data lacks, with near ones or with what is missing to have it."""
    split = split_of(task_id)
    rows = dataset.load(split)
    if task_id not in rows.rows:
        raise _unknown(task_id, split, rows)
    return Found(rows.rows[task_id], split, rows.version)


def _unknown(task_id: str, split: str, rows: dataset.Dataset) -> InputError:
    category = task_id.rsplit("_", 1)[0]
    lacking = next((reason for reason in rows.missing if re.search(rf"\b{re.escape(category)}\b", reason)), None)
    if lacking:
        return InputError(f"Task {task_id!r} can't be played. {lacking}")
    near = get_close_matches(task_id, rows.rows, n=3)
    hint = f" Near: {', '.join(near)}." if near else ""
    return InputError(f"BFCL-v3's split {split!r} has no task {task_id!r}.{hint}")


def task_of(row: Row, split: str) -> Task:
    return Task(benchmark=NAME, id=row.id, category=row.category, split=split, cluster=_cluster(row), digest=row.digest)


def _cluster(row: Row) -> str:
    """The four multi-turn categories vary one scenario by number; live tasks share function documents by theirs."""
    number = row.id.rsplit("_", 1)[1]
    if row.multi_turn:
        return f"multi_turn_{number}"
    if "-" in number:
        return f"{row.category}_doc_{number.split('-')[1]}"
    return row.id


def resolve(settings: EnvSettings, split: str) -> EnvSettings:
    """The settings that an episode of this split really has: part of its identity.

    Official texts come from the pulled wheel. The sample tasks run without it, in our words then. InputError for an
    unknown profile, and where `test` has no official texts.
    """
    if settings.profile not in PROFILES:
        raise unknown_name("profile of bfcl-v3", settings.profile, PROFILES)
    if settings.texts == "official" and split == "sample" and data.current(NAME) is None:
        return settings.model_copy(update={"texts": "ours"})
    texts_of(settings)
    return settings


def texts_of(settings: EnvSettings) -> prompts.Texts:
    """The wording of resolved settings."""
    if settings.texts == "ours":
        return prompts.OURS
    pulled = data.current(NAME)
    if pulled is None:
        raise InputError(
            "The official prompt texts are in the BFCL-v3 wheel, which is not pulled: "
            "run 'harness data pull bfcl-v3', or play with '--texts ours'."
        )
    return prompts.official_texts(pulled.path)


def raw_output(row: Row, steps: Iterable[tuple[int, Any]], mode: str) -> RawOutput:
    """What upstream's result file would hold for an episode, from the turn and the raw output of each of its steps.

    A turn that was opened but never answered is not in it, as after upstream's force quit.
    """
    played = list(steps)
    if not row.multi_turn:
        value = played[0][1] if played else None
    else:
        value = [[raw for turn, raw in played if turn == index] for index in range(played[-1][0] + 1 if played else 0)]
    return RawOutput(value, underscores=mode == "fc", native=mode == "fc", answered=bool(played))


@lru_cache(maxsize=8)
def tasks_of(rows: dataset.Dataset, split: str) -> tuple[Task, ...]:
    return tuple(task_of(row, split) for row in rows.rows.values())
