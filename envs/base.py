"""What every benchmark provides: the one `gymnasium.Env` base class, and the `Benchmark` protocol above it.

An environment is one episode of one task. A subclass says how the episode opens (`_open`) and how it answers an
action (`_answer`); this class keeps the rules that all environments share (`envs/contract.py` checks them).
A benchmark lists tasks, makes environments, grades and aggregates; its folder is all that it costs.
"""

import random
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import gymnasium

from envs.spaces import ActionSpace, ConversationSpace
from trajectories.failures import InputError
from trajectories.schema import Action, CallRecord, Message, Record, Task, ToolSpec, Trajectory, Verdict

GRADERS = ("official", "strict")

Complete = Callable[[Sequence[Message]], Message]
"""A completion function: how a simulated user speaks. It is injected, since environments know no agents."""


class EnvSettings(Record):
    """How a benchmark's episodes are played. All of it is part of a trajectory's identity."""

    mode: Literal["prompt", "fc"] = "fc"
    """`fc`: tools are passed natively. `prompt`: tools stand in the system prompt and calls are text."""
    profile: str = "default"
    """A named variant of the benchmark's episode rules; each benchmark lists its own."""
    texts: Literal["official", "ours"] = "official"
    """Whose wording the prompts have; `official` is loaded from the pulled data."""
    max_steps: int = 0
    """Truncate after this many actions, with the limit named `max_steps`. 0: only the benchmark's own limits."""


class Opening(NamedTuple):
    """How an episode starts."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


class Answer(NamedTuple):
    """How an environment answers one action. `limit` names the limit that truncates; with it `ended` must be False."""

    messages: tuple[Message, ...] = ()
    ended: bool = False
    limit: str | None = None
    calls: tuple[CallRecord, ...] = ()
    parse_error: str | None = None
    turn: int = 0
    """Index of the user turn in which the action was taken."""


class HarnessEnv(gymnasium.Env[tuple[Message, ...], Action]):
    """One episode of one task.

    The observation is the tuple of messages that are new since the last action. `info` has `tools` (what may be
    called now), `task`, and after a step `calls`, `parse_error`, `turn`, `state`, `limit`. The reward is 0 until
    the episode ends, then the official score, also where a limit truncates it. `terminated` and `truncated` are
    never both true. Same seed and same actions give the same bytes. `step` before `reset` or after the end raises
    RuntimeError, and TypeError for what is no Action; an environment without a task InputError.
    """

    def __init__(self, task: str | None = None, settings: EnvSettings | None = None) -> None:
        if not isinstance(task, str):
            raise InputError(
                f"An environment is one task's, not {task!r}'s: name it, as in make(ID, task=\"...\"); "
                "'harness list tasks BENCH' shows the ids."
            )
        self.settings = settings or EnvSettings()
        self.observation_space = ConversationSpace()
        self.action_space = ActionSpace(lambda: self.tools)
        self.tools: tuple[ToolSpec, ...] = ()
        self.task: Task = self._load(task)
        self._steps = 0
        self._phase: Literal["new", "open", "over"] = "new"

    @abstractmethod
    def _load(self, task_id: str) -> Task:
        """Fetch the row of this task; InputError for an id that the data lacks."""

    @abstractmethod
    def _open(self, rng: random.Random) -> Opening:
        """Start the episode afresh. May set `self.tools` later by returning new ones from `_answer`."""

    @abstractmethod
    def _answer(self, action: Action) -> Answer:
        """React to one action. To change the tools, assign `self.tools`."""

    @abstractmethod
    def verdicts(self) -> dict[str, Verdict]:
        """Every grader's verdict on the episode as it stands, by grader name (`GRADERS`)."""

    @abstractmethod
    def reference_actions(self) -> tuple[Action, ...]:
        """A correct play, from the ground truth. Privileged: for the oracle and for tests, never shown to a model.

        A task without a ground truth gives the actions of a play that the official grader passes, if there is one.
        """

    def state_digest(self) -> str | None:
        """Digest of the hidden state, to tell polling from waste; None where there is no state."""
        return None

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[tuple[Message, ...], dict[str, Any]]:
        super().reset(seed=seed)
        unknown = set(options or {}) - {"task"}
        if unknown:
            raise InputError(f"Unknown reset option {sorted(unknown)[0]!r}. Known: 'task', the id of another task.")
        if options and options.get("task") is not None:
            self.task = self._load(options["task"])
        opening = self._open(random.Random(int(self.np_random.integers(2**63))))
        self.tools = opening.tools
        self._steps, self._phase = 0, "open"
        return opening.messages, {"tools": self.tools, "task": self.task}

    def step(self, action: Action) -> tuple[tuple[Message, ...], float, bool, bool, dict[str, Any]]:
        if not isinstance(action, Action):  # pyright: ignore[reportUnnecessaryIsInstance] - not everybody checks types
            raise TypeError(
                f"step takes an Action, not {type(action).__name__}: from trajectories.schema import Action; "
                'Action(content="...") says something.'
            )
        if self._phase != "open":
            raise RuntimeError("The episode is over, or was never opened: call reset() before step().")
        answer = self._answer(action)
        self._steps += 1
        limit = answer.limit
        if not answer.ended and limit is None and self._steps == self.settings.max_steps:
            limit = "max_steps"
        over = answer.ended or limit is not None
        if over:
            self._phase = "over"
        reward = self.verdicts()["official"].score if over else 0.0
        info: dict[str, Any] = {
            "tools": self.tools,
            "task": self.task,
            "calls": answer.calls,
            "parse_error": answer.parse_error,
            "turn": answer.turn,
            "state": self.state_digest(),
            "limit": limit,
        }
        return answer.messages, reward, answer.ended, limit is not None, info

    def close(self) -> None:
        self._phase = "over"


class Prediction(NamedTuple):
    """One solution of a predictions file: upstream's task id, the attempt, and the benchmark's own raw output."""

    task_id: str
    attempt: int
    output: Any
    written_id: str | None = None
    """The id as the file writes it, where a file of another version names the task otherwise; None: as `task_id`."""


class GradedRow(NamedTuple):
    """One line of `harness grade`: see design 10."""

    task_id: str
    attempt: int
    verdict: Verdict


class TaskScore(NamedTuple):
    """What an aggregation reads of one episode. `score` None: no verdict, by a fault of ours."""

    task: Task
    attempt: int
    score: float | None


def task_means(scores: Iterable[TaskScore]) -> dict[str, list[float]]:
    """The mean over attempts of each task that has a verdict, by category, in the order of the scores."""
    attempts: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for score in scores:
        if score.score is not None:
            attempts[score.task.category, score.task.id].append(score.score)
    means: defaultdict[str, list[float]] = defaultdict(list)
    for (category, _), values in attempts.items():
        means[category].append(sum(values) / len(values))
    return dict(means)


class Score(NamedTuple):
    """One cell of a score table, in [0, 1]. `n` tasks are in the denominator that upstream uses (all rows of the
    data), `graded` of them have a verdict. `value` None: nothing of it was run."""

    name: str
    value: float | None
    n: int
    graded: int


class Benchmark(Protocol):
    """A set of tasks with its environments and graders. One registry row in `envs/registry.py` names it."""

    name: str
    title: str
    env_version: str
    """Bump it when the same actions may give other bytes: it is part of each trajectory's identity."""
    categories: tuple[str, ...]
    splits: tuple[str, ...]
    """The first is the default. `sample` is the handful of self-written tasks that ship with the project."""
    languages: tuple[str, ...]
    profiles: tuple[str, ...]
    headline: str
    """Name of the `Score` that ranks agents."""
    runs_code: bool
    """Whether grading or playing runs code that models wrote: in the sandbox of `envs/judging.py`."""
    unwinnable: frozenset[str]
    """Ids of tasks that the official grader passes for no answer, however right: scores are shown with and without."""

    def unavailable(self, split: str) -> str | None:
        """Why this machine can't run the split (no data, no sandbox), in one sentence with the way out; None: it can."""
        ...

    def missing(self, split: str) -> Sequence[str]:
        """What an available split lacks here (a part of the data), one sentence each with the way out."""
        ...

    def resolve(self, settings: EnvSettings, split: str) -> EnvSettings:
        """The settings that episodes of this split really have: what a run records, and `make(...).settings` says too.

        InputError for settings that the benchmark or this machine can't honour.
        """
        ...

    def data_version(self, split: str) -> str:
        """Names the data that is in use: a pinned version, or `custom:` and 8 digits."""
        ...

    def tasks(self, split: str) -> Sequence[Task]:
        """All tasks of the split, in upstream's order."""
        ...

    def make(self, task_id: str, settings: EnvSettings, *, user: Complete | None = None) -> HarnessEnv:
        """A new environment for one task; environments share nothing that an episode can change."""
        ...

    def verdicts(self, trajectory: Trajectory) -> dict[str, Verdict]:
        """Grades a stored trajectory anew, without a model: what `Env.verdicts` said at its end, by today's code."""
        ...

    def known(self, task_id: str) -> bool:
        """Whether some split that this machine can read has the task."""
        ...

    def read_predictions(self, path: Path, options: Mapping[str, str]) -> Iterator[Prediction]:
        """The solutions of a predictions file, in its order; `options` are grade's flags (category, language, dots)."""
        ...

    def grade(self, predictions: Iterable[Prediction], grader: str) -> Iterator[GradedRow]:
        """One row for each prediction, in order. A task id that the data lacks raises InputError: filter before."""
        ...

    def aggregate(self, scores: Sequence[TaskScore]) -> tuple[Score, ...]:
        """The official score table over the attempts of one agent, by one grader, `headline` first."""
        ...


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that isn't there: names the near ones, then all."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    return InputError(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
