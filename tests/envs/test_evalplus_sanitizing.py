"""What the sanitiser leaves of a model's text (spec 2.3); its parity with upstream's own is in tests/parity."""

import ast
import random
import time

import pytest

from envs.evalplus.sanitizing import largest_block, sanitized

HELPED = "import os\n\ndef helper(x):\n    return x + 1\n\ndef f(x):\n    return helper(x)\n"


def test_the_block_is_found_in_prose_and_cut_to_what_the_entry_point_reaches() -> None:
    text = f"Here you are:\n```python\n{HELPED}\ndef unused():\n    return 0\n```\nDone (I think."
    assert sanitized(text, "f") == "import os\ndef helper(x):\n    return x + 1\ndef f(x):\n    return helper(x)"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "def f(x):\n    show(x)\n    return x\n\ndef show(x):\n    print(x)\n",
            "def f(x):\n    show(x)\n    return x",
        ),
        ("@cache\ndef f(x):\n    return x\n\nimport re\n", "import re"),
        ("try:\n    import numpy\nexcept ImportError:\n    pass\ndef f(x):\n    return x\n", "def f(x):\n    return x"),
        ("a, b = 1, 2\nc = 3\ndef f(x):\n    return a + c\n", "c = 3\ndef f(x):\n    return a + c"),
        ("n = 1\nn += 1\nn: int = 5\ndef f():\n    return n\n", "n = 1\ndef f():\n    return n"),
        ("def f():\n    return 1\ndef f():\n    return 2\n", "def f():\n    return 1"),
        ("class f:\n    pass\ndef f():\n    return 2\n", "class f:\n    pass"),
        ("import re\ndef g():\n    return 1\n", "import re"),
        ("def g():\n    return 1\n", "def g():\n    return 1"),
        ("\x1b[31mdef f():\n    return 1\x1b[0m", "def f():\n    return 1"),
    ],
)
def test_what_is_kept_and_lost_is_upstreams(source: str, expected: str) -> None:
    assert sanitized(source, "f") == expected


def test_where_nothing_parses_the_first_line_is_left() -> None:
    assert largest_block("no code here\nnot a line (of it") == "no code here"
    assert largest_block("x = 1") == "x = 1"
    assert largest_block("") == ""


def test_of_equal_blocks_the_first_and_shortest_wins() -> None:
    assert largest_block("a = 1\nb = 2\n\n!\nc = 3\nd = 4") == "a = 1\nb = 2"


def brute_force(text: str) -> str:
    """The rule as it is stated: every range of two lines or more."""
    lines = text.split("\n")
    best, most = (0, 0), 0
    for start in range(len(lines)):
        for stop in range(start + 1, len(lines)):
            filled = sum(bool(line.strip()) for line in lines[start : stop + 1])
            if filled > most and parses("\n".join(lines[start : stop + 1])):
                best, most = (start, stop), filled
    return "\n".join(lines[best[0] : best[1] + 1])


def parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


LINES = (
    "Some words about it.", "```python", "```", "", "    ", "def f(x):", "    return x", "x = 1", "if x:", "    pass", "try:", "else:",
    "except ValueError:", "y = [1,", "2]", '"""', "'''", "@cached", "class A:", "z = {", "}", "f(", ")", "s = 'it", "x = \\", "# note",
    "print('hi')", "f'{x!r}'", "f'{x'", "  odd", "\tx = 2", "1 2", "(see below", "match x:", "    case 1:", "async def g(): return 1",
)  # fmt: skip


def test_it_finds_what_trying_every_range_finds() -> None:
    rng = random.Random(7)
    for _ in range(1500):
        text = "\n".join(rng.choice(LINES) for _ in range(rng.randrange(1, 12)))
        assert largest_block(text) == brute_force(text), text


def test_long_prose_and_long_programs_take_no_cubic_time() -> None:
    start = time.process_time()
    prose = "\n".join(f"Line {number} of an answer that talks (and talks)." for number in range(1500))
    assert largest_block(prose).startswith("Line 0")
    program = "\n".join(f"def f{number}(x):\n    return x + {number}\n" for number in range(700))
    assert largest_block(f"{prose}\n```python\n{program}\n```") == program.rstrip("\n")
    assert time.process_time() - start < 5


def test_monstrous_texts_come_to_an_end() -> None:
    for text in (
        "(" * 100_000,
        "[" * 3000 + "\n" + "]" * 3000,
        "x = " + "-" * 50_000 + "1\ny = 2",
        "\x00\n\x00",
        "a\n" * 2000 + "(" * 500,
    ):
        sanitized(text, "f")
    assert sanitized("#" * 300_000, "f") == "#" * 300_000


def test_lone_surrogates_and_odd_line_ends_pass_through() -> None:
    assert sanitized("x = '\ud800'\ndef f():\n    return x", "f") == "def f():\n    return x"
    assert "return 1" in sanitized("def f():\r\n    return 1\r\n", "f")
