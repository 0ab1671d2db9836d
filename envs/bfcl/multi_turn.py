"""Grades a multi-turn episode by replay: the model's calls and the ground truth's on fresh simulators.

Source: `multi_turn_checker` and the runner around it, bfcl-eval 2025.8.6.2. After each turn whose ground truth calls
something, the model must have called something in that turn, the public state of all involved classes must be equal,
and the turn's ground-truth results must be among all results of the model so far. Turns without ground truth are
played and never checked. Quirks that `official` keeps:

- A free-text argument that contains `<tool name>(` is corrupted differently on the two sides (see `execute.py`), so
  even the identical call can fail.
- Both sides share what the simulators' modules share: TwitterAPI's default list of mentions, and in long-context
  tasks the padded credit cards and bookings; a change by one side is seen by the other. Upstream carries such changes
  from one task to the next; here every check starts from fresh modules.
- multi_turn_base_154 has one turn more in its ground truth than in its questions, so no episode can pass.

Where upstream raises (a directory copied into itself makes the comparison of states endless, or a side lacks an
attribute), the verdict is a state mismatch.

`strict` has the same three rules without the first two quirks, and says in `detail` how many turns passed and how
often the model kept quiet where it should.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from envs.bfcl.dataset import Row
from envs.bfcl.execute import Key, key_text
from envs.bfcl.outcome import Outcome
from envs.bfcl.simulators import Simulation, lend_world

FORCE_TERMINATED = "multi_turn:force_terminated"
EMPTY_TURN = "multi_turn:empty_turn_model_response"
STATE_MISMATCH = "multi_turn:instance_state_mismatch"
RESPONSE_MISMATCH = "multi_turn:execution_response_mismatch"

SHOWN_RESULTS, SHOWN_CHARACTERS = 5, 300
"""How much of the missing results a verdict's `detail` quotes; in long context one can be 100 kB."""

Steps = Sequence[Sequence[str]]
"""The call strings of one turn, step by step."""


class _Fault(NamedTuple):
    error_type: str
    detail: dict[str, Any]


def check_multi_turn(turns: Sequence[Steps], row: Row) -> Outcome:
    """The official verdict; `detail` has the turn that failed and what differed."""
    truth = row.ground_truth or []
    if len(turns) != len(truth):
        return _force_terminated(turns, truth)
    with lend_world(row) as world:
        model = Simulation(row, world=world, side="_eval")
        reference = Simulation(row, world=world, side="_ground_truth_eval")
        for turn, fault in enumerate(_turn_faults(turns, truth, model, reference)):
            if fault is not None:
                return Outcome(False, fault.error_type, {"turn": turn, **fault.detail})
    return Outcome(True)


def check_multi_turn_strict(turns: Sequence[Steps], row: Row) -> Outcome:
    """What is right; `detail` counts turns.

    `turns_checked` turns call for an action and `turns_passed` of them have it right; of `no_call_turns` turns that
    call for none the model kept quiet in `no_call_kept`. A turn that the model never reached is not passed nor kept.
    """
    truth = row.ground_truth or []
    reached = turns[: len(truth)]
    with lend_world(row) as ours, lend_world(row) as theirs:
        model = Simulation(row, world=ours, rewrite=False)
        reference = Simulation(row, world=theirs, rewrite=False)
        faults = list(_turn_faults(reached, truth, model, reference))
    first = next(((turn, fault) for turn, fault in enumerate(faults) if fault is not None), None)
    detail = _turn_counts(reached, truth, faults)
    if len(turns) != len(truth):
        lengths = _force_terminated(turns, truth)
        return Outcome(False, lengths.error_type, {**lengths.detail, **detail})
    if first is not None:
        return Outcome(False, first[1].error_type, {"turn": first[0], **first[1].detail, **detail})
    return Outcome(True, None, detail)


def _force_terminated(turns: Sequence[Steps], truth: Sequence[Sequence[str]]) -> Outcome:
    return Outcome(False, FORCE_TERMINATED, {"turns": len(turns), "expected_turns": len(truth)})


def _turn_faults(
    turns: Sequence[Steps], truth: Sequence[Sequence[str]], model: Simulation, reference: Simulation
) -> Iterator[_Fault | None]:
    """What is wrong after each turn, by upstream's three rules; None for nothing, or where nothing is checked."""
    so_far: list[Key] = []
    for steps, expected_calls in zip(turns, truth, strict=False):
        for step in steps:
            so_far += model.run_for_keys(step)
        expected = reference.run_for_keys(expected_calls)
        yield _fault(steps, expected, so_far, model, reference) if expected_calls else None


def _fault(
    steps: Steps, expected: list[Key], so_far: list[Key], model: Simulation, reference: Simulation
) -> _Fault | None:
    if not steps or (len(steps) == 1 and not steps[0]):
        return _Fault(EMPTY_TURN, {})
    differing = _state_difference(model, reference)
    if differing:
        return _Fault(STATE_MISMATCH, {"class": differing[0], "attributes": differing[1]})
    missing = _missing(expected, so_far)
    shown = [text[:SHOWN_CHARACTERS] for text in missing[:SHOWN_RESULTS]]
    return _Fault(RESPONSE_MISMATCH, {"missing": shown, "missing_count": len(missing)}) if missing else None


def _missing(expected: list[Key], so_far: list[Key]) -> list[str]:
    """The expected result strings that are not among those so far, each as often as it lacks."""
    if not Counter(expected) - Counter(so_far):
        return []
    lacking = Counter(map(key_text, expected)) - Counter(map(key_text, so_far))
    return list(lacking.elements())


def _state_difference(model: Simulation, reference: Simulation) -> tuple[str, list[str]] | None:
    """The first class whose public attributes differ, and which."""
    for name, expected in reference.instances.items():
        found = vars(model.instances[name])
        differing = [
            key
            for key, value in vars(expected).items()
            if key[0] != "_" and (key not in found or _differ(found[key], value))
        ]
        if differing:
            return name, differing
    return None


def _differ(found: Any, expected: Any) -> bool:
    if not hasattr(expected, "contents"):
        return bool(found != expected)
    try:
        return _tree(found) != _tree(expected)
    except RecursionError:
        return True


def _tree(item: Any) -> tuple[str, Any]:
    """A file or a directory as upstream compares it: the simulators of two worlds have classes of their own."""
    if hasattr(item, "contents"):
        return item.name, {name: _tree(inner) for name, inner in item.contents.items()}
    return item.name, item.content


def _turn_counts(
    reached: Sequence[Steps], truth: Sequence[Sequence[str]], faults: Sequence[_Fault | None]
) -> dict[str, Any]:
    quiet = [not any(steps) for steps, calls in zip(reached, truth, strict=False) if not calls]
    passed = [fault is None for fault, calls in zip(faults, truth, strict=False) if calls]
    return {
        "turns_checked": sum(1 for calls in truth if calls),
        "turns_passed": sum(passed),
        "no_call_turns": sum(1 for calls in truth if not calls),
        "no_call_kept": sum(quiet),
    }
