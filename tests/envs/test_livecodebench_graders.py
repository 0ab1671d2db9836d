"""Both graders of LiveCodeBench: result codes as upstream emits them, its quirks one by one, and solutions that cheat."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from envs import judging
from envs.livecodebench import grading, official, strict
from envs.livecodebench.outcome import Ran
from envs.livecodebench.records import Problem, Test
from envs.sandbox.worker import Worker


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    judging.use_sandbox("local", workers=2)
    with judging.lease() as leased:
        yield leased
    judging.close()


def program(*tests: tuple[str, str]) -> Problem:
    pairs = tests or (("1 2\n", "3\n"), ("5 6\n", "11\n"))
    return problem(None, pairs)


def function(*tests: tuple[str, str]) -> Problem:
    return problem("combine", tests or (("1\n2", "3"), ("5\n6", "11")))


def problem(name: str | None, tests: tuple[tuple[str, str], ...]) -> Problem:
    pairs = tuple(Test(*test) for test in tests)
    return Problem("q", "", "", "atcoder", "c", "2024-01-01T00:00:00", "", "easy", name, pairs[:1], pairs[1:])


class Quirk(NamedTuple):
    """Code, and the codes that the two graders give it."""

    name: str
    code: str
    official: list[Any]
    strict: list[Any]
    problem: Problem = program()
    error_code: int | None = None


SUM = "a, b = map(int, {}.split())\nprint(a + b)\n"
TWO_LINES = program(("1\n2\n", "3\n"), ("5\n6\n", "11\n"))
PASS = [True, True]
QUIRKS = [
    Quirk("Q1 lines", "import sys\nfor line in sys.stdin:\n    print(sum(map(int, line.split())))", [-4], PASS),
    Quirk(
        "Q2 buffer.readline gives the first line each time",
        "import sys\nread = sys.stdin.buffer.readline\nprint(int(read()) + int(read()))", [-2], PASS, TWO_LINES,
    ),
    Quirk("Q3 buffer lines", "import sys\nfor line in sys.stdin.buffer:\n    print(sum(map(int, line.split())))", [-4], PASS),
    Quirk("Q3 buffer.readlines", "import sys\n" + SUM.format("sys.stdin.buffer.readlines()[0]"), [-4], PASS),
    Quirk("Q4 descriptor 0", "import os\nprint(sum(map(int, os.read(0, 100).split())))", [-2], PASS),
    Quirk("Q4 open(0)", "print(sum(map(int, open(0).read().split())))", [-2], PASS),
    Quirk("Q5 stdin by name", "from sys import stdin\nn = [int(x) for line in stdin for x in line.split()]\nprint(n[0] + n[1])", [-4], PASS),
    Quirk("Q6 stdout.buffer", "import sys\nsys.stdout.buffer.write(b'%d' % sum(map(int, input().split())))", [-4], PASS),
    Quirk(
        "Q7 global in a helper",
        "total = 0\ndef combine(x):\n    global total\n    total += x\nfor x in input().split():\n    combine(int(x))\nprint(total)", [-4], PASS,
    ),
    Quirk("Q8 guard reversed", "def main():\n    a, b = map(int, input().split())\n    print(a + b)\nif '__main__' == __name__:\n    main()", [-2], PASS),
    Quirk("Q8 guard not last", "def main():\n    a, b = map(int, input().split())\n    print(a + b)\nif __name__ == '__main__':\n    main()\nx = 1", [-2], PASS),
    Quirk("Q9 future", "from __future__ import annotations\n" + SUM.format("input()"), [-4], PASS),
    Quirk("Q9 future, function", "from __future__ import annotations\ndef combine(a, b): return a + b", [-4], PASS, function()),
    Quirk("Q10 star import inside try", "try:\n    from math import *\nexcept ImportError:\n    pass\n" + SUM.format("input()"), [-4], PASS),
    Quirk("Q11 quit", SUM.format("input()") + "quit()", [-4], PASS),
    Quirk("Q11 exit passes", SUM.format("input()") + "exit()", PASS, PASS),
    Quirk("Q12 os._exit", "import os\na, b = map(int, input().split())\nprint(a + b, flush=True)\nos._exit(0)", [-2], PASS, error_code=-5),
    Quirk("Q13 array", "import numpy as np\ndef combine(a): return np.array(a)", [True, -4], [True], problem("combine", (("[1, 2]", "[1, 2]"),))),
    Quirk("Q14 a crash after the output", SUM.format("input()") + "raise ValueError", [-4], [-4]),
    Quirk("Q14 an exit status after the output", "import sys\n" + SUM.format("input()") + "sys.exit(1)", PASS, [-4]),
    Quirk("class Solution in a program", "class Solution: pass\n" + SUM.format("input()"), [-4], PASS),
    Quirk("read after readline", "import sys\nf = sys.stdin.readline()\nprint(int(f) + int(sys.stdin.read()))", [-4], PASS, TWO_LINES),
    Quirk("an unjoined thread", (
        "import threading, time\ndef work():\n    time.sleep(0.2)\n    a, b = map(int, input().split())\n    print(a + b)\n"
        "threading.Thread(target=work).start()"), [-2], PASS),
    Quirk("a comment with class Solution", "# class Solution\ndef combine(a, b): return a + b", [-4], PASS, function()),
    Quirk("state leaks between tests", (
        "class Solution:\n    def __init__(self): self.seen = 0\n    def combine(self, a, b):\n        self.seen += 1\n"
        "        return a + b if self.seen == 1 else 0"), [True, False], PASS, function()),
    Quirk("a name that the imports bring", "pass", PASS, [-4], problem("add", (("1\n2", "3"), ("5\n6", "11")))),
    Quirk("odd digits", "a, b = map(int, input().split())\nprint(f'+0_{a + b}')", PASS, [-2]),
    Quirk("a huge int", "def combine(a, b): return 10 ** 60000", [False, -4], [-2], function(), -4),
    Quirk("its own TimeoutException", "class TimeoutException(Exception): pass\ndef combine(a, b): raise TimeoutException", [-3], [-4], function()),
    Quirk("a signalling NaN", "print('sNaN')", [-4], [-2]),
]  # fmt: skip


@pytest.mark.parametrize("quirk", QUIRKS, ids=[quirk.name for quirk in QUIRKS])
def test_a_quirk_is_kept_by_official_and_mended_by_strict(quirk: Quirk, worker: Worker) -> None:
    found = official.grade(worker, quirk.problem, quirk.code)
    assert list(found.codes) == quirk.official
    if quirk.error_code is not None:
        assert found.error_code == quirk.error_code
    assert list(strict.grade(worker, quirk.problem, quirk.code).codes) == quirk.strict


@pytest.mark.parametrize(
    ("code", "graded", "codes", "error_code"),
    [
        (SUM.format("input()"), program(), [True, True], None),
        ("print(3)", program(), [True, -2], -2),
        ("print()", program(), [-2], -2),
        ("while True: pass", program(), [-3], -3),
        ("1 / 0", program(), [-4], -4),
        ("a b", program(), [-4], -4),
        ("import no_such_module", program(), [-4], -4),
        ("x = [0] * 10 ** 12", program(), [-4], -4),
        ("def combine(a, b): return a + b", function(), [True, True], None),
        ("class Solution:\n    def combine(self, a, b): return (a + b)", function(), [True, True], None),
        ("def combine(a, b): return 3", function(), [True, False], -2),
        ("def other(a, b): return 3", function(), [-4], -4),
        ("while True: pass", function(), [-4], -4),
        ("def combine(a, b):\n    while True: pass", function(), [-3], -3),
        ("raise SystemExit", function(), [-2], -5),
        ("def combine(a, b): exit()", function(), [-2], -5),
        ("def combine(a, b): raise KeyboardInterrupt", function(), [-2], -5),
        ("import os\ndef combine(a, b): os.abort()", function(), [-2], -5),
        ("def combine(a, b): return a + b", function(("1\n\n2", "3")), [-4], -4),
        ("def combine(a): return tuple(a)", problem("combine", (("[1, 2]", "[1, 2]"),)), [True], None),
        ("def combine(a): return [tuple(x) for x in a]", problem("combine", (("[[1]]", "[[1]]"),)), [False], -2),
        ("def combine(a, b): return a + b + 1e-12", function(("1\n2", "3")), [False], -2),
        ("def combine(a, b): return float(a + b)", function(("1\n2", "3")), [True], None),
        ("import numpy as np\ndef combine(a, b): return np.int64(a + b)", function(), [True, True], None),
        ("print(pow(7, 2, 5), datetime.date(1, 1, 1))", program(("", "4 0001-01-01")), [True], None),
    ],
)
def test_official_codes_are_as_emitted(
    code: str, graded: Problem, codes: list[Any], error_code: int | None, worker: Worker
) -> None:
    found = official.grade(worker, graded, code, time_limit_s=1)
    assert (list(found.codes), found.error_code) == (codes, error_code)


@pytest.mark.parametrize(
    ("code", "graded", "codes", "error"),
    [
        ("while True: pass", program(), [-3], "time limit"),
        ("import time\ntime.sleep(9)\n" + SUM.format("input()"), program(), [-3], "time limit"),
        ("x = bytearray(6 << 30)", program(), [-4], "memory limit"),
        ("import sys\nwhile True: sys.stdout.write('x' * 10 ** 6)", program(), [-4], "output limit"),
        ("import ctypes\nctypes.string_at(0)", program(), [-4], "crashed"),
        ("import sys\nsys.exit(3)", program(), [-4], "exit status 3"),
        ("a b", program(), [-4], "SyntaxError"),
        ("1 / 0", program(), [-4], "ZeroDivisionError"),
        ("def combine(a, b):\n    while True: pass", function(), [-3], "time limit"),
        ("def combine(a, b): 1 / 0", function(), [-4], "ZeroDivisionError"),
        ("a b", function(), [-4], "SyntaxError"),
        ("def combine(a, b): return (x for x in [3])", function(), [-2], "generator"),
        ("def other(a, b): return 3", function(), [-4], "combine"),
        ("#" * 300_000, function(), [-4], "bytes"),
    ],
)
def test_strict_names_what_went_wrong(code: str, graded: Problem, codes: list[Any], error: str, worker: Worker) -> None:
    found = strict.grade(worker, graded, code, time_limit_s=1)
    assert list(found.codes) == codes
    assert error in found.error


FORGERS = {
    "always equal": "class E:\n    def __eq__(self, other): return True\ndef combine(a, b): return E()",
    "an int that is always equal": "class I(int):\n    def __eq__(self, other): return True\ndef combine(a, b): return I(0)",
    "frames": (
        "import sys\ndef combine(a, b):\n    frame = sys._getframe()\n    while frame:\n"
        "        for name in ('gt_out', 'expected', 'output'):\n            if name in frame.f_locals: return frame.f_locals[name]\n"
        "        frame = frame.f_back\n    return None"
    ),
    "all objects": "import gc\ndef combine(a, b):\n    return [x for x in gc.get_objects() if x == [3] or x == 3][:1]",
    "json patched": "import json\njson.loads = lambda text: 3\ndef combine(a, b): return 0",
    "the driver taken over": (
        "import sys\nfor module in list(sys.modules.values()):\n"
        "    if hasattr(module, 'call') and hasattr(module, 'run') and hasattr(module, 'target'):\n"
        "        module.call = lambda arguments: 'right'\ndef combine(a, b): return 0"
    ),
    "frames on every descriptor": (
        "import os\ndef combine(a, b):\n    for fd in range(3, 100):\n        try: os.write(fd, b'\\x00\\x00\\x00\\x0a' + b'0' * 8 + b'V3')\n"
        "        except OSError: pass\n    return 0"
    ),
}


@pytest.mark.parametrize("name", FORGERS)
def test_a_forged_result_is_wrong_for_both_graders(name: str, worker: Worker) -> None:
    for grade in (official.grade, strict.grade):
        assert not grade(worker, function(), FORGERS[name], 1).passed


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import signal, time\nsignal.alarm(0)\ntime.sleep(3)\n" + SUM.format("input()"),
        "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass",
        "int('9' * 49000) ** 300",
    ],
)
def test_the_time_limit_holds_where_the_alarm_does_not(code: str, worker: Worker) -> None:
    started = time.monotonic()
    assert not official.grade(worker, program(), code, time_limit_s=1).passed
    assert not strict.grade(worker, program(), code, time_limit_s=1).passed
    assert time.monotonic() - started < 6


def test_a_program_that_goes_on_after_the_alarm_has_said_too_much(worker: Worker) -> None:
    code = "try:\n    while True: pass\nexcept Exception:\n    print(3)"
    assert official.grade(worker, program(), code, time_limit_s=1).codes == (-2,)


@pytest.mark.parametrize("grader", ["official", "strict"])
def test_a_failure_names_its_test_and_its_output_but_no_verdict_tells_them(grader: str) -> None:
    judging.use_sandbox("local", workers=2)
    ran = grading.run(program(), "print(3)", grader)
    assert (ran.failed_test, ran.passed_tests, ran.got) == (1, 1, "3\n")
    verdict = grading.verdict(program(), ran, grader, "samples:0")
    assert verdict.detail["codes"] == [True, -2]
    assert verdict.grader.startswith(grader)
    assert "cpython-3" in verdict.grader
    assert "11" not in str({key: value for key, value in verdict.detail.items() if key != "error"})


def test_an_answer_without_code_needs_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "lease", lambda: pytest.fail("a jail was asked for"))
    assert grading.run(program(), " \n", "official") == Ran((-4,), -4, "the answer holds no code")


SURVIVORS = {
    "a background process": "import os\nos.posix_spawn('/bin/sleep', ['sleep', '30'], {})\n" + SUM.format("input()"),
    "a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n"
    + SUM.format("input()"),
    "an exit hook": "import atexit, time\natexit.register(time.sleep, 30)\n" + SUM.format("input()"),
    "os read anew": "import importlib, os\nimportlib.reload(os)\nos.system('touch /tmp/here')\n"
    + SUM.format("input()"),
    "a file": "import os\nos.close(os.open('/tmp/trace', os.O_CREAT | os.O_WRONLY))\n" + SUM.format("input()"),
}


@pytest.mark.parametrize("name", SURVIVORS)
def test_what_a_solution_leaves_behind_neither_delays_nor_outlives_it(name: str) -> None:
    judging.use_sandbox("local", workers=2)
    started = time.monotonic()
    for grade in (official.grade, strict.grade):
        with judging.lease() as worker:
            assert grade(worker, program(("1 2\n", "3\n")), SURVIVORS[name], 2).passed
    with judging.lease() as worker:
        seen = worker.run_program("import os\nprint(os.listdir('/tmp'), sum(p.isdigit() for p in os.listdir('/proc')))")
    assert b"here" not in seen.stdout
    assert b"trace" not in seen.stdout
    assert time.monotonic() - started < 8


@pytest.mark.parametrize(
    "code", ["(" * 100_000, "x = 1\0", "-" * 50_000 + "1", "\ud800 = 1", "[" * 1_000 + "]" * 1_000]
)
def test_source_that_no_parser_takes_is_an_error(code: str, worker: Worker) -> None:
    for graded in (program(), function()):
        assert official.grade(worker, graded, code, 2).codes in ((-4,), (-2,))
        assert not strict.grade(worker, graded, code, 2).passed


def test_source_beyond_all_bounds_is_not_run() -> None:
    assert grading.run(program(), "#" * (grading.MOST_CHARACTERS + 1), "official").codes == (-4,)
