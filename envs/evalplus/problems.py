"""EvalPlus tasks by id, with their tests.

Splits: `test` is HumanEval+ and MBPP+ with all tests (categories `humaneval` and `mbpp`), `mini` HumanEval+ Mini, `noextreme` both
without extreme inputs, `sample` a handful of our own. An id of `mini` and `noextreme` ends in `@mini` and `@noextreme`, so that an
id names its split; sample tasks are numbered from 90000. `HumanEval/0`, one of upstream's:
{"task_id": "HumanEval/0", "entry_point": ..., "prompt": ..., "canonical_solution": ..., "base_input": [[[1.0, 2.0], 0.5]], "plus_input": ..., "atol": 0}.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from envs import data
from envs.evalplus import source
from envs.evalplus.preludes import EACH_NAME, ITEMS_NAME
from envs.evalplus.restore import restored
from envs.sandbox.worker import Request, request
from trajectories.failures import InputError
from trajectories.schema import Task, digest

SPLITS = ("test", "mini", "noextreme", "sample")
CATEGORIES = ("humaneval", "mbpp")
PARTS: Mapping[str, tuple[str, ...]] = {
    "test": ("humaneval", "mbpp"),
    "mini": ("humaneval-mini",),
    "noextreme": ("humaneval-noextreme", "mbpp-noextreme"),
    "sample": ("humaneval", "mbpp"),
}
SAMPLES = Path(__file__).parents[1] / "samples" / "evalplus"
FIRST_SAMPLE = 90_000

Comparison = Literal["value", "sets", "something", "root"]
"""Values; sets of items; whether there is a result at all; whether it is a root of the polynomial."""
COMPARISONS: Mapping[tuple[str, str], Comparison] = {
    ("humaneval", "find_zero"): "root",
    **{("mbpp", name): "something" for name in ("check_str", "text_match_three", "text_starta_endb")},
    **{
        ("mbpp", name): "sets"
        for name in (
            "similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly", "larg_nnum", "intersection_array",
            "find_dissimilar", "Diff",
        )
    },
}  # fmt: skip
"""Tasks that upstream compares in a way of their own, by category and entry point."""

TestSet = Literal["base", "plus"]
TEST_SETS: tuple[TestSet, TestSet] = ("base", "plus")


@dataclass(frozen=True)
class Problem:
    """One task. Inputs are as they are in the file: `inputs` has them with the types that functions get."""

    id: str
    """Ours: upstream's, with the split where that is not plain."""
    upstream_id: str
    category: str
    entry_point: str
    prompt: str
    canonical_solution: str
    atol: float
    raw_base: list[list[Any]]
    raw_plus: list[list[Any]]

    @cached_property
    def digest(self) -> str:
        return digest(
            [
                self.upstream_id,
                self.entry_point,
                self.prompt,
                self.canonical_solution,
                self.atol,
                self.raw_base,
                self.raw_plus,
            ]
        )

    @property
    def reference(self) -> str:
        """The reference program: it defines the entry point."""
        return self.prompt + self.canonical_solution

    @property
    def comparison(self) -> Comparison:
        return COMPARISONS.get((self.category, self.entry_point), "value")

    def inputs(self, tests: TestSet) -> list[list[Any]]:
        """The argument lists of the base or the extra tests, freshly made."""
        return restored(self.upstream_id, self.raw_base if tests == "base" else self.raw_plus)

    @cached_property
    def requests(self) -> Mapping[TestSet, list[Request]]:
        """The calls of all tests as they go into a jail; where sets are compared, by the function of `preludes.ITEMS`."""
        name, *first = self._called
        return {tests: [request(name, *first, *arguments) for arguments in self.inputs(tests)] for tests in TEST_SETS}

    @cached_property
    def joint_requests(self) -> Mapping[TestSet, Request]:
        """All calls of a set as one, by the function of `preludes.EACH`."""
        return {tests: request(EACH_NAME, self._called, self.inputs(tests)) for tests in TEST_SETS}

    @property
    def _called(self) -> list[str]:
        return [ITEMS_NAME, self.entry_point] if self.comparison == "sets" else [self.entry_point]


class Loaded(NamedTuple):
    """The tasks of a split by id in upstream's order, the version of their data, and what of it is missing here."""

    problems: Mapping[str, Problem]
    version: str
    missing: tuple[str, ...]


class Found(NamedTuple):
    problem: Problem
    split: str
    version: str


def load(split: str) -> Loaded:
    """All tasks of a split that is available. InputError where nothing of it is pulled."""
    if split == "sample":
        return _load(split, SAMPLES)
    reason = unavailable(split)
    pulled = data.current(source.NAME)
    if reason or pulled is None:
        raise InputError(reason or "")
    return _load(split, pulled.path)


def unavailable(split: str) -> str | None:
    """Why the data of the split is not here; None: some of it is."""
    if split == "sample":
        return None
    pulled = data.current(source.NAME)
    if pulled is None:
        return "The EvalPlus data is not pulled: run 'harness data pull evalplus', or take '--split sample'."
    if not any(source.installed(pulled.path, part) for part in PARTS[split]):
        return f"The pulled EvalPlus data has no {' and no '.join(PARTS[split])}: {_WAY_OUT}."
    return None


_WAY_OUT = "run 'harness data pull evalplus' for all of it"


@lru_cache(maxsize=8)
def _load(split: str, folder: Path) -> Loaded:
    problems: dict[str, Problem] = {}
    versions: list[str] = []
    missing: list[str] = []
    for part in PARTS[split]:
        path = source.installed(folder, part)
        if path is None:
            missing.append(f"The data has no {part}: {_WAY_OUT}.")
            continue
        versions.append(source.version(path, part) if split != "sample" else "sample")
        for record in source.records(path):
            problem = _problem(record, split)
            problems[problem.id] = problem
    return Loaded(problems, "+".join(dict.fromkeys(versions)), tuple(missing))


def _problem(record: Mapping[str, Any], split: str) -> Problem:
    upstream_id = record["task_id"]
    problem = Problem(
        id=own_id(upstream_id, split),
        upstream_id=upstream_id,
        category="humaneval" if upstream_id.startswith("HumanEval/") else "mbpp",
        entry_point=record["entry_point"],
        prompt=record["prompt"],
        canonical_solution=record["canonical_solution"],
        atol=float(record["atol"]),
        raw_base=list(record["base_input"]),
        raw_plus=list(record["plus_input"]),  # of Mbpp/793 an empty object
    )
    _require(lambda: problem.inputs("base") + problem.inputs("plus"), upstream_id)
    return problem


def _require(inputs: Callable[[], Any], task_id: str) -> None:
    try:
        inputs()
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"The inputs of {task_id} haven't the shape that this task has ({error}): pull the data again."
        ) from error


def own_id(upstream_id: str, split: str) -> str:
    return upstream_id if split in ("test", "sample") else f"{upstream_id}@{split}"


def split_of(task_id: str) -> str:
    """The split that an id of this form belongs to, whether or not it has such a task."""
    upstream_id, _, split = task_id.partition("@")
    number = upstream_id.rpartition("/")[2]
    if split:
        return split
    return "sample" if number.isdecimal() and int(number[:9]) >= FIRST_SAMPLE else "test"


def find(task_id: str) -> Found:
    """InputError for an id that the data lacks, with near ones or with what is missing to have it."""
    split = split_of(task_id)
    if split not in SPLITS:
        raise InputError(
            f"EvalPlus has no split {split!r}, as the task id {task_id!r} would have it: {', '.join(SPLITS)}."
        )
    loaded = load(split)
    if task_id not in loaded.problems:
        near = get_close_matches(task_id, loaded.problems, n=3)
        hint = f" Near: {', '.join(near)}." if near else ""
        raise InputError(" ".join((f"EvalPlus' split {split!r} has no task {task_id!r}.{hint}", *loaded.missing)))
    return Found(loaded.problems[task_id], split, loaded.version)


def task_of(problem: Problem, split: str) -> Task:
    return Task(
        benchmark=source.NAME,
        id=problem.id,
        category=problem.category,
        split=split,
        cluster=problem.upstream_id,
        digest=problem.digest,
    )


@lru_cache(maxsize=8)
def tasks_of(split: str, version: str) -> tuple[Task, ...]:
    return tuple(task_of(problem, split) for problem in load(split).problems.values())
