"""Frames between the host and a jail's supervisor, with a deadline on every wait. The form is told in supervisor.py."""

import json
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from trajectories.failures import SandboxError

WORDS = struct.Struct(">II")
MAX_FRAME = 1 << 28
"""Bytes. The supervisor sends what is due long before."""


class Frame(NamedTuple):
    header: dict[str, Any]
    blobs: list[bytes]


class Stream(Protocol):
    """A connection to a jail. Raises SandboxError when it breaks, or at the deadline (seconds of `time.monotonic`)."""

    def send(self, data: bytes, deadline: float) -> None: ...
    def receive(self, deadline: float) -> bytes:
        """Some bytes, at least one."""
        ...

    def close(self) -> None: ...


class SocketStream:
    """A stream socket of which both ends are ours."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(False)

    def send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except OSError as error:
                raise SandboxError(f"The jail can't be written to: {error.strerror}.") from error

    def receive(self, deadline: float) -> bytes:
        while True:
            try:
                data = self._socket.recv(1 << 18)
            except BlockingIOError:
                self._wait(select.POLLIN, deadline)
                continue
            except OSError as error:
                raise SandboxError(f"The jail can't be read from: {error.strerror}.") from error
            if not data:
                raise SandboxError("The jail ended unasked.")
            return data

    def close(self) -> None:
        self._socket.close()

    def _wait(self, event: int, deadline: float) -> None:
        left = deadline - time.monotonic()
        poll = select.poll()
        poll.register(self._socket, event)
        if left <= 0 or not poll.poll(left * 1000):
            raise SandboxError("The jail did not answer in time.")


def frame(header: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    text = json.dumps(header | {"sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join([WORDS.pack(4 + len(text) + sum(map(len, blobs)), len(text)), text, *blobs])


class Connection:
    """Whole frames over a stream. SandboxError for whatever breaks the form: the supervisor is not trusted to keep it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    def send(self, data: bytes, deadline: float) -> None:
        self._stream.send(data, deadline)

    def receive(self, deadline: float) -> Frame:
        length, header_length = WORDS.unpack(self._exactly(WORDS.size, deadline))
        if not 4 <= header_length + 4 <= length <= MAX_FRAME:
            raise SandboxError(f"The jail announced a frame of {length} bytes with a header of {header_length}.")
        return _parsed(self._exactly(length - 4, deadline), header_length)

    def close(self) -> None:
        self._stream.close()

    def _exactly(self, count: int, deadline: float) -> bytes:
        while len(self._buffer) < count:
            self._buffer += self._stream.receive(deadline)
        taken = bytes(memoryview(self._buffer)[:count])
        del self._buffer[:count]
        return taken


def _parsed(body: bytes, start: int) -> Frame:
    try:
        header = json.loads(body[:start])
        sizes = header.get("sizes", [])
        fits = all(type(size) is int and size >= 0 for size in sizes) and sum(sizes) == len(body) - start
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise SandboxError(f"The jail sent a header that is none: {body[:80]!r}.") from error
    if not fits:
        raise SandboxError(f"The jail sent {len(body) - start} bytes of content under a header that says otherwise.")
    blobs: list[bytes] = []
    for size in sizes:
        blobs.append(body[start : start + size])
        start += size
    return Frame(header, blobs)
