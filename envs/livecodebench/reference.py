"""A right solution for a problem that comes without one: a program that knows the tests. Privileged: for the oracle and for tests."""

import base64
import hashlib
import json
import zlib

from envs.livecodebench.official import arguments
from envs.livecodebench.records import Problem

_TABLE = """import base64, hashlib, json, zlib

ANSWERS = json.loads(zlib.decompress(base64.b64decode("{table}")))


def answer(text):
    return ANSWERS[hashlib.sha256(text.encode()).hexdigest()[:16]]
"""
_PROGRAM = "\n\nimport sys\nprint(answer(sys.stdin.read()), end='')\n"
_FUNCTION = """

class Solution:
    def {name}(self, *arguments):
        return json.loads(answer(json.dumps(arguments)))
"""


def knows_the_tests(problem: Problem) -> str:
    """A program that gives each test's expected output for its input, and so passes if each input has one output.

    Its length grows with the outputs: the sandbox refuses more than 256 KiB.
    """
    known = {_key(problem, index): test.output for index, test in enumerate(problem.tests)}
    table = base64.b64encode(zlib.compress(json.dumps(known).encode(), 9)).decode()
    solved = _PROGRAM if problem.function is None else _FUNCTION.format(name=problem.function)
    return _TABLE.format(table=table) + solved


def _key(problem: Problem, index: int) -> str:
    test = problem.tests[index]
    text = test.input if problem.function is None else json.dumps(arguments(test))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
