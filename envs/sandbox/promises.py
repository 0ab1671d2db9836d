"""What a jail promises, each with a probe that tries to break it on this machine: `harness sandbox check`."""

import os
import secrets
from collections.abc import Callable, Iterator
from typing import NamedTuple

from envs.sandbox.jail import ENVIRONMENT
from envs.sandbox.limits import Limits
from envs.sandbox.pool import Pool
from envs.sandbox.results import ProgramResult, Status
from envs.sandbox.worker import Code, request
from trajectories.failures import SandboxError

SHORT = Limits(wall_s=1.0, memory_mib=256)
ROOMY = Limits(wall_s=5.0, memory_mib=256)


class Finding(NamedTuple):
    """One promise: whether it held, and what was seen."""

    promise: str
    held: bool
    saw: str


class Probe(NamedTuple):
    """A program that tries, and what has to come of it."""

    promise: str
    source: str
    holds: Callable[[ProgramResult], bool]
    limits: Limits = ROOMY


def _says(*words: str) -> Callable[[ProgramResult], bool]:
    """All of these are in the output, and the program did not fail."""
    return lambda result: (
        result.exit_code == 0 and all(word in result.stdout.decode(errors="replace") for word in words)
    )


def _hosts_own() -> set[str]:
    return set(os.environ) - set(ENVIRONMENT) - {"HOSTNAME"}


def _ends(status: Status) -> Callable[[ProgramResult], bool]:
    return lambda result: result.status is status


def _denied(attempt: str) -> str:
    return f"import os, socket\ntry:\n print('went through:', {attempt})\nexcept OSError as error:\n print('denied:', error.strerror or error)"


_STATUS = "print(*[line for line in open('/proc/self/status') if line.startswith({})], sep='')"

PROBES = (
    Probe("A program is a process of its own with pipes", "print(__name__, input())", _says("__main__ hello")),
    Probe("It has a user id of its own that is not root's", "import os; print('uid', os.getuid())", lambda r: r.stdout.strip() not in (b"", b"uid 0")),
    Probe("It has no capability", _STATUS.format("('CapPrm', 'CapEff', 'CapAmb')"), lambda r: set(r.stdout.decode().split()[1::2]) == {"0" * 16}),
    Probe("It can gain no privilege", _STATUS.format("'NoNewPrivs'"), _says("NoNewPrivs:\t1")),
    Probe("System calls are filtered", _STATUS.format("'Seccomp:'"), _says("Seccomp:\t2")),
    Probe("The root is read-only", _denied("open('/probe', 'w')"), _says("denied")),
    Probe("The supervisor's file can't be changed", _denied("open('/harness/supervisor.py', 'a')"), _says("denied")),
    Probe("Kernel settings can't be changed", _denied("open('/proc/sys/kernel/hostname', 'w').write('x')"), _says("denied")),
    Probe("There is no network", _denied("socket.create_connection(('192.0.2.1', 80), 2)"), _says("denied")),
    Probe("Only common kinds of sockets are given", _denied("socket.socket(40, 1)"), _says("denied")),
    Probe("The zygote can't be killed or traced", _denied("open(f'/proc/{os.getppid()}/mem', 'rb').read(1)"), _says("denied")),
    Probe(
        "No process but the jail's own is seen",
        "import os; print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit()))",
        lambda r: r.stdout.count(b",") <= 2,
    ),
    Probe("Nothing of the host's environment is seen", "import os; print(*os.environ)", lambda r: not set(r.stdout.decode().split()) & _hosts_own()),
    Probe("Wall time is limited", "while True: pass", _ends(Status.TIME_LIMIT), SHORT),
    Probe("CPU time is limited", "while True: pass", _ends(Status.TIME_LIMIT), Limits(wall_s=20, cpu_s=1, memory_mib=256)),
    Probe("Memory is limited", "x = bytearray(5 * 2**30)", _ends(Status.MEMORY_LIMIT)),
    Probe(
        "Memory of all its processes is limited",
        "import os, time\nfor _ in range(12):\n if os.fork() == 0:\n  x = bytearray(b'x' * (50 * 2**20)); time.sleep(9)\ntime.sleep(4)",
        _ends(Status.MEMORY_LIMIT),
    ),
    Probe(
        "Processes are limited",
        "import os, time\nn = 0\ntry:\n while True:\n  if os.fork() == 0: time.sleep(9); os._exit(0)\n  n += 1\nexcept OSError as error: print('denied:', n)",
        lambda r: r.stdout.startswith(b"denied") and int(r.stdout.split()[1]) <= ROOMY.processes,
    ),
    Probe("Files are limited", _denied("[open('/tmp/x', 'wb').write(bytes(2**20)) for _ in [0]] and open('/tmp/y', 'wb').write(bytes(2**25))"), _says("denied")),
    Probe("Scratch space is limited", "n = 0\ntry:\n while True: open(f'/tmp/{n}', 'wb').write(bytes(2**23)); n += 1\nexcept OSError as error: print('denied:', n)", _says("denied")),
    Probe("Output is limited", "while True: print('x' * 2**20)", _ends(Status.OUTPUT_LIMIT)),
    Probe("Nothing can be left for the next one in shared memory", "import ctypes; print('shmget:', ctypes.CDLL(None).shmget(7, 4096, 0o1666))", _says("shmget: -1")),
    Probe("A crash is a crash", "import ctypes; ctypes.string_at(0)", _ends(Status.CRASHED)),
    Probe(
        "A daemon that leaves its session is found and ended",
        "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(99)\n os._exit(0)\nos.wait()",
        lambda r: r.status is Status.OK and r.usage.processes_left == 1 and r.wall_s < 5,
    ),
)  # fmt: skip


def findings(pool: Pool) -> Iterator[Finding]:
    """Try to break every promise of this pool's jails, one after the other."""
    for probe in PROBES:
        yield _finding(pool, probe)
    yield _wiped(pool)
    yield _calls(pool)


def _finding(pool: Pool, probe: Probe) -> Finding:
    try:
        with pool.lease() as worker:
            result = worker.run_program(probe.source, "hello", probe.limits)
    except SandboxError as error:
        return Finding(probe.promise, False, f"the jail broke: {error}")
    try:
        held = probe.holds(result)
    except (ValueError, LookupError):
        held = False
    return Finding(probe.promise, held, _seen(result))


def _seen(result: ProgramResult) -> str:
    said = " ".join((result.stdout[:200] or result.stderr[-200:]).decode(errors="replace").split())[:100]
    left = f", {result.usage.processes_left} processes ended" if result.usage.processes_left else ""
    traces = f", traces in {' '.join(result.usage.traces)}" if result.usage.traces else ""
    return f"{result.status.value} in {result.wall_s:.2f} s{left}{traces}" + (f": {said}" if said else "")


def _wiped(pool: Pool) -> Finding:
    """What one submission writes, the next one must not find."""
    name = f"/tmp/{secrets.token_hex(4)}"  # noqa: S108 - the jail's own
    with pool.lease() as worker:
        worker.run_program(f"open({name!r}, 'w')")
    with pool.lease() as worker:
        result = worker.run_program("import os; print(os.listdir('/tmp'), os.listdir('/dev/shm'))")
    return Finding("Nothing is left for the next submission", result.stdout == b"[] []\n", _seen(result))


def _calls(pool: Pool) -> Finding:
    """A forged answer for a later call must not be taken for it."""
    forger = (
        "import os, struct, sys\ndef f():\n frame = sys._getframe()\n while 'nonce' not in frame.f_locals: frame = frame.f_back\n"
        " reply = struct.pack('>I8sc', 11, frame.f_locals['nonce'], b'V') + b'42'\n os.write(frame.f_locals['channel'].fd, reply * 3)\n return 1\n"
    )
    with pool.lease() as worker:
        called = worker.call_all(Code(forger), [request("f")] * 2, SHORT)
    statuses = [result.status.value for result in called.results]
    return Finding("An answer counts for its own call alone", statuses == ["ok", "garbled"], ", ".join(statuses))
