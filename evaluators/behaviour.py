"""How an agent behaved in one episode: pure functions of a stored trajectory, and the list of them, `METRICS`.

Words used below, the same everywhere in the project:

- A *step* is one model response that the environment consumed, also one that held no call or could not be parsed.
- An *emitted* call is one that the response held, whatever became of it: the calls that the environment recorded for
  the step, or, where it recorded none, the native tool calls of the action.
- An *executed* call is one that the environment tried to run: its `CallRecord` has a result, be it an error's text.
  Single-turn BFCL reads calls and runs none.
- A call *ran* if it was executed and reported no error.
- Two calls are the *same* if their names are equal and their arguments are equal as canonical JSON: keys in any
  order, tuples as lists, but 1 and 1.0 apart. Arguments that were no JSON object are compared as text.

None means "does not apply" and is left out of means; how many episodes are in a mean is always said beside it.
Source of the definitions: specs of EnvScaler, BFCL-v3 and ACEBench. Published calls per step (LOPD, table 3) can only be
emitted calls, since that environment executes one call a step at most.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import JsonValue

from evaluators.base import Metric
from trajectories.schema import Action, CallRecord, Step, ToolCall, Trajectory, canonical_json

THINK_END = "</think>"


class _Emitted(NamedTuple):
    """One emitted call with the index of its step."""

    step: int
    turn: int
    key: str


def emitted(step: Step) -> tuple[CallRecord, ...] | tuple[ToolCall, ...]:
    """The calls that the response held: as the environment recorded them, else the action's native ones."""
    return step.calls or step.action.tool_calls


def executed(step: Step) -> list[CallRecord]:
    """The calls of the step that the environment tried to run."""
    return [call for call in step.calls if call.result is not None]


def call_key(call: CallRecord | ToolCall) -> str:
    """Equal for two calls exactly if they are the same call, as the module says."""
    return canonical_json([call.name, call.arguments])


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _all_emitted(trajectory: Trajectory) -> Iterator[_Emitted]:
    for index, step in enumerate(trajectory.steps):
        for call in emitted(step):
            yield _Emitted(index, step.turn, call_key(call))


# Steps and calls


def steps(trajectory: Trajectory) -> float:
    """Environment steps of the episode. 0 where it failed before the first answer; never None."""
    return len(trajectory.steps)


def turns(trajectory: Trajectory) -> float:
    """User turns in which the agent took at least one step. Never None."""
    return len({step.turn for step in trajectory.steps})


def calls_emitted(trajectory: Trajectory) -> float:
    """Emitted calls of the episode. Never None."""
    return sum(len(emitted(step)) for step in trajectory.steps)


def calls_executed(trajectory: Trajectory) -> float:
    """Executed calls of the episode. Never None; 0 where the benchmark only reads calls, as single-turn BFCL does."""
    return sum(len(executed(step)) for step in trajectory.steps)


def calls_emitted_per_step(trajectory: Trajectory) -> float | None:
    """Emitted calls divided by all steps, those without a call included. None without a step."""
    return _share(calls_emitted(trajectory), steps(trajectory))


def calls_executed_per_step(trajectory: Trajectory) -> float | None:
    """Executed calls divided by all steps, those without a call included. None without a step."""
    return _share(calls_executed(trajectory), steps(trajectory))


def reward_per_call(trajectory: Trajectory) -> float:
    """The episode's reward divided by max(1, emitted calls). Never None."""
    return trajectory.reward / max(1, calls_emitted(trajectory))


# Repetition


def calls_repeated(trajectory: Trajectory) -> float:
    """Emitted calls that are the same as an earlier one of the episode. Never None; 0 without a call."""
    keys = [call.key for call in _all_emitted(trajectory)]
    return len(keys) - len(set(keys))


def calls_repeated_share(trajectory: Trajectory) -> float | None:
    """Emitted calls that are the same as an earlier one of the episode, by all emitted calls. None without a call."""
    return _share(calls_repeated(trajectory), calls_emitted(trajectory))


def calls_repeated_in_turn(trajectory: Trajectory) -> float:
    """Emitted calls that are the same as an earlier one of the same user turn, summed over turns. Never None."""
    keys = [(call.turn, call.key) for call in _all_emitted(trajectory)]
    return len(keys) - len(set(keys))


def _state_before(trajectory: Trajectory, step: int) -> str | None:
    return trajectory.steps[step - 1].state if step else None


def _unchanged(trajectory: Trajectory, before: int, now: int) -> bool:
    """Whether the state that the call of step `before` left is the one that the call of step `now` met."""
    state = _state_before(trajectory, now)
    return state is not None and trajectory.steps[before].state == state


def calls_repeated_unchanged(trajectory: Trajectory) -> float | None:
    """Repeated calls that met the very state which the same call had left when it was last made: waste, not polling.

    States are compared by the digest after the earlier step and before the later one. Two same calls in one step count
    if the whole step left the state as it was; the first step of an episode never does, since the state before it isn't
    recorded. None where the environment has no state to digest, or without a step.
    """
    if all(step.state is None for step in trajectory.steps):
        return None
    last: dict[str, int] = {}
    count = 0
    for call in _all_emitted(trajectory):
        count += call.key in last and _unchanged(trajectory, last[call.key], call.step)
        last[call.key] = call.step
    return count


# Length of the first response


def _answer(content: str) -> str:
    return content.rpartition(THINK_END)[2]


def _call_characters(action: Action) -> int:
    arguments = (call.arguments for call in action.tool_calls)
    texts = (value if isinstance(value, str) else canonical_json(value) for value in arguments)
    return sum(len(text) for text in texts) + sum(len(call.name) for call in action.tool_calls)


def first_response_characters(trajectory: Trajectory) -> float | None:
    """Characters of the first response: reasoning, content, and of native calls the names and canonical arguments.

    None without a step.
    """
    if not trajectory.steps:
        return None
    action = trajectory.steps[0].action
    return len(action.reasoning or "") + len(action.content) + _call_characters(action)


def first_response_answer_characters(trajectory: Trajectory) -> float | None:
    """As `first_response_characters`, without the reasoning and without the content up to the last `</think>`.

    None without a step.
    """
    if not trajectory.steps:
        return None
    action = trajectory.steps[0].action
    return len(_answer(action.content)) + _call_characters(action)


def first_response_tokens(trajectory: Trajectory) -> float | None:
    """Completion tokens of the first response, reasoning included: the sampled ids, else what the model's side counted.

    None without a step, or where neither is known.
    """
    if not trajectory.steps:
        return None
    action = trajectory.steps[0].action
    if action.tokens is not None:
        return len(action.tokens.completion_ids)
    return action.usage.completion_tokens if action.usage else None


def first_response_answer_tokens(trajectory: Trajectory) -> float | None:
    """As `first_response_tokens`, less the reasoning tokens that the model's side counted.

    A response that shows no reasoning has none to take off. None where the response reasons and nobody counted it:
    tokens are never guessed from characters.
    """
    total = first_response_tokens(trajectory)
    if total is None:
        return None
    action = trajectory.steps[0].action
    if action.usage and action.usage.reasoning_tokens is not None:
        return total - action.usage.reasoning_tokens
    return None if action.reasoning or THINK_END in action.content else total


# Errors


def parse_errors(trajectory: Trajectory) -> float:
    """Steps whose text should or may have held a call and could not be parsed. Never None."""
    return sum(step.parse_error is not None for step in trajectory.steps)


def parse_error_rate(trajectory: Trajectory) -> float | None:
    """Steps that could not be parsed, by all steps. None without a step."""
    return _share(parse_errors(trajectory), steps(trajectory))


def _call_errors(trajectory: Trajectory, kind: str) -> int:
    return sum(call.error == kind for step in trajectory.steps for call in step.calls)


def unknown_tool_calls(trajectory: Trajectory) -> float:
    """Emitted calls of a tool that isn't there. Never None."""
    return _call_errors(trajectory, "unknown_tool")


def bad_arguments_calls(trajectory: Trajectory) -> float:
    """Emitted calls whose arguments the tool's signature refused. Never None."""
    return _call_errors(trajectory, "bad_arguments")


def tool_error_calls(trajectory: Trajectory) -> float:
    """Emitted calls that ran and of which the tool itself reported an error. Never None."""
    return _call_errors(trajectory, "tool_error")


def exception_calls(trajectory: Trajectory) -> float:
    """Emitted calls that raised in the tool, caught by the environment. Never None."""
    return _call_errors(trajectory, "exception")


def unknown_tool_rate(trajectory: Trajectory) -> float | None:
    """Calls of a tool that isn't there, by emitted calls. None without a call."""
    return _share(unknown_tool_calls(trajectory), calls_emitted(trajectory))


def bad_arguments_rate(trajectory: Trajectory) -> float | None:
    """Calls whose arguments the signature refused, by emitted calls. None without a call."""
    return _share(bad_arguments_calls(trajectory), calls_emitted(trajectory))


def tool_error_rate(trajectory: Trajectory) -> float | None:
    """Calls of which the tool reported an error, by emitted calls. None without a call."""
    return _share(tool_error_calls(trajectory), calls_emitted(trajectory))


def exception_rate(trajectory: Trajectory) -> float | None:
    """Calls that raised, by emitted calls. None without a call."""
    return _share(exception_calls(trajectory), calls_emitted(trajectory))


def _went_wrong(step: Step) -> bool:
    return step.parse_error is not None or any(call.error is not None for call in executed(step))


def _ran(step: Step) -> bool:
    return any(call.error is None for call in executed(step))


def error_recovery(trajectory: Trajectory) -> float | None:
    """After how many of the steps that went wrong the very next step, in whatever turn, has a call that ran.

    A step went wrong if it could not be parsed or one of its executed calls has an error. The last step of the episode
    is left out, since the agent had no next one. None where no other step went wrong.
    """
    pairs = zip(trajectory.steps, trajectory.steps[1:], strict=False)
    outcomes = [_ran(after) for before, after in pairs if _went_wrong(before)]
    return _share(sum(outcomes), len(outcomes))


# How the episode ended: the shares are disjoint


def _user_stopped(trajectory: Trajectory) -> bool:
    last = trajectory.steps[-1].observation if trajectory.steps else ()
    return trajectory.ended == "terminated" and bool(last) and last[-1].role == "user"


def ended_by_text(trajectory: Trajectory) -> float:
    """1 if the episode ended with a response without any call that parsed as such, else 0. Never None.

    In BFCL this is how a good episode ends; in EnvScaler it is a fault.
    """
    if trajectory.ended != "terminated" or not trajectory.steps or _user_stopped(trajectory):
        return 0.0
    last = trajectory.steps[-1]
    return float(last.parse_error is None and not emitted(last))


def ended_by_limit(trajectory: Trajectory) -> float:
    """1 if a limit other than `force_quit` truncated the episode, else 0. Never None."""
    return float(trajectory.ended == "truncated" and trajectory.limit != "force_quit")


def force_quit(trajectory: Trajectory) -> float:
    """1 if the benchmark's own step limit broke the episode off, else 0. Never None."""
    return float(trajectory.ended == "truncated" and trajectory.limit == "force_quit")


def user_stop(trajectory: Trajectory) -> float:
    """1 if a user's message was the last of an episode that ended by itself, else 0. Never None."""
    return float(_user_stopped(trajectory))


def agent_failed(trajectory: Trajectory) -> float:
    """1 if the agent broke (raised, died, answered what is no action), else 0. Never None."""
    return float(trajectory.failure is not None and not trajectory.failure.ours)


# What the strict grader counts beside its verdict, where the benchmark has such counts in the verdict's detail


def _strict_detail(trajectory: Trajectory, name: str) -> JsonValue:
    verdict = trajectory.verdicts.get("strict")
    return verdict.detail.get(name) if verdict else None


def _strict_share(trajectory: Trajectory, part: str, whole: str) -> float | None:
    numbers = (_strict_detail(trajectory, part), _strict_detail(trajectory, whole))
    return _share(*numbers) if all(isinstance(number, int) for number in numbers) else None  # pyright: ignore


def _strict_kind(trajectory: Trajectory, kind: str) -> float | None:
    found = _strict_detail(trajectory, "kind")
    return None if found is None else float(found == kind)


def turns_passed(trajectory: Trajectory) -> float | None:
    """User turns that the strict grader passes, by those that it checks: partial credit. None where it checks none."""
    return _strict_share(trajectory, "turns_passed", "turns_checked")


def no_call_turns_kept(trajectory: Trajectory) -> float | None:
    """User turns in which the agent rightly called nothing, by those that call for nothing. None without such a turn."""
    return _strict_share(trajectory, "no_call_kept", "no_call_turns")


def abstained(trajectory: Trajectory) -> float | None:
    """1 if the response held no call and tried none, else 0. None unless the task is about whether to call at all."""
    return _strict_kind(trajectory, "abstained")


def unparsable(trajectory: Trajectory) -> float | None:
    """1 if the response tried a call that can't be read, else 0. None unless the task is about whether to call at all.

    The official grader of BFCL takes such a response for abstaining.
    """
    return _strict_kind(trajectory, "unparsable")


def base_tests_passed(trajectory: Trajectory) -> float | None:
    """1 if the original tests of an EvalPlus task pass by the official grader, whatever the extra ones do, else 0. None elsewhere.

    Its mean is EvalPlus' pass@1 on the base tests; the score is that on all.
    """
    verdict = trajectory.verdicts.get("official")
    found = verdict.detail.get("base") if verdict else None
    return None if found is None else float(found == "pass")


# What it cost


def prompt_tokens(trajectory: Trajectory) -> float | None:
    """Prompt tokens of all model calls of the episode, as the model's side counted. None where it did not."""
    return trajectory.usage.prompt_tokens


def completion_tokens(trajectory: Trajectory) -> float | None:
    """Completion tokens of all model calls, reasoning included. None where the model's side did not count."""
    return trajectory.usage.completion_tokens


def cost_usd(trajectory: Trajectory) -> float | None:
    """US dollars of all model calls of the episode. None where the model's side names no price."""
    return trajectory.usage.cost_usd


def wall_seconds(trajectory: Trajectory) -> float | None:
    """Seconds of wall time of the whole episode. None where no time was taken."""
    return trajectory.timing.wall_s if trajectory.timing else None


def agent_seconds(trajectory: Trajectory) -> float | None:
    """Seconds of wall time inside the agent's `act`. None where no time was taken."""
    return trajectory.timing.agent_s if trajectory.timing else None


def env_seconds(trajectory: Trajectory) -> float | None:
    """Seconds of wall time inside the environment. None where no time was taken."""
    return trajectory.timing.env_s if trajectory.timing else None


_UNITS = {
    steps: "steps/episode",
    turns: "turns/episode",
    calls_emitted: "calls/episode",
    calls_executed: "calls/episode",
    calls_emitted_per_step: "calls/step",
    calls_executed_per_step: "calls/step",
    calls_repeated: "calls/episode",
    calls_repeated_share: "share of calls",
    calls_repeated_in_turn: "calls/episode",
    calls_repeated_unchanged: "calls/episode",
    reward_per_call: "reward/call",
    first_response_characters: "characters",
    first_response_answer_characters: "characters",
    first_response_tokens: "tokens",
    first_response_answer_tokens: "tokens",
    parse_errors: "steps/episode",
    parse_error_rate: "share of steps",
    unknown_tool_calls: "calls/episode",
    unknown_tool_rate: "share of calls",
    bad_arguments_calls: "calls/episode",
    bad_arguments_rate: "share of calls",
    tool_error_calls: "calls/episode",
    tool_error_rate: "share of calls",
    exception_calls: "calls/episode",
    exception_rate: "share of calls",
    error_recovery: "share of errors",
    ended_by_text: "share of episodes",
    ended_by_limit: "share of episodes",
    force_quit: "share of episodes",
    user_stop: "share of episodes",
    agent_failed: "share of episodes",
    turns_passed: "share of turns",
    no_call_turns_kept: "share of turns",
    abstained: "share of episodes",
    unparsable: "share of episodes",
    base_tests_passed: "share of episodes",
    prompt_tokens: "tokens/episode",
    completion_tokens: "tokens/episode",
    cost_usd: "US dollars/episode",
}
_CLOCK_UNITS = {wall_seconds: "seconds", agent_seconds: "seconds", env_seconds: "seconds"}


def _metric(measure: object, unit: str) -> Metric:
    description = " ".join((measure.__doc__ or "").split())
    return Metric(measure.__name__, unit, description, measure)  # pyright: ignore


CONTENT_METRICS: tuple[Metric, ...] = tuple(_metric(measure, unit) for measure, unit in _UNITS.items())
"""Those that depend on the trajectory's content alone: equal episodes, equal numbers."""
CLOCK_METRICS: tuple[Metric, ...] = tuple(_metric(measure, unit) for measure, unit in _CLOCK_UNITS.items())
"""Those that depend on the clock."""
METRICS: tuple[Metric, ...] = CONTENT_METRICS + CLOCK_METRICS
