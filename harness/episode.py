"""One episode from the first observation to its verdicts: the only place where any error at all is caught.

`run_episode` never raises for what an agent or an environment does; it says at which boundary the episode broke. What
goes through is `InputError` (the user must change something: every other episode would end the same way) and what
isn't an `Exception` at all.

Python can't stop a thread. With a time limit an episode is therefore played in a daemon thread of its own: when the
agent's `act` does not come back in time the episode is given up, closed and graded as it stands, and the thread, once
it wakes, sees that and ends without touching anything. An environment is never graded while its `step` still runs: it gets
`ENV_GRACE_S` more seconds, then the episode fails at the environment.
"""

import contextlib
import hashlib
import logging
import threading
import time
import traceback
from collections.abc import Callable, Generator
from typing import Any, Literal, NamedTuple, cast

from agents.base import Agent, Closing, PerEpisode
from envs.base import HarnessEnv
from harness.identity import harness_version
from harness.limits import Limits
from trajectories.failures import ContextWindowExceeded, InfrastructureError, InputError, SandboxError
from trajectories.schema import (
    Action,
    EpisodeKey,
    Failure,
    Message,
    Step,
    StepTiming,
    Timing,
    ToolSpec,
    Trajectory,
    Usage,
    Verdict,
)

ENV_GRACE_S = 30.0
"""How long past the time limit an environment may take to answer before the episode fails."""

TRACEBACK_CHARACTERS = 4000
"""How much of a traceback's end is stored."""

_LOG = logging.getLogger(__name__)

Boundary = Literal["agent", "environment", "sandbox", "infrastructure"]


def episode_seed(key: EpisodeKey) -> int:
    """The seed of an episode, in [0, 2**31): from the run's seed, the task and the attempt, whoever plays."""
    return _seed(key.seed, key.task.benchmark, key.task.id, key.attempt)


def step_seed(seed: int, step: int) -> int:
    """The seed of one step, in [0, 2**31), from the episode's seed and the index of the step."""
    return _seed(seed, step)


def _seed(*parts: object) -> int:
    # 31 bits are what every library and server takes for a seed.
    text = "\n".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1


def run_episode(
    env: HarnessEnv, agent: Agent, key: EpisodeKey, limits: Limits | None = None, *, data: str = ""
) -> Trajectory:
    """Play `env` with `agent` to the end, grade and close it. See `play`."""
    return play(lambda: env, agent, key, limits, data=data)


def play(
    make: Callable[[], HarnessEnv],
    agent: Agent,
    key: EpisodeKey,
    limits: Limits | None = None,
    *,
    data: str = "",
) -> Trajectory:
    """The trajectory of one episode; an environment that can't even be made is a failure of the episode.

    `data` names the task data and is only recorded. Raises InputError alone.
    """
    episode = _Episode(make, agent, key, limits or Limits())
    if episode.limits.time_s:
        _play_in_time(episode)
    else:
        episode.play()
    return episode.trajectory(data)


class _Broken(Exception):
    """Carries a failure from where it happened to the end of the episode."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


class _End(NamedTuple):
    """How an episode ended."""

    ended: Literal["terminated", "truncated", "failed"]
    limit: str | None = None
    failure: Failure | None = None
    reward: float = 0.0
    verdicts: dict[str, Verdict] = {}  # noqa: RUF012 - read only, by convention of NamedTuple defaults


class _Episode:
    """An episode while it is played, and what was recorded of it so far."""

    def __init__(self, make: Callable[[], HarnessEnv], agent: Agent, key: EpisodeKey, limits: Limits) -> None:
        self.limits = limits
        self.end: _End | None = None
        self.error: InputError | None = None
        self._make, self._agent, self._key = make, agent, key
        self._player: Agent = agent
        self._env: HarnessEnv | None = None
        self._opening: tuple[Message, ...] = ()
        self._first_tools: tuple[ToolSpec, ...] = ()
        self._steps: list[Step] = []
        self._usage = Usage()
        self._agent_s = self._last_agent_s = self._env_s = 0.0
        self._started_at, self._start = time.time(), time.perf_counter()
        self.lock = threading.Lock()
        """Held by whoever changes `given_up` or passes from the agent to the environment."""
        self.in_agent = False
        self.given_up = False

    def elapsed_s(self) -> float:
        return time.perf_counter() - self._start

    def play(self) -> None:
        """Play, grade and close; sets `end`, or `error` where the user must change something."""
        end = None
        try:
            end = self._graded(*self._conversation())
        except _GivenUp:
            return
        except _Broken as broken:
            end = _End("failed", failure=broken.failure)
        except InputError as error:
            self.error = error
        with self.lock:
            self.in_agent = False
            if not self.given_up:
                self.end = end
        self.close()

    def grade(self, limit: str) -> None:
        """End the episode by a limit, as it stands."""
        try:
            self.end = self._graded(limit, None)
        except _Broken as broken:
            self.end = _End("failed", failure=broken.failure)

    def close(self) -> None:
        """Release the environment and the episode's own player. The episode stands if that breaks, and a warning says so."""
        for thing in (self._env, self._player if self._player is not self._agent else None):
            if isinstance(thing, HarnessEnv | Closing):
                try:
                    with _boundary("environment"):
                        thing.close()
                except _Broken as broken:
                    _LOG.warning("Closing after episode %s failed: %s", self._key.task.id, broken.failure.message)

    def trajectory(self, data: str) -> Trajectory:
        if self.error is not None:
            raise self.error
        assert self.end is not None, "an episode ends before it is recorded"  # noqa: S101 - for the type checker
        return Trajectory(
            id=self._key.trajectory_id(),
            key=self._key,
            opening=self._opening,
            tools=self._first_tools,
            steps=tuple(self._steps),
            **self.end._asdict(),
            usage=self._usage,
            data=data,
            harness_version=harness_version(),
            timing=Timing(
                started_at=self._started_at, wall_s=self.elapsed_s(), agent_s=self._agent_s, env_s=self._env_s
            ),
        )

    def _conversation(self) -> tuple[str | None, float | None]:
        """Alternate agent and environment until the end. Returns the limit, and the reward where the environment ended it."""
        seed = episode_seed(self._key)
        tools = self._open(seed)
        history = list(self._opening)
        while True:
            action = self._act(tuple(history), tools, step_seed(seed, len(self._steps)))
            if action is None:
                return "context_window", None
            observation, reward, terminated, truncated, info = self._step(action, tools)
            tools = info["tools"]
            if terminated or truncated:
                return info["limit"], reward
            limit = self.limits.reached(self.elapsed_s(), self._usage)
            if limit:
                return limit, None
            history.append(action.message())
            history.extend(observation)

    def _open(self, seed: int) -> tuple[ToolSpec, ...]:
        started = time.perf_counter()
        with _boundary("environment"):
            env = self._env = cast("HarnessEnv", self._make().unwrapped)
            self._opening, info = env.reset(seed=seed)
            self._first_tools = info["tools"]
        self._env_s += time.perf_counter() - started
        if isinstance(self._agent, PerEpisode):
            self._enter(agent=True)
            with _boundary("agent"):
                self._player = self._agent.for_episode(env, seed=seed)
            self._enter(agent=False)
        return self._first_tools

    def _act(self, history: tuple[Message, ...], tools: tuple[ToolSpec, ...], seed: int) -> Action | None:
        """The agent's action, or None where the conversation no longer fits its model."""
        self._enter(agent=True)
        started = time.perf_counter()
        try:
            with _boundary("agent"):
                action: Any = self._player.act(history, tools, seed=seed)
                if not isinstance(action, Action):
                    raise TypeError(f"act() returned {type(action).__name__}, not an Action.")
        except ContextWindowExceeded:
            action = None
        finally:
            self._last_agent_s = time.perf_counter() - started
            self._agent_s += self._last_agent_s
        self._enter(agent=False)
        return action

    def _enter(self, *, agent: bool) -> None:
        with self.lock:
            if self.given_up:
                raise _GivenUp
            self.in_agent = agent

    def _step(
        self, action: Action, tools: tuple[ToolSpec, ...]
    ) -> tuple[tuple[Message, ...], float, bool, bool, dict[str, Any]]:
        assert self._env is not None, "opened before it is stepped"  # noqa: S101 - for the type checker
        started = time.perf_counter()
        with _boundary("environment"):
            result = self._env.step(action)
            env_s = time.perf_counter() - started
            observation, reward, _, _, info = result
            step = Step(
                action=action,
                observation=observation,
                tools=None if info["tools"] == tools else info["tools"],
                reward=reward,
                turn=info["turn"],
                calls=info["calls"],
                parse_error=info["parse_error"],
                state=info["state"],
                timing=StepTiming(agent_s=self._last_agent_s, env_s=env_s),
            )
        self._env_s += env_s
        self._steps.append(step)
        self._usage = add_usage(self._usage, action.usage)
        return result

    def _graded(self, limit: str | None, reward: float | None) -> _End:
        """Grade the episode. `reward` None: a limit of ours ended it, so the environment has not said it yet."""
        assert self._env is not None, "opened before it is graded"  # noqa: S101 - for the type checker
        with _boundary("environment"):
            verdicts = self._env.verdicts()
            if reward is None:
                reward = verdicts["official"].score
                self._steps[-1:] = [step.model_copy(update={"reward": reward}) for step in self._steps[-1:]]
        return _End("truncated" if limit else "terminated", limit, None, reward, verdicts)


class _GivenUp(Exception):
    """The time limit passed while the agent was thinking, and the episode was ended without it."""


def _play_in_time(episode: _Episode) -> None:
    """Play in a thread of its own, and end the episode when its time is up."""
    thread = threading.Thread(target=episode.play, daemon=True, name="episode")
    thread.start()
    thread.join(episode.limits.time_s)
    if not thread.is_alive():
        return
    with episode.lock:
        episode.given_up = episode.in_agent
    if episode.given_up:
        episode.grade("time")
        episode.close()
        return
    thread.join(ENV_GRACE_S)
    if thread.is_alive():
        _fail_in_environment(episode)


def _fail_in_environment(episode: _Episode) -> None:
    with episode.lock:
        if episode.end or episode.error:
            return  # it is over, only its closing hangs
        episode.given_up = True
    waited = episode.limits.time_s + ENV_GRACE_S
    message = f"The environment did not answer within {waited:g} s (the time limit and {ENV_GRACE_S:g} s more)."
    episode.end = _End("failed", failure=Failure(boundary="environment", kind="TimeoutError", message=message))


@contextlib.contextmanager
def _boundary(place: Boundary) -> Generator[None]:
    """Whatever breaks inside becomes a failure of `place`, unless its class says more than the place does."""
    try:
        yield
    except InputError:
        raise
    except ContextWindowExceeded as error:
        if place == "agent":
            raise
        raise _Broken(_failure(place, error)) from error
    except (Exception, SystemExit) as error:  # the one place: a broken episode is data, not a crash
        raise _Broken(_failure(_boundary_of(error, place), error)) from error


def _boundary_of(error: BaseException, place: Boundary) -> Boundary:
    if isinstance(error, InfrastructureError):
        return "infrastructure"
    return "sandbox" if isinstance(error, SandboxError) else place


def _failure(boundary: Boundary, error: BaseException) -> Failure:
    return Failure(
        boundary=boundary,
        kind=type(error).__name__,
        message=str(error) or type(error).__name__,
        traceback="".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS:],
        retry_after_s=getattr(error, "retry_after_s", None),
    )


def add_usage(total: Usage, more: Usage | None) -> Usage:
    """The sum of what is known; a field stays None until somebody names a number."""
    if more is None:
        return total
    return Usage(**{name: _sum(getattr(total, name), getattr(more, name)) for name in Usage.model_fields})


def after(before: Trajectory | None, now: Trajectory) -> Trajectory:
    """`now` as a further try of the episode that broke as `before`: tries, tokens, money and seconds of both count."""
    if before is None:
        return now
    changed: dict[str, Any] = {"tries": before.tries + now.tries, "usage": add_usage(before.usage, now.usage)}
    if before.timing and now.timing:
        spent = {
            name: getattr(before.timing, name) + getattr(now.timing, name) for name in ("wall_s", "agent_s", "env_s")
        }
        changed["timing"] = before.timing.model_copy(update=spent)
    return now.model_copy(update=changed)


def _sum(first: float | None, second: float | None) -> Any:
    if first is None or second is None:
        return second if first is None else first
    return first + second
