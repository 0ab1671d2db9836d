"""A benchmark for tests of the harness itself: tiny episodes with a tool, a hidden state and nothing to download.

The task `toy_0007` is won by three calls of `add` with the numbers 0, 7 and 14. `TOY_TASKS` in the environment says how
many tasks there are (20), `TOY_FAULT` which fault the environments have: `CLASS@SUBSTRING`, raised in `step` of the tasks
whose id holds the substring.
"""

import builtins
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs import registry
from envs.base import (
    Answer,
    Complete,
    EnvSettings,
    GradedRow,
    HarnessEnv,
    Opening,
    Prediction,
    Score,
    TaskScore,
)
from trajectories import failures
from trajectories.failures import InputError
from trajectories.schema import (
    Action,
    CallRecord,
    Message,
    Task,
    ToolCall,
    ToolSpec,
    Trajectory,
    Verdict,
    digest,
)

STEPS = 3
ADD = ToolSpec(
    name="add",
    description="Add a number to the sum.",
    parameters={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
)
CATEGORIES = ("even", "odd")


def task_of(index: int) -> Task:
    category = CATEGORIES[index % 2]
    task_id = f"toy_{index:05d}"
    return Task(
        benchmark="toy",
        id=task_id,
        category=category,
        split="test",
        cluster=f"c{index // 4}",
        digest=digest({"id": task_id, "steps": STEPS}),
    )


class ToyEnv(HarnessEnv):
    def _load(self, task_id: str) -> Task:
        if not task_id.startswith("toy_"):
            raise InputError(f"Unknown task {task_id!r}.")
        return task_of(int(task_id.removeprefix("toy_")))

    def _open(self, rng: random.Random) -> Opening:
        self._numbers: list[int] = []
        text = f"Add three multiples of {self.task.id}. Today's word is {rng.randrange(10**6)}."
        return Opening((Message(role="user", content=text),), (ADD,))

    def _answer(self, action: Action) -> Answer:
        _fault(self.task.id)
        if not action.tool_calls:
            return Answer(ended=True)
        messages, records = [], []
        for call in action.tool_calls:
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            self._numbers.append(int(arguments.get("number", 0)))
            text = str(sum(self._numbers))
            messages.append(Message(role="tool", content=text, tool_call_id=call.id, name=call.name))
            records.append(CallRecord(name=call.name, arguments=call.arguments, result=text))
        return Answer(tuple(messages), ended=len(self._numbers) >= STEPS, calls=tuple(records))

    def state_digest(self) -> str | None:
        return digest(list(self._numbers))

    def verdicts(self) -> dict[str, Verdict]:
        return _verdicts(self.task, self._numbers)

    def reference_actions(self) -> tuple[Action, ...]:
        return tuple(
            Action(tool_calls=(ToolCall(id=f"call_{n}", name="add", arguments={"number": number}),))
            for n, number in enumerate(_wanted(self.task))
        )


class Toy:
    name = "toy"
    title = "Toy"
    env_version = "1"
    categories = CATEGORIES
    splits = ("test", "sample")
    languages = ("en",)
    profiles = ("default",)
    headline = "overall"
    runs_code = False
    unwinnable: frozenset[str] = frozenset()

    def unavailable(self, split: str) -> str | None:
        return os.environ.get("TOY_UNAVAILABLE") or None

    def missing(self, split: str) -> Sequence[str]:
        return ()

    def resolve(self, settings: EnvSettings, split: str) -> EnvSettings:
        return settings

    def known(self, task_id: str) -> bool:
        return task_id.startswith("toy_")

    def data_version(self, split: str) -> str:
        return "toy-1"

    def tasks(self, split: str) -> Sequence[Task]:
        return [task_of(index) for index in range(int(os.environ.get("TOY_TASKS", "20")))]

    def make(self, task_id: str, settings: EnvSettings, *, user: Complete | None = None) -> HarnessEnv:
        return ToyEnv(task_id, settings)

    def verdicts(self, trajectory: Trajectory) -> dict[str, Verdict]:
        calls = [call for step in trajectory.steps for call in step.action.tool_calls]
        return _verdicts(trajectory.task, [int(dict(call.arguments)["number"]) for call in calls])  # type: ignore[arg-type]

    def read_predictions(self, path: Path, options: Mapping[str, str]) -> Iterator[Prediction]:
        raise InputError("The toy benchmark reads no predictions.")

    def grade(self, predictions: Iterable[Prediction], grader: str) -> Iterator[GradedRow]:
        raise InputError("The toy benchmark grades no predictions.")

    def aggregate(self, scores: Sequence[TaskScore]) -> tuple[Score, ...]:
        cells = [_cell("overall", scores)]
        cells += [_cell(name, [score for score in scores if score.task.category == name]) for name in CATEGORIES]
        return tuple(cells)


def register() -> None:
    """Add the row to the registry, as a new benchmark of the project would."""
    registry.BENCHMARKS["toy"] = "toybench:Toy"


def _wanted(task: Task) -> list[int]:
    return [n * int(task.id.removeprefix("toy_")) for n in range(STEPS)]


def _verdicts(task: Task, numbers: Sequence[int]) -> dict[str, Verdict]:
    right = list(numbers) == _wanted(task)
    detail: dict[str, Any] = {"numbers": list(numbers)}
    return {
        name: Verdict(grader=f"{name}@toy-1", passed=right, score=float(right), detail=detail)
        for name in ("official", "strict")
    }


def _cell(name: str, scores: Sequence[TaskScore]) -> Score:
    known = {(score.task.id, score.attempt): score.score for score in scores if score.score is not None}
    tasks, graded = {score.task.id for score in scores}, {task_id for task_id, _ in known}
    return Score(name, sum(known.values()) / len(known) if known else None, len(tasks), len(graded))


def _fault(task_id: str) -> None:
    kind, _, where = os.environ.get("TOY_FAULT", "").partition("@")
    if kind and where in task_id:
        raise getattr(failures, kind, getattr(builtins, kind, RuntimeError))(f"{task_id} is broken on purpose")
