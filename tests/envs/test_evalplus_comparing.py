"""Each rule by which EvalPlus compares a result with the expected one, in both graders."""

import hashlib
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from envs.evalplus.comparing import Official, Strict
from envs.evalplus.problems import Problem
from envs.evalplus.references import Reference, References, is_floats
from envs.sandbox.results import CallResult, Status
from envs.sandbox.supervisor import encode

NAN = float("nan")


def problem(entry_point: str = "f", category: str = "mbpp", atol: float = 0.0, inputs: Any = ()) -> Problem:
    return Problem("Mbpp/90009", "Mbpp/90009", category, entry_point, "", "", atol, [], list(inputs))


def reference(value: Any) -> Reference:
    kind, body = encode(value)
    assert kind == b"V"
    return Reference(body, hashlib.sha256(body).hexdigest(), len(body), is_floats(value), False, 0.0)


def result(value: Any) -> CallResult:
    kind, body = encode(value)
    if kind != b"V":
        return CallResult(Status.UNDECODABLE, None, body.decode(), 0.0, b"")
    return CallResult(Status.OK, None, "", 0.0, body)


def verdicts(outs: list[Any], expected: list[Any], task: Problem | None = None) -> tuple[list[bool], list[bool]]:
    """(official, strict) on one call each, in order."""
    task = task or problem(inputs=[[]] * len(expected))
    refs = References(task, "plus", [reference(value) for value in expected])
    rules = Official(task, "plus", refs), Strict(task, "plus", refs)
    return tuple([rule.passes(index, result(out)) for index, out in enumerate(outs)] for rule in rules)


def both(out: Any, expected: Any, task: Problem | None = None) -> tuple[bool, bool]:
    official, strict = verdicts([out], [expected], task)
    return official[0], strict[0]


@pytest.mark.parametrize(
    ("out", "expected", "official", "strict"),
    [
        (2, 2, True, True),
        (2, 3, False, False),
        (2, 2.0, True, True),
        (True, 1, True, True),
        (2.0000001, 2.0, True, True),
        (2.00001, 2.0, False, False),
        (1e12 + 9e4, 1e12, True, True),
        (2.0000001, 2, False, False),
        (np.float64(2.0), 2.0, True, True),
        (np.float64(2.0000001), 2.0, False, True),
        (np.int64(5), 5, True, True),
        (np.bool_(True), True, True, True),
        (np.array([5]), 5, True, True),
        (np.array([1, 2]), [1, 2], False, False),
        (NAN, NAN, False, True),
        ([1.0, NAN], [1.0, NAN], False, True),
        (math.inf, math.inf, True, True),
        (-math.inf, math.inf, False, False),
        ([1, 2], (1, 2), False, False),
        ((1, 2), (1, 2), True, True),
        ([0.1 + 0.2, 1.0], [0.3, 1.0], True, True),
        ((0.1 + 0.2,), (0.3,), True, True),
        ([0.1 + 0.2, 1], [0.3, 1], False, True),
        ([0.3], [0.3, 0.3], False, False),
        ([[0.1 + 0.2]], [[0.3]], False, True),
        ({"a": 0.1 + 0.2}, {"a": 0.3}, False, True),
        ({"a": 1}, {"a": 1, "b": 2}, False, False),
        (Counter("aab"), {"a": 2, "b": 1}, True, True),
        ({1, 2}, {2, 1}, True, True),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, True, True),
        (None, None, True, True),
        (0, None, False, False),
        ("a", ["a"], False, False),
        ((x for x in [1]), [1], False, False),
        (10**400, 1.0, False, False),
        (1 + 1e-9j, 1 + 0j, False, True),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_are_compared_as_the_rules_say(out: Any, expected: Any, official: bool, strict: bool) -> None:
    assert both(out, expected) == (official, strict)


def test_a_tolerance_once_needed_stays_for_later_tests_of_the_official_grader() -> None:
    official, strict = verdicts([5, 1.5, 5.0000001], [5, 1.5, 5])
    assert official == [True, True, False]  # the type differs
    assert strict == [True, True, False]
    official, strict = verdicts([[1], 1.5, [1 + 1e-8]], [[1], 1.5, [1]])
    assert official == [True, True, True]
    assert strict == [True, True, False]
    assert verdicts([[1 + 1e-8], 1.5], [[1], 1.5]) == ([False, True], [False, True])


def test_a_task_with_a_tolerance_has_it_for_every_value() -> None:
    task = problem(atol=1e-4, inputs=[[]])
    assert both(1.00009, 1.0, task) == (True, True)
    assert both(1.0002, 1.0, task) == (False, False)
    assert both([1.00009], [1], task) == (True, True)
    assert both(1.00009, 1, task) == (False, True)


@pytest.mark.parametrize("entry", ["similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly",
                                   "larg_nnum", "intersection_array", "find_dissimilar", "Diff"])  # fmt: skip
def test_set_tasks_compare_sets_of_whatever_is_iterable(entry: str) -> None:
    task = problem(entry, inputs=[[]])
    assert both([2, 1, 1], (1, 2), task) == (True, True)
    assert both("ab", ["b", "a"], task) == (True, True)
    assert both([1], (1, 2), task) == (False, False)
    assert both([[1]], (1,), task) == (False, False)
    assert both(3, (3,), task) == (False, False)


@pytest.mark.parametrize("entry", ["check_str", "text_match_three", "text_starta_endb"])
def test_match_tasks_ask_whether_there_is_a_result(entry: str) -> None:
    task = problem(entry, inputs=[[]])
    assert both(object(), True, task) == (True, True)
    assert both(object(), False, task) == (False, False)
    assert both("Found", True, task) == (True, True)
    assert both(None, False, task) == (True, True)
    assert both(False, True, task) == (False, False)
    assert both(False, False, task) == (True, True)


def test_tasks_with_a_second_right_answer_take_it() -> None:
    assert both(0, 6, problem("sum_div", inputs=[[7]])) == (True, True)
    assert both(1, 6, problem("sum_div", inputs=[[7]])) == (False, False)
    pyramid = problem("surface_Area", inputs=[[3, 4]])
    assert both(35, 33, pyramid) == (True, True)
    assert both(34, 33, pyramid) == (False, False)
    digits = problem("digit_distance_nums", inputs=[[123, 56]])
    assert both(1 + 3 + 3, 99, digits) == (True, True)
    assert both(8, 99, digits) == (False, False)
    assert both(5, 99, problem("are_equivalent", inputs=[[1, 2]])) == (True, True)


def test_a_root_is_checked_on_the_coefficients_that_were_sent() -> None:
    task = problem("find_zero", category="humaneval", atol=1e-4, inputs=[[[-6, 11, -6, 1]]])
    assert both(1.0, 3.0, task) == (True, True)
    assert both(2, 3.0, task) == (True, True)
    assert both(2.00001, 3.0, task) == (True, True)
    assert both(2.5, 3.0, task) == (False, False)
    assert both(None, 3.0, task) == (False, False)
    assert both(NAN, 3.0, task) == (False, False)
    assert both(10**9000, 3.0, task) == (False, False)
    assert both(3.0, 3.0, task) == (True, True)
    assert both(1 + 0j, 3.0, task) == (False, False)


def test_a_whole_number_of_numpy_that_wraps_around_to_0_is_no_root() -> None:
    task = problem("find_zero", category="humaneval", atol=1e-4, inputs=[[[2, 3, 4, 6]]])
    assert both(np.int64(-6148914691236517206), -0.7, task) == (False, False)


def test_a_result_cant_cost_the_grader_its_memory() -> None:
    task = problem(atol=1e-6, inputs=[[]])
    assert both([[[1.0]] * 500] * 1000, [1.0] * 1000, task) == (False, False)
    assert both([np.zeros((60_000, 1), "i1")], list(range(100_000)), problem(inputs=[[]])) == (False, False)
    sets = problem("similar_elements", inputs=[[]])
    assert both([(2**61 - 1) * number for number in range(1, 20_000)], {1}, sets) == (False, False)


def test_an_object_counts_as_the_builtin_that_it_holds_whatever_it_says_of_itself() -> None:
    liar = type("Liar", (float,), {"__eq__": lambda self, other: True, "__hash__": float.__hash__})
    assert both(liar(3.0), 4.0, problem(atol=1e-4, inputs=[[]])) == (False, False)
    assert both(type("Liar", (), {"__eq__": lambda self, other: True, "__hash__": None})(), 4) == (False, False)


def test_a_result_of_other_bytes_than_a_long_expected_one_is_compared_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    task = problem(inputs=[[]])
    long = reference(list(range(10)))
    refs = References(task, "plus", [long._replace(body=b"")])
    asked: list[int] = []
    monkeypatch.setattr(
        "envs.evalplus.references._again", lambda problem, tests, index: asked.append(index) or long.body
    )
    official = Official(task, "plus", refs)
    assert official.passes(0, result(list(range(10))))
    assert asked == []
    assert official.passes(0, result([float(number) for number in range(10)]))
    assert not official.passes(0, result([1]))
    assert asked == [0, 0]


def test_no_call_that_ended_otherwise_passes() -> None:
    task = problem(inputs=[[]])
    refs = References(task, "plus", [reference(None)])
    for status in Status:
        if status is not Status.OK:
            assert not Official(task, "plus", refs).passes(0, CallResult(status, None, "", 0.0, b""))
            assert not Strict(task, "plus", refs).passes(0, CallResult(status, None, "", 0.0, b""))
