"""What BFCL's decoders read of an answer, and what they refuse; each value here is upstream's unless it says otherwise."""

import contextlib
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from envs.bfcl.decode import MAX_TEXT, DecodeError, decode_ast, decode_execute, native_ast, native_execute
from envs.bfcl.plain_calls import read_plain


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[f(a=1)]", [{"f": {"a": 1}}]),
        ("f(a=1)", [{"f": {"a": 1}}]),
        ("```\n[f(a=1), g()]\n```", [{"f": {"a": 1}}, {"g": {}}]),
        ("[[f(a=1)]]", [{"f": {"a": 1}}]),
        ("{f(a=1), g()}", [{"f": {"a": 1}}, {"g": {}}]),
        ("()", []),
        ("[a.b.c(x='y')]", [{"a.b.c": {"x": "y"}}]),
        ("[f()(x=1)]", [{"": {"x": 1}}]),
        ("[f('dropped', 2, kept=3)]", [{"f": {"kept": 3}}]),
        ("[f(**{'a': 1})]", [{"f": {None: {"a": 1}}}]),
        ("[f(a=1, a=2)]", [{"f": {"a": 2}}]),
        ("[f(a=True, b=true, c=None)]", [{"f": {"a": True, "b": "true", "c": None}}]),
        ("[f(a=+1, b=not True, c=~5, d=-2.5)]", [{"f": {"a": -1, "b": -1, "c": -5, "d": -2.5}}]),
        ("[f(a=[1, (2, 'x')], b={'k': [1]}, c=...)]", [{"f": {"a": [1, (2, "x")], "b": {"k": [1]}, "c": "..."}}]),
        ("[f(a=g(1), b=g(x=h()))]", [{"f": {"a": "g(1)", "b": {"g": {"x": "h()"}}}}]),
        ("[f(a=x[1:2], b=x['k'])]", [{"f": {"a": "x[1:2]", "b": "x['k']"}}]),
        ("[f(a=60 * 60, b='a' + 'b', c=(1 + 2) / 2)]", [{"f": {"a": 3600, "b": "ab", "c": 1.5}}]),
        ("[f(a='\\d', b=r'\\d')]", [{"f": {"a": "\\d", "b": "\\d"}}]),
        ("[f(a='日本')]", [{"f": {"a": "日本"}}]),
    ],
)
def test_python_calls(text: str, calls: object) -> None:
    assert decode_ast(text) == calls


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "I can't help with that.",
        "Sure! [f()]",
        "[f()]\nDone",
        "```python\n[f()]\n```",
        "[f(a=1]",
        "[f(), 1]",
        "[f(a=b.c)]",
        "[f(a=f'{x}')]",
        "[f(a=1 < 2)]",
        "[f(a=lambda: 1)]",
        "[f(a=[x for x in y])]",
        "[f(a={**x})]",
        "[f(a={[1]: 2})]",
        "[f(a=--1)]",
        "[f(a=-x)]",
        "[f(a=1 / 0)]",
        "[f(a=1 + x)]",
        "[f(a='\ud800')]",
        "[f(a='\0')]",
        "[f(class=1)]",
        "[f(a=01)]",
    ],
)
def test_what_is_no_call_list_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_ast(text)


@pytest.mark.parametrize(
    "text", ["[f(a=len('abc') + 1)]", "[f(a=int | str)]", "[f(a=f'{1}' + 'a')]", "[f(a=(1 < 2) + 1)]"]
)
def test_upstream_evaluates_code_under_an_operator_and_we_refuse(text: str) -> None:
    with pytest.raises(DecodeError, match="literals"):
        decode_ast(text)


@pytest.mark.parametrize(
    "value",
    [
        "9 ** 9 ** 9",
        "2 ** 99999999",
        "1 << 999999999",
        "'a' * 999999999",
        "999999999 * (1, 2)",
        "'%99999999d' % 1",
        "'%*d' % (99999999, 1)",
        "[[1] * 9999] * 9999",
        "2 ** 16000 * 2 ** 16000",
    ],
)
def test_arithmetic_has_limits(value: str) -> None:
    start = time.process_time()
    with pytest.raises(DecodeError):
        decode_ast(f"[f(a={value})]")
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "text",
    [
        "f(" * 5000,
        "f(a=" + "[" * 5000,
        "f(a=" + "-" * 50_000 + "1)",
        "f(a=" + "1+" * 40_000 + "1)",
        "f(a=" + "a." * 40_000 + "b)",
        "f(a=g(b=" * 150 + "1" + "))" * 150,
        "f(a=" + "g(" * 190 + "1" + ")" * 191,
        "f(a=" + "not " * 20_000 + "1)",
        "f(a=0x" + "f" * 90_000 + ")",
        "f(a=" + "9" * 90_000 + ")",
        "f(a='" + "x" * MAX_TEXT + "')",
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.parametrize("decode", [decode_ast, decode_execute])
def test_hostile_nesting_and_length_end_quickly_in_a_value_or_a_decode_error(text: str, decode: object) -> None:
    start = time.process_time()
    with contextlib.suppress(DecodeError):
        decode(text)
    assert time.process_time() - start < 5


def test_a_warning_of_the_parser_is_no_fault_of_the_answer() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode_ast(r"[f(a='\d')]") == [{"f": {"a": r"\d"}}]
        with pytest.raises(DecodeError, match="IfExp"):
            decode_ast("[f(a=1if x else 2)]")


def test_threads_decode_independently() -> None:
    texts = [(rf"[f(a='\d', n={n})]", "Python") for n in range(40)]
    texts += [(f"[Api.f(first={n}, second='b')]", language) for n in range(40) for language in ("Java", "JavaScript")]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda case: decode_ast(*case), texts)) == [decode_ast(*case) for case in texts]


def test_a_decode_error_keeps_the_text() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_ast("no call")
    assert caught.value.text == "no call"


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("f()", [{"f": {}}]),
        (
            "f(a=1, b='x', c=[1, 'y', -2.5], d=[]), g.h(x=True)",
            [{"f": {"a": 1, "b": "x", "c": [1, "y", -2.5], "d": []}}, {"g.h": {"x": True}}],
        ),
        ("f(a=1,b=None)", [{"f": {"a": 1, "b": None}}]),
        ('f(a="it\'s")', [{"f": {"a": "it's"}}]),
    ],
)
def test_plain_calls_are_read_without_a_syntax_tree(source: str, calls: object) -> None:
    assert read_plain(source) == calls
    assert decode_ast(source) == calls


@pytest.mark.parametrize(
    "source",
    [
        *(
            "",
            "f",
            "f(",
            "f(a)",
            "f(a=1",
            "f(a=1,)",
            "f(a=1);",
            "f(a=01)",
            "f(a=1.)",
            "f(a=1_0)",
            "f(a=x)",
            "f(a='\\n')",
        ),
        *("f(class=1)", "if.x()", "f(None=1)", "f(a='x' 'y')", "f(a='''x''')", "f(a=[1, [2]])", "f(a=[1,])", "f(a=[1)"),
        *(
            "f(a={})",
            "f(a=1)\ng()",
            "f(a=1) g()",
            "f(é=1)",
            "f(a='\ud800')",
            "f(a='\r')",
            "f(a=1e5)",
            "f(a=b'x')",
            "f(a=--1)",
        ),
    ],
)
def test_what_is_not_plain_is_left_to_the_syntax_tree(source: str) -> None:
    assert read_plain(source) is None


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[f(a=1, b='x'), g()]", ["f(a=1, b='x')", "g()"]),
        ("[f(a={'k': 1})]", ["f(a={'k': 1})"]),
        ("[f(a={'b': {'c': 1}})]", ["f(a=b(c=1))"]),
        ("[f(a={'b': {'c': 1}, 'd': {}})]", ["f(a=b(c=1))"]),
        ("[f(a=g(x=1))]", ["f(a=g(x=1))"]),
        ("[f(a=[{'k': {}}])]", ["f(a=[{'k': {}}])"]),
    ],
)
def test_call_strings_for_execution(text: str, calls: list[str]) -> None:
    assert decode_execute(text) == calls


def test_an_empty_dict_argument_can_not_be_executed() -> None:
    with pytest.raises(DecodeError):
        decode_execute("[f(a={})]")


def test_native_calls_take_arguments_as_json_or_as_objects() -> None:
    assert native_ast([{"f": '{"a": [1, 2.0, null]}'}, {"g": {"b": 1}}]) == [
        {"f": {"a": [1, 2.0, None]}},
        {"g": {"b": 1}},
    ]
    assert native_execute([{"f": '{"a": "x", "b": {"c": 1}}'}]) == ["f(a='x',b={'c': 1})"]
    assert native_execute({"f": "{}"}) == ["f()"]
    assert native_ast([]) == []
    assert native_ast("") == []
    assert native_ast([{"f": "[1]"}]) == [{"f": [1]}]


@pytest.mark.parametrize(
    "calls",
    [
        "I can't.",
        None,
        5,
        [{}],
        ["f"],
        [{"f": "{"}],
        [{"f": ""}],
        [{"type": "text", "text": "no"}],
        [None],
        [{"f": "[" * 90_000}],
    ],
)
def test_what_is_no_native_call_is_refused(calls: object) -> None:
    with pytest.raises(DecodeError):
        native_ast(calls)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('[A.b(x=1, y="t", z=new int[]{1, 2})]', [{"A.b": {"x": "1", "y": "t", "z": "new int[]{1,2}"}}]),
        ('b(m=new HashMap<String, Integer>() {{ put("a", 1); }})', [{"b": {"m": "new HashMap<String,Integer>()"}}]),
        ("[new A().b(c, d=e.f(1 , 2))]", [{"new A().b": {None: "c", "d": "e.f(1 , 2)"}}]),
        ('[b(x="é", y=1)]', [{"b": {"x": 'é"', "=": ")"}}]),  # offsets in bytes cut the characters
        ("[int x = 1;]", {}),
        ("[A.f(a=1, b=2)]", [{"A.f": {"a": "1", "b": "2"}}]),
    ],
)
def test_java_calls(text: str, calls: object) -> None:
    assert decode_ast(text, "Java") == calls


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[a.b(x=1, y='t', z=[1, 2])]", [{"a.b": {"x": "1", "y": "t", "z": "[1, 2]"}}]),
        ("[f(a, x=(b) => c)]", [{"f": {None: "a", "x": "(b) => c"}}]),
        ("[let x = 1]", None),
        ("[f`(a=1)]", [{"f`": {"a": "1"}}]),  # newer grammars than the pinned one call it an error
    ],
)
def test_javascript_calls(text: str, calls: object) -> None:
    assert decode_ast(text, "JavaScript") == calls


def test_a_java_call_of_very_few_letters_is_an_error_without_its_semicolon() -> None:
    with pytest.raises(DecodeError):
        decode_ast("[A.f(a=1)]", "Java")
    assert decode_ast("[A.f(a=1);]", "Java") == [{"A.f": {"a": "1"}}]


@pytest.mark.parametrize("language", ["Java", "JavaScript"])
@pytest.mark.parametrize("text", ["[f(a=1]", "[f(a=1, a=2)]", "Sure, [f()]", "[f(a=)]"])
def test_source_with_errors_or_repeated_parameters_is_refused(text: str, language: str) -> None:
    with pytest.raises(DecodeError):
        decode_ast(text, language)


@pytest.mark.parametrize("language", ["Java", "JavaScript"])
@pytest.mark.parametrize(
    "text",
    [
        "f(a=" + "(" * 40_000,
        "f(a=" + "[" * 40_000,
        "f(a=" + "g(" * 3000 + ")" * 3001,
        "f(a=" + "g(" * 30_000 + ")" * 30_001,
        "f(a=" + "-" * 50_000 + "1)",
        "f(a=" + "]+" * 950 + "1)",
        "f(a=" + "]+" * 3_950 + "1)",
        "f(a=" + "]+" * 45_000 + "1)",
        "f(a=" + "g(" * 2_600 + ")" * 2_601,
        "a<" * 3_950,
        "a<" * 45_000,
        "/*" * 3_950,
    ],
    ids=lambda text: f"{text[:12]}{len(text)}",
)
def test_hostile_source_ends_quickly(text: str, language: str) -> None:
    start = time.process_time()
    with contextlib.suppress(DecodeError):
        decode_ast(text, language)
    assert time.process_time() - start < 5
