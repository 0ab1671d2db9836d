"""Our sanitiser against upstream's own (wheel 0.3.1), on peers' solutions that were cut, mixed and wrapped at random."""

import gzip
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from evalplus_oracle import ask

from envs.evalplus.problems import load
from envs.evalplus.sanitizing import largest_block, sanitized

TEXTS = int(os.environ.get("HARNESS_EVALPLUS_TEXTS", "600"))
LONGEST = 60
"""Lines: upstream's cost is cubic."""
NOISE = (
    "Here is the solution:", "```python", "```", "", "   ", "Sure! (this works", "Note: it's O(n).", "- item 1", "def f(x):",
    "    return x", "x = 1", "if x:", "    pass", "try:", "    y = [1,", "2]", '"""', "'''", "@dec", "class A:", "    def g(self): pass",
    "import os", "from math import *", "from __future__ import annotations", "f(x)", "a, b = 1, 2", "x += 1", "else:", "except:",
    "    z = {", "}", "s = 'it", "\\", "x = \\", "# c", "lambda: 0", "print('hi')", "a: int = 3", "async def q(): return 1", "return 5",
    "f'{x!r}'", "f'{x'", "1if x else 2", "'\\d'", "with open(x) as f:", "for i in x:", "    yield i", "global x", "  odd", "\tx = 2",
)  # fmt: skip


def solutions(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((folder / "evalplus" / "samples").glob("*.json.gz")):
        for task_id, attempts in json.loads(gzip.decompress(path.read_bytes()))["eval"].items():
            yield task_id, attempts[0]["solution"]


def mangled(rng: random.Random, solution: str) -> str:
    lines = solution.split("\n")
    kind = rng.randrange(4)
    if kind == 0:
        return "\n".join(rng.choice(NOISE) for _ in range(rng.randrange(1, 14)))
    for _ in range(rng.randrange(6)):
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(NOISE))
    for _ in range(min(rng.randrange(4), len(lines) - 1) if kind == 2 else 0):
        lines.pop(rng.randrange(len(lines)))
    if kind == 3:
        lines = ["Some text about it.", "```python", *lines, "```", "That is all."]
    return "\n".join(lines[:LONGEST])


@pytest.mark.study
def test_every_text_gives_upstreams_block_and_program(shared_data: Path, evalplus_data: Path) -> None:
    rng = random.Random(20)
    entry_point = {problem.id: problem.entry_point for problem in load("test").problems.values()}
    pool = list(solutions(shared_data))
    texts = [(mangled(rng, solution), entry_point[task_id]) for task_id, solution in rng.choices(pool, k=TEXTS)]
    for (text, entry), theirs in zip(texts, ask(do="sanitize", texts=texts), strict=True):
        assert [largest_block(text), sanitized(text, entry)] == theirs, text
