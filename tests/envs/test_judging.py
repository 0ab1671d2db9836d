"""The one sandbox of a process, and what becomes of an episode when it breaks."""

from collections.abc import Iterator

import pytest

from agents.base import AgentOptions
from agents.registry import build
from envs import judging, registry
from envs.base import EnvSettings
from harness.episode import run_episode
from trajectories.failures import InputError, SandboxError
from trajectories.schema import EpisodeKey, Trajectory


@pytest.fixture(autouse=True)
def local() -> Iterator[None]:
    judging.use_sandbox("local", 1)
    yield
    judging.close()


def played() -> Trajectory:
    benchmark = registry.load("evalplus")
    task = next(task for task in benchmark.tasks("sample") if task.id == "Mbpp/90000")
    env = benchmark.make(task.id, EnvSettings())
    key = EpisodeKey(
        task=task,
        env_version="1",
        env_settings=env.settings.model_dump(),
        agent="o",
        agent_config={},
        seed=0,
        attempt=0,
    )
    return run_episode(env, build("scripted:oracle", AgentOptions()), key)


def test_the_pool_opens_when_code_is_first_run_and_is_then_the_same() -> None:
    with judging.lease() as worker:
        assert worker.run_program("print(1)").stdout == b"1\n"
    assert judging.pool() is judging.pool()
    assert judging.sandbox_id().startswith("local:cpython-3.")
    assert judging.python().count(".") == 1


def test_another_choice_closes_the_open_pool() -> None:
    first = judging.pool()
    judging.use_sandbox("local", 2)
    assert judging.workers() == 2
    with pytest.raises(SandboxError, match="closed"), first.lease():
        pass
    assert judging.pool() is not first


def test_closing_twice_is_harmless_and_the_next_use_opens_anew() -> None:
    first = judging.pool()
    judging.close()
    judging.close()
    assert judging.pool() is not first


def test_an_unknown_kind_and_no_worker_are_refused() -> None:
    with pytest.raises(InputError, match="no sandbox 'podman'"):
        judging.use_sandbox("podman")
    with pytest.raises(InputError, match="at least one worker"):
        judging.use_sandbox("local", 0)


def test_a_machine_with_namespaces_can_run_code_and_starts_no_jail_to_find_out() -> None:
    judging.close()
    assert judging.unavailable() is None
    assert judging._pool is None


def test_a_machine_without_says_so_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_no_namespaces", lambda: "No namespaces here.")
    assert judging.unavailable() == "Code can't be run here. No namespaces here."
    assert registry.load("evalplus").unavailable("sample") == judging.unavailable()


def test_an_episode_whose_jail_breaks_is_a_sandbox_failure_and_has_no_score() -> None:
    assert played().verdicts["official"].passed
    judging.pool()._idle[0].jail.close()
    broken = played()
    assert broken.failure is not None
    assert (broken.ended, broken.failure.boundary, broken.verdicts) == ("failed", "sandbox", {})
    assert not broken.done
    assert played().verdicts["official"].passed
