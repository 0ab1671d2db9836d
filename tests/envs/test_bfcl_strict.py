"""The strict single-turn verdicts: where they differ from the official ones, and where they must not."""

from typing import Any

import pytest

from envs.bfcl.checker import check_calls
from envs.bfcl.dataset import load
from envs.bfcl.decode import DecodeError, decode_ast
from envs.bfcl.strict import check_calls_strict, check_relevance_strict


def functions() -> list[dict[str, Any]]:
    return [{"name": "f", "parameters": {"properties": {"a": {"type": "float"}}, "required": []}}]


def both(calls: list[Any], answer: list[Any]) -> tuple[bool, bool]:
    return tuple(
        check(functions(), calls, answer, "Python", "parallel", underscore_to_dot=False).valid
        for check in (check_calls, check_calls_strict)
    )


def call(value: Any) -> dict[str, Any]:
    return {"f": {"a": value}}


def test_parallel_calls_are_matched_as_well_as_possible() -> None:
    answer = [call([1.0, 2.0]), call([1.0])]
    assert both([call(1.0), call(2.0)], answer) == (False, True)
    assert both([call(2.0), call(1.0)], answer) == (True, True)
    assert both([call(2.0), call(2.0)], answer) == (False, False)


def test_a_longer_chain_of_choices_is_found() -> None:
    answer = [call([1.0, 2.0]), call([2.0, 3.0]), call([3.0, 4.0]), call([1.0])]
    assert both([call(1.0), call(2.0), call(3.0), call(4.0)], answer) == (False, True)


def test_a_call_that_upstream_crashes_on_just_does_not_fit() -> None:
    outcome = check_calls_strict(
        functions(),
        [call(10**400), call(1.0)],
        [call([1.0]), call([1.0])],
        "Python",
        "parallel",
        underscore_to_dot=False,
    )
    assert outcome.error_type == "parallel_function_checker_no_order:cannot_find_match"


def test_other_categories_and_counts_are_judged_officially() -> None:
    for calls, category in [([call(1.0)], "simple"), ([], "parallel"), ("text", "parallel"), ([call(2.0)], "multiple")]:
        arguments = (functions(), calls, [call([1.0])], "Python", category)
        assert check_calls_strict(*arguments, underscore_to_dot=False) == check_calls(
            *arguments, underscore_to_dot=False
        )


def decoded(text: str) -> Any:
    try:
        return decode_ast(text)
    except DecodeError as error:
        return error


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[f(a=1)]", "called"),
        ("", "abstained"),
        ("[]", "abstained"),
        ("()", "abstained"),
        ("None of the functions can be used.", "abstained"),
        ("I need the city (and the date) to call it.", "abstained"),
        ("The function get_weather(city) does not fit.", "abstained"),
        ("[f(a=1]", "unparsable"),
        ("Sure! [f(a=1)]", "unparsable"),
        ("```python\n[f(a=1)]\n```", "unparsable"),
        ("python\nf(a=1)", "unparsable"),
        ("f(a=1) f(a=2)", "unparsable"),
        ('<tool_call>\n{"name": "f"}\n</tool_call>', "unparsable"),
        ('{"name": "f", "arguments": {}}', "unparsable"),
    ],
)
def test_abstaining_is_told_from_calls_that_can_not_be_read(text: str, kind: str) -> None:
    irrelevance = check_relevance_strict(decoded(text), "irrelevance")
    assert irrelevance.detail["kind"] == kind
    assert irrelevance.valid == (kind == "abstained")
    relevance = check_relevance_strict(decoded(text), "live_relevance")
    assert relevance.valid == (kind == "called")


def test_an_output_that_is_no_list_of_calls_is_unparsable() -> None:
    assert check_relevance_strict([{"f": 1}], "irrelevance").detail["kind"] == "unparsable"


def test_parallel_178_depends_on_order_officially_and_not_strictly(bfcl_data: object) -> None:
    row = load("test").rows["parallel_178"]
    calls = [
        {name: {parameter: next(o for o in options if o != "") for parameter, options in given.items()}}
        for expected in row.ground_truth
        for name, given in expected.items()
    ]
    arguments = (row.ground_truth, "Python", "parallel")
    orders = [calls, calls[::-1]]
    official = [check_calls(row.functions, order, *arguments, underscore_to_dot=False).valid for order in orders]
    strict = [check_calls_strict(row.functions, order, *arguments, underscore_to_dot=False).valid for order in orders]
    assert sorted(official) == [False, True]
    assert strict == [True, True]
