"""Many episodes at once, in threads: what is played, what is played again, and how a run ends early.

Workers take jobs from one lazy list, play them with the retries that the failure's class allows (`harness/limits.py`), and
store each as it ends; only counts stay in memory. The main thread alone shows progress and hears signals: the first
SIGINT or SIGTERM lets the running episodes finish and starts nothing new, the second ends the process, and both leave a
store that `--resume` goes on with.

Workers are daemon threads, since an agent may hang where nothing can stop it. With a time limit such an
episode is given up (`harness/episode.py`) and its thread is left behind; more than `MOST_HUNG` of them end the run.
"""

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from agents.base import Agent, Waiting
from envs.base import HarnessEnv
from harness.episode import after, play
from harness.interrupts import Interrupts
from harness.limits import RETRIES, Limits, Retry, next_wait
from harness.progress import Played, Progress
from trajectories.failures import InfrastructureError, InputError
from trajectories.schema import EpisodeKey, Failure, Trajectory
from trajectories.store import Store

MOST_HUNG = 64
"""Threads of given-up episodes that a run bears."""

LOOK_S = 1.0
"""How long nothing may be heard of any episode before the agents are asked what they wait on, seconds."""

REPEAT_S = 30.0
"""Seconds between two sentences about that."""

BREAKER = 10
"""Tries in a row that the infrastructure broke, after which the run stops: nothing gets through. At least two a thread."""


class NothingGetsThrough(InfrastructureError):
    """What every further episode would break on: the run stops, and goes on once that is mended."""


class Job(NamedTuple):
    """One episode to play."""

    key: EpisodeKey
    make: Callable[[], HarnessEnv]
    agent: Agent
    data: str
    before: Trajectory | None = None
    """What the store has of it where a fault of ours broke it: what that cost is not forgotten."""


class Settings(NamedTuple):
    """How a runner plays."""

    limits: Limits = Limits()
    concurrency: int = 1
    grader: str = "official"
    """Whose score the progress shows."""
    retries: dict[str, Retry] = RETRIES


class _Ended(NamedTuple):
    """A worker's last word."""

    error: BaseException | None


class Runner:
    """Plays jobs into a store. One use."""

    def __init__(
        self,
        store: Store,
        jobs: Iterable[Job],
        progress: Progress,
        settings: Settings,
        interrupts: Interrupts | None = None,
    ) -> None:
        self._store, self._progress, self._settings = store, progress, settings
        self._jobs = iter(jobs)
        self._jobs_lock = threading.Lock()
        self._interrupts = interrupts or Interrupts()
        self._stopping = self._interrupts.stopping
        self._heard: queue.SimpleQueue[Played | str | _Ended] = queue.SimpleQueue()
        self._broken_in_a_row = 0
        self._nothing_gets_through = ""
        self._unmetered: set[str] = set()
        self._waiting: dict[int, Waiting] = {}
        self._say_again_at = 0.0

    def run(self) -> None:
        """Play until nothing is left or something ends the run.

        Raises InputError and InfrastructureError where one ends it, and KeyboardInterrupt at the second signal. Every
        episode that was counted is in the store by then.
        """
        for number in range(self._settings.concurrency):
            threading.Thread(target=self._work, daemon=True, name=f"worker-{number}").start()
        error = None
        self._interrupts.abortable = True
        try:
            for _ in range(self._settings.concurrency):
                error = self._listen() or error
        finally:
            self._interrupts.abortable = False
        if error is not None:
            raise error

    def _listen(self) -> BaseException | None:
        """Show what workers say until one of them ends; its error, if one ended it."""
        while True:
            try:
                heard = self._heard.get(timeout=LOOK_S)
            except queue.Empty:
                self._say_what_it_waits_on()
                continue
            if isinstance(heard, _Ended):
                if heard.error is not None:
                    self._stopping.set()
                return heard.error
            if isinstance(heard, str):
                self._progress.note(heard)
            else:
                self._progress.add(heard)

    def _say_what_it_waits_on(self) -> None:
        if time.monotonic() < self._say_again_at or self._stopping.is_set():
            return
        for trouble in filter(None, [agent.trouble() for agent in list(self._waiting.values())]):
            self._progress.note(f"Waiting, and asking again: {trouble}.")
            self._say_again_at = time.monotonic() + REPEAT_S

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            while (job := self._next_job()) is not None:
                trajectory = self._play(job)
                self._store.append(trajectory)
                self._tell(trajectory)
                self._check_broken()
        except (InputError, InfrastructureError) as known:
            error = known
        finally:
            # Anything else is a bug: the thread reports it, and the run must not wait for the thread.
            self._heard.put(_Ended(error or sys.exc_info()[1]))

    def _next_job(self) -> Job | None:
        with self._jobs_lock:
            if self._stopping.is_set():
                return None
            self._check_hung()
            job = next(self._jobs, None)
            if job is not None and id(job.agent) not in self._waiting and isinstance(job.agent, Waiting):
                job.agent.watch(self._stopping)
                self._waiting[id(job.agent)] = job.agent
            return job

    def _play(self, job: Job) -> Trajectory:
        tries, trajectory = 0, job.before
        while True:
            tries += 1
            played = play(job.make, job.agent, job.key, self._settings.limits, data=job.data)
            trajectory = after(trajectory, played)
            self._count_fault(trajectory.failure)
            if trajectory.failure is None:
                return trajectory
            wait_s = next_wait(trajectory.failure, tries, self._settings.retries)
            if wait_s is None or self._stopping.wait(wait_s):
                return trajectory

    def _tell(self, trajectory: Trajectory) -> None:
        failure = trajectory.failure
        self._check_usage(trajectory)
        self._heard.put(
            Played(
                agent=trajectory.key.agent,
                score=score_of(trajectory, self._settings.grader),
                boundary=failure.boundary if failure else None,
                message=failure.message if failure else "",
            )
        )

    def _count_fault(self, failure: Failure | None) -> None:
        if failure is None or failure.boundary != "infrastructure":
            self._broken_in_a_row = 0
            return
        self._broken_in_a_row += 1
        if self._broken_in_a_row >= max(BREAKER, 2 * self._settings.concurrency):
            self._nothing_gets_through = failure.message.rstrip(".")
            self._stopping.set()

    def _check_usage(self, trajectory: Trajectory) -> None:
        limits, usage, agent = self._settings.limits, trajectory.usage, trajectory.key.agent
        if not trajectory.steps or agent in self._unmetered:
            return
        unknown = [
            name
            for name, limit, value in (
                ("token", limits.tokens, usage.completion_tokens),
                ("cost", limits.cost_usd, usage.cost_usd),
            )
            if limit and value is None
        ]
        if unknown:
            self._unmetered.add(agent)
            self._heard.put(f"{agent} reports no {unknown[0]}s: --{unknown[0]}-limit does not hold for it.")

    def _check_broken(self) -> None:
        if self._nothing_gets_through:
            raise NothingGetsThrough(
                f"Nothing gets through any more, {self._broken_in_a_row} tries in a row broke outside the agent "
                f"({self._nothing_gets_through}): mend that."
            )

    def _check_hung(self) -> None:
        if not self._settings.limits.time_s:
            return
        hung = sum(thread.name == "episode" for thread in threading.enumerate()) - self._settings.concurrency
        if hung > MOST_HUNG:
            raise NothingGetsThrough(
                f"{hung} answers of agents are still hanging after their episodes were given up: "
                "raise --time-limit or mend the agent."
            )


def score_of(trajectory: Trajectory, grader: str) -> float | None:
    """The score that counts in tables: 0 for an agent's failure, None for a fault of ours."""
    if not trajectory.done:
        return None
    return trajectory.verdicts[grader].score if trajectory.failure is None else 0.0
