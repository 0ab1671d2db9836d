"""Attacks on the supervisor: its frames, descriptors, processes, limits, clock and decoder; and on what comes after."""

import socket
import time
from pathlib import Path

import pytest

from envs.sandbox.limits import Limits
from envs.sandbox.pool import Pool
from envs.sandbox.results import CallResult, Status
from envs.sandbox.worker import Code, request

LIMITS, ROOMY = Limits(wall_s=0.7, memory_mib=256), Limits(wall_s=30, memory_mib=256)
"""Time enough where something else has to end the code, however busy the machine is."""
FIND = """
import gc, os, socket, struct, sys, array
def channel():
    for fd in range(3, 64):
        try:
            if os.readlink('/proc/self/fd/%d' % fd).startswith('socket:'): return fd
        except OSError: pass
def nonce():
    frame = sys._getframe()
    while frame:
        if 'nonce' in frame.f_locals: return frame.f_locals['nonce']
        frame = frame.f_back
def reply(nonce, body, kind=b'V'):
    return struct.pack('>I8sc', 9 + len(body), nonce, kind) + body
"""


def call(pool: Pool, source: str, count: int = 1, limits: Limits = ROOMY) -> list[CallResult]:
    with pool.lease(60) as worker:
        called = worker.call_all(Code(FIND + source), [request("f")] * count, limits)
    assert called.load.status is Status.OK, called.load
    next_one_is_well(pool)
    return called.results


def next_one_is_well(pool: Pool) -> None:
    source = "import os\nassert os.listdir('/tmp') == os.listdir('/dev/shm') == []\nprint(sum(n.isdigit() for n in os.listdir('/proc')))\n"
    with pool.lease(60) as worker:
        result = worker.run_program(source, limits=ROOMY)
    assert (result.status, result.stderr) == (Status.OK, b"")
    assert int(result.stdout) <= 3


PROTOCOL = {
    "a reply of another nonce": ("def f(): os.write(channel(), reply(b'x' * 8, b'1')); return 2", Status.GARBLED),
    "rubbish": ("def f(): os.write(channel(), os.urandom(99)); return 2", Status.GARBLED),
    "a length without end": ("def f(): os.write(channel(), struct.pack('>I8sc', 2**32 - 1, nonce(), b'V'))", Status.OUTPUT_LIMIT),
    "a length too short": ("def f(): os.write(channel(), struct.pack('>I8sc', 0, nonce(), b'V'))", Status.GARBLED),
    "an unknown kind": ("def f(): os.write(channel(), reply(nonce(), b'{}', b'?'))", Status.GARBLED),
    "an exception of no form": ("def f(): os.write(channel(), reply(nonce(), b'[[[', b'R'))", Status.GARBLED),
    "an exception of numbers": ("def f(): os.write(channel(), reply(nonce(), b'[1,2,3]', b'R'))", Status.GARBLED),
    "a value of no form": ("def f(): os.write(channel(), reply(nonce(), b'{\"t\": 3}'))", Status.UNDECODABLE),
    "half a reply, then silence": ("def f():\n os.write(channel(), reply(nonce(), b'[1]')[:15])\n while True: pass", Status.TIME_LIMIT),
    "a reply byte by byte": (
        "import time\ndef f():\n for byte in reply(nonce(), b'1' * 99):\n  os.write(channel(), bytes([byte])); time.sleep(.1)",
        Status.TIME_LIMIT,
    ),
    "the channel closed": ("def f():\n os.close(channel())\n while True: pass", Status.TIME_LIMIT),
    "the channel shut and the process gone": ("def f():\n socket.socket(fileno=channel()).shutdown(2); os._exit(3)", Status.EXITED),
    "everything closed": ("def f(): os.closerange(0, 99); return 1", Status.EXITED),
    "descriptors sent along": (
        "def f():\n s = socket.socket(fileno=os.dup(channel()))\n for _ in range(9):\n  socket.send_fds(s, [b''], [0] * 9)\n return 1",
        Status.OK,
    ),
    "a child that answers first": (
        "def f():\n if os.fork() == 0:\n  os.write(channel(), reply(nonce(), b'7')); os._exit(0)\n import time; time.sleep(.2); return 7",
        Status.OK,
    ),
    "descriptors used up": ("kept = []\ndef f():\n try:\n  while True: kept.append(open('/dev/null'))\n except OSError: return 1", Status.OK),
    "threads used up": (
        "import threading, time\ndef f():\n try:\n  while True: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
        " except RuntimeError: return 1",
        Status.OK,
    ),
    "an exception whose text never ends": (
        "class E(Exception):\n def __str__(self):\n  while True: pass\ndef f(): raise E",
        Status.TIME_LIMIT,
    ),
    "an exception whose text is huge": ("def f(): raise ValueError('x' * 10**7)", Status.ERROR),
    "an exception whose text fails": (
        "class E(Exception):\n def __str__(self): raise SystemExit\n __repr__ = __str__\ndef f(): raise E",
        Status.ERROR,
    ),
    "an exception with a huge name": ("def f(): raise type('E' * 10**6, (Exception,), {})", Status.ERROR),
    "a value nested without end": ("def f():\n x = []\n x.append(x)\n return x", Status.UNDECODABLE),
    "a value nested deeply": ("def f():\n x = []\n for _ in range(10**5): x = [x]\n return x", Status.UNDECODABLE),
    "a billion laughs": ("def f():\n x = ['ha' * 9]\n for _ in range(9): x = [x] * 10\n return x", None),
    "an object equal to all": ("class Y:\n __eq__ = lambda a, b: True\n __hash__ = lambda a: 1\ndef f(): return Y()", Status.UNDECODABLE),
    "the encoder replaced": ("import json\njson.dumps = lambda *a, **k: '[' * 10**5\ndef f(): return 1", Status.UNDECODABLE),
    "builtins replaced": ("def f():\n import builtins\n builtins.len = builtins.type = builtins.isinstance = lambda *a: 1\n return 1", None),
    "a value over the cap": ("def f(): return 'x' * 2**21", Status.OUTPUT_LIMIT),
    "a generator": ("def f(): yield 1", Status.UNDECODABLE),
    "a lock of the module kept": ("import threading\nl = threading.Lock(); l.acquire()\ndef f(): l.acquire()", Status.TIME_LIMIT),
    "cpu time spent by a hundred children": (
        "def f():\n for _ in range(9):\n  if os.fork() == 0:\n   while True: pass\n return 1",
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "status"), PROTOCOL.values(), ids=PROTOCOL)
def test_a_broken_protocol_is_the_codes_own_failure(pool: Pool, source: str, status: Status | None) -> None:
    started = time.monotonic()
    (result,) = call(pool, source, limits=LIMITS if status in (Status.TIME_LIMIT, None) else ROOMY)
    assert time.monotonic() - started < 30
    assert result.status is not Status.SKIPPED
    assert status in (None, result.status), result


def test_an_answer_given_twice_never_becomes_the_next_ones(pool: Pool) -> None:
    source = "n = 0\ndef f():\n global n\n n += 1\n os.write(channel(), reply(nonce(), b'7') + reply(nonce(), b'8'))\n return n"
    first, second = call(pool, source, 2)
    assert (first.status, first.value) == (Status.OK, 7)
    assert second.status is Status.GARBLED


def test_a_program_that_floods_its_channel_costs_the_jail_nothing(pool: Pool) -> None:
    source = FIND + "data = reply(nonce(), b'', b'J') * 5000\nwhile True: os.write(channel(), data)"
    with pool.lease(60) as worker:
        result = worker.run_program(source, limits=Limits(wall_s=2))
        assert worker.run_program("print(1)").stdout == b"1\n"
    assert result.status in (Status.TIME_LIMIT, Status.OK)
    next_one_is_well(pool)


REFUSED = {
    "kill of the parent": "os.kill(os.getppid(), 9)",
    "stop of the parent": "os.kill(os.getppid(), 19)",
    "the parent's memory": "open('/proc/%d/mem' % os.getppid(), 'rb').read(1)",
    "the parent's descriptors": "os.listdir('/proc/%d/fd' % os.getppid())",
    "the parent's environment": "open('/proc/%d/environ' % os.getppid()).read()",
    "the memory of process 1": "open('/proc/1/mem', 'rb').read(1)",
    "the descriptors of process 1": "os.listdir('/proc/1/fd')",
    "the root of process 1": "os.listdir('/proc/1/root')",
    "limits of the parent": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))",
    "a higher limit": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "the parent's processors": "os.sched_setaffinity(os.getppid(), {0})",
    "the parent's priority": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "another user": "os.setuid(0)",
    "another group": "os.setgid(0)",
    "more groups": "os.setgroups([0])",
    "a root of its own": "os.chroot('/tmp')",
    "a new device": "os.mknod('/tmp/d', 0o20666, os.makedev(1, 3))",
    "a write to the root": "open('/x', 'w')",
    "a write to the supervisor": "open('/harness/supervisor.py', 'a')",
    "a write to the library": "open(os.__file__, 'a')",
    "a write to the kernel": "open('/proc/sys/kernel/hostname', 'w').write('x')",
    "a write to the network's knobs": "open('/proc/sys/net/ipv4/ip_default_ttl', 'w').write('9')",
    "a trigger of the kernel": "open('/proc/sysrq-trigger', 'w').write('c')",
    "a host name": "socket.sethostname('x')",
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "a packet socket": "socket.socket(17, socket.SOCK_RAW)",
    "a netlink socket": "socket.socket(16, socket.SOCK_RAW)",
    "a vsock": "socket.socket(40, socket.SOCK_STREAM)",
    "an alg socket": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "a connection out": "socket.create_connection(('192.0.2.1', 80), 2)",
    "a datagram out": "socket.socket(2, 2).sendto(b'x', ('192.0.2.1', 53))",
    "a name looked up": "socket.getaddrinfo('example.org', 80)",
    "the engine's socket": "socket.socket(1).connect('/var/run/docker.sock')",
    "the clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
    "trace": "calls('ptrace', 16, os.getppid(), 0, 0)",
    "another's memory by call": "calls('process_vm_readv', os.getppid(), 0, 0, 0, 0, 0)",
    "a user namespace": "calls('unshare', 0x10000000)",
    "a mount": "calls('mount', b'x', b'/tmp', b'tmpfs', 0, 0)",
    "a kernel ring": "calls('syscall', 425, 8, 0)",
    "a kernel program": "calls('syscall', 321, 0, 0, 0)",
    "a performance counter": "calls('syscall', 298, 0, 0, 0, 0, 0)",
    "a keyring": "calls('syscall', 250, 0, -3, 1)",
    "page faults by hand": "calls('syscall', 323, 0)",
    "shared memory that stays": "calls('shmget', 77, 4096, 0o1666)",
    "semaphores that stay": "calls('semget', 77, 1, 0o1666)",
    "a queue that stays": "calls('msgget', 77, 0o1666)",
}  # fmt: skip
CALLS = """
import ctypes, os, resource, socket, time
def calls(name, *a):
    ctypes.set_errno(0)
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*a) == -1: raise OSError(ctypes.get_errno(), 'no')
def f():
    try:
        result = WHAT
    except (OSError, ValueError) as error:
        return 'refused'
    return repr(result)
"""


@pytest.mark.parametrize("what", REFUSED.values(), ids=REFUSED)
def test_what_reaches_beyond_the_submission_is_refused(pool: Pool, what: str) -> None:
    if "getppid" in what and "kill" in what:
        # In a pid namespace of its own the zygote is process 1, which takes no signal from inside: nothing happens instead.
        (result,) = call(pool, CALLS.replace("WHAT", what), limits=ROOMY)
        assert result.value in ("refused", "None")
        return
    (result,) = call(pool, CALLS.replace("WHAT", what), limits=ROOMY)
    assert (result.status, result.value) == (Status.OK, "refused")


def test_a_signal_to_everybody_reaches_nobody_else(pool: Pool) -> None:
    source = "def f():\n for s in range(1, 65):\n  for pid in (-1, 1, os.getppid()):\n   try: os.kill(pid, s)\n   except OSError: pass\n return 1"
    with pool.lease(60) as worker:
        before = worker.jail
        (result,) = worker.call_all(Code(FIND + source), [request("f")], ROOMY).results
        assert result.status is Status.OK
        assert worker.run_program("print(1)").stdout == b"1\n"
        assert worker.jail is before


def test_nothing_of_the_host_is_seen(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SECRET", "s3cret")
    source = (
        "import os, glob\nimport ctypes\nctypes.CDLL(None).prctl(4, 1)\n"
        "print(dict(os.environ), open('/proc/self/environ').read(), open('/proc/self/cmdline').read(), os.getcwd())\n"
        "for pid in glob.glob('/proc/[0-9]*'): print(open(pid + '/cmdline').read())\nprint(os.listdir('/'), os.path.exists('/work'), os.path.exists('/home/x'))"
    )
    with pool.lease(60) as worker:
        result = worker.run_program(source)
    assert (result.status, result.stderr) == (Status.OK, b"")
    text = result.stdout.decode()
    assert "s3cret" not in text
    assert str(Path.cwd()) not in text


def test_a_submission_can_find_nothing_of_the_one_before(pool: Pool) -> None:
    marker = "".join(["m4r", "k3r", "xyzzy"])
    scan = (
        "import ctypes, re\nctypes.CDLL(None).prctl(4, 1)\nwanted = b'm4r' + b'k3r' + b'xyzzy'\nhits = 0\n"
        "for line in open('/proc/self/maps'):\n"
        " start, end, mode = re.match('(\\\\w+)-(\\\\w+) (....)', line).groups()\n"
        " if mode[0] != 'r' or '[v' in line: continue\n"
        " with open('/proc/self/mem', 'rb', 0) as memory:\n"
        "  memory.seek(int(start, 16))\n"
        "  try: hits += memory.read(int(end, 16) - int(start, 16)).count(wanted)\n"
        "  except OSError: pass\n"
        "print(hits)"
    )
    with pool.lease(60) as worker:
        worker.run_program(f"# {marker}\nprint(input())", marker * 100)
        worker.call_all(Code(f"{marker} = 1\ndef f(x): return x"), [request("f", marker)] * 20)
        result = worker.run_program(scan)
    assert (result.status, result.stdout.strip()) == (Status.OK, b"1"), result  # its own constant


def test_no_server_of_this_machine_can_be_reached(pool: Pool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pool.lease(60) as worker:
        port = server.getsockname()[1]
        result = worker.run_program(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert b"Error" in result.stderr


def test_memory_of_many_processes_is_counted_together(pool: Pool) -> None:
    source = "import os, time\nfor _ in range(12):\n if os.fork() == 0:\n  x = bytearray(b'x' * (50 * 2**20)); time.sleep(60)\ntime.sleep(60)"
    with pool.lease(60) as worker:
        result = worker.run_program(source, limits=ROOMY)
    assert result.status is Status.MEMORY_LIMIT
    next_one_is_well(pool)


def test_a_process_that_leaves_its_session_is_found_and_ended(pool: Pool) -> None:
    source = "import os, time\nfor _ in range(5):\n if os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n   time.sleep(99)\n  os._exit(0)\n"
    with pool.lease(60) as worker:
        result = worker.run_program(source)
    assert result.status is Status.OK
    assert result.usage.processes_left >= 5
    next_one_is_well(pool)


@pytest.mark.parametrize(
    "source",
    [
        "open('/tmp/x', 'w')",
        "import os; os.mkdir('/tmp/x'); os.rmdir('/tmp/x')",
        "open('/dev/shm/x', 'w')",
        "import os\nwhile True:\n os.mkdir('d'); os.chdir('d')",
        "import os, itertools\nfor n in itertools.count(): os.symlink('/', f'/tmp/{n}')",
        "import os; os.mkdir('/tmp/x', 0)",
    ],
)
def test_a_jail_with_traces_is_not_used_again(pool: Pool, source: str) -> None:
    with pool.lease(60) as worker:
        result = worker.run_program(source, limits=LIMITS)
        assert result.usage.traces
        assert worker.line.spent
    next_one_is_well(pool)
