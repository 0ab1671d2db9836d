"""Small code tasks that prove themselves: made from a seed, each with a solution that passes and mutants that fail.

    write(Path("tasks.jsonl"), seed=1, count=50)
    harness data pull code-tasks --from tasks.jsonl --split train

A family of tasks is a few numbers (`make`), the rule that they give (`answer`), a text and a program that say the rule, and inputs. A
mutant is the same program with other numbers, kept only where the rule with those numbers gives another answer on some test. The
expected outputs come from `answer`, not from running the program, so that a solution and its tests check each other.
"""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from envs.livecodebench.records import Test, encode_private, test_rows

Numbers = tuple[int, ...]
PUBLIC_TESTS = 2
TESTS = 8
"""Of each task, public ones included; at least five."""
MUTANTS = 3
_ATTEMPTS = 200


class Family(NamedTuple):
    """One kind of task. `program` is the body of `solve(values)`, which returns the answer."""

    name: str
    difficulty: str
    kind: Literal["call", "stdin"]
    make: Callable[[random.Random], Numbers]
    answer: Callable[[Numbers, list[int]], Any]
    text: Callable[[Numbers], str]
    program: Callable[[Numbers], str]


class CodeTask(NamedTuple):
    """A record in the official form, code that solves it, and code that looks like it and does not."""

    record: dict[str, Any]
    solution: str
    mutants: tuple[str, ...]


def generate(seed: int, count: int, tests: int = TESTS) -> list[CodeTask]:
    """`count` tasks with ids `task_<seed>_<number>`; the same seed gives the same tasks, and more of them the same first ones."""
    return [_task(f"task_{seed}_{number}", random.Random(f"{seed}/{number}"), tests) for number in range(count)]


def write(path: Path, seed: int, count: int) -> None:
    """Tasks as JSON lines of records, each with its `reference_solution`, which environments play as the reference."""
    tasks = generate(seed, count)
    rows = [task.record | {"reference_solution": task.solution} for task in tasks]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _task(task_id: str, rng: random.Random, count: int) -> CodeTask:
    family = rng.choice(FAMILIES)
    numbers = family.make(rng)
    inputs = _inputs(rng, count)
    mutants = _mutants(family, numbers, inputs, rng)
    tests = tuple(_test(family, numbers, values) for values in inputs)
    record = _record(task_id, family, numbers, tests)
    return CodeTask(record, _code(family, numbers), tuple(_code(family, mutant) for mutant in mutants))


def _inputs(rng: random.Random, count: int) -> list[list[int]]:
    """Short lists first, since those are public; none is empty."""
    lengths = [4, 6, 1, 2, *(rng.randint(5, 30) for _ in range(count - 4))]
    return [[rng.randint(-50, 50) for _ in range(length)] for length in lengths]


def _mutants(family: Family, numbers: Numbers, inputs: list[list[int]], rng: random.Random) -> list[Numbers]:
    found: list[Numbers] = []
    due = [family.answer(numbers, values) for values in inputs]
    for _ in range(_ATTEMPTS):
        other = family.make(rng)
        if other not in found and [family.answer(other, values) for values in inputs] != due:
            found.append(other)
        if len(found) == MUTANTS:
            return found
    raise RuntimeError(f"The family {family.name!r} with {numbers} gives no {MUTANTS} mutants that differ.")


def _test(family: Family, numbers: Numbers, values: list[int]) -> Test:
    answer = family.answer(numbers, values)
    if family.kind == "call":
        return Test(json.dumps(values), json.dumps(answer))
    return Test(f"{len(values)}\n{' '.join(map(str, values))}\n", f"{_printed(answer)}\n")


def _printed(answer: Any) -> str:
    return " ".join(map(str, answer)) if isinstance(answer, list) else str(answer)


def _record(task_id: str, family: Family, numbers: Numbers, tests: tuple[Test, ...]) -> dict[str, Any]:
    function = {"func_name": "solve"} if family.kind == "call" else {}
    return {
        "question_title": family.name.replace("_", " "),
        "question_content": _content(family, numbers),
        "platform": "generated",
        "question_id": task_id,
        "contest_id": family.name,
        "contest_date": "2026-01-01T00:00:00",
        "starter_code": _STARTER if family.kind == "call" else "",
        "difficulty": family.difficulty,
        "public_test_cases": json.dumps(test_rows(tests[:PUBLIC_TESTS], family.kind)),
        "private_test_cases": encode_private(tests[PUBLIC_TESTS:], family.kind),
        "metadata": json.dumps(function),
    }


_STARTER = "class Solution:\n    def solve(self, values: List[int]):\n        "


def _content(family: Family, numbers: Numbers) -> str:
    form = (
        "Return the answer."
        if family.kind == "call"
        else "The first line has the length of the list, the second its numbers with spaces between them. Print the answer; a list "
        "on one line, with spaces."
    )
    return f"You are given a list of whole numbers. {family.text(numbers)}\n\n{form}"


def _code(family: Family, numbers: Numbers) -> str:
    body = "".join(f"    {line}\n" for line in family.program(numbers).splitlines())
    if family.kind == "call":
        method = "".join(f"    {line}" for line in f"def solve(self, values):\n{body}".splitlines(keepends=True))
        return f"class Solution:\n{method}"
    return (
        f"def solve(values):\n{body}\n\nlength = int(input())\nvalues = list(map(int, input().split()))\n"
        "answer = solve(values)\nprint(*answer) if isinstance(answer, list) else print(answer)\n"
    )


def _sum_of_multiples(numbers: Numbers, values: list[int]) -> int:
    divisor, factor = numbers
    return sum(value * factor for value in values if value % divisor == 0)


def _rotated(numbers: Numbers, values: list[int]) -> list[int]:
    shift, added = numbers
    turn = shift % len(values)
    return [value + added for value in values[turn:] + values[:turn]]


def _best_window(numbers: Numbers, values: list[int]) -> int:
    width, least = numbers
    width = min(width, len(values))
    best = max(sum(values[start : start + width]) for start in range(len(values) - width + 1))
    return max(best, least)


def _rounds(numbers: Numbers, values: list[int]) -> int:
    step, modulus = numbers
    state = 0
    for value in values:
        state = (state * step + value) % modulus
    return state


def _longest_run(numbers: Numbers, values: list[int]) -> int:
    most, bonus = numbers
    best = length = 0
    for before, value in zip([values[0], *values], values, strict=False):
        length = length + 1 if abs(value - before) <= most else 1
        best = max(best, length)
    return best + bonus


def _kept_sorted(numbers: Numbers, values: list[int]) -> list[int]:
    low, factor = numbers
    return sorted({value * factor for value in values if value >= low})


def _two(low: int, high: int, low_second: int, high_second: int) -> Callable[[random.Random], Numbers]:
    return lambda rng: (rng.randint(low, high), rng.randint(low_second, high_second))


FAMILIES: tuple[Family, ...] = (
    Family(
        "sum_of_multiples", "easy", "stdin", _two(2, 6, 1, 9), _sum_of_multiples,
        lambda n: f"Add up those that {n[0]} divides, and multiply the sum by {n[1]}.",
        lambda n: f"return {n[1]} * sum(value for value in values if value % {n[0]} == 0)",
    ),
    Family(
        "rotated", "easy", "call", _two(0, 4, -9, 9), _rotated,
        lambda n: f"Move the first number to the end {n[0]} times, then add {n[1]} to each number.",
        lambda n: f"for _ in range({n[0]}):\n    values = values[1:] + values[:1]\nreturn [value + {n[1]} for value in values]",
    ),
    Family(
        "best_window", "medium", "stdin", _two(2, 5, -40, 40), _best_window,
        lambda n: (
            f"Find the largest sum of {n[0]} neighbours (of all numbers where there are fewer). The answer is that sum, "
            f"or {n[1]} where the sum is smaller."
        ),
        lambda n: (
            f"width = min({n[0]}, len(values))\ntotal = best = sum(values[:width])\nfor index in range(width, len(values)):\n"
            f"    total += values[index] - values[index - width]\n    best = max(best, total)\nreturn max(best, {n[1]})"
        ),
    ),
    Family(
        "rounds", "medium", "call", _two(2, 19, 97, 999), _rounds,
        lambda n: (
            f"Start from 0. For each number in turn, multiply the state by {n[0]}, add the number, and take the remainder that "
            f"is left by {n[1]} (never negative). The answer is the last state."
        ),
        lambda n: f"state = 0\nfor value in values:\n    state = (state * {n[0]} + value) % {n[1]}\nreturn state",
    ),
    Family(
        "longest_run", "hard", "stdin", _two(5, 60, 0, 5), _longest_run,
        lambda n: (
            f"A run is a stretch of neighbours in which each differs from the one before it by at most {n[0]}. The answer is the "
            f"length of the longest run plus {n[1]}."
        ),
        lambda n: (
            "best = start = 0\nfor index in range(len(values)):\n"
            f"    if index and abs(values[index] - values[index - 1]) > {n[0]}:\n        start = index\n"
            f"    best = max(best, index - start + 1)\nreturn best + {n[1]}"
        ),
    ),
    Family(
        "kept_sorted", "hard", "call", _two(-50, 10, 2, 9), _kept_sorted,
        lambda n: (
            f"Drop all numbers below {n[0]}, multiply the others by {n[1]}, and give each different result once, from the smallest "
            "to the largest."
        ),
        lambda n: (
            f"kept = sorted(value * {n[1]} for value in values if value >= {n[0]})\n"
            "return [value for index, value in enumerate(kept) if index == 0 or value != kept[index - 1]]"
        ),
    ),
)  # fmt: skip
"""Two of each difficulty, programs and functions in turns."""

BY_NAME: Mapping[str, Family] = {family.name: family for family in FAMILIES}
