"""Documents of headings, sentences and tables, and their two plain renderings: aligned text and Markdown.

Cells may hold what a model or a file said: control characters become `?`, so that nothing reaches a terminal but text.
"""

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_GAP = 2
_MARKUP = re.compile(r"[\\`*<>|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=[(:\[])")
_LINE_START = re.compile(r"^[#+-]+(?=\s)")
_LEAST = 12  # a column of text is not cut below this many cells


class Table(NamedTuple):
    """Rows of texts under a header; the first `left` columns are text, the others numbers."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    left: int = 1


class Code(NamedTuple):
    """One line to be copied as it is."""

    line: str


Block = str | Code | Table


class Section(NamedTuple):
    """A heading with what stands under it, in order: sentences, code and tables."""

    title: str
    blocks: Sequence[Block]
    level: int = 2


def width_of(table: Table) -> int:
    """How many cells of a terminal the table takes as text, if nothing is cut."""
    return cells(_text_table(table, None).partition("\n")[0].rstrip()) if table.rows else 0


def clean(text: str) -> str:
    """One line without control or format characters."""
    line = " ".join(text.split())
    return "".join("?" if unicodedata.category(character)[0] == "C" else character for character in line)


def cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    return sum(cell_width(character) for character in text)


def cell_width(character: str) -> int:
    """0 for a combining character, 2 for a wide one, else 1."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def as_text(sections: Sequence[Section], width: int | None = None) -> str:
    """Aligned plain text, at most `width` cells wide where the tables can be made so (None: as wide as they are)."""
    parts: list[str] = []
    for section in sections:
        title = clean(section.title)
        parts.append(f"{title}\n{('=' if section.level == 1 else '-') * cells(title)}")
        parts.extend(_as_text(block, width) for block in section.blocks)
    return "\n\n".join(parts) + "\n"


def _as_text(block: Block, width: int | None) -> str:
    if isinstance(block, Table):
        return _text_table(block, width)
    return clean(block.line) if isinstance(block, Code) else _filled(block, width)


def _as_markdown(block: Block) -> str:
    if isinstance(block, Table):
        return _markdown_table(block)
    return f"    {clean(block.line)}" if isinstance(block, Code) else _line(block)


def _filled(sentence: str, width: int | None) -> str:
    text = clean(sentence)
    return text if width is None else textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def as_markdown(sections: Sequence[Section]) -> str:
    """GitHub's Markdown; what stands in cells and sentences is text there too, never markup."""
    parts: list[str] = []
    for section in sections:
        parts.append(f"{'#' * section.level} {_escape(section.title)}")
        parts.extend(_as_markdown(block) for block in section.blocks)
    return "\n\n".join(parts) + "\n"


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", clean(text))


def _line(text: str) -> str:
    return _LINE_START.sub(r"\\\g<0>", _escape(text))


def _markdown_table(table: Table) -> str:
    marks = ["---" if index < table.left else "---:" for index in range(len(table.header))]
    lines = [table.header, tuple(marks), *table.rows]
    return "\n".join(
        "| " + " | ".join(cell if index == 1 else _escape(cell) for cell in line) + " |"
        for index, line in enumerate(lines)
    )


def _text_table(table: Table, width: int | None) -> str:
    cleaned = Table(tuple(map(clean, table.header)), [tuple(map(clean, row)) for row in table.rows], table.left)
    widths = [max(cells(line[index]) for line in (cleaned.header, *cleaned.rows)) for index in range(len(table.header))]
    if width is not None:
        widths = _narrowed(widths, table.left, width)
    blocks = _split(widths, table.left, width)
    return "\n\n".join(_columns(cleaned, widths, columns) for columns in blocks)


def _narrowed(widths: list[int], left: int, width: int) -> list[int]:
    """The widest of the text columns gives way until they and any one number fit, or none of them is wide."""
    narrowed = list(widths)
    largest = max(widths[left:], default=-_GAP)
    while sum(narrowed[:left]) + _GAP * left + largest > width:
        widest = max(range(left), key=lambda index: narrowed[index])
        if narrowed[widest] <= _LEAST:
            break
        narrowed[widest] -= 1
    return narrowed


def _split(widths: Sequence[int], left: int, width: int | None) -> Iterator[list[int]]:
    """The columns of each part of a table that is too wide; the text columns stand in every part."""
    fixed = list(range(left))
    used = sum(widths[index] + _GAP for index in fixed)
    current, room = list(fixed), used
    for index in range(left, len(widths)):
        if width is not None and len(current) > left and room + widths[index] > width:
            yield current
            current, room = list(fixed), used
        current.append(index)
        room += widths[index] + _GAP
    yield current


def _columns(table: Table, widths: Sequence[int], columns: Sequence[int]) -> str:
    rule = tuple("-" * widths[index] for index in range(len(widths)))
    lines = [table.header, rule, *table.rows]
    return "\n".join(
        (" " * _GAP).join(_padded(line[index], widths[index], index < table.left) for index in columns).rstrip()
        for line in lines
    )


def _padded(text: str, width: int, to_left: bool) -> str:
    if cells(text) > width:
        text = _cut(text, width - 1) + "…"
    space = " " * (width - cells(text))
    return text + space if to_left else space + text


def _cut(text: str, width: int) -> str:
    kept, used = "", 0
    for character in text:
        used += cell_width(character)
        if used > width:
            break
        kept += character
    return kept
