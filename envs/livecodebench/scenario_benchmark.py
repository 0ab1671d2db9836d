"""Test output prediction and code execution as benchmarks: one question, one answer, no tools.

Source, paper and known differences: `benchmark.py`, `output_prediction.py`, `execution.py`. The two graders differ where those say so.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs import data, judging
from envs.base import (
    GRADERS,
    Answer,
    Complete,
    EnvSettings,
    GradedRow,
    HarnessEnv,
    Opening,
    Prediction,
    Score,
    TaskScore,
    unknown_name,
)
from envs.livecodebench import aggregate, predictions, scenarios
from envs.livecodebench.grading import UPSTREAM
from envs.livecodebench.records import DIFFICULTIES, UNRATED
from envs.livecodebench.scenarios import CODE_EXECUTION, OUTPUT_PREDICTION, Row, Scenario
from trajectories.failures import InputError
from trajectories.schema import Action, CallRecord, Task, Trajectory, Verdict

STRICT_VERSION = 1


class ScenarioEnv(HarnessEnv):
    """One question of a scenario."""

    scenario: Scenario

    def __init__(self, task: str | None = None, settings: EnvSettings | None = None) -> None:
        super().__init__(task, resolve(self.scenario, settings or EnvSettings()))

    def _load(self, task_id: str) -> Task:
        self._row, split, self._version = find(self.scenario, task_id)
        return _task(self.scenario, self._row, split)

    def _open(self, rng: random.Random) -> Opening:
        self._said = ""
        self._verdicts: dict[str, Verdict] | None = None
        return Opening(self.scenario.messages(self._row.question, self.settings.profile))

    def _answer(self, action: Action) -> Answer:
        self._said, self._verdicts = action.content, None
        calls = tuple(CallRecord(name=c.name, arguments=c.arguments, error="not_executed") for c in action.tool_calls)
        return Answer((), True, None, calls)

    def verdicts(self) -> dict[str, Verdict]:
        if self._verdicts is None:
            answer = self.scenario.extract(self._said, self.settings.profile)
            self._verdicts = {g: verdict(self.scenario, self._row, answer, g, self._version) for g in GRADERS}
        return dict(self._verdicts)

    def reference_actions(self) -> tuple[Action, ...]:
        return (Action(content=self.scenario.reference(self._row.question)),)


class OutputPredictionEnv(ScenarioEnv):
    """One question of test output prediction."""

    scenario = OUTPUT_PREDICTION


class CodeExecutionEnv(ScenarioEnv):
    """One question of code execution."""

    scenario = CODE_EXECUTION


class ScenarioBenchmark:
    """The `Benchmark` of one scenario."""

    scenario: Scenario
    make_env: type[ScenarioEnv]
    form: predictions.Form
    env_version = "1"
    categories = (*DIFFICULTIES, UNRATED)
    splits = scenarios.SPLITS
    languages = ("en",)
    headline = aggregate.HEADLINE
    unwinnable: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.scenario.name

    @property
    def title(self) -> str:
        return self.scenario.title

    @property
    def runs_code(self) -> bool:
        return self.scenario.needs_sandbox

    @property
    def profiles(self) -> tuple[str, ...]:
        return self.scenario.profiles

    def unavailable(self, split: str) -> str | None:
        if split == "test" and data.current(self.name) is None:
            return (
                f"The data of {self.name} is not pulled: run 'harness data pull {self.name}', or take '--split sample'."
            )
        return judging.unavailable() if self.scenario.needs_sandbox else None

    def missing(self, split: str) -> tuple[str, ...]:
        return ()

    def data_version(self, split: str) -> str:
        return scenarios.load(self.scenario, split).version

    def tasks(self, split: str) -> Sequence[Task]:
        rows = scenarios.load(self.scenario, split).rows.values()
        return [_task(self.scenario, row, split) for row in rows]

    def resolve(self, settings: EnvSettings, split: str) -> EnvSettings:
        return resolve(self.scenario, settings)

    def make(self, task_id: str, settings: EnvSettings, *, user: Complete | None = None) -> ScenarioEnv:
        return self.make_env(task_id, settings)

    def verdicts(self, trajectory: Trajectory) -> dict[str, Verdict]:
        row, _, version = find(self.scenario, trajectory.task.id)
        said = trajectory.steps[-1].action.content if trajectory.steps else ""
        answer = self.scenario.extract(said, str(trajectory.key.env_settings["profile"]))
        return {grader: verdict(self.scenario, row, answer, grader, version) for grader in GRADERS}

    def known(self, task_id: str) -> bool:
        return any(task_id in scenarios.load(self.scenario, split).rows for split in _readable(self.scenario))

    def read_predictions(self, path: Path, options: Mapping[str, str]) -> Iterator[Prediction]:
        loaded = [scenarios.load(self.scenario, split).rows for split in _readable(self.scenario)]
        categories = {row.id: row.category for rows in loaded for row in rows.values()}
        return predictions.read(path, options, categories, self.form)

    def grade(self, predictions: Iterable[Prediction], grader: str) -> Iterator[GradedRow]:
        for prediction in predictions:
            row, _, version = find(self.scenario, prediction.task_id)
            found = verdict(self.scenario, row, prediction.output.text, grader, version)
            yield GradedRow(prediction.task_id, prediction.attempt, found)

    def aggregate(self, scores: Sequence[TaskScore]) -> tuple[Score, ...]:
        split = scores[0].task.split if scores else "test"
        known = split in _readable(self.scenario)
        rows = scenarios.load(self.scenario, split).rows if known else {}
        about = {row.id: aggregate.About(row.category, "", row.contest_date) for row in rows.values()}
        for score in scores:
            about.setdefault(score.task.id, aggregate.About(score.task.category, "", ""))
        return aggregate.table(scores, about)


class OutputPrediction(ScenarioBenchmark):
    """Test output prediction."""

    scenario = OUTPUT_PREDICTION
    make_env = OutputPredictionEnv
    form = predictions.Form(
        lambda row: f"{row['question_id']}_{row['test_id']}" if "test_id" in row else row.get("task_id"),
        {"pred_list": None, "output_list": lambda text: OUTPUT_PREDICTION.extract(text, "default")},
        {"output": lambda text: OUTPUT_PREDICTION.extract(text, "default")},
    )


class CodeExecution(ScenarioBenchmark):
    """Code execution."""

    scenario = CODE_EXECUTION
    make_env = CodeExecutionEnv
    form = predictions.Form(
        lambda row: row.get("id", row.get("task_id")),
        {"pred_list": None, "output_list": lambda text: CODE_EXECUTION.extract(text, "cot")},
        {"output": lambda text: CODE_EXECUTION.extract(text, "cot")},
    )


def resolve(scenario: Scenario, settings: EnvSettings) -> EnvSettings:
    """The texts are ours: upstream's are in no data that is pulled."""
    if settings.profile not in scenario.profiles:
        raise unknown_name(f"profile of {scenario.name}", settings.profile, scenario.profiles)
    return settings.model_copy(update={"texts": "ours"})


def find(scenario: Scenario, task_id: str) -> tuple[Row, str, str]:
    """Row, split and version of the data; InputError for an id that is not here."""
    for split in _readable(scenario):
        loaded = scenarios.load(scenario, split)
        if task_id in loaded.rows:
            return loaded.rows[task_id], split, loaded.version
    raise InputError(f"{scenario.name} has no task {task_id!r} here: 'harness data list' shows what is pulled.")


def verdict(scenario: Scenario, row: Row, answer: str, grader: str, data_version: str) -> Verdict:
    """The verdict on an extracted answer."""
    passed, error = scenario.passes(row.question, answer, grader)
    version = UPSTREAM if grader == "official" else str(STRICT_VERSION)
    python = f"-{judging.python()}" if scenario.needs_sandbox else ""
    detail: dict[str, Any] = {"codes": [passed], "category": row.category, "error": error or None}
    return Verdict(
        grader=f"{grader}-{version}{python}@{data_version}", passed=passed, score=float(passed), detail=detail
    )


def _readable(scenario: Scenario) -> list[str]:
    return [split for split in scenarios.SPLITS if split == "sample" or data.current(scenario.name) is not None]


def _task(scenario: Scenario, row: Row, split: str) -> Task:
    return Task(
        benchmark=scenario.name, id=row.id, category=row.category, split=split, cluster=row.problem, digest=row.digest
    )
