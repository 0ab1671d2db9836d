"""The rules that every environment keeps, as functions that run over any of them, a user's own included.

    from envs.contract import check_contract
    check_contract(lambda: MyEnv(task="t1"))

A rule is one function that plays the environment and raises `Broken` with its sentence where it does not hold. The actions are
by default the environment's own reference play. `tests/contract` runs all rules over every registered benchmark.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from envs.base import GRADERS, Benchmark, EnvSettings, HarnessEnv
from trajectories.failures import InputError
from trajectories.schema import (
    MAX_NESTING,
    Action,
    EpisodeKey,
    Step,
    ToolCall,
    Trajectory,
    Verdict,
    canonical_json,
)

MakeEnv = Callable[[], Any]
"""Makes a fresh environment; a Gymnasium wrapper around one will do."""

PATIENCE = 1_000
"""Steps after which an episode of empty answers should long have ended."""


class Broken(AssertionError):
    """An environment breaks a rule; the message names the rule and what was seen."""


class Moment(NamedTuple):
    """What one `step` gave."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def odd_actions() -> tuple[Action, ...]:
    """What models really send: nothing, noise, unknown tools, broken arguments, far too much of it."""
    arguments: tuple[Any, ...] = (
        "",
        "{",
        "[1, 2]",
        '{"a": NaN}',
        '{"a": 1e999}',
        "[" * 5_000,
        "9" * 5_000,
        {"a": float("nan"), "b": [float("inf")]},
        {"\ud800": "\udfff", "": None},
        {"a": {"b": {"c": [[[]]]}}},
        {"a": _nested(MAX_NESTING - 1)},
        "x" * 100_000,
        {"a": "y" * 100_000},
    )
    texts = (
        "",
        " \n",
        "\x00\ud800",
        "(" * 10_000,
        "[f(" * 3_000,
        "9" * 100_000,
        "[f(a=9**9**9)]",
        "[__import__('os')]",
        "[]",
        "[f(a=1)]",
        f"[f(a={_nested(197)})]",
    )
    calls = [Action(tool_calls=(ToolCall(id="c", name="no_such_tool", arguments=value),)) for value in arguments]
    names = ("", "a.b", "__init__", "f(1)", "n" * 100_000)
    named = [Action(tool_calls=(ToolCall(id="", name=name, arguments={}),)) for name in names]
    many = Action(tool_calls=tuple(ToolCall(id="same", name="f", arguments={}) for _ in range(200)))
    return (*(Action(content=text) for text in texts), *calls, *named, many)


def _nested(levels: int) -> list[Any]:
    return [_nested(levels - 1)] if levels > 1 else []


def same_seed_and_actions_give_the_same_bytes(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """The same seed and the same actions give the same bytes, in a new environment and after another reset."""
    env = make_env()
    first = _transcript(env, actions, seed=11)
    _hold(
        _transcript(env, actions, seed=11) == first, same_seed_and_actions_give_the_same_bytes, "a second reset differs"
    )
    _hold(
        _transcript(make_env(), actions, seed=11) == first,
        same_seed_and_actions_give_the_same_bytes,
        "a new one differs",
    )


def the_end_has_one_reason(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """`terminated` and `truncated` are never both true, and `info["limit"]` names the limit exactly where `truncated` is."""
    for moment in _play(make_env(), actions):
        seen = f"terminated={moment.terminated}, truncated={moment.truncated}, limit={moment.info['limit']!r}"
        _hold(not (moment.terminated and moment.truncated), the_end_has_one_reason, seen)
        _hold(moment.truncated == isinstance(moment.info["limit"], str), the_end_has_one_reason, seen)


def reward_is_paid_at_the_end(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """The reward is 0 until the episode ends, then the official score."""
    env = make_env()
    for moment in _play(env, actions):
        over = moment.terminated or moment.truncated
        due = _bare(env).verdicts()["official"].score if over else 0.0
        _hold(moment.reward == due, reward_is_paid_at_the_end, f"{moment.reward} where {due} is due")


def everything_lies_in_the_spaces(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """Observations and actions lie in their spaces, and what the action space samples can be played."""
    env = make_env()
    observation, _ = env.reset(seed=3)
    _hold(env.observation_space.contains(observation), everything_lies_in_the_spaces, "the first observation doesn't")
    for moment in _play(env, actions):
        _hold(
            env.observation_space.contains(moment.observation),
            everything_lies_in_the_spaces,
            repr(moment.observation)[:200],
        )
    _hold(
        all(env.action_space.contains(action) for action in actions), everything_lies_in_the_spaces, "an action doesn't"
    )
    env.reset(seed=3)
    env.action_space.seed(5)
    sampled = env.action_space.sample()
    _hold(env.action_space.contains(sampled), everything_lies_in_the_spaces, f"sampled {sampled!r}"[:200])
    env.step(sampled)


def reset_works_at_any_time(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """`reset` opens the same episode at first, twice in a row, in the middle, and after the end."""
    env = make_env()
    opening = _opening(env)
    _hold(_opening(env) == opening, reset_works_at_any_time, "twice in a row")
    env.step(actions[0])
    _hold(_opening(env) == opening, reset_works_at_any_time, "after one step")
    list(_play(env, actions))
    _hold(_opening(env) == opening, reset_works_at_any_time, "after the end")


def a_reset_option_names_a_task_or_is_refused(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """`reset(options={"task": id})` plays that task; an unknown option or task raises InputError."""
    env = make_env()
    _, info = env.reset(seed=1, options={"task": _bare(env).task.id})
    _hold(info["task"] == _bare(env).task, a_reset_option_names_a_task_or_is_refused, "info names another task")
    for options in ({"no_such_option": 1}, {"task": "no such task"}):
        try:
            env.reset(seed=1, options=options)
        except InputError:
            continue
        raise _broken(a_reset_option_names_a_task_or_is_refused, f"{options!r} was accepted")


def a_step_outside_the_episode_raises(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """`step` before `reset`, after the end, or after `close` raises RuntimeError."""
    fresh, ended, closed = make_env(), make_env(), make_env()
    list(_play(ended, actions))
    closed.reset(seed=1)
    closed.close()
    for when, env in (("before reset", fresh), ("after the end", ended), ("after close", closed)):
        try:
            env.step(actions[0])
        except RuntimeError:
            continue
        raise _broken(a_step_outside_the_episode_raises, f"it did not {when}")


def closing_twice_is_harmless(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """`close` may be called before `reset`, in an episode, and twice; the verdicts stay."""
    env = make_env()
    env.close()
    list(_play(env, actions))
    before = _bare(env).verdicts()
    env.close()
    env.close()
    _hold(_bare(env).verdicts() == before, closing_twice_is_harmless, "the verdicts changed")


def verdicts_name_every_grader(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """At any time there is a verdict of each grader, versioned, with a score in [0, 1] and 1 only where it passed."""
    env = make_env()
    env.reset(seed=1)
    _check_verdicts(_bare(env).verdicts())
    for _ in _play(env, actions):
        _check_verdicts(_bare(env).verdicts())


def the_reference_play_scores_one(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """The reference actions end the episode exactly, and both graders give them 1."""
    env = make_env()
    moments = list(_play(env, actions))
    _hold(
        moments[-1].terminated and len(moments) == len(actions), the_reference_play_scores_one, f"{len(moments)} steps"
    )
    for name, verdict in _bare(env).verdicts().items():
        _hold(verdict.passed and verdict.score == 1.0, the_reference_play_scores_one, f"{name}: {verdict.detail}")


def silence_ends_an_episode(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """An agent that answers nothing comes to an end, and its reward is what the official grader gives it."""
    env = make_env()
    moments = list(_play(env, [Action()] * PATIENCE))
    over = moments[-1].terminated or moments[-1].truncated
    _hold(over, silence_ends_an_episode, f"it goes on after {PATIENCE} steps")
    _hold(moments[-1].reward == _bare(env).verdicts()["official"].score, silence_ends_an_episode, "another reward")


def tools_change_through_info_alone(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """The tools are those of the last `info["tools"]`, and a tuple that was given out never changes."""
    env = make_env()
    _, info = env.reset(seed=1)
    given = [(info["tools"], canonical_json([tool.model_dump(mode="json") for tool in info["tools"]]))]
    for action in actions:
        _hold(_bare(env).tools == given[-1][0], tools_change_through_info_alone, "`env.tools` differs from it")
        *_, info = env.step(action)
        given.append((info["tools"], canonical_json([tool.model_dump(mode="json") for tool in info["tools"]])))
        if _bare(env).tools != info["tools"]:
            raise _broken(tools_change_through_info_alone, "`env.tools` differs from it")
    for tools, text in given:
        now = canonical_json([tool.model_dump(mode="json") for tool in tools])
        _hold(now == text, tools_change_through_info_alone, "a tuple given out before was changed")


def environments_do_not_disturb_each_other(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """Two environments played in turns go as each goes alone."""
    alone = _transcript(make_env(), actions, seed=2)
    one, other = make_env(), make_env()
    plays = [_transcribe(env, actions, 2) for env in (one, other)]
    together: list[list[str]] = [[], []]
    for lines in zip(*plays, strict=True):
        for kept, line in zip(together, lines, strict=True):
            kept.append(line)
    _hold(together == [alone, alone], environments_do_not_disturb_each_other, "their transcripts differ")


def odd_actions_are_answered(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """No action raises, however odd: it is answered, and what was seen of it can be stored."""
    env = make_env()
    for action in odd_actions():
        with _Answered(f"the action {action!r}"[:200]):
            env.reset(seed=1)
            moment = Moment(*env.step(action))
            if not env.observation_space.contains(moment.observation):
                raise TypeError("its observation is not in the space")
            Step.model_validate_json(_step(action, moment).model_dump_json())
            _check_verdicts(_bare(env).verdicts())


def steps_can_be_stored(make_env: MakeEnv, actions: Sequence[Action]) -> None:
    """What a step gives makes a `Step` record that reads back as it was written."""
    for action, moment in zip(actions, _play(make_env(), actions), strict=False):
        step = _step(action, moment)
        _hold(Step.model_validate_json(step.model_dump_json()) == step, steps_can_be_stored, repr(step)[:300])


Rule = Callable[[MakeEnv, Sequence[Action]], None]

RULES: tuple[Rule, ...] = (
    same_seed_and_actions_give_the_same_bytes,
    the_end_has_one_reason,
    reward_is_paid_at_the_end,
    everything_lies_in_the_spaces,
    reset_works_at_any_time,
    a_reset_option_names_a_task_or_is_refused,
    a_step_outside_the_episode_raises,
    closing_twice_is_harmless,
    verdicts_name_every_grader,
    the_reference_play_scores_one,
    silence_ends_an_episode,
    tools_change_through_info_alone,
    environments_do_not_disturb_each_other,
    odd_actions_are_answered,
    steps_can_be_stored,
)
"""In the order in which a newcomer should read them."""


def check_contract(
    make_env: MakeEnv, actions: Sequence[Action] | None = None, *, rules: Iterable[Rule] = RULES
) -> None:
    """Run the rules over an environment; `Broken` names the first that does not hold.

    `actions` is a play that ends the episode, by default the reference play (an environment without one needs it).
    """
    play = tuple(actions) if actions is not None else reference_play(make_env)
    for rule in rules:
        rule(make_env, play)


def reference_play(make_env: MakeEnv) -> tuple[Action, ...]:
    """The environment's own correct play, as of a freshly opened episode."""
    env = make_env()
    env.reset(seed=0)
    return _bare(env).reference_actions()


def check_benchmark(benchmark: Benchmark, split: str, settings: EnvSettings, task_id: str) -> None:
    """The rules of a benchmark, by one of its tasks: it is listed, made as resolved, and regraded as it was graded."""
    tasks = benchmark.tasks(split)
    task = next(task for task in tasks if task.id == task_id)
    _say(len({task.id for task in tasks}) == len(tasks), "a split has each id once")
    _say(task.benchmark == benchmark.name and task.split == split, "a task names its benchmark and its split")
    _say(task.category in benchmark.categories and task.language in benchmark.languages, "a task's category is listed")
    _say(benchmark.known(task_id) and not benchmark.known("no such task"), "`known` tells a benchmark's tasks")
    resolved = benchmark.resolve(settings, split)
    env = benchmark.make(task_id, settings)
    _say(env.task == task, "an environment's task is the listed one")
    _say(env.settings == resolved == benchmark.resolve(resolved, split), "an environment has the resolved settings")
    for actions in (env.reference_actions() if env.reset(seed=1) else (), (Action(content="?"),) * PATIENCE, ()):
        trajectory = _trajectory(benchmark, benchmark.make(task_id, settings), actions)
        _say(benchmark.verdicts(trajectory) == trajectory.verdicts, "a stored trajectory is graded as its episode was")


def _trajectory(benchmark: Benchmark, env: HarnessEnv, actions: Sequence[Action]) -> Trajectory:
    opening, info = env.reset(seed=1)
    moments = list(_play(env, actions)) if actions else []
    key = EpisodeKey(
        task=env.task,
        env_version=benchmark.env_version,
        env_settings=env.settings.model_dump(mode="json"),
        agent="contract",
        agent_config={},
        seed=1,
        attempt=0,
    )
    played = Trajectory(
        id=key.trajectory_id(),
        key=key,
        opening=opening,
        tools=info["tools"],
        steps=tuple(_step(action, moment) for action, moment in zip(actions, moments, strict=False)),
        ended="terminated",
        verdicts=env.verdicts(),
    )
    return Trajectory.from_json(played.to_json())


def _bare(env: Any) -> HarnessEnv:
    return cast("HarnessEnv", env.unwrapped)


def _play(env: Any, actions: Iterable[Action]) -> Iterator[Moment]:
    """Reset, then step through the actions until the episode ends."""
    env.reset(seed=1)
    for action in actions:
        moment = Moment(*env.step(action))
        yield moment
        if moment.terminated or moment.truncated:
            return


def _opening(env: Any) -> str:
    observation, info = env.reset(seed=4)
    return _text((observation, info))


def _transcript(env: Any, actions: Iterable[Action], seed: int) -> list[str]:
    return list(_transcribe(env, actions, seed))


def _transcribe(env: Any, actions: Iterable[Action], seed: int) -> Iterator[str]:
    """The bytes of the opening and of each step, as they are asked for."""
    yield _text(env.reset(seed=seed))
    for action in actions:
        moment = env.step(action)
        yield _text(moment)
        if moment[2] or moment[3]:
            break
    yield _text(_bare(env).verdicts())


def _text(value: Any) -> str:
    return json.dumps(value, default=_plain, sort_keys=True)


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json")


def _step(action: Action, moment: Moment) -> Step:
    return Step(
        action=action,
        observation=moment.observation,
        tools=moment.info["tools"],
        reward=moment.reward,
        turn=moment.info["turn"],
        calls=moment.info["calls"],
        parse_error=moment.info["parse_error"],
        state=moment.info["state"],
    )


def _check_verdicts(verdicts: dict[str, Verdict]) -> None:
    _hold(set(verdicts) == set(GRADERS), verdicts_name_every_grader, f"graders {sorted(verdicts)}")
    for name, verdict in verdicts.items():
        seen = f"{name}: {verdict!r}"[:300]
        _hold(verdict.grader.startswith(name) and "@" in verdict.grader, verdicts_name_every_grader, seen)
        _hold(
            0.0 <= verdict.score <= 1.0 and verdict.passed == (verdict.score == 1.0), verdicts_name_every_grader, seen
        )


class _Answered:
    """Turns whatever is raised inside into a broken rule."""

    def __init__(self, seen: str) -> None:
        self._seen = seen

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, Exception):
            raise _broken(odd_actions_are_answered, f"{self._seen} raised {error!r}"[:500]) from error


def _hold(holds: bool, rule: Callable[..., None], seen: str) -> None:
    if not holds:
        raise _broken(rule, seen)


def _broken(rule: Callable[..., None], seen: str) -> Broken:
    return Broken(f"{rule.__name__}: {rule.__doc__} Seen: {seen}.")


def _say(holds: bool, sentence: str) -> None:
    if not holds:
        raise Broken(f"It does not hold that {sentence}.")
