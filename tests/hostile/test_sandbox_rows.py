"""Hostile code of the kinds that graders have met: the right status in its time bound, and a jail that the next one can use."""

import time
from typing import NamedTuple

import pytest

from envs.sandbox.limits import SOURCE_BYTES, Limits
from envs.sandbox.pool import Pool
from envs.sandbox.results import Status
from envs.sandbox.worker import Code, request

SHORT, ROOMY = Limits(wall_s=0.7, memory_mib=256), Limits(wall_s=30, memory_mib=256)
"""Time enough where something else has to end the code, however busy the machine is."""
GRACE_S = 5.0
OK, ERROR, TIME, MEMORY, OUTPUT = Status.OK, Status.ERROR, Status.TIME_LIMIT, Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT
CRASHED, EXITED = Status.CRASHED, Status.EXITED


class Case(NamedTuple):
    """A module whose `f` is called. `load` and `first` are the statuses that are right."""

    source: str
    load: Status
    first: set[Status]

    @property
    def limits(self) -> Limits:
        return SHORT if TIME in {self.load, *self.first} else ROOMY


SKIPPED = {Status.SKIPPED}

CASES = {
    "11 exit while loading": Case("import sys; sys.exit(0)", EXITED, SKIPPED),
    "12 exit in the call": Case("def f():\n import sys; sys.exit(0)", OK, {EXITED}),
    "13 os._exit in the call": Case("def f():\n import os; os._exit(0)", OK, {EXITED}),
    "13 os._exit while loading": Case("import os; os._exit(0)", EXITED, SKIPPED),
    "14 loop while loading": Case("while True: pass", TIME, SKIPPED),
    "15 loop in the call": Case("def f():\n while True: pass", OK, {TIME}),
    "16 loop that swallows everything": Case(
        "import signal\nfor s in range(1, 64):\n try: signal.signal(s, signal.SIG_IGN)\n except Exception: pass\n"
        "def f():\n while True:\n  try:\n   while True: pass\n  except BaseException: pass",
        OK,
        {TIME},
    ),
    "17 timers off, then sleep": Case(
        "import signal, time\ndef f():\n signal.setitimer(signal.ITIMER_REAL, 0); signal.alarm(0); time.sleep(8); return 1", OK, {TIME}
    ),
    "19 recursion without end": Case(
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()", OK, {CRASHED, MEMORY, ERROR, TIME}
    ),
    "19 recursion in C": Case(
        "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n class A:\n  def __repr__(self): return repr(self)\n return repr(A())",
        OK,
        {CRASHED, MEMORY, ERROR},
    ),
    "20 five gigabytes": Case("def f(): return len(bytearray(5 * 2**30))", OK, {MEMORY}),
    "20 gigabytes bit by bit": Case("def f():\n x = []\n while True: x.append(bytearray(2**20))", OK, {MEMORY}),
    "21 segmentation fault": Case("import ctypes\ndef f(): ctypes.string_at(0)", OK, {CRASHED}),
    "22 output while called": Case("def f():\n for _ in range(50): print('x' * 2**20)\n return 1", OK, {OK}),
    "23 a process left behind": Case("import os\ndef f(): os.posix_spawn('/bin/sleep', ['sleep', '100'], {}); return 1", OK, {OK}),
    "24 a thread left behind": Case(
        "import threading, time\ndef f():\n threading.Thread(target=time.sleep, args=(100,)).start()\n return 1", OK, {OK}
    ),
    "25 reload and system": Case("import importlib, os\ndef f(): importlib.reload(os); return os.system('rm -rf / 2>/dev/null') and 1", OK, {OK}),
    "26 a file left behind": Case("import os\ndef f(): os.write(os.open('/tmp/x', os.O_CREAT | os.O_WRONLY), b'x'); return 1", OK, {OK, ERROR}),
    "28 fork bomb": Case("import os\ndef f():\n while True:\n  try: os.fork()\n  except OSError: pass", OK, {TIME, Status.GARBLED}),
    "29 disk filled": Case("def f():\n with open('/tmp/x', 'wb') as o:\n  while True: o.write(b'x' * 2**20)", OK, {ERROR}),
    "34 its own timeout": Case("class TimeoutException(Exception): pass\ndef f(): raise TimeoutException('time')", OK, {ERROR}),
    "35 arithmetic in C": Case("def f(): return 10**10**9", OK, {TIME, MEMORY}),
    "35 a regex that backtracks": Case("import re\ndef f(): return re.match('(a+)+$', 'a' * 64 + 'b')", OK, {TIME}),
    "36 an exit hook that sleeps": Case("import atexit, time\natexit.register(time.sleep, 100)\ndef f(): return 1", OK, {OK}),
    "39 fifty megabytes of source": Case("#" * 50_000_000, ERROR, SKIPPED),
    "39 just under the cap": Case("#" * (SOURCE_BYTES - 1), OK, {ERROR}),
    "39 parentheses": Case("(" * 100_000 + ")" * 100_000, ERROR, SKIPPED),
    "39 null bytes": Case("x = 1\0", ERROR, SKIPPED),
    "39 lone surrogates": Case("x = '\ud800'", ERROR, SKIPPED),
    "39 deep nesting without parentheses": Case("x = " + "-" * 200_000 + "1", ERROR, SKIPPED),
}  # fmt: skip

SAFE = "import os\nassert os.listdir('/tmp') == os.listdir('/dev/shm') == [], 'traces'\nprint(sum(n.isdigit() for n in os.listdir('/proc')))\n"


def next_one_is_well(pool: Pool) -> None:
    """Another submission finds no file and no process but its own and those of the jail, and runs at once."""
    with pool.lease(60) as worker:
        result = worker.run_program(SAFE, limits=ROOMY)
    assert (result.status, result.exit_code, result.stderr) == (OK, 0, b"")
    assert int(result.stdout) <= 3


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_hostile_calls_end_with_the_right_status_in_time(pool: Pool, case: Case) -> None:
    with pool.lease(60) as worker:
        started = time.monotonic()
        called = worker.call_all(Code(case.source), [request("f")], case.limits)
        took = time.monotonic() - started
    assert called.load.status is case.load, called.load
    assert called.results[0].status in case.first, called.results
    assert took < case.limits.wall_s + GRACE_S
    next_one_is_well(pool)


PROGRAMS = {
    "22 four hundred megabytes": ("while True: print('x' * 2**20)", OUTPUT),
    "22 output just at the cap": ("import sys; sys.stdout.write('x' * 2**20)", OK),
    "22 output just over the cap": ("import sys; sys.stdout.write('x' * (2**20 + 1))", OUTPUT),
    "22 errors without end": ("import sys, time\nfor _ in range(50): sys.stderr.write('x' * 2**20)", OK),
    "23 a process that holds the output": ("import subprocess\nprint(1)\nsubprocess.Popen(['sleep', '100'])", OK),
    "23 a daemon": ("import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  while True: os.getpid()\n os._exit(0)", OK),
    "24 a thread within the limit": ("import threading, time\nthreading.Thread(target=time.sleep, args=(.3,)).start(); print(1)", OK),
    "24 a thread beyond the limit": ("import threading, time\nthreading.Thread(target=time.sleep, args=(9,)).start(); print(1)", TIME),
    "36 an exit hook that sleeps": ("import atexit, time\natexit.register(time.sleep, 100)\nprint(1)", OK),
    "20 five gigabytes": ("x = bytearray(5 * 2**30)", MEMORY),
    "21 aborted": ("import os; os.abort()", CRASHED),
    "21 killed by itself": ("import os; os.kill(os.getpid(), 9)", CRASHED),
    "a stop of itself": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", TIME),
    "standard streams closed": ("import os\nfor fd in (0, 1, 2): os.close(fd)", OK),
    "it hangs with its streams closed": ("import os\nfor fd in (0, 1, 2): os.close(fd)\nwhile True: pass", TIME),
    "it never reads and never ends": ("import time; time.sleep(100)", TIME),
    "reading without end": ("while True: open('/dev/zero').read(2**20)", TIME),
}  # fmt: skip


@pytest.mark.parametrize(("source", "status"), PROGRAMS.values(), ids=PROGRAMS)
def test_hostile_programs_end_with_the_right_status_in_time(pool: Pool, source: str, status: Status) -> None:
    with pool.lease(60) as worker:
        started = time.monotonic()
        limits = SHORT if status is TIME or "time.sleep, 100" in source else ROOMY
        result = worker.run_program(source, b"x" * 200_000, limits)
        took = time.monotonic() - started
    assert result.status is status, result._replace(stdout=result.stdout[:99], stderr=result.stderr[:999])
    assert len(result.stdout) <= limits.output_bytes
    assert len(result.stderr) <= 1 << 16
    assert took < limits.wall_s + GRACE_S
    next_one_is_well(pool)


def test_an_exit_hook_killed_at_the_limit_is_told(pool: Pool) -> None:
    with pool.lease(60) as worker:
        result = worker.run_program("import atexit, time\natexit.register(time.sleep, 100)\nprint(1)", limits=SHORT)
    assert (result.lingered, result.stdout, result.exit_code) == (True, b"1\n", 0)


def test_cpu_time_is_limited_whatever_the_program_ignores(pool: Pool) -> None:
    source = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    with pool.lease(60) as worker:
        result = worker.run_program(source, limits=Limits(wall_s=120, cpu_s=1))
    assert result.status is TIME
    assert result.usage.cpu_s < 3
