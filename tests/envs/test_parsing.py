"""Text protocols of tool calls: what parses, and what stays text with a reason."""

import contextlib
import json
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.parsing import (
    PROTOCOLS,
    Parsed,
    parse_llama3,
    parse_olmo3,
    parse_quietly,
    parse_qwen3,
    split_reasoning,
    tool_call,
)
from trajectories.schema import MAX_NESTING


def calls(parsed: Parsed) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in parsed.calls]


def test_qwen3_reads_every_block_and_keeps_the_words_around_them() -> None:
    parsed = parse_qwen3(
        'Two calls.\n<tool_call>\n{"name": "a", "arguments": {"x": [1, 2.0]}}\n</tool_call>\n'
        '<tool_call>{"name": "b.c", "arguments": {}}</tool_call>'
    )
    assert calls(parsed) == [("a", {"x": [1, 2.0]}), ("b.c", {})]
    assert parsed.content == "Two calls."
    assert [call.id for call in parsed.calls] == ["call_0", "call_1"]
    assert parsed.error is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('<tool_call>\n{"name": "a", "arguments": {}}', "not closed"),
        ('{"name": "a"}</tool_call><tool_call>', "not closed"),
        ('<tool_call>{"name": "a", "arguments": {</tool_call>', "call 1 is no JSON"),
        ('<tool_call>["a"]</tool_call>', "call 1 is no JSON object with a name"),
        ('<tool_call>{"name": "a"}</tool_call><tool_call>{"nome": "b"}</tool_call>', "call 2 is no JSON object"),
        ("<tool_call></tool_call>", "call 1 is no JSON"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "call 1 is no JSON"),
    ],
)
def test_qwen3_keeps_what_it_cannot_read_as_text(text: str, reason: str) -> None:
    parsed = parse_qwen3(text)
    assert parsed.calls == ()
    assert parsed.content == text
    assert reason in str(parsed.error)


def test_arguments_that_are_no_object_are_kept_raw() -> None:
    parsed = parse_qwen3('<tool_call>{"name": "a", "arguments": "x=1"}</tool_call>')
    assert calls(parsed) == [("a", "x=1")]
    assert calls(parse_qwen3('<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>')) == [("a", {"x": 1})]
    assert calls(parse_qwen3('<tool_call>{"name": "a", "arguments": [1]}</tool_call>')) == [("a", "[1]")]


def test_arguments_too_deep_for_a_record_are_kept_raw() -> None:
    for levels in (MAX_NESTING + 1, 190, 250, 600):
        deep = '{"a":' * levels + "1" + "}" * levels
        assert tool_call("call_0", "f", deep).arguments == deep
    allowed = json.loads('{"a":' * MAX_NESTING + "1" + "}" * MAX_NESTING)
    assert tool_call("call_0", "f", allowed).arguments == allowed


def test_olmo3_reads_python_calls_with_json_constants() -> None:
    parsed = parse_olmo3(
        'Now.\n<function_calls>\nfs.move(src="a b", n=-3, deep={"k": [true, null, 1.5]})\nls()\n</function_calls>'
    )
    assert calls(parsed) == [("fs.move", {"src": "a b", "n": -3, "deep": {"k": [True, None, 1.5]}}), ("ls", {})]
    assert parsed.content == "Now."


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("f(1)", "without a name"),
        ("f(**x)", "without a name"),
        ("f(x=g())", "no literal"),
        ("f(x=__import__('os').system('id'))", "no literal"),
        ("x = 1", "other than calls"),
        ("f(", "no Python"),
        ("f(x={1: 2})", "key is no text"),
        ("f(x={1, 2})", "JSON can't hold"),
        ("f(x=b'')", "JSON can't hold"),
    ],
)
def test_olmo3_refuses_everything_but_calls_with_named_literals(body: str, reason: str) -> None:
    parsed = parse_olmo3(f"<function_calls>{body}</function_calls>")
    assert parsed.calls == ()
    assert reason in str(parsed.error)


def test_llama3_reads_an_answer_that_is_all_calls() -> None:
    one = '{"name": "a", "parameters": {"x": "1"}}'
    assert calls(parse_llama3(f"<|python_tag|>{one}; {one}")) == [("a", {"x": "1"})] * 2
    assert parse_llama3("Hello {x}") == Parsed("Hello {x}")
    assert parse_llama3('{"answer": 4}') == Parsed('{"answer": 4}')
    assert "is none" in str(parse_llama3('{"name": "a"').error)


@pytest.mark.parametrize(
    ("text", "opened", "reasoning", "answer"),
    [
        ("<think>\nhm\n</think>\n\nYes.", False, "hm", "Yes."),
        ("hm\n</think>\n\nYes.", True, "hm", "Yes."),
        ("<think>\n\n</think>\n\nYes.", False, "", "Yes."),
        ("Yes.", False, None, "Yes."),
        ("<think>\nand on", False, "and on", ""),
        ("and on", True, "and on", ""),
        ("<think>a</think>b</think>c", False, "a</think>b", "c"),
    ],
)
def test_reasoning_ends_at_the_last_tag(text: str, opened: bool, reasoning: str | None, answer: str) -> None:
    assert split_reasoning(text, opened=opened) == (reasoning, answer)


PIECES = [
    "<tool_call>",
    "</tool_call>",
    "<function_calls>",
    "</function_calls>",
    '{"name": "a"',
    "}",
    "f(x=1)",
    "\n",
    "\ud800",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=12))
def test_no_text_raises(pieces: list[str]) -> None:
    text = "".join(pieces)
    for parse in PROTOCOLS.values():
        parsed = parse(text)
        assert parsed.calls or parsed.content == text


@pytest.mark.parametrize(
    "text", ["1if x", "9info", "1ist", "0xe_in", "1_0or 2", "1.is", "1.5and", "7insurance=2", "0o7else", "2Jnot"]
)
def test_a_number_run_into_a_keyword_warns_nobody(text: str) -> None:
    with warnings.catch_warnings(record=True) as heard, contextlib.suppress(SyntaxError):
        warnings.simplefilter("always")
        parse_quietly(f"f({text})", "eval")
    assert heard == []


def test_a_stray_backslash_in_a_call_warns_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parsed = parse_olmo3("<function_calls>\nf(a='\\d')\n</function_calls>")
    assert calls(parsed) == [("f", {"a": "\\d"})]
