"""What honest code gets from a jail: a real process, calls, sessions."""

import pytest

from envs.sandbox.limits import SOURCE_BYTES, Limits
from envs.sandbox.results import Status
from envs.sandbox.worker import Code, Worker, request
from trajectories.failures import InputError

ECHO = Code("def echo(x):\n    return x\n")


def out(worker: Worker, source: str, stdin: str | bytes = "", **kwargs: object) -> str:
    result = worker.run_program(source, stdin, **kwargs)  # type: ignore[arg-type]
    assert result.status is Status.OK, result
    return result.stdout.decode()


def test_a_program_is_main_with_real_pipes_and_arguments(worker: Worker) -> None:
    source = "import sys, os\nprint(__name__, sys.argv, sys.stdin.read(), os.isatty(0))\nprint('no', file=sys.stderr)"
    result = worker.run_program(source, "in", args=["a", "b c"])
    assert (result.status, result.exit_code, result.stderr) == (Status.OK, 0, b"no\n")
    assert result.stdout == b"__main__ ['main.py', 'a', 'b c'] in False\n"
    assert 0 < result.cpu_s < result.wall_s + 0.1


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nfor line in sys.stdin: print(int(line) + 1)",
        "import sys\nfor line in sys.stdin.buffer: print(int(line) + 1)",
        "import sys\nfor line in sys.stdin.buffer.readlines(): sys.stdout.buffer.write(b'%d\\n' % (int(line) + 1))",
        "import os\nfor n in os.read(0, 99).split(): os.write(1, b'%d\\n' % (int(n) + 1))",
        "for n in open(0): print(int(n) + 1)",
        "for n in open('/dev/stdin'): print(int(n) + 1)",
        "from sys import stdin\nprint(*(int(n) + 1 for n in stdin), sep='\\n')",
        "import threading\ndef main():\n  print(int(input()) + 1)\n  print(int(input()) + 1)\nthreading.Thread(target=main).start()",
        "import atexit\natexit.register(lambda: print(2, 3, sep='\\n'))",
        "if '__main__' == __name__:\n  print(2)\nprint(3)",
        "n = 1\ndef f():\n  global n\n  n += 1\n  print(n)\nf(); f()",
        "from __future__ import annotations\nprint(2); print(3); quit()",
        "print(2); print(3); import os, sys; sys.stdout.flush(); os._exit(0)",
        "import sys, resource\nresource.setrlimit(resource.RLIMIT_STACK, (1 << 28, resource.RLIM_INFINITY))\nprint(2); print(3)",
    ],
)
def test_a_program_reads_and_writes_as_it_likes(worker: Worker, source: str) -> None:
    assert out(worker, source, "1\n2\n") == "2\n3\n"


def test_exit_codes_and_tracebacks_are_those_of_python(worker: Worker) -> None:
    assert worker.run_program("import sys; sys.exit(7)").exit_code == 7
    assert worker.run_program("import sys; sys.exit('why')").stderr == b"why\n"
    failed = worker.run_program("def f():\n    return 1 / 0\n\nf()\n")
    assert (failed.status, failed.exit_code) == (Status.OK, 1)
    assert failed.stderr.decode() == (
        'Traceback (most recent call last):\n  File "main.py", line 4, in <module>\n    f()\n'
        '  File "main.py", line 2, in f\n    return 1 / 0\n           ~~^~~\nZeroDivisionError: division by zero\n'
    )


def test_a_syntax_error_is_an_error_of_the_program(worker: Worker) -> None:
    failed = worker.run_program("def f(:\n")
    assert failed.exit_code == 1
    assert b"SyntaxError" in failed.stderr


def test_text_that_is_no_utf8_passes_through(worker: Worker) -> None:
    raw = bytes(range(256))
    result = worker.run_program("import sys; sys.stdout.write(sys.stdin.read())", raw.replace(b"\r", b""))
    assert result.stdout == raw.replace(b"\r", b"")


def test_megabytes_go_in_and_out(worker: Worker) -> None:
    data = b"x" * 3_000_000
    result = worker.run_program("import sys; sys.stdout.write(sys.stdin.read())", data, Limits(output_bytes=3_000_000))
    assert (result.status, result.stdout) == (Status.OK, data)


def test_input_that_nobody_reads_is_no_error(worker: Worker) -> None:
    assert out(worker, "print(1)", b"x" * 3_000_000) == "1\n"


VALUES = [
    None, True, 0, -1, 10**5000, 2.5, float("inf"), -0.0, 1j, "é\ud800", b"\0\xff", [], (), (1, [2, (3,)]), {1, 2}, frozenset({"a"}),
    {"a": {1: (2,)}, (1, 2): None}, [[1, 2], [None, "x", 2.0]], bytearray(b"x"), [10**5000, 1],
]  # fmt: skip


@pytest.mark.parametrize(
    "value", VALUES, ids=[f"{number}-{type(value).__name__}" for number, value in enumerate(VALUES)]
)
def test_a_value_comes_back_as_it_went(worker: Worker, value: object) -> None:
    (result,) = worker.call_all(ECHO, [request("echo", value)]).results
    assert result.status is Status.OK
    assert result.value == value
    assert type(result.value) is (bytes if isinstance(value, bytearray) else type(value))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("__import__('collections').Counter('aab')", {"a": 2, "b": 1}),
        ("__import__('collections').OrderedDict(a=1)", {"a": 1}),
        ("__import__('collections').namedtuple('P', 'x y')(1, 2)", (1, 2)),
        ("__import__('fractions').Fraction(1, 3)", __import__("fractions").Fraction(1, 3)),
        ("__import__('decimal').Decimal('1.10')", __import__("decimal").Decimal("1.10")),
        ("__import__('collections').deque([1])", __import__("collections").deque([1])),
        ("range(1, 9, 2)", range(1, 9, 2)),
        ("{'a': 1}.keys()", {"a"}),
        ("type('F', (float,), {'__eq__': lambda a, b: True})(2.5)", 2.5),
        ("type('S', (str,), {})('x')", "x"),
    ],
)
def test_a_subclass_counts_as_what_it_holds(worker: Worker, expression: str, expected: object) -> None:
    (result,) = worker.call_all(Code(f"def f():\n    return {expression}\n"), [request("f")]).results
    assert (result.status, result.value) == (Status.OK, expected)
    assert type(result.value) is type(expected)


@pytest.mark.parametrize(
    "expression",
    ["np.float64(0.1)", "np.array([[1, 2], [3, 4]])", "np.array(['a', 'bc'])", "np.bool_(True)", "np.int32(7)"],
)
def test_numpy_comes_back_as_numpy(worker: Worker, expression: str) -> None:
    import numpy as np

    expected = eval(expression, {"np": np})
    (result,) = worker.call_all(
        Code(f"import numpy as np\ndef f():\n    return {expression}\n"), [request("f")]
    ).results
    assert result.status is Status.OK, result
    assert result.value.dtype == expected.dtype
    np.testing.assert_array_equal(result.value, expected)


def test_calls_keep_the_modules_state_and_take_keywords(worker: Worker) -> None:
    code = Code("seen = []\ndef f(x, *, y=0):\n    seen.append(x + y)\n    return seen\n")
    called = worker.call_all(code, [request("f", 1), request("f", 2, y=3)])
    assert [result.value for result in called.results] == [[1], [1, 5]]
    assert called.usage.processes_left == 0


def test_a_prelude_runs_first_in_the_same_namespace(worker: Worker) -> None:
    code = Code(
        "from __future__ import annotations\ndef f(x):\n    return floor(x)\n",
        prelude="from math import *\n",
        name="tmp_sol",
    )
    called = worker.call_all(code, [request("f", 2.5), request("f.__module__.upper")])
    assert [result.value for result in called.results] == [2, "TMP_SOL"]


def test_a_module_that_does_not_load_makes_no_calls(worker: Worker) -> None:
    called = worker.call_all(Code("1 / 0"), [request("f"), request("f")])
    assert (called.load.status, called.load.text) == (Status.ERROR, "ZeroDivisionError: division by zero")
    assert [result.status for result in called.results] == [Status.SKIPPED, Status.SKIPPED]


def test_an_exception_is_told_by_type_text_and_repr(worker: Worker) -> None:
    (result,) = worker.call_all(Code("def f():\n    raise KeyError('k')\n"), [request("f")]).results
    assert result.raised == ("KeyError", "'k'", "KeyError('k')")


def test_stop_ends_a_batch_at_the_first_call_without_a_value(worker: Worker) -> None:
    code = Code("def f(x):\n    return 1 // x\n")
    results = worker.call_all(code, [request("f", x) for x in (1, 0, 1)], stop=True).results
    assert [result.status for result in results] == [Status.OK, Status.ERROR, Status.SKIPPED]


def test_calls_can_be_made_batch_by_batch(worker: Worker) -> None:
    with worker.open_calls(ECHO) as calls:
        assert calls.load.status is Status.OK
        assert [result.value for result in calls.run([request("echo", n) for n in range(300)])] == list(range(300))
        assert calls.call("echo", "again").value == "again"
    assert calls.usage is not None
    assert calls.usage.traces == ()


def test_each_call_has_its_own_time_limit(worker: Worker) -> None:
    code = Code("import time\ndef f(s):\n    time.sleep(s)\n    return s\n")
    results = worker.call_all(code, [request("f", s) for s in (0.1, 0.1, 0.1, 1, 0)], Limits(wall_s=0.25)).results
    assert [result.status for result in results] == [Status.OK] * 3 + [Status.TIME_LIMIT, Status.SKIPPED]
    assert 0.25 <= results[3].wall_s < 0.5


COUNTER = Code(
    "class Counter:\n    def __init__(self, start):\n        self.n = start\n"
    "    def add(self, by=1):\n        self.n += by\n        return {'ok': True, 'n': self.n}\n"
)


def test_a_session_keeps_objects_and_gives_their_state(worker: Worker) -> None:
    with worker.open_session(COUNTER) as session:
        assert session.construct("Counter", "env", 5).status is Status.OK
        assert session.call("env.add", by=2).value == {"ok": True, "n": 7}
        assert session.get_state("env").value == {"n": 7}
        assert session.set_state("env", {"n": 1}).status is Status.OK
        assert session.call("env.add").value == {"ok": True, "n": 2}
        assert session.execute("def check(state):\n    return state['n'] == 2\n").status is Status.OK
        assert session.call("check", {"n": 2}).value is True
        assert session.call("env.gone").status is Status.ERROR


def test_random_and_sets_are_the_same_each_time(worker: Worker) -> None:
    source = "import random\nprint(random.random(), list({'a', 'b', 'c', 'd'}))"
    assert out(worker, source) == out(worker, source)


def test_a_source_over_the_cap_is_an_error_that_never_enters(worker: Worker) -> None:
    long = "#" * (SOURCE_BYTES + 1)
    assert worker.run_program(long).status is Status.ERROR
    assert worker.call_all(Code(long), [request("f")]).load.status is Status.ERROR
    assert not worker.line.broken


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="wall_s is 0"):
        Limits(wall_s=0)
