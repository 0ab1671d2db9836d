"""The runner below the command line: retries, order, early ends, threads that hang."""

import io
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import toyagents
import toybench

from agents.scripted import Oracle
from envs.base import EnvSettings
from harness import runner as runner_module
from harness.limits import RETRIES, Limits, Retry
from harness.progress import Silent, Tally
from harness.run_dir import AgentPlan, BenchmarkPlan, episode_key
from harness.runner import Job, Runner, Settings
from trajectories.failures import InfrastructureError
from trajectories.schema import Action
from trajectories.store import Store

BENCHMARK = BenchmarkPlan(
    name="toy", env_version="1", data="toy-1", split="test", settings=EnvSettings(), tasks=1, task_digest=""
)
NO_WAITS = {name: Retry(retry.times) for name, retry in RETRIES.items()}


def jobs(agent: Any, episodes: int) -> Iterator[Job]:
    plan = AgentPlan(spec="x", name=agent.name, config={})
    for index in range(episodes):
        task = toybench.task_of(index)
        yield Job(
            episode_key(task, BENCHMARK, plan, seed=0, attempt=0),
            lambda task_id=task.id: toybench.ToyEnv(task_id),
            agent,
            "toy-1",
        )


class Played:
    """A runner over a real store, and what became of it."""

    def __init__(self, path: Path, agent: Any, episodes: int, **settings: Any) -> None:
        self.tally = Tally(episodes)
        self.said = io.StringIO()
        self.store = Store.create(path / "store")
        given = Settings(**{"concurrency": 2, "retries": NO_WAITS, **settings})
        self.runner = Runner(self.store, jobs(agent, episodes), Silent(self.tally, self.said), given)


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Callable[..., Played]]:
    made: list[Played] = []

    def make(agent: Any, episodes: int, **settings: Any) -> Played:
        made.append(Played(tmp_path, agent, episodes, **settings))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


class Flaky(toyagents.Adder):
    """Fails so often for each task, then answers."""

    name = "flaky"

    def __init__(self, failures: int, error: Exception) -> None:
        self._left: Counter[str] = Counter()
        self._failures, self._error = failures, error
        self._lock = threading.Lock()

    def act(self, history: Any, tools: Any, *, seed: int) -> Action:
        with self._lock:
            self._left[history[0].content] += 1
            if self._left[history[0].content] <= self._failures:
                raise self._error
        return super().act(history, tools, seed=seed)


def test_a_passing_fault_is_retried_and_the_number_of_tries_is_recorded(played: Callable[..., Played]) -> None:
    run = played(Flaky(2, InfrastructureError("busy")), 6)
    run.runner.run()
    assert {trajectory.tries for trajectory in run.store} == {3}
    assert run.tally.owed == 0


def test_what_broken_tries_cost_is_in_the_record(played: Callable[..., Played]) -> None:
    class Unlucky(toyagents.Adder):
        """Pays for two steps, then breaks, twice for each task."""

        def __init__(self) -> None:
            self.steps: Counter[str] = Counter()

        def act(self, history: Any, tools: Any, *, seed: int) -> Action:
            task = history[0].content
            self.steps[task] += 1
            time.sleep(0.01)
            if self.steps[task] in (3, 6):
                raise InfrastructureError("busy")
            return super().act(history, tools, seed=seed)

    run = played(Unlucky(), 4)
    run.runner.run()
    for trajectory in run.store:
        assert (trajectory.tries, len(trajectory.steps)) == (3, 3)
        assert (trajectory.usage.prompt_tokens, trajectory.usage.completion_tokens) == (70, 35)
        assert trajectory.usage.cost_usd == pytest.approx(0.007)
        assert trajectory.timing is not None
        assert trajectory.timing.wall_s > trajectory.timing.agent_s >= 0.09


def test_a_lasting_fault_is_stored_once_with_all_its_tries(played: Callable[..., Played]) -> None:
    run = played(Flaky(100, InfrastructureError("down")), 3)
    run.runner.run()
    stored = list(run.store)
    assert [trajectory.tries for trajectory in stored] == [3] * 3
    assert run.store.done_ids() == set()
    assert (run.tally.owed, run.tally.last_fault) == (3, "down")


def test_an_agents_failure_is_not_retried(played: Callable[..., Played]) -> None:
    run = played(Flaky(1, ValueError("mine")), 4)
    run.runner.run()
    assert {trajectory.tries for trajectory in run.store} == {1}
    assert len(run.store.done_ids()) == 4
    assert (run.tally.agent_failures, run.tally.score) == (4, 0.0)


def test_one_thread_plays_in_the_given_order(played: Callable[..., Played]) -> None:
    run = played(Oracle(), 10, concurrency=1)
    run.runner.run()
    assert [summary.task_id for summary in run.store.summaries()] == [f"toy_{index:05d}" for index in range(10)]


def test_jobs_are_taken_as_they_are_needed_and_no_sooner(played: Callable[..., Played]) -> None:
    taken: list[int] = []
    run = played(Oracle(), 0, concurrency=3)

    def counted() -> Iterator[Job]:
        for index, job in enumerate(jobs(Oracle(), 60)):
            taken.append(index - len(run.store))
            yield job

    run.runner._jobs = counted()  # pyright: ignore[reportPrivateUsage]
    run.runner.run()
    assert len(run.store) == 60
    assert max(taken) <= 3


def test_all_episodes_broken_in_a_row_end_the_run_but_one_that_gets_through_does_not(
    played: Callable[..., Played],
) -> None:
    run = played(toyagents.Offline(), 1000, retries={**NO_WAITS, "infrastructure": Retry(0)})
    with pytest.raises(InfrastructureError, match="Nothing gets through any more"):
        run.runner.run()
    assert len(run.store) < 30


def test_faults_between_episodes_that_get_through_end_nothing(played: Callable[..., Played]) -> None:
    class Every(toyagents.Adder):
        def act(self, history: Any, tools: Any, *, seed: int) -> Action:
            if "5." not in history[0].content.split("Today")[0]:
                raise InfrastructureError("now and then")
            return super().act(history, tools, seed=seed)

    run = played(Every(), 100, concurrency=1, retries={**NO_WAITS, "infrastructure": Retry(0)})
    run.runner.run()
    assert (len(run.store), run.tally.owed) == (100, 90)


def test_a_store_that_cannot_write_ends_the_run_and_counts_nothing_that_is_not_stored(
    played: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(Oracle(), 100)
    append = run.store.append
    stored = iter(range(100))

    def full(trajectory: Any) -> None:
        if next(stored) >= 7:
            raise InfrastructureError("No space left.")
        append(trajectory)

    monkeypatch.setattr(run.store, "append", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        run.runner.run()
    assert run.tally.scored == len(run.store) == 7


def test_a_bug_in_the_runner_ends_the_run_instead_of_letting_it_wait_for_ever(
    played: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda about: None)
    run = played(Oracle(), 10)
    monkeypatch.setattr(run.store, "append", lambda trajectory: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run.runner.run()


def hung_threads() -> int:
    return sum(thread.name == "episode" for thread in threading.enumerate())


def test_hanging_agents_are_left_behind_up_to_a_number_and_then_end_the_run(
    played: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hung_threads()  # of other tests, if any
    monkeypatch.setattr(runner_module, "MOST_HUNG", before + 5)
    woken = threading.Event()

    class Hanging(toyagents.Adder):
        def act(self, history: Any, tools: Any, *, seed: int) -> Action:
            woken.wait(60)
            return super().act(history, tools, seed=seed)

    run = played(Hanging(), 100, limits=Limits(time_s=0.05))
    with pytest.raises(InfrastructureError, match="are still hanging after their episodes were given up"):
        run.runner.run()
    woken.set()
    assert 5 < len(run.store) < 20
    assert {summary.limit for summary in run.store.summaries()} == {"time"}
    deadline = time.monotonic() + 10
    while hung_threads() > before:  # they end by themselves once they wake
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_an_agent_waits_on_is_said_and_a_stop_reaches_it(
    played: Callable[..., Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "LOOK_S", 0.05)

    class Patient(toyagents.Adder):
        def __init__(self) -> None:
            self.stopping = threading.Event()

        def watch(self, stopping: threading.Event) -> None:
            self.stopping = stopping

        def trouble(self) -> str | None:
            return "The endpoint failed (500)"

        def act(self, history: Any, tools: Any, *, seed: int) -> Action:
            assert self.stopping.wait(20)
            raise InfrastructureError("The endpoint failed (500)")

    run = played(Patient(), 3)
    threading.Timer(0.5, run.runner._stopping.set).start()
    started = time.monotonic()
    run.runner.run()
    assert time.monotonic() - started < 10
    assert run.said.getvalue().count("Waiting, and asking again: The endpoint failed (500).\n") == 1
    assert run.tally.owed == 2


def test_a_run_outside_the_main_thread_works_without_signals(played: Callable[..., Played]) -> None:
    run = played(Oracle(), 5)
    thread = threading.Thread(target=run.runner.run)
    thread.start()
    thread.join(30)
    assert len(run.store) == 5
