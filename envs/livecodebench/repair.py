"""Self-repair: a solution that failed is shown back with what went wrong, and may be written anew once (spec 1.9).

The message tells a failing test with its expected output, private ones included, as upstream does: it leaks, and a score that was
won with it is a repair score. Upstream crashes where its own runner failed (-5) or nothing compiled; those get a general sentence.
"""

from typing import Any

from envs.livecodebench.grading import steady
from envs.livecodebench.outcome import Ran
from envs.livecodebench.prompts import ON_STDIN
from envs.livecodebench.records import Problem

SHOWN = 300
"""Characters of an input, an output or a result that are shown."""

_CALL = {-2: "is wrong", -3: "ran out of time", -4: "failed with an error"}


def message(problem: Problem, code: str, ran: Ran) -> str:
    """The request to mend this solution, which did not pass."""
    return (
        f"### Question:\n{problem.content}\n\n### Your code:\n```python\n{code}\n```\n\n{verdict(problem, ran)}\n\n"
        f"### Format: {ON_STDIN}\n```python\n# your code\n```\n\n"
        "### Answer: (say in a few sentences what is wrong, then give the whole corrected program between backticks)\n\n"
    )


def verdict(problem: Problem, ran: Ran) -> str:
    """What is wrong, in a few lines."""
    if ran.failed_test is None or ran.error_code not in _CALL:
        return f"The code above failed to run: {cut(steady(ran.error)) or 'no reason is known'}."
    test = problem.tests[ran.failed_test]
    told = [f"The code above {_CALL[ran.error_code]}.", f"Input: {cut(test.input)}"]
    told += [f"Your output: {cut(shown(ran.got))}"] if ran.error_code == -2 else []
    told += [f"Expected: {cut(test.output)}"]
    told += [f"Error: {cut(steady(ran.error))}"] if ran.error_code != -2 else []
    return "\n".join(told)


def shown(value: Any) -> str:
    """A value as Python prints it, and a number of very many digits by name."""
    try:
        return str(value)
    except ValueError:
        return "a number of very many digits"


def cut(text: str, most: int = SHOWN) -> str:
    """Both ends of a text, as upstream shows it."""
    return text if len(text) <= most else f"{text[: most // 2]}...(truncated) ...{text[-most // 2 :]}"
