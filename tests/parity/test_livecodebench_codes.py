"""Result codes beside upstream's own grader: real solutions and seeded mutants of them, code list by code list.

The oracle is the wheel of `lcb_wheel.py`, on what it is an oracle for: functions, and programs that read with `input()` alone. By default a
seeded part; HARNESS_LCB=full for two thousand mutants.
"""

import os
import random
import re
from collections import Counter
from pathlib import Path

import lcb_wheel
import pytest

from envs import judging
from envs.livecodebench import generator, lines, official
from envs.livecodebench.records import Problem, problem_of

EVAL_ALL = "O1-Mini-2024-09-12.Scenario.codegeneration_1_0.2_eval_all.json.gz"
FEW, MANY = 80, 2000
LIMIT_S = 3
INSERTED = (
    "raise ValueError('x')", "exit()", "quit()", "return", "x = 1 / 0", "import sys; sys.exit(0)", "import os; os.remove('x')",
    "from math import *", "while True: pass", "raise KeyboardInterrupt", "print('more')", "class Solution: pass", "return None",
    "import numpy as np; return np.array([1, 2])", "class TimeoutException(Exception): pass", "raise MemoryError", "import psutil",
    "return (1, 2)", "return 10 ** 60000", "import resource", "global x; x = 1", "yield 1",
)  # fmt: skip


def solutions(folder: Path) -> list[tuple[Problem, str]]:
    """What the wheel is an oracle for: O1-Mini's code on the assembled records, and generated programs."""
    records = {record["question_id"]: record for _, record in lines.records(folder / "lcb_assembled.jsonl.gz")}
    rows = {row["question_id"]: row["code_list"][0] for _, row in lines.records(folder / EVAL_ALL)}
    found = [(problem_of(record, "assembled"), rows[key]) for key, record in records.items()]
    made = [(problem_of(task.record, "generated"), task.solution) for task in generator.generate(9, 60)]
    return [(problem, code) for problem, code in found + made if problem.kind == "call" or "stdin" not in code]


def mutate(code: str, rng: random.Random) -> str:
    """One small change somewhere."""
    rows = code.split("\n")
    index = rng.randrange(len(rows))
    row = rows[index]
    kind = rng.randrange(6)
    if kind == 0:
        del rows[index]
    elif kind == 1:
        rows[index] = re.sub(r"\d+", lambda number: str(int(number[0]) + rng.choice((-1, 1))), row)
    elif kind == 2:
        rows[index] = row.replace("+", "-").replace("<", "<=").replace("max", "min")
    elif kind == 3:
        rows[index] = row.replace(
            "return ", f"return {rng.choice(('tuple', 'list', 'str', 'float', 'iter'))}(", 1
        ) + ")" * ("return " in row)
    elif kind == 4:
        return code.replace("__name__ == '__main__'", "'__main__' == __name__").replace(
            '__name__ == "__main__"', "True"
        )
    else:
        rows.insert(index, f"{re.match(' *', row)[0]}{rng.choice(INSERTED)}")  # type: ignore[index]
    return "\n".join(rows)


@pytest.mark.study
def test_codes_are_those_of_upstreams_grader(shared_data: Path) -> None:
    rng = random.Random(17)
    known = solutions(shared_data / "livecodebench")
    count = MANY if os.environ.get("HARNESS_LCB") == "full" else FEW
    chosen = [rng.choice(known) for _ in range(count)]
    work = [(problem, code if number % 8 == 0 else mutate(code, rng)) for number, (problem, code) in enumerate(chosen)]
    theirs = lcb_wheel.codes(work, LIMIT_S)
    judging.use_sandbox("local", workers=2)
    seen: Counter[int | None] = Counter()
    for (problem, code), (codes, error_code) in zip(work, theirs, strict=True):
        with judging.lease() as worker:
            found = official.grade(worker, problem, code, LIMIT_S)
        assert (list(found.codes), found.error_code) == (codes, error_code), f"{problem.id}\n{code}"
        seen[error_code] += 1
    judging.close()
    assert {None, -2, -4} <= set(seen)
    print(f"\n{count} solutions, by error code: {dict(seen)}")
