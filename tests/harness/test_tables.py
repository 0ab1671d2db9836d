"""Plain text and Markdown: aligned, within the width, and never more than text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tables import Code, Section, Table, as_markdown, as_text, cells, clean

TABLE = Table(
    ("Agent", "Run", "Score", "Steps"), [("oracle", "r1", "100.00", "3"), ("nop", "r1", "0.00", "12")], left=2
)


def text(*blocks: str | Table, width: int | None = None) -> list[str]:
    return as_text([Section("T", blocks)], width).splitlines()[3:]


def test_numbers_stand_under_each_other_on_the_right() -> None:
    assert text(TABLE) == [
        "Agent   Run   Score  Steps",
        "------  ---  ------  -----",
        "oracle  r1   100.00      3",
        "nop     r1     0.00     12",
    ]


def test_a_table_too_wide_is_split_and_every_part_names_its_rows() -> None:
    lines = text(TABLE, width=22)
    assert lines[:2] == ["Agent   Run   Score", "------  ---  ------"]
    assert lines[5:] == ["Agent   Run  Steps", "------  ---  -----", "oracle  r1       3", "nop     r1      12"]


def test_long_texts_are_cut_where_nothing_else_helps() -> None:
    lines = text(Table(("Agent", "Score"), [("a" * 50, "1")]), width=30)
    assert max(map(len, lines)) <= 30
    assert lines[2] == "a" * 22 + "…      1"


def test_wide_characters_take_two_cells() -> None:
    lines = text(Table(("名", "n"), [("甲乙", "1"), ("ab", "2")]))
    assert lines[2:] == ["甲乙  1", "ab    2"]
    assert [cells(line) for line in lines] == [7, 7, 7, 7]


def test_sentences_are_filled_to_the_width() -> None:
    assert text("one two three four", width=9) == ["one two", "three", "four"]


def test_control_characters_never_reach_a_terminal() -> None:
    hostile = "\x1b[31mred\x07 \u202egnp\u200b\nnext"
    assert clean(hostile) == "?[31mred? ?gnp? next"
    for rendering in (
        as_text([Section(hostile, [hostile, Table(("h",), [(hostile,)])])]),
        as_markdown([Section(hostile, [hostile])]),
    ):
        assert "\x1b" not in rendering
        assert "\u202e" not in rendering


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("a|b", "a\\|b"),
        ("<script>", "\\<script\\>"),
        ("**bold** _it_ #1", "\\*\\*bold\\*\\* \\_it\\_ #1"),
        ("# h", "\\# h"),
        ("- item", "\\- item"),
        ("[x](http://e)", "[x\\](http://e)"),
        ("snake_case_name [1, 2]", "snake_case_name [1, 2]"),
        ("a `tick`", "a \\`tick\\`"),
    ],
)
def test_markdown_shows_text_as_text(given_: str, expected: str) -> None:
    assert as_markdown([Section("T", [given_])]) == f"## T\n\n{expected}\n"


def test_a_line_of_code_is_shown_as_it_is() -> None:
    blocks = [Code("harness eval --tasks '*_1'")]
    assert as_text([Section("T", blocks)], 10).splitlines()[3:] == ["harness eval --tasks '*_1'"]
    assert as_markdown([Section("T", blocks)]) == "## T\n\n    harness eval --tasks '*_1'\n"


def test_a_markdown_table_has_one_line_a_row_whatever_the_cells_hold() -> None:
    lines = as_markdown([Section("T", [Table(("a", "b"), [("x\ny|z", "1")])])]).splitlines()
    assert lines[2:] == ["| a | b |", "| --- | ---: |", "| x y\\|z | 1 |"]


CELLS = st.text(max_size=30)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4), st.integers(40, 80))
def test_every_line_fits_the_width_and_no_row_is_lost(rows: list[tuple[str, str, str]], width: int) -> None:
    short = [(name, clean(one)[:8], clean(other)[:8]) for name, one, other in rows]
    rendered = as_text([Section("T", [Table(("n", "one", "other"), short)])], width)
    lines = rendered.split("\n")[3:]
    assert all(cells(line) <= width for line in lines)
    assert len(lines) - 1 >= len(rows) + 2
