"""Code execution: a function and a call; the model says what the call returns (spec 1.9).

One record: {"id": "sample_0", "code": "def f(n): ...", "input": "f(3)", "output": "6", "problem_id": 0, "function_name": "f", ...}.
The answer is evaluated in the jail beside the function, and its value is compared here, where upstream runs `assert <output> == <answer>`
with both in one process (3 s). An answer that holds the call itself is no prediction and fails.

Known differences: upstream leaves such an answer out of the count where another attempt has none; it fails all answers where pandas is not
installed; and an answer such as `1 or True` passes there.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from envs.livecodebench import literal
from envs.livecodebench.literal import NoValue
from envs.sandbox.limits import Limits
from envs.sandbox.results import Status
from envs.sandbox.worker import Code, Worker, request
from trajectories.schema import Message

KEYS = ("id", "code", "input", "output")
TIME_LIMIT_S = 3.0

IMPORTS = """from collections import *
from itertools import *
from functools import *
from heapq import *
from bisect import *
from math import *
from operator import *
from string import *
from random import *
from copy import deepcopy
from typing import *
from builtins import *
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string, sys
"""

PERSONA = "You are an expert Python programmer, and you say exactly what code returns."

FIRST_EXAMPLE = """[PYTHON]
def doubled(values):
    return [value * 2 for value in values]
assert doubled([3, 1]) == ??
[/PYTHON]
[ANSWER]
assert doubled([3, 1]) == [6, 2]
[/ANSWER]
"""
SECOND_EXAMPLE = """[PYTHON]
def first_letter(text):
    return text[:1] or "none"
assert first_letter("") == ??
[/PYTHON]
[ANSWER]
assert first_letter("") == "none"
[/ANSWER]
"""
REASONED_EXAMPLE = """[PYTHON]
def total(text):
    return sum(int(letter) for letter in text if letter.isdigit())
assert total("a1b22") == ??
[/PYTHON]
[THOUGHT]
The digits in "a1b22" are 1, 2 and 2. Their sum is 5.
[/THOUGHT]
[ANSWER]
assert total("a1b22") == 5
[/ANSWER]
"""


class Question(NamedTuple):
    """One execution task."""

    id: str
    code: str
    call: str
    expected: str


def question_of(record: Mapping[str, Any], where: str) -> Question:
    """The task of a record. Raises KeyError, TypeError or ValueError for one of another form."""
    parts = [record[key] for key in KEYS]
    if not all(isinstance(part, str) for part in parts):
        raise TypeError("a field is no text")
    question = Question(*parts)
    literal.value_of(question.expected)
    return question


def messages(question: Question, reasoned: bool) -> tuple[Message, ...]:
    """Worked examples, then the function and an assertion with `??`; the answer is asked for in [ANSWER] tags."""
    asked = (
        "You are given a Python function and an assertion with a call of it. Replace ?? by a literal, the value that the call "
        "returns, and give the whole assertion in [ANSWER] and [/ANSWER] tags. "
    )
    if reasoned:
        asked += f"Think step by step in [THOUGHT] tags before you answer.\n\n{REASONED_EXAMPLE}\n"
    else:
        asked += f"Give no explanation.\n\n{FIRST_EXAMPLE}\n{SECOND_EXAMPLE}\n"
    task = f"[PYTHON]\n{question.code}\nassert {question.call} == ??\n[/PYTHON]\n"
    return (
        Message(role="system", content=PERSONA),
        Message(role="user", content=asked + task + ("[THOUGHT]\n" if reasoned else "[ANSWER]\n")),
    )


def extract(text: str, reasoned: bool) -> str:
    """What stands after the first `==` (to the next one), up to the closing tag, or on its first line."""
    if reasoned and "[ANSWER]" in text:
        text = text.split("[ANSWER]")[1].strip()
    if "==" in text:
        text = text.split("==")[1].strip()
    return text.split("[/ANSWER]")[0].strip() if "[/ANSWER]" in text else text.split("\n")[0].strip()


def passes(worker: Worker, question: Question, answer: str, grader: str) -> tuple[bool, str]:
    """Whether the extracted answer is the value of the call, and why not.

    `official` runs an answer that is no literal, as upstream does, so that `f( 3)` passes where f(3) is asked; `strict` wants a value.
    """
    if question.call in answer:
        return False, "the answer holds the call itself"
    try:
        said = literal.value_of(answer)
    except NoValue as error:
        if grader == "strict":
            return False, str(error)[:200]
        source = f"{question.code}\ndef _said():\n    return (\n{answer}\n)\n"
        limits = Limits(wall_s=TIME_LIMIT_S)
        called = worker.call_all(Code(source, IMPORTS), [request("_said")], limits, stop=True)
        result = called.results[0] if called.load.status is Status.OK else called.load
        if result.status is not Status.OK:
            return False, f"{result.status.value}: {result.text}"[:200]
        said = result.value
    try:
        same = bool(said == literal.value_of(question.expected))
    except (ValueError, RecursionError):  # an array that is compared with a list
        same = False
    return (True, "") if same else (False, "another value")
