"""Which part of an answer is the solution: upstream's rule and named others. Pure functions of the text.

`official` takes the lines strictly between the last two lines with three backticks anywhere in them, and nothing where there are fewer
than two: an unclosed last block, or a fence mentioned after the block, takes the wrong lines. The others are what other harnesses do,
and where they find other code their scores are not comparable.
"""

import re
from collections.abc import Callable, Mapping

Rule = Callable[[str], str]

_FENCE = "```"
_PYTHON_BLOCK = re.compile(r"```python\n(.+?)\n```", re.DOTALL)
_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_TAGGED = "PYTHON]"


def official(text: str) -> str:
    """Upstream's default."""
    return _between_last_two(text, _FENCE)


def tagged(text: str) -> str:
    """Upstream's for CodeLLaMaInstruct: `[PYTHON]` tags; fences where fewer than two lines have them."""
    lines = sum(_TAGGED in line for line in text.split("\n"))
    return _between_last_two(text, _TAGGED if lines >= 2 else _FENCE)


def whole(text: str) -> str:
    """Upstream's for base models: all of the answer."""
    return text.strip()


def first_block(text: str) -> str:
    """The first ```python block, else all of the answer (a fork's rule, nvidia-livecodebench)."""
    found = _PYTHON_BLOCK.search(text)
    return (found[1] if found else text).strip()


def last_block(text: str) -> str:
    """The last fenced block, closed or not; empty where there is none."""
    found = _BLOCK.findall(text)
    return found[-1] if found else ""


RULES: Mapping[str, Rule] = {
    "official": official,
    "tagged": tagged,
    "whole": whole,
    "first_block": first_block,
    "last_block": last_block,
}


def _between_last_two(text: str, sign: str) -> str:
    lines = text.split("\n")
    marked = [number for number, line in enumerate(lines) if sign in line]
    return "\n".join(lines[marked[-2] + 1 : marked[-1]]) if len(marked) >= 2 else ""
