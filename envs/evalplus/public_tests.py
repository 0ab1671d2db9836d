"""The tests that a task's own prompt shows: MBPP's printed assertion, HumanEval's `>>>` examples with a literal result."""

import ast
import doctest
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from envs import judging
from envs.code_episodes import PublicTest
from envs.evalplus.comparing import equal
from envs.evalplus.problems import Problem
from envs.sandbox.limits import Limits
from envs.sandbox.results import CallResult, Status
from envs.sandbox.worker import Code, request

LIMITS = Limits(wall_s=4.0, memory_mib=1024)
_IMPORTS = "import math\n"


class Example(NamedTuple):
    """An expression that calls the solution, and one for what it should be."""

    call: str
    expected: str


@lru_cache(maxsize=1024)
def examples(prompt: str, category: str) -> tuple[Example, ...]:
    """What the prompt shows, in its order; nothing where it can't be read."""
    text = _docstring(prompt)
    return tuple(_assertions(text) if category == "mbpp" else _doctests(text))


def run(problem: Problem, code: str) -> list[PublicTest]:
    """What became of each example. The expected sides are evaluated without the code."""
    shown = examples(problem.prompt, problem.category)
    expected = _evaluated("", [example.expected for example in shown])
    got = _evaluated(code, [example.call for example in shown])
    return [
        _result(problem, example, *pair) for example, pair in zip(shown, zip(got, expected, strict=True), strict=True)
    ]


def _evaluated(code: str, expressions: Sequence[str]) -> list[CallResult]:
    if not expressions:
        return []
    source = "".join(f"def _public_{index}():\n    return ({text}\n)\n" for index, text in enumerate(expressions))
    with judging.lease() as worker, worker.open_session(Code(code, prelude=_IMPORTS), LIMITS) as session:
        if session.load.status is not Status.OK:
            return [session.load] * len(expressions)
        session.execute(source)
        return session.run([request(f"_public_{index}") for index in range(len(expressions))])


def _result(problem: Problem, example: Example, got: CallResult, expected: CallResult) -> PublicTest:
    right = got.status is Status.OK and equal(got.value, expected.value, problem.atol)
    error = "" if got.status is Status.OK else got.text or got.status.value
    return PublicTest(right, example.call, _shown(expected.value), _shown(got.value), error)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python prints no int of so many digits
        return "a number of very many digits"


def _docstring(prompt: str) -> str:
    """The text of the prompt's last string constant that stands by itself."""
    try:
        tree = ast.parse(prompt)
    except (SyntaxError, ValueError):
        return ""
    texts = [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    return next((text for text in reversed(texts) if isinstance(text, str)), "")


def _assertions(text: str) -> Iterator[Example]:
    start = text.find("\nassert ")
    try:
        statements = ast.parse(text[start + 1 :]).body if start >= 0 else []
    except (SyntaxError, ValueError):
        return
    for statement in statements:
        if isinstance(statement, ast.Assert):
            yield _example(statement.test)


def _example(test: ast.expr) -> Example:
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        return Example(ast.unparse(test.left), ast.unparse(test.comparators[0]))
    return Example(f"bool({ast.unparse(test)})", "True")


def _doctests(text: str) -> Iterator[Example]:
    try:
        found = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return
    for example in found:
        if _is_literal(example.want) and _is_expression(example.source):
            yield Example(example.source.strip(), example.want.strip())


def _is_literal(text: str) -> bool:
    return _parses(ast.literal_eval, text.strip())


def _is_expression(text: str) -> bool:
    return _parses(lambda source: ast.parse(source, mode="eval"), text.strip())


def _parses(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return False
    return True
