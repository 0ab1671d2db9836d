"""One child process that is asked line by line, and that may misbehave in any way without holding us up."""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, cast

LONGEST_LINE = 16 * 2**20
"""Bytes. Far beyond any answer, far below what would hurt."""

FAREWELL_S = 2.0
"""How long a process may take to leave once its standard input is closed."""

LAST_WORDS_S = 0.5
"""How long a process that has closed its standard output may take to end and to finish its standard error."""

STDERR_TAIL = 2000
"""Bytes of standard error that are kept for the failure's sentence."""

CHUNK = 65536


class ProcessError(RuntimeError):
    """The process broke the protocol: an agent failure."""


class Child:
    """A process in a group of its own, so that what it starts is killed with it. One thread at a time may `exchange`;
    `dispose` may come from any other, and ends a running `exchange` with ProcessError."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(  # noqa: S603 - the user's own command
            command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0
        )
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._stdout = cast("IO[bytes]", self._process.stdout)
        self._read = bytearray()
        self._tail = bytearray()
        self._dead = False
        self._greeted = False
        self._using_pipes = threading.Lock()
        for stream in (self._stdin, self._stdout):
            os.set_blocking(stream.fileno(), False)
        self._drain = threading.Thread(target=self._keep_tail, name="agent-stderr", daemon=True)
        self._drain.start()

    def exchange(self, line: bytes, timeout_s: float) -> bytes:
        """Write one line and read one, newline left out. ProcessError where none comes in time."""
        deadline = time.monotonic() + timeout_s
        with self._using_pipes, selectors.DefaultSelector() as selector:
            if self._dead:
                raise self.error("was ended")
            selector.register(self._stdout, selectors.EVENT_READ)
            self._refuse_unasked(selector)
            selector.register(self._stdin, selectors.EVENT_WRITE, memoryview(line + b"\n"))
            while (reply := self._line()) is None:
                self._wait(selector, deadline)
                if self._dead:
                    raise self.error("was ended")
                if time.monotonic() >= deadline:
                    self.kill()
                    raise self.error(f"gave no answer within {timeout_s:g} s")
        return reply

    def _refuse_unasked(self, selector: selectors.BaseSelector) -> None:
        """A second reply to one request must not be taken for the reply to the next. A greeting before the first is one."""
        if self._greeted and selector.select(0):
            self._receive()
        if self._greeted and self._read:
            raise self.error(f"printed what nobody asked for: {bytes(self._read[:120]).decode(errors='replace')!r}")
        self._greeted = True

    def _wait(self, selector: selectors.BaseSelector, deadline: float) -> None:
        """Write and read what can be, once. Looks up every second, lest a child of the child keep the pipes open."""
        for key, _ in selector.select(min(1.0, max(0.0, deadline - time.monotonic()))):
            if key.fileobj is self._stdout:
                self._receive()
            elif left := self._write(key.data):
                selector.modify(self._stdin, selectors.EVENT_WRITE, left)
            else:
                selector.unregister(self._stdin)

    def error(self, what: str) -> ProcessError:
        """The exception that says what the process did, with the end of its standard error."""
        tail = bytes(self._tail).decode(errors="replace").strip()
        return ProcessError(f"The agent's process {what}.{f' Its standard error ends: {tail}' if tail else ''}")

    def kill(self) -> None:
        """End the process and all of its group at once. Harmless when repeated."""
        self._dead = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def hang_up(self) -> None:
        """Close its standard input, which asks it to leave. Not while somebody exchanges."""
        with self._using_pipes, suppress(OSError):
            self._stdin.close()

    def dispose(self, wait_s: float = 0.0) -> None:
        """Give it so long to leave by itself, then kill what is left of its group, and close the pipes."""
        if wait_s > 0:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(wait_s)
        self.kill()
        self._drain.join(LAST_WORDS_S)
        if self._using_pipes.acquire(timeout=2.0):
            with suppress(OSError):
                self._stdin.close()
            self._stdout.close()
            self._using_pipes.release()

    def _keep_tail(self) -> None:
        stderr = cast("IO[bytes]", self._process.stderr)
        with stderr:
            while chunk := stderr.read(CHUNK):
                self._tail = (self._tail + chunk)[-STDERR_TAIL:]

    def _write(self, left: memoryview) -> memoryview:
        try:
            return left[os.write(self._stdin.fileno(), left[:CHUNK]) :]
        except BlockingIOError:
            return left
        except BrokenPipeError:
            return left[:0]  # the end of its standard output tells why

    def _receive(self) -> None:
        chunk = os.read(self._stdout.fileno(), CHUNK)
        if not chunk:
            raise self._ended()
        self._read += chunk
        if len(self._read) > LONGEST_LINE:
            self.kill()
            raise self.error(f"printed a line of more than {LONGEST_LINE >> 20} MiB")

    def _line(self) -> bytes | None:
        end = self._read.find(b"\n")
        if end < 0:
            return None
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line

    def _ended(self) -> ProcessError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(LAST_WORDS_S)
        code = self._process.returncode
        self.kill()
        self._drain.join(LAST_WORDS_S)
        return self.error("closed its standard output" if code is None else f"ended with exit status {code}")
