"""One jail, used by one thread at a time: programs, calls on a loaded module, sessions.

A status tells what the code did. SandboxError says that the jail broke: then nothing is known of the code, and the worker is
`broken`. A worker that is `spent` for another reason is fine to read from, but its jail is not used for further code.
"""

import marshal
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from envs.sandbox import values, wire
from envs.sandbox.jail import Jail
from envs.sandbox.limits import DEFAULT, SOURCE_BYTES, Limits
from envs.sandbox.line import Line
from envs.sandbox.replies import NO_USAGE, SKIPPED, SPENDING, Row, call_results, program_result
from envs.sandbox.results import CallResult, ProgramResult, Status, Usage
from trajectories.failures import SandboxError

Request = bytes
"""An encoded call: made once by `request`, sent as often as there are solutions."""


def request(name: str, /, *args: Any, **kwargs: Any) -> Request:
    """A call of the module's function (or dotted attribute) `name`. Raises values.Unsendable for an argument that is no plain data."""
    return values.encode_call("call", name, args, kwargs)


class Code(NamedTuple):
    """A module to call into."""

    source: str
    prelude: str = ""
    """Run first, in the same namespace; apart from the source, so that `from __future__` and line numbers there hold."""
    name: str = "solution"
    """The module's `__name__`."""
    file: str = "solution.py"
    """What tracebacks call it."""


class Called(NamedTuple):
    """All calls of one module."""

    load: CallResult
    results: list[CallResult]
    usage: Usage


class Worker:
    """A jail in use."""

    def __init__(self, jail: Jail, ceiling: Limits = DEFAULT) -> None:
        self.jail = jail
        self.line = Line(jail)
        self.ceiling = ceiling

    def run_program(
        self, source: str, stdin: bytes | str = b"", limits: Limits = DEFAULT, args: Sequence[str] = ()
    ) -> ProgramResult:
        """Run a Python program as a process of its own, as `python main.py ARGS` would, with `stdin` on a real pipe."""
        limits.require_within(self.ceiling)
        code = _encoded(source)
        if len(code) > SOURCE_BYTES:
            return _too_long_program(len(code))
        body = marshal.dumps((b"", code, list(args)))
        given = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
        header = {"do": "program", "file": "main.py", "limits": limits.on_wire()}
        with self.line.exchange():
            self.line.send(wire.frame(header, [body, given]), limits.wall_s)
            reply = self.line.receive(limits.wall_s)
            result = program_result(reply, limits)
        self.line.note(result.status, result.usage)
        return result

    def call_all(
        self,
        code: Code,
        requests: Sequence[Request],
        limits: Limits = DEFAULT,
        *,
        load_s: float | None = None,
        stop: bool = False,
        decode: bool = True,
    ) -> Called:
        """Load a module, make the calls one after the other, end it: one exchange with the jail, and the fastest way.

        Each call's input goes in when the result of the one before is out. `limits.wall_s` holds for each call, `load_s` (the
        same if None) for the load. With `stop` the first call without a value is the last; the rest is `skipped`.
        """
        limits.require_within(self.ceiling)
        refused = _too_long(code)
        if refused is not None:
            return Called(refused, [SKIPPED] * len(requests), NO_USAGE)
        with self.line.exchange():
            frames = [
                _open_frame(code, limits, load_s),
                _calls_frame(requests, None, stop=stop),
                wire.frame({"do": "close"}),
            ]
            self.line.send(b"".join(frames), limits.wall_s)
            load = self.line.rows((load_s or limits.wall_s) + limits.wall_s)  # held back until the first call is done
            rows = self.line.rows(limits.wall_s)
            usage, report = self.line.report()
        (loaded,) = call_results(load, report, limits, decode=False)
        results = call_results(rows, report, limits, decode=decode)
        self.line.note_all([loaded, *results], usage)
        return Called(loaded, results + [SKIPPED] * (len(requests) - len(rows)), usage)

    def open_calls(self, code: Code, limits: Limits = DEFAULT, *, load_s: float | None = None) -> "Calls":
        """Load a module and keep it, to call into it batch by batch. Close it before the worker does anything else."""
        limits.require_within(self.ceiling)
        return Calls(self.line, code, limits, load_s)

    def open_session(self, code: Code, limits: Limits = DEFAULT, *, load_s: float | None = None) -> "Session":
        """As `open_calls`, with objects that live in the module from one call to the next."""
        limits.require_within(self.ceiling)
        return Session(self.line, code, limits, load_s)

    def ping(self) -> None:
        """SandboxError where the jail doesn't answer."""
        with self.line.exchange():
            self.line.send(wire.frame({"do": "ping", "ping": self.line.submissions}), 0)
            if self.line.receive(0).header.get("pong") != self.line.submissions:
                raise SandboxError("The jail answers out of step.")

    def close(self) -> None:
        self.jail.close()


class Calls:
    """A loaded module. Used as a context manager, or closed by hand."""

    def __init__(self, line: Line, code: Code, limits: Limits, load_s: float | None) -> None:
        self._line, self._limits = line, limits
        self._open = False
        self.usage: Usage | None = None
        """Known once it is closed."""
        refused = _too_long(code)
        self.load = refused or self._load(code, load_s)
        """How the loading went: without `ok` all calls are `skipped`."""

    def _load(self, code: Code, load_s: float | None) -> CallResult:
        with self._line.exchange():
            self._line.send(_open_frame(code, self._limits, load_s), 0)
            rows = self._line.rows(load_s or self._limits.wall_s)
        self._open = self._line.open = True
        return self._results(rows, decode=False)[0]

    def run(
        self, requests: Sequence[Request], *, wall_s: float | None = None, stop: bool = False, decode: bool = True
    ) -> list[CallResult]:
        """A batch of calls, one result each. `wall_s` replaces the limit of each call, `stop` as in `Worker.call_all`."""
        if not self._open:
            return [SKIPPED] * len(requests)
        limit = wall_s or self._limits.wall_s
        with self._line.exchange():
            self._line.send(_calls_frame(requests, wall_s, stop=stop), limit)
            rows = self._line.rows(limit)
        return self._results(rows, decode=decode) + [SKIPPED] * (len(requests) - len(rows))

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> CallResult:
        return self.run([request(name, *args, **kwargs)])[0]

    def close(self) -> None:
        """End the module, and with it all that it started. Closing again does nothing."""
        if not self._open:
            return
        self._open = self._line.open = False
        if self._line.broken:
            return
        with self._line.exchange():
            self._line.send(wire.frame({"do": "close"}), 0)
            self.usage, _ = self._line.report()
        self._line.note(self._worst, self.usage)

    _worst = Status.OK

    def _results(self, rows: Sequence[Row], *, decode: bool) -> list[CallResult]:
        results = call_results(rows, {}, self._limits, decode=decode)
        self._worst = next((result.status for result in results if result.status in SPENDING), self._worst)
        return results

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Session(Calls):
    """A module with objects that keep their state between calls; state travels as data."""

    def construct(self, class_name: str, instance: str, /, *args: Any, **kwargs: Any) -> CallResult:
        """Make an instance; its methods are called as `instance.method`."""
        return self._one("construct", f"{class_name} as {instance}", args, kwargs)

    def get_state(self, instance: str) -> CallResult:
        """The instance's attributes, a dict."""
        return self._one("get_state", instance)

    def set_state(self, instance: str, state: dict[str, Any]) -> CallResult:
        """Replace all the instance's attributes."""
        return self._one("set_state", instance, (state,))

    def execute(self, source: str, file: str = "more.py") -> CallResult:
        """Run further source in the module's namespace."""
        return self._one("execute", file, (source,))

    def _one(
        self, action: str, name: str, args: Iterable[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> CallResult:
        return self.run([values.encode_call(action, name, args, kwargs or {})])[0]


def _encoded(source: str) -> bytes:
    return source.encode("utf-8", "surrogatepass")


def _too_long(code: Code) -> CallResult | None:
    size = len(_encoded(code.source))
    return CallResult(Status.ERROR, None, _too_long_text(size), 0.0, b"") if size > SOURCE_BYTES else None


def _too_long_text(size: int) -> str:
    return f"The source has {size} bytes, more than the {SOURCE_BYTES} that are run."


def _too_long_program(size: int) -> ProgramResult:
    return ProgramResult(Status.ERROR, b"", _too_long_text(size).encode(), 1, 0.0, NO_USAGE, lingered=False)


def _open_frame(code: Code, limits: Limits, load_s: float | None) -> bytes:
    body = marshal.dumps((_encoded(code.prelude), _encoded(code.source), None))
    header = {
        "do": "open",
        "name": code.name,
        "file": code.file,
        "limits": limits.on_wire(),
        "load_s": load_s or limits.wall_s,
    }
    return wire.frame(header, [body])


def _calls_frame(requests: Sequence[Request], wall_s: float | None, *, stop: bool) -> bytes:
    return wire.frame({"do": "calls", "wall_s": wall_s, "stop": stop}, requests)
