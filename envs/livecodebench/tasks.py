"""Rows by id across the splits of a benchmark, as the harness' `Task`s, and the settings that an episode really has."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from envs import code_episodes, data
from envs.base import EnvSettings, unknown_name
from envs.livecodebench import dataset
from envs.livecodebench.dataset import Dataset, Row
from envs.livecodebench.prompts import STYLES
from trajectories.failures import InputError
from trajectories.schema import Task

REPAIR = "selfrepair"
PROFILES = tuple(dict.fromkeys((*code_episodes.PROFILES, *STYLES, REPAIR)))


class Found(NamedTuple):
    """A row, and whence it is. `data_version` names the data as scores do."""

    row: Row
    split: str
    data_version: str


def readable(name: str) -> Iterator[str]:
    """The splits of a benchmark that are here, without those that are parts of others."""
    if data.current(name) is not None:
        yield from dataset.pulled_splits(name)
    yield "sample"


def known(name: str, task_id: str) -> bool:
    return any(task_id in dataset.load(name, split).rows for split in readable(name))


def find(name: str, task_id: str) -> Found:
    """InputError for an id that the data lacks, with near ones and the way to have more."""
    found = {split: dataset.load(name, split) for split in readable(name)}
    for split, rows in found.items():
        if task_id in rows.rows:
            return Found(rows.rows[task_id], split, rows.version)
    near = get_close_matches(task_id, [key for rows in found.values() for key in rows.rows], n=3)
    hint = f" Near: {', '.join(near)}." if near else ""
    pull = "" if data.current(name) else f" Its data is not pulled: run 'harness data pull {name}'."
    raise InputError(f"{name} has no task {task_id!r} here.{hint}{pull}")


@lru_cache(maxsize=32)
def tasks_of(name: str, rows: Dataset, split: str) -> tuple[Task, ...]:
    """The tasks of a split or of a part of one, which names the whole in them."""
    whole = "test" if name == "livecodebench" and split != "sample" else split
    return tuple(task_of(name, row, whole) for row in rows.rows.values())


def task_of(name: str, row: Row, split: str) -> Task:
    return Task(benchmark=name, id=row.id, category=row.category, split=split, cluster=row.id, digest=row.digest)


def resolve(name: str, settings: EnvSettings) -> EnvSettings:
    """`default` is `single`; the texts are ours, since upstream's are in no data that is pulled."""
    if settings.profile not in PROFILES:
        raise unknown_name(f"profile of {name}", settings.profile, PROFILES)
    profile = "single" if settings.profile == "default" else settings.profile
    return settings.model_copy(update={"profile": profile, "texts": "ours"})
