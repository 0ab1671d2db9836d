"""BFCL-v3, the Berkeley Function Calling Leaderboard: 4,441 tasks in 17 categories, single calls to 8-turn dialogues.

Source: ShishirPatil/gorilla, the wheel bfcl-eval 2025.8.6.2 (sha256 fdb996ac...a228d), the last one with v3 data; paper:
Patil et al., "The Berkeley Function Calling Leaderboard", ICML 2025. The `official` grader gives the verdicts of that wheel's
checker and the table that of its leaderboard; `strict` mends what is wrong in them (`strict.py`, `multi_turn.py`).

Known differences from upstream: outputs on which its checker crashes get a stated verdict (they fail); questions and
answers are joined by id, not by position; and those of `env.py` and `schemas.py` in how an episode is played.

One task: {"id": "simple_0", "question": [[{"role": "user", "content": "..."}]], "function": [{"name": ..., "parameters": ...}]}.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from envs import data
from envs.base import GRADERS, Complete, EnvSettings, GradedRow, Prediction, Score, TaskScore
from envs.bfcl import aggregate, dataset, grading, predictions, tasks
from envs.bfcl.env import BFCLEnv
from envs.bfcl.source import CATEGORIES
from trajectories.schema import Task, Trajectory, Verdict


class BFCLv3:
    """The `Benchmark` of this folder."""

    name = tasks.NAME
    title = "Berkeley Function Calling Leaderboard v3"
    env_version = "1"
    categories = CATEGORIES
    splits = dataset.SPLITS
    languages = ("en",)
    profiles = tasks.PROFILES
    headline = "overall"
    runs_code = False
    unwinnable = frozenset(tasks.UNWINNABLE)

    def unavailable(self, split: str) -> str | None:
        if split == "test" and data.current(self.name) is None:
            return "The BFCL-v3 data is not pulled: run 'harness data pull bfcl-v3', or take '--split sample'."
        return None

    def missing(self, split: str) -> tuple[str, ...]:
        return dataset.load(split).missing

    def data_version(self, split: str) -> str:
        return dataset.load(split).version

    def tasks(self, split: str) -> Sequence[Task]:
        return tasks.tasks_of(dataset.load(split), split)

    def resolve(self, settings: EnvSettings, split: str) -> EnvSettings:
        return tasks.resolve(settings, split)

    def make(self, task_id: str, settings: EnvSettings, *, user: Complete | None = None) -> BFCLEnv:
        return BFCLEnv(task_id, settings)

    def verdicts(self, trajectory: Trajectory) -> dict[str, Verdict]:
        row, _, version = tasks.find(trajectory.task.id)
        mode = str(trajectory.key.env_settings["mode"])
        steps = ((step.turn, grading.raw_step(step.action, mode)) for step in trajectory.steps)
        output = tasks.raw_output(row, steps, mode)
        return {grader: grading.verdict(row, output, grader, version) for grader in GRADERS}

    def known(self, task_id: str) -> bool:
        return tasks.split_of(task_id) in self._readable() and task_id in dataset.load(tasks.split_of(task_id)).rows

    def read_predictions(self, path: Path, options: Mapping[str, str]) -> Iterator[Prediction]:
        rows = [row for split in self._readable() for row in dataset.load(split).rows.values()]
        questions = {row.id: row.question for row in rows if row.multi_turn}
        return predictions.read(path, options, questions)

    def grade(self, predictions: Iterable[Prediction], grader: str) -> Iterator[GradedRow]:
        for prediction in predictions:
            row, _, version = tasks.find(prediction.task_id)
            found = grading.verdict(row, prediction.output, grader, version)
            yield GradedRow(prediction.task_id, prediction.attempt, found)

    def aggregate(self, scores: Sequence[TaskScore]) -> tuple[Score, ...]:
        """Over the split of the scores; without any, over `test`.

        Counts are those of the data's files, tasks that can't be played here included; of a file that is not there the pinned one's.
        """
        split = scores[0].task.split if scores else "test"
        counts = dataset.load(split).counts if split in self._readable() else {}
        pinned = aggregate.PINNED_COUNTS if split == "test" else {}
        return aggregate.table(scores, {**pinned, **counts})

    def _readable(self) -> list[str]:
        return [split for split in self.splits if self.unavailable(split) is None]
