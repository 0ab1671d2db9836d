"""BFCL's single-turn verdicts as they should be: the official rules less the faults that are known.

Differences from `checker.py`: parallel calls are matched as well as possible instead of greedily; where upstream raises,
the call just doesn't fit; where nothing should be called, output that tries to call but can't be read is no abstaining
(upstream's issues 443 and 1362).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from envs.bfcl.checker import VALID, CallTask, Crash, check_calls, holds_calls, no_match, well_formed
from envs.bfcl.decode import DecodeError
from envs.bfcl.outcome import Outcome

# A list of calls, markup or JSON of native calls; or text that opens with a call, perhaps after the name of a language.
_ATTEMPT: Final = re.compile(r"\[\s*[A-Za-z_][\w.]*\s*\(|<tool_call>|<function[=_]|\"(?:arguments|parameters)\"\s*:")
_OPENING_CALL: Final = re.compile(r"(?:\w+\n)?[A-Za-z_][\w.]*\(")


def check_calls_strict(
    functions: Sequence[Mapping[str, Any]],
    decoded: Any,
    answer: Sequence[Mapping[str, Any]],
    language: str,
    category: str,
    *,
    underscore_to_dot: bool,
) -> Outcome:
    """The verdict by the strict rules; arguments and error types as of `checker.check_calls`."""
    if "parallel" not in category or not well_formed(decoded) or len(decoded) != len(answer):
        return check_calls(functions, decoded, answer, language, category, underscore_to_dot=underscore_to_dot)
    task = CallTask(functions, answer, language, underscore_to_dot)
    fits = [
        [index for index, call in enumerate(decoded) if _fits(task, call, expected)] for expected in range(len(answer))
    ]
    lonely = _unmatched(fits)
    return VALID if lonely is None else no_match(lonely)


def check_relevance_strict(decoded: Any, category: str) -> Outcome:
    """As `checker.check_relevance`, but unreadable attempts at a call are told from abstaining, and fail irrelevance.

    `detail["kind"]` is `called`, `unparsable` or `abstained`, for both kinds of categories.
    """
    kind = _kind(decoded)
    if "irrelevance" in category:
        error = {"called": "irrelevance_error:decoder_success", "unparsable": "irrelevance_error:unparsable"}.get(kind)
    else:
        error = None if kind == "called" else f"relevance_error:{kind}"
    return Outcome(error is None, error, {"kind": kind})


def _kind(decoded: Any) -> str:
    if holds_calls(decoded):
        return "called"
    if isinstance(decoded, DecodeError):
        return "unparsable" if attempts_call(decoded.text) else "abstained"
    return "abstained" if decoded == [] else "unparsable"


def attempts_call(text: str) -> bool:
    """Whether an answer that holds no readable call seems to try one."""
    return _ATTEMPT.search(text) is not None or _OPENING_CALL.match(text.strip("`\n ")) is not None


def _fits(task: CallTask, call: Mapping[str, Any], expected: int) -> bool:
    try:
        return task.judge(call, expected).valid
    except Crash:
        return False


def _unmatched(fits: Sequence[Sequence[int]]) -> int | None:
    """The first expected call that no assignment of distinct calls can serve; None if all can be served (Kuhn's method)."""
    owner: dict[int, int] = {}

    def serve(expected: int, tried: set[int]) -> bool:
        for call in fits[expected]:
            if call not in tried:
                tried.add(call)
                if call not in owner or serve(owner[call], tried):
                    owner[call] = expected
                    return True
        return False

    return next((expected for expected in range(len(fits)) if not serve(expected, set())), None)
