"""The official single-turn verdicts on small made-up tasks; each verdict and error type here is upstream's."""

import time
from typing import Any

import pytest

from envs.bfcl.checker import CRASH, check_calls, check_relevance
from envs.bfcl.decode import DecodeError
from envs.bfcl.java import read_java
from envs.bfcl.javascript import read_javascript


def doc(name: str = "f", required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    declared = {
        parameter: {"type": "array", "items": {"type": kind[1:]}} if kind.startswith("*") else {"type": kind}
        for parameter, kind in properties.items()
    }
    return {"name": name, "parameters": {"type": "dict", "properties": declared, "required": list(required)}}


def verdict(kind: str, allowed: list[Any], value: Any, language: str = "Python") -> str | None:
    """The error type of f(a=value) where f's parameter has the given type (`*x`: array of x)."""
    call, answer = [{"f": {"a": value}}], [{"f": {"a": allowed}}]
    return check_calls([doc(a=kind)], call, answer, language, "simple", underscore_to_dot=False).error_type


@pytest.mark.parametrize(
    ("kind", "allowed", "value", "error_type"),
    [
        ("integer", [1, 2], 2, None),
        ("integer", [1], 3, "value_error:others"),
        ("integer", [1], 1.0, "type_error:simple"),
        ("integer", [1], True, "type_error:simple"),
        ("integer", [1], "1", "type_error:simple"),
        ("integer", ["x"], "x", None),
        ("integer", ["x"], "X", "value_error:others"),
        ("float", [1.5], 1.5, None),
        ("float", [2.0], 2, None),
        ("float", [2], 2.0, None),
        ("boolean", [True], True, None),
        ("boolean", [True], 1, "type_error:simple"),
        ("string", ["April 1, 2024"], "april 1 2024", None),
        ("string", ["it's"], 'it"s', None),
        ("string", ["a b"], "a.b-/_*^,", None),
        ("string", ["ab"], "abc", "value_error:string"),
        ("string", ["", "ab"], "", None),
        ("any", ["x"], "X", None),
        ("any", [5], 5, None),
        ("*string", [["a", "B c"]], ["A", "bc"], None),
        ("*string", [["a", "b"]], ["b", "a"], "value_error:list/tuple"),
        ("*string", [["a", "b"]], ("a", "b"), "type_error:simple"),
        ("*string", [["a"]], [1], "type_error:nested"),
        ("*string", ["", ["a"]], [1], "value_error:list/tuple"),
        ("*string", ["", ["a"]], [], None),
        ("*string", [""], [], None),
        ("*integer", [[1.0]], [1], None),
        ("*float", [[1.0, 2.0]], [1, 2], "type_error:nested"),
        ("*array", [[["A"]]], [["a"]], "value_error:list/tuple"),
        ("*dict", [[{"k": ["v"]}]], [{"k": "V"}], None),
        ("*dict", [[{"k": ["v"]}]], [], "value_error:list_dict_count"),
        ("*dict", [[{"k": ["v"]}]], [{"k": "w"}], "value_error:dict_value"),
        ("dict", [{"k": ["v", ""], "n": [1]}], {"n": 1.0}, None),
        ("dict", [{"k": ["v"]}], {"k": "V "}, None),
        ("dict", [{"k": ["v"]}], {"k": "v", "x": 1}, "value_error:dict_key"),
        ("dict", [{"k": ["v"]}], {}, "value_error:dict_key"),
        ("dict", [{"k": [{"in": "V"}]}], {"k": {"in": "v"}}, "value_error:dict_value"),
        ("dict", ["", {}], {}, None),
        ("dict", ["name"], "name", None),
        ("dict", [""], {}, "dict_checker:unclear"),
    ],
)
def test_values_by_declared_type(kind: str, allowed: list[Any], value: Any, error_type: str | None) -> None:
    assert verdict(kind, allowed, value) == error_type


def test_a_tuple_is_a_list_only_where_a_tuple_is_declared() -> None:
    functions = [doc(a="tuple")]
    functions[0]["parameters"]["properties"]["a"]["items"] = {"type": "integer"}
    outcome = check_calls(
        functions, [{"f": {"a": (1, 2)}}], [{"f": {"a": [[1, 2]]}}], "Python", "simple", underscore_to_dot=False
    )
    assert outcome.valid


@pytest.mark.parametrize(
    ("kind", "allowed", "value"),
    [
        ("float", [1.0], 10**400),
        ("Set", ["x"], "x"),
        ("dict", [{"k": ["v"]}, ["x"]], {"k": "w"}),
        ("dict", [{"k": 1}], {"k": 1}),
        ("*string", [["a"], 5], ["a"]),
        ("dict", "name", {}),
    ],
)
def test_where_upstream_raises_ours_is_invalid_and_says_so(kind: str, allowed: Any, value: Any) -> None:
    assert verdict(kind, allowed, value) == CRASH


def test_docs_that_lack_what_upstream_reads_crash_it() -> None:
    for parameters in [
        {"properties": {"a": {}}, "required": []},
        {"properties": {"a": {"type": "array"}}, "required": []},
        {"properties": {}},
    ]:
        call, answer = [{"f": {"a": []}}], [{"f": {"a": [[]]}}]
        outcome = check_calls(
            [{"name": "f", "parameters": parameters}], call, answer, "Python", "simple", underscore_to_dot=False
        )
        assert outcome.error_type == CRASH


def test_upstream_crashes_where_no_function_has_the_answers_name() -> None:
    calls, answer = [{"g": {}}], [{"g": {}}]
    multiple = check_calls([doc()], calls, answer, "Python", "multiple", underscore_to_dot=False)
    assert multiple.error_type == CRASH
    assert "'g'" in multiple.detail["why"]
    assert check_calls([doc()], [{"f": {}}], answer, "Python", "simple", underscore_to_dot=False).valid


@pytest.mark.parametrize(
    ("given", "error_type"),
    [
        ({"a": 1, "b": 2}, None),
        ({"a": 1}, None),
        ({"b": 2}, "simple_function_checker:missing_required"),
        ({"a": 1, "b": 2, "c": 3}, "simple_function_checker:unexpected_param"),
        ({"a": 1, "d": 3}, "simple_function_checker:unexpected_param"),
        ({"a": 1, None: 3}, "simple_function_checker:unexpected_param"),
    ],
)
def test_parameters(given: dict[Any, Any], error_type: str | None) -> None:
    functions = [doc(required=("a",), a="integer", b="integer", c="integer")]
    answer = [{"f": {"a": [1], "b": [2, ""], "d": [3, ""]}}]
    outcome = check_calls(functions, [{"f": given}], answer, "Python", "simple", underscore_to_dot=False)
    assert outcome.error_type == error_type
    assert outcome.valid == (error_type is None)


def test_a_parameter_that_the_answer_has_without_an_empty_value_may_not_be_left_out() -> None:
    outcome = check_calls(
        [doc(a="integer")], [{"f": {}}], [{"f": {"a": [1]}}], "Python", "simple", underscore_to_dot=False
    )
    assert outcome.error_type == "simple_function_checker:missing_optional"
    assert outcome.detail["parameter"] == "a"


@pytest.mark.parametrize("decoded", [None, {}, "f()", [1], [{}], [{"f": 1}], [{"f": {}, "g": {}}], ({"f": {}},)])
def test_what_is_no_list_of_calls_has_the_wrong_format(decoded: Any) -> None:
    outcome = check_calls([doc()], decoded, [{"f": {}}], "Python", "simple", underscore_to_dot=False)
    assert outcome.error_type == "ast_decoder:decoder_wrong_output_format"


@pytest.mark.parametrize(
    ("category", "error_type"),
    [
        ("simple", "simple_function_checker:wrong_count"),
        ("java", "simple_function_checker:wrong_count"),
        ("live_multiple", "multiple_function_checker:wrong_count"),
        ("parallel_multiple", "parallel_function_checker_no_order:wrong_count"),
    ],
)
def test_the_number_of_calls_counts(category: str, error_type: str) -> None:
    outcome = check_calls([doc()], [], [{"f": {}}], "Python", category, underscore_to_dot=False)
    assert outcome.error_type == error_type


def test_dots_in_names_become_underscores_for_models_that_can_not_have_them() -> None:
    functions, answer = [doc("a.b")], [{"a.b": {}}]
    for name, underscores, valid in [
        ("a.b", False, True),
        ("a_b", True, True),
        ("a.b", True, False),
        ("a_b", False, False),
    ]:
        outcome = check_calls(functions, [{name: {}}], answer, "Python", "multiple", underscore_to_dot=underscores)
        assert outcome.valid == valid
        assert outcome.error_type == (None if valid else "simple_function_checker:wrong_func_name")


def test_parallel_calls_match_in_any_order_but_greedily() -> None:
    functions = [doc(a="integer")]
    answer = [{"f": {"a": [1, 2]}}, {"f": {"a": [1]}}]
    one, two = {"f": {"a": 1}}, {"f": {"a": 2}}
    assert check_calls(functions, [two, one], answer, "Python", "parallel", underscore_to_dot=False).valid
    outcome = check_calls(functions, [one, two], answer, "Python", "parallel", underscore_to_dot=False)
    assert outcome.error_type == "parallel_function_checker_no_order:cannot_find_match"


@pytest.mark.parametrize(
    ("decoded", "category", "error_type"),
    [
        ([{"f": {}}], "irrelevance", "irrelevance_error:decoder_success"),
        ([], "live_irrelevance", None),
        (DecodeError("no"), "irrelevance", None),
        ([{"f": 1}], "irrelevance", None),
        ([{"f": {}}], "live_relevance", None),
        ([], "live_relevance", "relevance_error:decoder_failed"),
        (DecodeError("no"), "live_relevance", "relevance_error:decoder_failed"),
    ],
)
def test_relevance(decoded: Any, category: str, error_type: str | None) -> None:
    assert check_relevance(decoded, category).error_type == error_type


@pytest.mark.parametrize(
    ("kind", "item", "text", "value"),
    [
        ("integer", None, "12", 12),
        ("integer", None, "12L", "12L"),
        ("long", None, "12L", 12),
        ("long", None, "12", "12"),
        ("float", None, "1.5f", 1.5),
        ("double", None, "1e3", 1000.0),
        ("boolean", None, "true", True),
        ("boolean", None, "True", "True"),
        ("String", None, '"a"', '"a"'),
        ("Array", "integer", "new int[]{1, 2}", [1, 2]),
        ("Array", "String", 'new String[]{"a"}', ['"a"']),
        ("Array", None, 'new Object[]{1, "a", true, 2L}', [1, "a", True, 2]),
        ("Array", None, "int[]{1}", "int[]{1}"),
        ("ArrayList", "String", 'new ArrayList<>(Arrays.asList("a", "b"))', ["a", "b"]),
        ("ArrayList", "integer", "new ArrayList<Integer>() {{ add(1); add(2); }}", [1, 2]),
        ("ArrayList", None, "new ArrayList<>()", []),
        ("ArrayList", "String", 'new ArrayList<>(Arrays.asList("a,b"))', ["", ""]),  # split at the comma, then unquoted
        ("HashMap", None, 'new HashMap<String, Object>() {{ put("a", 1); put("b", "x"); }}', {"a": 1, "b": "x"}),
        ("HashMap", None, "new HashMap<>()", {}),
        ("HashMap", None, "map", "map"),
    ],
)
def test_java_values(kind: str, item: str | None, text: str, value: Any) -> None:
    assert read_java(text, kind, item) == value


@pytest.mark.parametrize(
    ("kind", "item", "text", "value"),
    [
        ("String", None, "'a'", "a"),
        ("String", None, "a", "a"),
        ("integer", None, "-3", -3),
        ("float", None, "3", 3.0),
        ("float", None, "1e3", "1e3"),
        ("Bigint", None, "3n", 3),
        ("Boolean", None, "true", True),
        ("array", "String", "['a', \"b\", c]", ["a", "b", "c"]),
        ("array", None, "new Array(1, 'x', false)", [1, "x", False]),
        ("array", "float", "[[1, 2], [3]]", [[1, 2], [3]]),
        ("array", None, " [ [1], [2] ] ", [[1], [2]]),
        ("array", None, "[]", []),
        ("array", None, "items", "items"),
        ("dict", None, "{a: 1, 'b': [2, 3], \"c\": x}", {"a": 1, "b": [2, 3], "c": "x"}),
        ("dict", None, "{}", {}),
        ("dict", None, "{a: {b: 1}}", {"a": "{b: 1"}),
        ("dict", None, "options", "options"),
    ],
)
def test_javascript_values(kind: str, item: str | None, text: str, value: Any) -> None:
    assert read_javascript(text, kind, item) == value


HOSTILE = [
    "new HashMap<>() {" + " " * 90_000,
    "new HashMap<" * 8_000,
    "new HashMap<>() {{" + 'put("a",' * 10_000,
    "new HashMap<>() {{" + 'put("a",' * 10_000 + "\n)}",
    "new ArrayList<>() {{" + "add(" * 20_000,
    "new ArrayList<>() {{" + "add(" * 20_000 + "\n)}}",
    "new ArrayList<>(Arrays.asList(" * 3_000,
    "new " * 20_000,
    "new a" + "a" * 90_000,
    "[" * 90_000,
    "[[" + "],[" * 30_000,
    "[[" + "] ,\n[" * 18_000 + "]",
    "[ [" + "]" * 90_000,
    "{" + "a" * 90_000 + "}",
    "{" + ":" * 90_000 + "}",
    "{" + "a:," * 30_000 + "}",
    "{" + "a: " + "," * 90_000 + "}",
    "1" * 90_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20])
def test_hostile_source_text_is_read_in_linear_time(text: str) -> None:
    start = time.process_time()
    for kind, item in [
        ("Array", "String"),
        ("ArrayList", None),
        ("ArrayList", "String"),
        ("HashMap", None),
        ("double", None),
    ]:
        read_java(text, kind, item)
    for kind, item in [("array", None), ("array", "array"), ("dict", None), ("float", None), ("String", None)]:
        read_javascript(text, kind, item)
    assert time.process_time() - start < 5
