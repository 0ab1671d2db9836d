"""Test output prediction: a problem, a function and an input; the model says what a right function returns (spec 1.9).

One record: {"question_id": "2777", "test_id": 3, "function_name": "f", "starter_code": "...", "test": "[{\"input\": \"[1, 2]\",
\"output\": \"3\", \"testtype\": \"functional\"}]", ...}. Upstream evaluates the answer in its own process; here only what is a literal, or is
built of literals by signs, + and *, has a value (`literal.py`). Nothing is run.
"""

import ast
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from envs.livecodebench import literal
from envs.livecodebench.literal import NoValue
from trajectories.schema import Message

KEYS = ("question_content", "question_id", "test_id", "test", "function_name")

PERSONA = (
    "You are a helpful programming assistant and an expert Python programmer. You complete assertions about functions."
)


class Question(NamedTuple):
    """One prediction task."""

    id: str
    content: str
    starter_code: str
    function: str
    input: str
    """One JSON value an argument, a line each."""
    expected: str
    """JSON."""


def question_of(record: Mapping[str, Any], where: str) -> Question:
    """The task of a record. Raises KeyError, TypeError or ValueError for one of another form."""
    test = record["test"]
    row = (json.loads(test) if isinstance(test, str) else test)[0]
    json.loads(row["output"])
    task_id = f"{record['question_id']}_{record['test_id']}"
    starter = str(record.get("starter_code") or "")
    return Question(task_id, record["question_content"], starter, record["function_name"], row["input"], row["output"])


def messages(question: Question) -> tuple[Message, ...]:
    """The problem, the function, and an assertion with its right side open."""
    arguments = ", ".join(question.input.split("\n"))
    asked = (
        f"### Problem:\n{question.content}\n\n### Function:\n```python\n{question.starter_code}\n```\n\n"
        "Complete this assertion with the value that a correct function returns. Give the whole assertion between backticks.\n"
        f"```python\nassert {question.function}({arguments}) == # your value\n```\n"
    )
    return (Message(role="system", content=PERSONA), Message(role="user", content=asked))


def extract(text: str) -> str:
    """The last line that starts with `assert`; else the first ```python block, else the first fenced block."""
    lines = text.split("\n")
    asserted = [line for line in lines if line.startswith("assert")]
    if asserted:
        return asserted[-1]
    fences = [number for number, line in enumerate(lines) if "```" in line]
    python = [number for number in fences if "```python" in lines[number] or "```Python" in lines[number]]
    fences = [number for number in fences if not python or number >= python[0]]
    return "\n".join(lines[fences[0] + 1 : fences[1]]) if len(fences) >= 2 else ""


def value_said(answer: str) -> Any:
    """The value that an extracted answer claims. Raises NoValue."""
    lines = answer.splitlines()
    if len(lines) > 1:
        answer = next((line for line in lines if not line.startswith("#") and "assert" in line), answer)
    answer = answer.strip()
    return _asserted(answer) if "assert" in answer else literal.value_of(answer)


def _asserted(text: str) -> Any:
    body: list[ast.stmt] = literal.parsed(text, "exec").body
    claim = body[0].test if body and isinstance(body[0], ast.Assert) else None
    if not isinstance(claim, ast.Compare) or not isinstance(claim.ops[0], ast.Eq):
        raise NoValue("no assertion of an equality")
    return literal.evaluate(claim.comparators[0])


def passes(question: Question, answer: str, grader: str) -> tuple[bool, str]:
    """Whether the extracted answer is right, and why not. `strict` counts a tuple as the list that JSON has for it."""
    try:
        said = value_said(answer)
    except NoValue as error:
        return False, str(error)[:200]
    said = list(said) if grader == "strict" and isinstance(said, tuple) else said
    return (True, "") if said == json.loads(question.expected) else (False, "another value")
