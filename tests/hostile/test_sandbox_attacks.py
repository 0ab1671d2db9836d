"""What got through when the sandbox was attacked with its source in hand: each as the kind that was closed."""

import json
import time
from base64 import b64encode
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from envs.livecodebench import literal
from envs.livecodebench.compare import official_equality, strict_equality
from envs.sandbox import line, values
from envs.sandbox.limits import MOST_OUTPUT_BYTES, Limits
from envs.sandbox.pool import Pool
from envs.sandbox.results import Status
from envs.sandbox.worker import Code, request
from trajectories.failures import InputError

ROOMY, SMALL = Limits(wall_s=30), Limits(wall_s=30, memory_mib=256)
"""Time enough where something else has to end the code, however busy the machine is."""

FORGE = """
import os, struct, sys
def forge(kind, body):
    frame = sys._getframe()
    while 'nonce' not in frame.f_locals: frame = frame.f_back
    os.write(50, struct.pack('>I8sc', 9 + len(body), frame.f_locals['nonce'], kind) + body)
"""
BODIES = (b"nope", b'{"cause":"Ended","report":{"exit":0}}')


@pytest.mark.parametrize("kind", ["-", "~", "J", "\xff"])
def test_a_child_cant_speak_with_the_supervisors_signs(pool: Pool, kind: str) -> None:
    for body in BODIES:
        source = f"{FORGE}forge({kind.encode('latin-1')!r}, {body!r})"
        with pool.lease(60) as worker:
            load, _, _ = worker.call_all(Code(source), [request("f")], ROOMY)
        with pool.lease(60) as worker:
            called = worker.call_all(
                Code(f"{FORGE}def f(): forge({kind.encode('latin-1')!r}, {body!r})"), [request("f")], ROOMY
            )
        assert (load.status, called.results[0].status) == (Status.GARBLED, Status.GARBLED)


HOARDS = {
    "shared anonymous memory": "fd, flags = -1, 0x21",
    "a mapped device of zeros": "fd, flags = os.open('/dev/zero', os.O_RDWR), 1",
    "a file in memory": "fd, flags = os.memfd_create('x'), 1\nos.ftruncate(fd, 1 << 40)\nin_file = True",
    "huge pages": "fd, flags = -1, 0x40022",
}
HOARD = """
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
size, held, in_file = 8 << 20, 0, globals().get("in_file")
while held < 800 << 20:
    at = libc.mmap(None, size, 3, flags, fd, held if in_file else 0)
    if at == ctypes.c_void_p(-1).value: raise SystemExit(9)
    libc.memset(ctypes.c_void_p(at), 1, size)
    libc.munmap(ctypes.c_void_p(at + 4096), ctypes.c_size_t(size - 4096))
    held += size
time.sleep(20)
"""


@pytest.mark.parametrize("kind", HOARDS.values(), ids=HOARDS)
def test_memory_that_no_process_shows_counts_too(pool: Pool, kind: str) -> None:
    with pool.lease(60) as worker:
        result = worker.run_program(f"import os\n{kind}\n{HOARD}", limits=SMALL)
    assert result.status is Status.MEMORY_LIMIT or result.exit_code in (1, 9), result


SMALL_ONES = """
import posix, _socket
block = bytes(1 << 16)
for _ in range(25):
    if posix.fork() == 0: break
kept = []
try:
    while True:
        for end in _socket.socketpair():
            kept.append(end)
            end.setblocking(False)
            try: end.setsockopt(1, 7, 1 << 24)
            except OSError: pass
            try:
                while True: end.send(block)
            except BlockingIOError: pass
except OSError: pass
while True: posix.getpid()
"""


@pytest.mark.parametrize(
    "source",
    [SMALL_ONES, HOARD.replace("while held < 800 << 20", "fd, flags = os.open('/dev/zero', os.O_RDWR), 1\nwhile True")],
)
def test_processes_smaller_than_ours_that_fill_the_jail_end_for_it_and_not_the_jail(pool: Pool, source: str) -> None:
    program = f"import os, sys\nfor python in ('/usr/local/bin/python3', '/usr/bin/python3', sys.executable):\n if os.path.exists(python): os.execv(python, ['python3', '-I', '-S', '-E', '-c', {source!r}])"
    with pool.lease(60) as worker:
        result = worker.run_program(program, limits=Limits(wall_s=4, memory_mib=256))
    assert result.status in (Status.MEMORY_LIMIT, Status.TIME_LIMIT) or result.exit_code == 9


REFUSED = {
    "a whole user made slow": "os.setpriority(os.PRIO_USER, 0, 19)",
    "a group made slow": "os.setpriority(os.PRIO_PGRP, 0, 19)",
    "a core limit that hosts overlook": "resource.setrlimit(resource.RLIMIT_CORE, (0, 1))",
    "a lease that others wait for": "fcntl.fcntl(os.open('/dev/null', os.O_RDONLY), 1024, 0)",
    "a socket that holds more": "socket.socketpair()[0].setsockopt(1, 7, 1 << 24)",
    "all disks written out": "call('sync')",
    "one disk written out": "call('syncfs', 0)",
    "memory swapped out by hand": "call('madvise', 0, 0, 21)",
}


@pytest.mark.parametrize("what", REFUSED.values(), ids=REFUSED)
def test_what_would_slow_others_is_refused(pool: Pool, what: str) -> None:
    source = f"""
import ctypes, fcntl, os, resource, socket
def call(name, *a):
    ctypes.set_errno(0)
    getattr(ctypes.CDLL(None, use_errno=True), name)(*a)
    if ctypes.get_errno() == 1: raise OSError(1, 'no')
try: {what}; print('went through')
except (OSError, ValueError): print('refused')
print(os.getpriority(0, 0), os.getpriority(0, os.getppid()))
"""
    with pool.lease(60) as worker:
        result = worker.run_program(source)
        after = worker.run_program("import os; print(os.getpriority(0, 0), os.getpriority(0, os.getppid()))")
    said, own = result.stdout.decode().splitlines()
    if what != "call('sync')":  # it has no result: the kernel tells by errno alone
        assert said == "refused"
    assert own == after.stdout.decode().strip()


def test_a_crash_starts_no_handler_of_the_host(pool: Pool) -> None:
    """The kernel runs a handler that `core_pattern` names for every limit but 1, as root and outside of all jails."""
    with pool.lease(60) as worker:
        result = worker.run_program("import resource; print(resource.getrlimit(resource.RLIMIT_CORE))")
    assert result.stdout == b"(1, 1)\n"


def test_a_connection_that_the_kernel_keeps_is_a_trace(pool: Pool) -> None:
    source = (
        "import socket\ntry:\n s = socket.create_server(('127.0.0.1', 8765)); c = socket.create_connection(('127.0.0.1', 8765), 2)\n"
        " a, _ = s.accept(); a.send(b'x'); c.recv(9); a.close(); c.close()\nexcept OSError: pass"
    )
    with pool.lease(60) as worker:
        worker.run_program(source)
    with pool.lease(60) as worker:
        result = worker.run_program(
            "import socket; s = socket.socket(); s.bind(('127.0.0.1', 8765)); s.listen(); print(1)"
        )
    assert result.stdout == b"1\n", result.stderr


def test_a_slow_load_before_a_slow_call_is_no_fault_of_the_jail(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both within their limits: the reply to the load is held back until the call is done."""
    monkeypatch.setattr(line, "GRACE_S", 2.0)
    source = "import time\ntime.sleep(4)\ndef f():\n time.sleep(4)\n return 1"
    with pool.lease(60) as worker:
        called = worker.call_all(Code(source), [request("f")], Limits(wall_s=5))
    assert [called.load.status, called.results[0].status] == [Status.OK, Status.OK]


def test_an_output_that_no_frame_holds_cant_be_asked_for(pool: Pool) -> None:
    with pool.lease(60) as worker, pytest.raises(InputError, match="output_bytes"):
        worker.run_program("print(1)", limits=Limits(output_bytes=MOST_OUTPUT_BYTES + 1))


def test_honest_code_can_still_share_memory(pool: Pool) -> None:
    source = (
        "import multiprocessing as mp\nvalue, items = mp.Value('i', 3), mp.Array('d', 1000)\ndef square(x): return x * x\n"
        "with mp.Pool(2) as pool: print(pool.map(square, range(4)), value.value, open('/dev/zero', 'rb').read(2))"
    )
    with pool.lease(60) as worker:
        assert worker.run_program(source).stdout == b"[0, 1, 4, 9] 3 b'\\x00\\x00'\n"


def test_the_text_of_an_exception_can_be_written_anywhere(pool: Pool) -> None:
    with pool.lease(60) as worker:
        called = worker.call_all(Code("def f(): raise ValueError('\\ud800')"), [request("f")], ROOMY)
    (result,) = called.results
    assert (result.status, result.raised) == (Status.ERROR, ("ValueError", "?", "ValueError('\\ud800')"))
    result.text.encode()


# ---------------------------------------------------------------------------------------------------------------------
# Values that harm whoever compares them


def array(code: str, shape: list[int], data: bytes) -> Any:
    return values.decode(json.dumps({"n": [code, shape, b64encode(data).decode()]}).encode())


BOMBS = {
    "a range of more than there is memory for": b'{"r":[0,100000000000,1]}',
    "a range longer than any length": b'{"r":[0,100000000000000000000000,1]}',
    "a number that raises where it is compared": b'[{"m":"sNaN"}]',
    "a fraction that takes long to be raised to a power": json.dumps(
        {"q": [{"i": "0x" + "f" * 16384}, {"i": "0x" + "f" * 16383 + "d"}]}
    ).encode(),
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_a_value_that_harms_its_reader_is_none(body: bytes) -> None:
    with pytest.raises(values.Undecodable):
        values.decode(body)


def test_items_whose_hashes_collide_are_no_set() -> None:
    started = time.monotonic()
    with pytest.raises(values.Undecodable):
        values.as_set([(2**61 - 1) * number for number in range(1, 50_000)])
    assert time.monotonic() - started < 5
    assert values.as_set([1, 1.0, True, "a", "a"] * 1000) == {1, "a"}
    assert len(values.as_set(range(100_000))) == 100_000


def test_an_array_is_not_spread_over_a_long_list() -> None:
    column, long = array("|i1", [60_000, 1], bytes(60_000)), list(range(100_000))
    for got in (column, [column], (column,), {"x": column}):
        assert official_equality(got, long) == [-4]
        assert strict_equality(got, long) is False


def test_arrays_inside_of_lists_are_compared_without_an_error() -> None:
    inner = np.array([1, 2])
    assert official_equality([inner], [[1, 2]]) == [-4]
    assert strict_equality([inner], [[1, 2]]) is True
    assert strict_equality([inner], [[1, 3]]) is False
    assert strict_equality([Decimal("sNaN")], [1]) is False


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join(["[0] * 999_999"] * 5000) + "]",
        "{" + "(" * 6 + "0,) * 100" + ",) * 100" * 5 + "}",
        "[" + ",".join(["'a' * 999_999"] * 5000) + "]",
    ],
)
def test_an_expression_makes_no_more_than_its_room_in_all(text: str) -> None:
    with pytest.raises(literal.NoValue):
        literal.value_of(text)


def test_what_honest_answers_build_has_room() -> None:
    assert literal.value_of("[[0] * 3] * 2 + [[1, 2]]") == [[0] * 3] * 2 + [[1, 2]]
    assert literal.value_of("'ab' * 1000 + 'c'") == "ab" * 1000 + "c"
    assert literal.value_of("-3 * 10 + 2 - 1") == -29
