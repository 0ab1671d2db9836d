"""LiveCodeBench: contest problems from May 2023 on, by release or by date, and any set of code tasks in its record form.

Source: LiveCodeBench/LiveCodeBench at 28fef95 (2025-07-16); paper: Jain et al., "LiveCodeBench: Holistic and Contamination Free Evaluation
of Large Language Models for Code", 2024; data: livecodebench/code_generation_lite on Hugging Face. The `official` grader gives the verdicts
and result codes of that commit, quirks included; `strict` runs programs as real processes and mends them (`official.py`, `strict.py`).

Known differences from upstream: those named in `official.py`, `env.py`, `releases.py` (the whole last day of a window counts) and
`aggregate.py`; prompts have upstream's structure in our own words.

One task: {"question_id": "1873_A", "question_content": "There are three cards ...", "platform": "codeforces", "difficulty": "easy",
"public_test_cases": "[{\"input\": ...}]", "private_test_cases": "eJxr...", ...}.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import cast

from envs import data, judging
from envs.base import Complete, EnvSettings, GradedRow, Prediction, Score, TaskScore
from envs.livecodebench import aggregate, dataset, grading, predictions, tasks
from envs.livecodebench.env import CodeTasksEnv, LiveCodeBenchEnv
from envs.livecodebench.errata import ERRATA
from envs.livecodebench.records import DIFFICULTIES, UNRATED
from envs.livecodebench.releases import Splits
from trajectories.schema import Task, Trajectory, Verdict


class LiveCodeBench:
    """The `Benchmark` of code generation (and, by profile, of self-repair)."""

    name = "livecodebench"
    title = "LiveCodeBench, code generation"
    env_version = "1"
    languages = ("en",)
    profiles = tasks.PROFILES
    headline = aggregate.HEADLINE
    runs_code = True
    unwinnable = ERRATA
    make_env: type[LiveCodeBenchEnv] = LiveCodeBenchEnv

    @property
    def splits(self) -> tuple[str, ...]:
        return Splits(("test", "sample"))

    @property
    def categories(self) -> tuple[str, ...]:
        return (*DIFFICULTIES, UNRATED)

    def unavailable(self, split: str) -> str | None:
        if split != "sample" and data.current(self.name) is None:
            return (
                f"The data of {self.name} is not pulled: run 'harness data pull {self.name}', or take '--split sample'."
            )
        return judging.unavailable()

    def missing(self, split: str) -> tuple[str, ...]:
        return dataset.load(self.name, split).missing

    def data_version(self, split: str) -> str:
        return dataset.load(self.name, split).version

    def tasks(self, split: str) -> Sequence[Task]:
        return tasks.tasks_of(self.name, dataset.load(self.name, split), split)

    def resolve(self, settings: EnvSettings, split: str) -> EnvSettings:
        return tasks.resolve(self.name, settings)

    def make(self, task_id: str, settings: EnvSettings, *, user: Complete | None = None) -> LiveCodeBenchEnv:
        return self.make_env(task_id, settings)

    def verdicts(self, trajectory: Trajectory) -> dict[str, Verdict]:
        settings = EnvSettings.model_validate(trajectory.key.env_settings)
        return self.make_env(trajectory.task.id, settings).regrade(trajectory.steps)

    def known(self, task_id: str) -> bool:
        return tasks.known(self.name, task_id)

    def read_predictions(self, path: Path, options: Mapping[str, str]) -> Iterator[Prediction]:
        rows = [row for split in tasks.readable(self.name) for row in dataset.load(self.name, split).rows.values()]
        return predictions.read(path, options, {row.id: row.category for row in rows})

    def grade(self, predictions: Iterable[Prediction], grader: str) -> Iterator[GradedRow]:
        """As many at once as there are jails, in the order of the predictions."""
        remaining = iter(predictions)
        with ThreadPoolExecutor(judging.workers()) as threads:
            while some := list(islice(remaining, 16 * judging.workers())):
                yield from threads.map(lambda prediction: self._graded(prediction, grader), some)

    def aggregate(self, scores: Sequence[TaskScore]) -> tuple[Score, ...]:
        """Over the tasks that have scores; without any, over all that are here. Other tasks are no part of a window."""
        split = scores[0].task.split if scores else self.splits[0]
        known = self.unavailable(split) is None and split in self.splits
        rows = dataset.load(self.name, split).rows if known else {}
        about = {row.id: aggregate.About(row.category, row.platform, row.contest_date) for row in rows.values()}
        for score in scores:
            about.setdefault(score.task.id, aggregate.About(score.task.category, "", ""))
        return aggregate.table(scores, about)

    def _graded(self, prediction: Prediction, grader: str) -> GradedRow:
        row, _, version = tasks.find(self.name, prediction.task_id)
        problem = row.problem()
        ran = grading.run(problem, cast("predictions.Code", prediction.output).text, grader)
        return GradedRow(prediction.task_id, prediction.attempt, grading.verdict(problem, ran, grader, version))


class CodeTasks(LiveCodeBench):
    """Your own tasks in LiveCodeBench's record form, a split for each `harness data pull code-tasks --from FILE --split NAME`."""

    name = "code-tasks"
    title = "Code tasks of your own"
    unwinnable: frozenset[str] = frozenset()
    make_env = CodeTasksEnv

    @property
    def splits(self) -> tuple[str, ...]:
        return (*dataset.pulled_splits(self.name), "sample")

    @property
    def categories(self) -> tuple[str, ...]:
        rows = [row for split in tasks.readable(self.name) for row in dataset.load(self.name, split).rows.values()]
        return tuple(dict.fromkeys((*DIFFICULTIES, UNRATED, *sorted(row.category for row in rows))))
