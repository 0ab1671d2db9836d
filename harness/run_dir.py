"""The folder of one run: what was planned (`run.json` and the task lists), the store, and who works in it.

RUN_DIR/run.json                  the plan, written atomically; a folder without it holds no run
RUN_DIR/tasks/NAME-DIGEST.jsonl   the chosen tasks of each benchmark, so that reports need no benchmark data
RUN_DIR/trajectories/             the store
RUN_DIR/report.*                  written at the end of each eval
RUN_DIR/lock                      held by the process that plays or changes the run
"""

import contextlib
import errno
import os
import socket
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Self

from pydantic import Field, ValidationError

from agents.base import Sampling
from envs.base import EnvSettings
from harness.limits import Limits
from trajectories.durable import try_lock, write_file
from trajectories.failures import InfrastructureError, InputError
from trajectories.schema import EpisodeKey, JsonObject, Record, Task, digest
from trajectories.store import FOLDER_IN_RUN, Store

_NOT_WRITABLE = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG}

_UNFINISHED = {"tasks", "lock"}
"""What a run's folder may hold when the process died before `run.json` was there."""


class BenchmarkPlan(Record):
    """One benchmark of a run: which of its tasks, and how they are played."""

    name: str
    env_version: str
    data: str
    """The data's version: pinned, or `custom:` and 8 digits."""
    split: str
    settings: EnvSettings
    categories: tuple[str, ...] = ()
    """Filters as given; empty: all."""
    languages: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    limit: int = 0
    """At most this many tasks, first by id; 0: all."""
    tasks: int
    """How many tasks were chosen."""
    task_digest: str
    """Digest of the chosen tasks' ids and contents."""
    split_tasks: int = 0
    """How many tasks of the split there were to choose from; 0: an older run, which didn't say."""
    left_out: tuple[str, ...] = ()
    """What of the split can't be played here, though the filters would take it: a sentence each."""


def together(sentences: Iterable[str]) -> Iterator[str]:
    """Parts that are left out for the same reason in one text: `a is left out. Why.` and `b is left out. Why.` are `a, b. Why.`"""
    reasons: dict[str, list[str]] = {}
    for sentence in sentences:
        part, out, reason = sentence.partition(" is left out. ")
        reasons.setdefault(reason if out else sentence, []).extend([part] if out else [])
    yield from (f"{', '.join(parts)}. {reason}" if parts else reason for reason, parts in reasons.items())


class AgentPlan(Record):
    """One agent of a run. `config` is what makes it this agent; `spec` is how the command line named it."""

    spec: str
    name: str
    config: JsonObject


class NotRun(Record):
    """A benchmark that was asked for and can't be run here, with the reason and the way out."""

    benchmark: str
    reason: str


class Plan(Record):
    """Everything that decides what a run plays and how it is graded."""

    benchmarks: tuple[BenchmarkPlan, ...]
    agents: tuple[AgentPlan, ...]
    attempts: int = 1
    seed: int = 0
    grader: Literal["official", "strict"] = "official"
    """The grader that leads the tables; both grade every episode."""
    sampling: Sampling = Sampling()
    limits: Limits = Limits()
    not_run: tuple[NotRun, ...] = ()

    def episodes(self) -> int:
        """How many episodes the plan has, all agents together."""
        return len(self.agents) * self.attempts * sum(benchmark.tasks for benchmark in self.benchmarks)


class RunRecord(Record):
    """What `run.json` holds."""

    schema_version: Literal[1] = 1
    harness_version: str
    commit: str | None = None
    """Of the checkout that started the run, if it was one."""
    started: str = ""
    """When, in UTC, to the second. Like the commit it is in no report: equal runs have equal reports."""
    command: Literal["eval", "collect"]
    plan: Plan
    options: JsonObject = Field(default_factory=dict)
    """The options that led to the plan, as given: what `--resume` alone goes on with."""


class Planned(NamedTuple):
    """One planned episode."""

    id: str
    """The trajectory id."""
    key: EpisodeKey
    benchmark: BenchmarkPlan
    agent: AgentPlan


class Lock:
    """An advisory lock on a run: one process at a time plays, rescores or compacts it. Readers need none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        with _writing(self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        if not try_lock(descriptor):
            owner = os.read(descriptor, 1000).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            raise InputError(
                f"The run {str(self._path.parent)!r} is in use by {owner}: wait until it ends, or take another folder."
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._descriptor = descriptor
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class RunDir:
    """A run's folder, for reading and, under `lock()`, for writing."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record

    @classmethod
    def create(cls, path: Path, record: RunRecord, tasks: Mapping[str, Sequence[Task]]) -> Self:
        """Start a run in a free folder (`check_free`). `tasks` are the chosen tasks by benchmark name."""
        check_free(path)
        run = cls(path, record)
        with _writing(path):
            (path / "tasks").mkdir(parents=True, exist_ok=True)
        run.write(record, tasks)
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """The run in this folder; InputError where there is none or its record can't be read."""
        file = path / "run.json"
        if not file.is_file():
            raise InputError(f"There is no run in {str(path)!r}: it has no run.json.")
        try:
            return cls(path, RunRecord.model_validate_json(file.read_bytes()))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the whole file"
            raise InputError(
                f"{str(file)!r} is damaged or from another version of the harness ({where}: {first['msg']})."
            ) from None

    def write(self, record: RunRecord, tasks: Mapping[str, Sequence[Task]]) -> None:
        """Replace the plan; a crash leaves the old one or the new one whole."""
        with _writing(self.path):
            for benchmark in record.plan.benchmarks:
                lines = [task.model_dump_json() + "\n" for task in tasks[benchmark.name]]
                write_file(self._task_file(benchmark), "".join(lines).encode())
            write_file(self.path / "run.json", record.model_dump_json(indent=2).encode() + b"\n")
            self.record = record
            self._remove_old_task_files()

    def lock(self) -> Lock:
        """A context in which this process alone changes the run; InputError that names the owner if it is taken."""
        return Lock(self.path / "lock")

    @property
    def store_path(self) -> Path:
        return self.path / FOLDER_IN_RUN

    @property
    def has_store(self) -> bool:
        """False before the first episode is played."""
        return (self.store_path / "store.json").is_file()

    def store(self, *, writable: bool = False) -> Store:
        """The trajectories; the store is made where it is missing and `writable` is asked for."""
        if writable and not self.has_store:
            return Store.create(self.store_path)
        return Store.open(self.store_path, writable=writable)

    def tasks(self, benchmark: BenchmarkPlan) -> list[Task]:
        """The chosen tasks of one benchmark, by id."""
        file = self._task_file(benchmark)
        try:
            lines = file.read_bytes().splitlines()
        except FileNotFoundError:
            raise InputError(f"{str(file)!r} is missing: the run's folder is incomplete.") from None
        tasks = [Task.model_validate_json(line) for line in lines]
        if task_digest(tasks) != benchmark.task_digest:
            raise InputError(f"{str(file)!r} was changed: it doesn't match the digest in run.json.")
        return tasks

    def planned(self) -> Iterator[Planned]:
        """Every planned episode in playing order: by agent, benchmark, attempt, and task id."""
        plan = self.record.plan
        for agent in plan.agents:
            for benchmark in plan.benchmarks:
                tasks = self.tasks(benchmark)
                for attempt in range(plan.attempts):
                    for task in tasks:
                        key = episode_key(task, benchmark, agent, seed=plan.seed, attempt=attempt)
                        yield Planned(key.trajectory_id(), key, benchmark, agent)

    def _task_file(self, benchmark: BenchmarkPlan) -> Path:
        return self.path / "tasks" / f"{benchmark.name}-{benchmark.task_digest[:16]}.jsonl"

    def _remove_old_task_files(self) -> None:
        current = {self._task_file(benchmark) for benchmark in self.record.plan.benchmarks}
        for file in (self.path / "tasks").iterdir():
            if file not in current:
                file.unlink()


@contextlib.contextmanager
def changing(path: Path) -> Generator[None]:
    """Change what a run stored: under the run's lock, where `path` is a run's folder and not a store alone."""
    if not (path / "run.json").is_file():
        yield
        return
    with Lock(path / "lock"):
        yield


def check_free(path: Path) -> None:
    """InputError unless a run can be started in this folder: it is new, empty, or was left before `run.json` was there."""
    with _writing(path):
        if (path / "run.json").exists():
            raise InputError(
                f"{str(path)!r} already holds a run: go on with it by --resume, or take another folder by -o."
            )
        if path.exists() and not path.is_dir():
            raise InputError(f"{str(path)!r} is a file: name another folder for the run by -o.")
        if path.is_dir() and not all(entry.name in _UNFINISHED or entry.suffix == ".tmp" for entry in path.iterdir()):
            raise InputError(f"{str(path)!r} is not empty and holds no run: name another folder by -o.")


def episode_key(task: Task, benchmark: BenchmarkPlan, agent: AgentPlan, *, seed: int, attempt: int) -> EpisodeKey:
    """The identity of one planned episode. `seed` is the run's; the episode's own is derived from the key."""
    return EpisodeKey(
        task=task,
        env_version=benchmark.env_version,
        env_settings=benchmark.settings.model_dump(mode="json"),
        agent=agent.name,
        agent_config=agent.config,
        seed=seed,
        attempt=attempt,
    )


def task_digest(tasks: Sequence[Task]) -> str:
    """Digest of a set of tasks: ids, contents and what they are filed under."""
    return digest([task.model_dump(mode="json") for task in tasks])


@contextlib.contextmanager
def _writing(path: Path) -> Generator[None]:
    """An OSError inside becomes one sentence that names the run's folder."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_WRITABLE:
            raise InputError(f"Can't write to {str(path)!r} ({error.strerror}): name another folder by -o.") from None
        raise InfrastructureError(f"Can't write to {str(path)!r}: {error.strerror}.") from None
