"""The program in the jail: it runs untrusted code, one submission at a time, and tells the host what came of it.

Three kinds of process, in one file that needs nothing but the standard library (Python >= 3.11):

- The *supervisor* (PID 1 of the jail) speaks with the host, measures time, and feeds the submission. It holds no privilege.
- The *zygote* forks one child per submission, kills and reaps whatever that child leaves, and looks for traces. It never
  reads a source, an input or a result, so the memory that a child inherits holds nothing of any other submission. Where the
  jail has user ids to give, it alone may change them: each child gets one of its own, and no capability.
- The *child* confines itself and runs the code. What it says is a claim of the code in it and is taken for no more.

Frames, host <-> supervisor: u32 length of the rest, u32 length of the header, a JSON header, then blobs (`sizes` cuts them).
Frames, supervisor <-> child: u32 length of the rest, an 8-byte nonce, one byte of kind, a body. A child answers each nonce once.
Supervisor <-> zygote: one message each on a seqpacket socket; descriptors travel beside it.

What a child's reply means: V a value (see `pack`), U a value of a type that has no form here, R an exception, S SystemExit,
M MemoryError; from a program: J its main part and its threads have ended (exit hooks may still run), M as above.
"""

# pathlib stays out of the jail, where it would cost start time and memory of each fork.
# ruff: noqa: PTH112, PTH116, PTH123, PTH208, SIM115

import base64
import builtins
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import json
import marshal
import os
import platform
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

WORDS = struct.Struct(">II")
"""Host frames: length of the rest, length of the header."""
REPLY = struct.Struct(">I8sc")
"""Child frames: length of the rest (nonce and kind included), nonce, kind."""
LENGTH = struct.Struct(">I")
NONCE_BYTES = 8
KINDS = b"VURSMJ"
"""All that a child may say. The signs that the supervisor itself puts into rows (`-`, `~`) are none of them."""
CHANNEL_FD = 50
"""Lowest number of a submission's own channel; kept out of the way of the files that code opens."""
MAX_DEPTH = 200
"""Deepest nesting of a value."""
MAX_DIGITS = 4000
"""Longest int that is sent in decimals; Python's own limit is 4,300 digits."""
MAX_TEXT = 2000
"""Characters kept of an exception's text."""
STDERR_BYTES = 1 << 16
"""Bytes kept of a program's standard error; the rest is read and dropped."""
CLEAN_UP_S = 10.0
"""Longest time that killing and reaping may take before the jail is given up."""
TICK_S = 0.05
"""How often a running submission's memory is added up."""
FLUSH_S = 0.25
FLUSH_BYTES = 1 << 18
READ_BYTES = 1 << 16
MOST_MARKS = 4
SCRATCH = ("/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 - the jail's own
CGROUPS = (
    ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)
"""Use, limit and details of the jail's memory, in control groups of version 2 and 1."""
RESERVE_BYTES = 96 << 20
"""Memory that has to stay free under the jail's limit: at the limit the kernel chooses whom to kill, and it may choose us."""
SYSV = ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")
SOCKET_BYTES = 1 << 19
"""What a socket is taken to hold: its buffers are the kernel's memory, which no count of a process shows."""
SOCKETS = ("/proc/net/sockstat", "/proc/net/sockstat6")
PRELOADED = (
    "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "heapq", "io",
    "itertools", "json", "linecache", "math", "operator", "random", "re", "statistics", "string", "time", "traceback", "typing",
)  # fmt: skip
"""What programs import most: paid for once, in the zygote."""

# From <linux/prctl.h>, <linux/sched.h>, <sys/mount.h>.
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 4, 38, 36
PR_SET_SECCOMP, SECCOMP_FILTER = 22, 2
CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER = 0x20000, 0x20000000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
CAP_KILL, CAP_SETGID, CAP_SETUID = 5, 6, 7

# ---------------------------------------------------------------------------------------------------------------------
# The kernel, where Python has no call for it


class KernelError(OSError):
    """A call that the jail can't do without failed."""


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def checked(name: str, *arguments: Any) -> int:
    """Call a function of the C library that returns -1 on failure; KernelError then."""
    result = int(getattr(_libc(), name)(*arguments))
    if result == -1:
        number = ctypes.get_errno()
        raise KernelError(number, f"{name}: {os.strerror(number)}")
    return result


def prctl(option: int, *values: int) -> None:
    checked("prctl", option, *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]))


def set_capabilities(kept: int) -> None:
    """Keep these permitted and effective capabilities (a bit set), give up all others and all inheritable ones."""
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    checked("capset", head, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0))


def keep_capabilities_over_exec() -> None:
    """Make all capabilities of this process ambient, so that a user id other than 0 keeps them over `execve`."""
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    checked("capget", head, sets)
    sets[2], sets[5] = sets[1], sets[4]
    checked("capset", head, sets)
    for capability in range(64):
        if sets[1 if capability < 32 else 4] >> capability % 32 & 1:
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]


def install_filter(program: bytes) -> None:
    """Refuse the system calls that a compiled seccomp program refuses, for this process and all that it forks."""
    record = _Filter(len(program) // 8, program)
    prctl(PR_SET_SECCOMP, SECCOMP_FILTER, ctypes.addressof(record))


def forbid_cores() -> None:
    """No core file, and none for the host's handler of crashes, which a limit of 0 does not keep from being run: only 1 does."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    checked("mount", *texts, ctypes.c_ulong(flags), data.encode() if data is not None else None)


# ---------------------------------------------------------------------------------------------------------------------
# Values: a closed set of types as JSON. The host's side is envs/sandbox/values.py.

_FLAT = frozenset((type(None), bool, float, str))
_FLAT_OR_INT = _FLAT | {int}
_BIG = 10**MAX_DIGITS
_DTYPES = frozenset("biufcSU")


class NoForm(ValueError):
    """This value has no form outside: its text is the name of the type."""


def pack(value: Any, depth: int = 0) -> Any:
    """The JSON form of a value: itself, or {tag: content} for what JSON lacks. NoForm for all other types.

    A subclass of a builtin type counts as what it holds, whatever its own methods claim.
    """
    kind = type(value)
    if kind in _FLAT:
        return value
    if kind is int:
        return value if -_BIG < value < _BIG else {"i": hex(value)}
    if depth > MAX_DEPTH:
        raise NoForm(f"nested deeper than {MAX_DEPTH}")
    packer = _PACKERS.get(kind)
    return packer(value, depth + 1) if packer else _pack_other(value, depth + 1)


def _pack_items(items: Iterable[Any], depth: int) -> list[Any]:
    values = list(items)
    kinds = set(map(type, values))
    if kinds <= _FLAT or (kinds <= _FLAT_OR_INT and _all_short(values, kinds)):
        return values
    return [pack(value, depth) for value in values]


def _all_short(values: list[Any], kinds: set[type]) -> bool:
    return kinds <= {int, bool} and min(values) > -_BIG and max(values) < _BIG


def _pack_pairs(value: Any, depth: int) -> list[Any]:
    return _pack_items([part for pair in dict.items(value) for part in pair], depth)


def _pack_bytes(value: Any, depth: int) -> dict[str, Any]:
    return {"b": base64.b64encode(value).decode()}


_PACKERS: dict[type, Callable[[Any, int], Any]] = {
    list: _pack_items,
    tuple: lambda value, depth: {"t": _pack_items(value, depth)},
    set: lambda value, depth: {"s": _pack_items(value, depth)},
    frozenset: lambda value, depth: {"f": _pack_items(value, depth)},
    dict: lambda value, depth: {"d": _pack_pairs(value, depth)},
    complex: lambda value, depth: {"c": [value.real, value.imag]},
    bytes: _pack_bytes,
    bytearray: _pack_bytes,
    range: lambda value, depth: {"r": [pack(value.start), pack(value.stop), pack(value.step)]},
    type({}.keys()): lambda value, depth: {"s": _pack_items(value, depth)},
    type({}.items()): lambda value, depth: {"s": _pack_items(value, depth)},
}

_BASES: tuple[tuple[type, Callable[[Any, int], Any]], ...] = (
    (str, lambda value, depth: str.__str__(value)[:]),
    (int, lambda value, depth: pack(int.__add__(value, 0))),
    (float, lambda value, depth: float.__add__(value, 0.0) if float.__ne__(value, 0.0) else float.__pos__(value)),
    (list, lambda value, depth: _pack_items(list.__iter__(value), depth)),
    (tuple, lambda value, depth: {"t": _pack_items(tuple.__iter__(value), depth)}),
    (dict, lambda value, depth: {"d": _pack_pairs(value, depth)}),
    (set, lambda value, depth: {"s": _pack_items(set.__iter__(value), depth)}),
    (frozenset, lambda value, depth: {"f": _pack_items(frozenset.__iter__(value), depth)}),
    (complex, lambda value, depth: {"c": [complex.__pos__(value).real, complex.__pos__(value).imag]}),
    (bytes, lambda value, depth: _pack_bytes(bytes.__getitem__(value, slice(None)), depth)),
)


def _pack_other(value: Any, depth: int) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic | numpy.ndarray):
        return _pack_numpy(numpy, value)
    exact = _pack_number(value) or _pack_deque(value, depth)
    if exact is not None:
        return exact
    for base, packer in _BASES:
        if issubclass(type(value), base):
            return packer(value, depth)
    raise NoForm(f"{type(value).__module__}.{type(value).__qualname__}"[:MAX_TEXT])


def _pack_number(value: Any) -> Any:
    kind = type(value)
    if kind is getattr(sys.modules.get("fractions"), "Fraction", None):
        return {"q": [pack(value.numerator), pack(value.denominator)]}
    if kind is getattr(sys.modules.get("decimal"), "Decimal", None):
        return {"m": str(value)}
    return None


def _pack_deque(value: Any, depth: int) -> Any:
    if type(value) is getattr(sys.modules.get("collections"), "deque", None):
        return {"u": _pack_items(value, depth)}
    return None


def _pack_numpy(numpy: Any, value: Any) -> Any:
    plain = numpy.asarray(value)
    if plain.dtype.kind not in _DTYPES or (plain.dtype.itemsize > 16 and plain.dtype.kind in "fc"):
        raise NoForm(f"numpy.{plain.dtype}")
    tag = "n" if isinstance(value, numpy.ndarray) else "g"
    return {tag: [plain.dtype.str, list(plain.shape), base64.b64encode(plain.tobytes()).decode()]}


def encode(value: Any) -> tuple[bytes, bytes]:
    """(kind, body) of the reply that carries this value."""
    try:
        return b"V", json.dumps(pack(value), separators=(",", ":")).encode()
    except NoForm as error:
        return b"U", str(error).encode(errors="replace")
    except RecursionError:
        return b"U", b"nested too deeply"


# ---------------------------------------------------------------------------------------------------------------------
# The child: all that follows here runs beside untrusted code and proves nothing


def describe(error: BaseException) -> tuple[bytes, bytes]:
    """(kind, body) of the reply that says which exception ended a call."""
    if isinstance(error, SystemExit):
        return b"S", json.dumps(
            {"code": error.code if type(error.code) is int else repr(error.code)[:MAX_TEXT]}
        ).encode()
    kind = b"M" if isinstance(error, MemoryError) else b"R"
    name = type(error).__qualname__[:MAX_TEXT]
    return kind, json.dumps([name, _text(str, error), _text(repr, error)]).encode()


def _text(form: Callable[[Any], str], error: BaseException) -> str:
    try:
        return str(form(error))[:MAX_TEXT]
    except BaseException as worse:  # noqa: BLE001 - a hostile __str__
        return f"<no text: {type(worse).__name__}>"


class Channel:
    """The child's end: frames in, replies out, by plain reads and writes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self) -> tuple[bytes, bytes]:
        """(nonce, body) of the next frame; ends the process where the supervisor has hung up."""
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        frame = self._exactly(length)
        return frame[:NONCE_BYTES], frame[NONCE_BYTES:]

    def reply(self, nonce: bytes, kind: bytes, body: bytes = b"") -> None:
        data = REPLY.pack(NONCE_BYTES + 1 + len(body), nonce, kind) + body
        sent = os.write(self.fd, data)
        while sent < len(data):
            sent += os.write(self.fd, memoryview(data)[sent:])

    def _exactly(self, count: int) -> bytes:
        data = os.read(self.fd, count)
        if len(data) == count:
            return data
        parts = [data]
        missing = count - len(data)
        while missing:
            data = os.read(self.fd, min(missing, 1 << 20)) if data else b""
            if not data:
                os._exit(0)
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)


def run_child(job: Mapping[str, Any], channel_fd: int, pipes: Sequence[int]) -> NoReturn:
    """From the fork to the end of the process."""
    status = 70
    try:
        channel = Channel(_confine(job, channel_fd, pipes))
        nonce, body = channel.read()
        text, source, args = marshal.loads(body)  # noqa: S302 - from the host
        if job["mode"] == "program":
            status = _run_program(channel, nonce, source, job["file"], args)
        else:
            _serve_calls(channel, nonce, (text, source), job)
    finally:
        os._exit(status)


def _confine(job: Mapping[str, Any], channel_fd: int, pipes: Sequence[int]) -> int:
    """Own session, own user, limits, three standard streams and one channel; no other descriptor. The channel's number."""
    os.setsid()
    channel = fcntl.fcntl(channel_fd, fcntl.F_DUPFD_CLOEXEC, CHANNEL_FD)
    _take_streams(pipes)
    os.closerange(3, channel)
    os.closerange(channel + 1, 1 << 12)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if job["uid"] is not None:
        os.setgroups([])
        os.setresgid(job["uid"], job["uid"], job["uid"])
        os.setresuid(job["uid"], job["uid"], job["uid"])
    _limit(job)
    os.chdir(job["cwd"])
    os.umask(0o022)
    gc.enable()
    random = sys.modules.get("random")
    if random is not None:
        random.seed(0)
    return channel


def _take_streams(pipes: Sequence[int]) -> None:
    if pipes:
        for number, fd in enumerate(pipes):
            os.dup2(fd, number)
        return
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)


def _limit(job: Mapping[str, Any]) -> None:
    mebibyte = 1 << 20
    limits = job["limits"]
    _lower(resource.RLIMIT_AS, job["address_space"] + limits["memory_mib"] * mebibyte)
    _lower(resource.RLIMIT_FSIZE, int(limits["file_mib"] * mebibyte))
    _lower(resource.RLIMIT_NOFILE, limits["open_files"])
    if job["count_processes"]:
        _lower(resource.RLIMIT_NPROC, limits["processes"] + job["processes"])
    _lower(resource.RLIMIT_MSGQUEUE, 0)
    _lower(resource.RLIMIT_MEMLOCK, 0)
    if limits["cpu_s"] is not None:
        seconds = max(1, -int(-limits["cpu_s"] // 1))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    _, hardest = resource.getrlimit(resource.RLIMIT_STACK)
    stack = 64 * mebibyte
    resource.setrlimit(resource.RLIMIT_STACK, (stack if hardest == -1 else min(stack, hardest), hardest))


def _lower(which: int, value: int) -> None:
    _, hardest = resource.getrlimit(which)
    value = value if hardest == resource.RLIM_INFINITY else min(value, hardest)
    resource.setrlimit(which, (value, value))


def _module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    return module


def _compiled(source: bytes, file: str) -> types.CodeType:
    try:
        return compile(source.decode("utf-8", "surrogatepass"), file, "exec", dont_inherit=True)
    except (MemoryError, RecursionError) as error:
        raise SyntaxError(f"the parser gave up: {type(error).__name__}") from None


def _serve_calls(channel: Channel, nonce: bytes, source: tuple[bytes, bytes], job: Mapping[str, Any]) -> None:
    """Load the module once, then answer one call after the other."""
    channel.reply(nonce, *_attempt(lambda: _load(source, job)))
    module = sys.modules[job["name"]]
    while True:
        nonce, body = channel.read()
        channel.reply(nonce, *_attempt(lambda body=body: _call(module, body)))


def _load(source: tuple[bytes, bytes], job: Mapping[str, Any]) -> None:
    module = _module(job["name"])
    if source[0]:
        exec(_compiled(source[0], "<prelude>"), module.__dict__)  # noqa: S102 - what a jail is for
    exec(_compiled(source[1], job["file"]), module.__dict__)  # noqa: S102


def _attempt(action: Callable[[], Any]) -> tuple[bytes, bytes]:
    try:
        return encode(action())
    except BaseException as error:  # noqa: BLE001 - whatever the code raises is its result
        return describe(error)


def _call(module: types.ModuleType, body: bytes) -> Any:
    """One request: ("call", dotted name, args, kwargs) or one of the session's own: see `_SESSION`."""
    action, name, args, kwargs = marshal.loads(body)  # noqa: S302 - from the host, which trusts nobody here
    if action == "call":
        return _found(module, name)(*args, **kwargs)
    return _SESSION[action](module, name, args, kwargs)


def _found(module: types.ModuleType, name: str) -> Any:
    target: Any = module
    for part in name.split("."):
        target = getattr(target, part)
    return target


def _construct(module: types.ModuleType, name: str, args: Any, kwargs: Any) -> None:
    class_name, _, instance = name.partition(" as ")
    module.__dict__[instance] = _found(module, class_name)(*args, **kwargs)


def _get_state(module: types.ModuleType, name: str, args: Any, kwargs: Any) -> Any:
    return dict(vars(_found(module, name)))


def _set_state(module: types.ModuleType, name: str, args: Any, kwargs: Any) -> None:
    state = vars(_found(module, name))
    state.clear()
    state.update(args[0])


def _execute(module: types.ModuleType, name: str, args: Any, kwargs: Any) -> None:
    exec(_compiled(args[0].encode(), name), module.__dict__)  # noqa: S102


_SESSION = {"construct": _construct, "get_state": _get_state, "set_state": _set_state, "execute": _execute}


def _run_program(channel: Channel, nonce: bytes, source: bytes, file: str, args: Sequence[str]) -> int:
    """The source as `__main__`, as `python main.py` would run it; its exit status."""
    sys.argv = [file, *args]
    _open_streams()
    module = _module("__main__")
    try:
        exec(_compiled(source, file), module.__dict__)  # noqa: S102
        status = 0
    except SystemExit as error:
        status = _exit_status(error.code)
    except BaseException as error:  # noqa: BLE001
        status = 1
        _show(error, source, file)
        if isinstance(error, MemoryError):
            channel.reply(nonce, b"M")
    return _end_program(channel, nonce, status)


def _end_program(channel: Channel, nonce: bytes, status: int) -> int:
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does on its way out
    status = _flush() or status
    channel.reply(nonce, b"J")
    atexit = sys.modules.get("atexit")
    if atexit is not None:
        atexit._run_exitfuncs()
    return _flush() or status


def _flush() -> int:
    """Python's exit status for output that nobody takes, else 0."""
    failed = 0
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            failed = 120
    return failed


def _open_streams() -> None:
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(open(0, "rb"), encoding="utf-8", errors="surrogateescape")
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(open(1, "wb"), encoding="utf-8", errors="surrogateescape")
    raw = open(2, "wb", buffering=0)
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def _exit_status(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{code}\n")
    return 1


def _show(error: BaseException, source: bytes, file: str) -> None:
    """The traceback on standard error, with the program's own lines and none of ours."""
    import linecache
    import traceback

    text = source.decode("utf-8", "replace")
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    with contextlib.suppress(OSError, ValueError):
        if sys.stdout is not None:
            sys.stdout.flush()
        traceback.print_exception(type(error), error, frames)


# ---------------------------------------------------------------------------------------------------------------------
# The zygote


class Zygote:
    """Forks children, ends what they leave, and tells the supervisor what it found. Knows no source and no input."""

    def __init__(self, control: socket.socket, setup: Mapping[str, Any]) -> None:
        self.control = control
        self.own_pids: bool = setup["own_pids"]
        self.bare: bool = setup["bare"]
        self.uids: list[int] | None = setup["uids"]
        self.cwd: str = setup["cwd"]
        self.scratch = [self.cwd] if self.bare else [path for path in SCRATCH if os.path.isdir(path)]
        self.runs = 0
        self.main = 0
        self.killed = ""
        self.looked = time.monotonic()
        self.memory_pages = 0
        self.looked = 0.0
        self.wake = _wake_pipe()
        pages = _statm(os.getpid())
        self.address_space, self.anonymous = pages[0] * resource.getpagesize(), pages[1] - pages[2]
        self.ready_marks = self._marks()
        self.sockets = _sockets()
        self.cgroup = next((paths for paths in CGROUPS if all(map(os.path.exists, paths))), None)
        self.oom_kills = _oom_kills()

    def serve(self) -> NoReturn:
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(TICK_S * 1000 if self.main else None)}
            if self.wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wake, 512)
            if self.control.fileno() in ready:
                self._command()
            if self.main:
                self._look()

    def _command(self) -> None:
        message, fds, _, _ = socket.recv_fds(self.control, 1 << 16, 8)
        if not message:
            os._exit(0)
        job = json.loads(message)
        if self.main and "kill" not in job:
            os._exit(73)
        if "kill" in job:
            if job["kill"] == self.runs and self.main:
                self.killed = "host"
                self._kill()
            return
        self._start(job, fds)

    def _start(self, job: dict[str, Any], fds: Sequence[int]) -> None:
        self.runs = job["run"]
        self.killed = ""
        self.looked = time.monotonic()
        self.memory_pages = job["limits"]["memory_mib"] * (1 << 20) // resource.getpagesize()
        job |= {"uid": self._next_uid(), "address_space": self.address_space, "cwd": self.cwd}
        job |= {"count_processes": not self.bare, "processes": 0 if self.uids else 3}
        pid = os.fork()
        if pid == 0:
            run_child(job, fds[0], fds[1:])
        self.main = pid
        for fd in fds:
            os.close(fd)

    def _next_uid(self) -> int | None:
        return self.uids[0] + self.runs % self.uids[1] if self.uids else None

    def _look(self) -> None:
        """Reap what has ended; where that is the submission itself, clean up and report. Now and then, weigh what runs."""
        ended = None
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == self.main:
                ended = status, usage
                break
        if ended is not None:
            self._report(*ended)
        elif time.monotonic() - self.looked > TICK_S and not self.killed:
            self.looked = time.monotonic()
            self._weigh()

    def _weigh(self) -> None:
        if self._anonymous_pages() + self._hidden_pages() > self.memory_pages:
            self.killed = "memory"
            self._kill()

    def _hidden_pages(self) -> int:
        """Memory that no process' own count shows, in pages; more than any limit where the jail is nearly full."""
        if self.bare:
            return 0  # the numbers would be those of the whole machine
        shared, free = self._cgroup_memory() if self.cgroup else (0, RESERVE_BYTES)
        sockets = SOCKET_BYTES * (_sockets() - self.sockets)
        return self.memory_pages + 1 if free < RESERVE_BYTES else (shared + sockets) // resource.getpagesize()

    def _cgroup_memory(self) -> tuple[int, int]:
        """Bytes that no process' own count shows: in shared memory that is no file, and what is left before the jail's limit."""
        try:
            used, limit, details = map(_text_of, self.cgroup or ())
            counts = dict(line.split() for line in details.splitlines())
            cached = int(counts["inactive_file"]) + int(counts["active_file"])
            free = (1 << 62 if limit == "max" else int(limit)) - int(used) + cached
            return int(counts.get("shmem", 0)) - sum(map(_bytes_in, self.scratch)), free
        except (OSError, ValueError, KeyError):
            return 0, RESERVE_BYTES

    def _report(self, status: int, usage: resource.struct_rusage) -> None:
        self.main = 0
        left = self._sweep()
        signalled = os.waitstatus_to_exitcode(status) == -signal.SIGKILL and not self.killed
        if signalled and self._oom_killed():
            self.killed = "memory"
        report = {
            "run": self.runs,
            "exit": os.waitstatus_to_exitcode(status),
            "killed": self.killed,
            "cpu": usage.ru_utime + usage.ru_stime,
            "rss": usage.ru_maxrss,
            "left": left,
            "traces": self._traces(),
        }
        self.control.send(json.dumps(report).encode())

    def _sweep(self) -> int:
        """Kill and reap until no child is left, and this process inherits every orphan; how many there were."""
        left = 0
        give_up = time.monotonic() + CLEAN_UP_S
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return left
            left += bool(pid)
            if not pid:
                self._kill()
                time.sleep(0.0005)
            if time.monotonic() > give_up:
                os._exit(71)

    def _kill(self) -> None:
        """SIGKILL, at one stroke, to all that belongs to the submission."""
        if self.bare:
            _kill_descendants()
        elif self.own_pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            self._kill_user(self._next_uid() or 0)

    def _kill_user(self, uid: int) -> None:
        """All processes of that user id: as that user, so that nobody else can be hit."""
        os.seteuid(uid)
        try:
            os.kill(-1, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        finally:
            os.seteuid(0)

    def _anonymous_pages(self) -> int:
        """Memory that the submission's processes don't share with files, less what each inherited, in pages."""
        total = 0
        for name in _descendants() if self.bare else map(int, filter(str.isdigit, os.listdir("/proc"))):
            if name not in (1, os.getpid(), os.getppid()):
                with contextlib.suppress(OSError, ValueError):
                    pages = _statm(name)
                    total += max(0, pages[1] - pages[2] - self.anonymous)
        return total

    def _oom_killed(self) -> bool:
        before, self.oom_kills = self.oom_kills, _oom_kills()
        return self.oom_kills > before

    def _marks(self) -> list[tuple[int, int, int]]:
        stats = [os.stat(path) for path in self.scratch]
        return [(stat.st_mode, stat.st_ctime_ns, stat.st_mtime_ns) for stat in stats]

    def _traces(self) -> list[str]:
        """The places where the submission left something. A jail with traces is not used again."""
        connected = not self.bare and _has_connections()
        if self._marks() == self.ready_marks and not any(map(_has_rows, SYSV)) and not connected:
            return []
        changed = [
            path
            for path, now, before in zip(self.scratch, self._marks(), self.ready_marks, strict=True)
            if now != before
        ]
        changed += [path for path in SYSV if _has_rows(path)]
        return [*changed, SOCKETS[0]] if connected else changed


def _wake_pipe() -> int:
    """The reading end of a pipe that gets a byte for each signal; SIGCHLD is one that is heard."""
    reading, writing = os.pipe()
    for fd in (reading, writing):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _statm(pid: int) -> list[int]:
    with open(f"/proc/{pid}/statm", "rb") as file:
        return [int(word) for word in file.read().split()]


def _has_rows(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read().count(b"\n") > 1
    except OSError:
        return False


def _has_connections() -> bool:
    """Whether the kernel still keeps a connection that nobody has any more, and its port with it."""
    for path in SOCKETS:
        with contextlib.suppress(OSError), open(path) as file:
            for line in file:
                words = line.split()
                if words[0] in ("TCP:", "TCP6:") and any(
                    int(count) for name, count in zip(words[1::2], words[2::2], strict=False) if name in ("inuse", "tw")
                ):
                    return True
    return False


def _sockets() -> int:
    """How many sockets the jail's network has."""
    with contextlib.suppress(OSError, ValueError):
        return int(_text_of(SOCKETS[0]).split()[2])
    return 0


def _text_of(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def _bytes_in(path: str) -> int:
    """Bytes of memory that the files of a scratch space take."""
    found = os.statvfs(path)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _oom_kills() -> int:
    """How often the kernel has killed a process of this jail for the jail's memory limit (cgroup v2 or v1)."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with contextlib.suppress(OSError), open(path) as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return 0


def _descendants() -> list[int]:
    """All processes below this one: for the mode without a jail, where no namespace and no user id tells them apart."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat") as file:
            parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
    found: list[int] = []
    level = [os.getpid()]
    while level:
        level = [child for parent in level for child in parents.get(parent, [])]
        found += level
    return found


def _kill_descendants() -> None:
    for pid in _descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run_zygote(control: socket.socket, setup: Mapping[str, Any]) -> NoReturn:
    """From the fork of the supervisor on."""
    for name in (*PRELOADED, *setup["preload"]):
        importlib.import_module(name)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)
    forbid_cores()
    if setup["filter"]:
        install_filter(base64.b64decode(setup["filter"]))
    zygote = Zygote(control, setup)
    control.send(json.dumps({"ready": os.getpid()}).encode())
    gc.collect()
    gc.freeze()
    gc.disable()
    zygote.serve()


# ---------------------------------------------------------------------------------------------------------------------
# The supervisor


class HostGone(Exception):
    """The host hung up: the jail ends."""


class Host:
    """The supervisor's side of the connection to the host; replies are held back until it has to wait."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self.outgoing: list[bytes] = []
        self.buffer = bytearray()

    def read(self) -> tuple[dict[str, Any], list[bytes]]:
        """Header and blobs of the next request. HostGone at the end."""
        length, header_length = WORDS.unpack(self._exactly(WORDS.size))
        body = self._exactly(length - 4)
        header = json.loads(body[:header_length])
        return header, cut(body, header_length, header.get("sizes", ()))

    def write(self, header: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        """A reply, in order; sent when the next request has to be waited for, or when much is due."""
        text = json.dumps(header | {"sizes": [len(blob) for blob in blobs]}).encode()
        size = 4 + len(text) + sum(map(len, blobs))
        self.outgoing += [WORDS.pack(size, len(text)), text, *blobs]

    def flush(self) -> None:
        data = memoryview(b"".join(self.outgoing))
        self.outgoing.clear()
        while data:
            try:
                data = data[os.write(self.writing, data) :]
            except OSError as error:
                raise HostGone from error

    def _exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            self.flush()
            data = os.read(self.reading, max(READ_BYTES, count - len(self.buffer)))
            if not data:
                raise HostGone
            self.buffer += data
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken


def cut(body: bytes, start: int, sizes: Iterable[int]) -> list[bytes]:
    blobs: list[bytes] = []
    for size in sizes:
        blobs.append(body[start : start + size])
        start += size
    return blobs


class Ended(Exception):
    """The submission's process is no more."""


class OverTime(Exception):
    """The submission did not answer in time."""


class OverSize(Exception):
    """The submission announced more bytes than it may send."""


class Garbled(Exception):
    """The submission broke the form of a reply."""


class Submission:
    """One child, as the supervisor sees it: a channel with time limits, and the zygote's report at the end."""

    def __init__(
        self, host: int, control: socket.socket, run: int, job: dict[str, Any], pipes: Sequence[int] = ()
    ) -> None:
        self.host, self.control, self.run = host, control, run
        self.report: dict[str, Any] | None = None
        self.buffer = bytearray()
        self.channel, theirs = socket.socketpair()
        self.channel.setblocking(False)
        self.poll = select.poll()
        self.poll.register(self.channel, select.POLLIN)
        self.poll.register(control, select.POLLIN)
        self.poll.register(host, 0)  # only its hanging up
        fds = [theirs.fileno(), *pipes]
        socket.send_fds(control, [json.dumps(job | {"run": run}).encode()], fds)
        theirs.close()
        for fd in pipes:
            os.close(fd)

    def send(self, nonce: bytes, body: bytes, deadline: float) -> None:
        """Hand over one frame. OverTime where nobody takes it, Ended where nobody is there."""
        data = memoryview(LENGTH.pack(NONCE_BYTES + len(body)) + nonce + body)
        while data:
            try:
                data = data[self.channel.send(data) :]
            except BlockingIOError:
                self._wait_writable(deadline)
            except OSError:
                self.wait_end(deadline)
                raise Ended from None

    def _wait_writable(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise OverTime
        ready = select.select([self.control], [self.channel], [], left)
        if ready[0]:
            self.read_report()
            raise Ended

    def receive(self, nonce: bytes, deadline: float, most: int) -> tuple[bytes, bytes]:
        """(kind, body) of the reply to this nonce."""
        while True:
            reply = self.parse(nonce, most)
            if reply is not None:
                return reply
            self._more(deadline)

    def parse(self, nonce: bytes, most: int) -> tuple[bytes, bytes] | None:
        if len(self.buffer) < REPLY.size:
            return None
        length, claimed, kind = REPLY.unpack_from(self.buffer)
        if claimed != nonce or length < NONCE_BYTES + 1 or kind not in KINDS:
            raise Garbled
        if length > most + NONCE_BYTES + 1:
            raise OverSize
        end = LENGTH.size + length
        if len(self.buffer) < end:
            return None
        body = bytes(memoryview(self.buffer)[REPLY.size : end])
        del self.buffer[:end]
        return kind, body

    def _more(self, deadline: float) -> None:
        """Wait for bytes. What the child has sent counts even when its end is known already."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise OverTime
        ready = {fd for fd, _ in self.poll.poll(left * 1000 + 1)}
        if self.channel.fileno() in ready and self._fill():
            return
        if self.host in ready:
            raise HostGone
        if self.control.fileno() in ready:
            self.read_report()
        if self.report is not None and not self._fill():
            raise Ended

    def _fill(self) -> bool:
        """Whether bytes came in. A hung-up channel is left to the report and the deadline."""
        try:
            data = self.channel.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self.buffer += data
            return True
        self._hang_up()
        return False

    def _hang_up(self) -> None:
        with contextlib.suppress(KeyError):
            self.poll.unregister(self.channel)

    def read_report(self) -> None:
        message = self.control.recv(1 << 16)
        if not message:
            raise HostGone  # the zygote is dead: no jail without it
        report = json.loads(message)
        if report["run"] == self.run:
            self.report = report

    def wait_end(self, deadline: float) -> bool:
        """Whether the report came in time."""
        while self.report is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if select.select([self.control], [], [], left)[0]:
                self.read_report()
        return True

    def kill(self) -> dict[str, Any]:
        """End it, whatever it does, and have all its traces looked for; the zygote's report."""
        if self.report is None:
            self.control.send(json.dumps({"kill": self.run}).encode())
        self.channel.close()
        if not self.wait_end(time.monotonic() + CLEAN_UP_S + 5):
            raise HostGone
        return self.report or {}


class Calls:
    """A loaded module that answers one call at a time."""

    def __init__(self, supervisor: "Supervisor", header: dict[str, Any], body: bytes) -> None:
        self.limits: dict[str, Any] = header["limits"]
        job = {key: header[key] for key in ("limits", "name", "file")} | {"mode": "calls"}
        self.submission = supervisor.start(job)
        self.cause = ""
        self.load = self._exchange(body, header["load_s"])
        if self.load[0] != "V" and not self.cause:
            self.cause = "Unloaded"

    def _exchange(self, body: bytes, wall_s: float) -> tuple[str, float, bytes]:
        """(kind, seconds, body) of one request: `-` with the cause where it ended the process, `~` for all that come after."""
        if self.cause:
            return "~", 0.0, b""
        nonce = os.urandom(NONCE_BYTES)
        started = time.monotonic()
        try:
            self.submission.send(nonce, body, started + wall_s)
            kind, reply = self.submission.receive(nonce, started + wall_s, self.limits["output_bytes"])
            took = time.monotonic() - started
            if took <= wall_s:
                return kind.decode("latin-1"), took, reply
            raise OverTime
        except (OverTime, OverSize, Ended, Garbled) as end:
            self.cause = type(end).__name__
            told = {"cause": self.cause, "report": self.submission.report}
            return "-", time.monotonic() - started, json.dumps(told).encode()

    def run(self, host: Host, header: dict[str, Any], bodies: Sequence[bytes]) -> None:
        """Answer a batch, with a frame whenever much or old is due; `stop` ends it at the first call without a value."""
        wall_s: float = header.get("wall_s") or self.limits["wall_s"]
        rows: list[tuple[str, float]] = []
        blobs: list[bytes] = []
        flushed = time.monotonic()
        due = 0
        for body in bodies:
            kind, took, reply = self._exchange(body, wall_s)
            rows.append((kind, round(took, 6)))
            blobs.append(reply)
            due += len(reply)
            if due > FLUSH_BYTES or time.monotonic() - flushed > FLUSH_S:
                host.write({"rows": rows, "more": True}, blobs)
                host.flush()
                rows, blobs, due, flushed = [], [], 0, time.monotonic()
            if header.get("stop") and kind != "V":
                break
        host.write({"rows": rows, "more": False}, blobs)

    def close(self) -> dict[str, Any]:
        return self.submission.kill()


class Program:
    """One run of a program: its three pipes, its limits, its end."""

    def __init__(self, supervisor: "Supervisor", header: dict[str, Any], body: bytes, stdin: bytes) -> None:
        self.limits: dict[str, Any] = header["limits"]
        self.started = time.monotonic()
        self.deadline = self.started + self.limits["wall_s"]
        self.nonce = os.urandom(NONCE_BYTES)
        self.stdin = memoryview(stdin)
        self.outputs: dict[int, bytearray] = {}
        self.marks: list[str] = []
        self.cause = ""
        self._open(supervisor, header, body)

    def _open(self, supervisor: "Supervisor", header: dict[str, Any], body: bytes) -> None:
        (their_in, self.to_stdin), (self.stdout, their_out), (self.stderr, their_err) = os.pipe(), os.pipe(), os.pipe()
        for fd in (their_in, their_out, their_err):
            os.fchmod(fd, 0o666)  # so that /dev/stdin and its like can be opened by another user id
        for fd in (self.to_stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)
        job = {key: header[key] for key in ("limits", "file")} | {"mode": "program"}
        self.submission = supervisor.start(job, (their_in, their_out, their_err))
        self.outputs = {self.stdout: bytearray(), self.stderr: bytearray()}
        try:
            self.submission.send(self.nonce, body, self.deadline)
        except OverTime:
            self.cause = "OverTime"
        except Ended:
            self.cause = ""

    def run(self) -> tuple[dict[str, Any], list[bytes]]:
        poll = select.poll()
        poll.register(self.submission.control, select.POLLIN)
        poll.register(self.submission.channel, select.POLLIN)
        poll.register(self.submission.host, 0)
        for fd in self.outputs:
            poll.register(fd, select.POLLIN)
        poll.register(self.to_stdin, select.POLLOUT)
        while not self.cause and self.submission.report is None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                self.cause = "OverTime"
                break
            for fd, _ in poll.poll(left * 1000 + 1):
                self._ready(poll, fd)
        return self._finish()

    def _ready(self, poll: "select.poll", fd: int) -> None:
        if fd == self.submission.host:
            raise HostGone
        if fd == self.submission.control.fileno():
            self.submission.read_report()
        elif fd == self.submission.channel.fileno():
            self._mark(poll)
        elif fd == self.to_stdin:
            self._feed(poll)
        else:
            self._take(poll, fd)

    def _mark(self, poll: "select.poll") -> None:
        """The child says how far it is: a claim that can only turn one failure into another."""
        data = b""
        with contextlib.suppress(OSError):
            data = self.submission.channel.recv(READ_BYTES)
        if not data:
            with contextlib.suppress(KeyError):
                poll.unregister(self.submission.channel)
        self.submission.buffer += data
        try:
            while (reply := self.submission.parse(self.nonce, 0)) is not None:
                if len(self.marks) < MOST_MARKS:
                    self.marks.append(reply[0].decode("latin-1"))
        except (Garbled, OverSize):
            self.submission.buffer.clear()

    def _feed(self, poll: "select.poll") -> None:
        try:
            self.stdin = self.stdin[os.write(self.to_stdin, self.stdin[: 1 << 20]) :] if self.stdin else self.stdin
        except BlockingIOError:
            return
        except OSError:
            self.stdin = self.stdin[:0]
        if not self.stdin:
            poll.unregister(self.to_stdin)
            os.close(self.to_stdin)
            self.to_stdin = -1

    def _take(self, poll: "select.poll | None", fd: int) -> bool:
        """Whether there was something to read."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            if poll is not None:
                poll.unregister(fd)
            return False
        kept = self.outputs[fd]
        most = self.limits["output_bytes"] if fd == self.stdout else STDERR_BYTES
        if fd == self.stdout and len(kept) + len(data) > most:
            self.cause = self.cause or "OverSize"
        kept += data[: most - len(kept)]
        return True

    def _finish(self) -> tuple[dict[str, Any], list[bytes]]:
        ended = time.monotonic()
        if self.submission.report is not None:
            self._mark_rest()
        report = self.submission.kill()
        for fd in self.outputs:
            while self._take(None, fd):
                pass
        for fd in (self.to_stdin, self.stdout, self.stderr):
            if fd >= 0:
                os.close(fd)
        header = {"cause": self.cause, "marks": "".join(self.marks), "wall": ended - self.started, "report": report}
        return header, [bytes(self.outputs[self.stdout]), bytes(self.outputs[self.stderr])]

    def _mark_rest(self) -> None:
        self._mark(select.poll()) if not self.marks else None


class Supervisor:
    """Takes the host's requests one after the other."""

    def __init__(self, host: Host, control: socket.socket) -> None:
        self.host, self.control = host, control
        self.runs = 0
        self.calls: Calls | None = None

    def start(self, job: dict[str, Any], pipes: Sequence[int] = ()) -> Submission:
        """Whatever was left open ends first: one submission at a time is what keeps them apart."""
        if self.calls is not None:
            self.calls.close()
            self.calls = None
        self.runs += 1
        return Submission(self.host.reading, self.control, self.runs, job, pipes)

    def serve(self) -> NoReturn:
        while True:
            header, blobs = self.host.read()
            getattr(self, f"do_{header['do']}")(header, blobs)

    def do_program(self, header: dict[str, Any], blobs: list[bytes]) -> None:
        self.host.write(*Program(self, header, blobs[0], blobs[1]).run())

    def do_open(self, header: dict[str, Any], blobs: list[bytes]) -> None:
        self.calls = Calls(self, header, blobs[0])
        kind, took, body = self.calls.load
        self.host.write({"rows": [(kind, round(took, 6))], "more": False}, [body])

    def do_calls(self, header: dict[str, Any], blobs: list[bytes]) -> None:
        if self.calls is not None:
            self.calls.run(self.host, header, blobs)

    def do_close(self, header: dict[str, Any], blobs: list[bytes]) -> None:
        report = self.calls.close() if self.calls is not None else {}
        self.calls = None
        self.host.write({"report": report})

    def do_ping(self, header: dict[str, Any], blobs: list[bytes]) -> None:
        self.host.write({"pong": header["ping"], "runs": self.runs})


def facts() -> dict[str, Any]:
    """What the host puts into a grader's id."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "machine": platform.machine(),
    }


def set_up(setup: Mapping[str, Any]) -> socket.socket:
    """Start the zygote and give up every privilege; the supervisor's end of the socket between them."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    for path in setup["site"] if setup["site"] is not None else _site_packages():
        sys.path.append(path)
    mapped, ready = os.pipe(), os.pipe()
    if setup["own_pids"]:
        checked("unshare", CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        _become_zygote(setup, theirs, control, mapped, ready)
    theirs.close()
    _map_users(setup, pid, mapped, ready)
    _drop(setup)
    return control


def _become_zygote(
    setup: Mapping[str, Any],
    control: socket.socket,
    other: socket.socket,
    mapped: tuple[int, int],
    ready: tuple[int, int],
) -> NoReturn:
    try:
        other.close()
        for fd in setup["host_fds"]:
            os.close(fd)
        if setup["own_pids"]:
            checked("unshare", CLONE_NEWNS)
            _mount_proc()
        if setup["host_uids"]:
            checked("unshare", CLONE_NEWUSER)
            os.write(ready[1], b"u")
            os.read(mapped[0], 1)
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
        kept = (1 << CAP_SETUID | 1 << CAP_SETGID | 1 << CAP_KILL) if setup["uids"] else 0
        if not setup["bare"]:
            set_capabilities(kept)
        for fd in (*mapped, *ready):
            os.close(fd)
        run_zygote(control, setup)
    except BaseException as error:  # noqa: BLE001 - the supervisor passes it on
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
    finally:
        os._exit(72)


def _mount_proc() -> None:
    """A /proc that shows the zygote's namespace alone, with no knob that can be turned."""
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("/proc/sys", "/proc/sys", None, MS_BIND | MS_REC)
    mount("/proc/sys", "/proc/sys", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)


def _map_users(setup: Mapping[str, Any], pid: int, mapped: tuple[int, int], ready: tuple[int, int]) -> None:
    """Give the zygote's user namespace its range of host ids, which belong to nobody."""
    if setup["host_uids"]:
        os.read(ready[0], 1)
        first, count = setup["host_uids"]
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"0 {first} {count}\n")
        os.write(mapped[1], b"m")
    for fd in (*mapped, *ready):
        os.close(fd)


def _drop(setup: Mapping[str, Any]) -> None:
    if setup["own_uid"] is not None:
        os.setgroups([])
        os.setresgid(*[setup["own_uid"]] * 3)
        os.setresuid(*[setup["own_uid"]] * 3)
    if not setup["bare"]:
        set_capabilities(0)
    if setup["own_pids"]:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user would have undone it
    prctl(PR_SET_DUMPABLE, 0)


def _site_packages() -> list[str]:
    import site

    return [path for path in site.getsitepackages() if os.path.isdir(path)]


def _take_host() -> Host:
    """The host's connection, moved from the standard streams to numbers that no child will see."""
    reading, writing = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 40) for fd in (0, 1))
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    os.close(null)
    return Host(reading, writing)


def _add_site_names() -> None:
    """`exit`, `quit` and their like, which `python -S` leaves out."""
    import site

    site.setquit()
    site.setcopyright()
    site.sethelper()


def main() -> None:
    host = _take_host()
    with contextlib.suppress(HostGone):
        setup, _ = host.read()
        setup["host_fds"] = [host.reading, host.writing]
        _add_site_names()
        control = set_up(setup)
        said = json.loads(control.recv(1 << 16) or b'{"failed": "it died at once"}')
        if "failed" in said:
            host.write({"failed": f"The zygote did not start: {said['failed']}"})
            host.flush()
            return
        host.write({"ready": facts()})
        _serve(Supervisor(host, control))


def _serve(supervisor: Supervisor) -> None:
    """A fault of ours is told before the jail ends."""
    try:
        supervisor.serve()
    except HostGone:
        raise
    except BaseException as error:
        supervisor.host.write({"failed": f"The supervisor failed: {type(error).__name__}: {error}"})
        supervisor.host.flush()
        raise


if __name__ == "__main__":
    main()
