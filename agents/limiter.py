"""How many requests a model endpoint gets at once, and when.

One limiter an endpoint, shared by all threads and agents that speak to it. It starts modest. While all slots are in use it
grows by one with each answer, and once the endpoint has said 429, by one with each round of answers. A 429 halves it, once for all requests that were on their way, and stops new ones for as long as the
server asked (Retry-After), or for a wait that doubles. A fault of the server (5xx, no connection) stops new requests for such
a wait too and lets the limit rest, but does not shrink it. Then it grows again.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol, TypeVar

from trajectories.failures import InfrastructureError

T = TypeVar("T")

LOOK_S = 0.2
"""How often a wait looks whether the run is stopping, seconds."""

TROUBLE = 3
"""After so many faults or 429 in a row it is worth a word."""


class Throttled(Exception):
    """The endpoint said 429. `retry_after_s` is the wait that it asked for, None where it named none."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Faltered(Exception):
    """The endpoint failed in a way that may pass: 5xx, no connection, no answer in time, an answer that is none."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Pace(NamedTuple):
    """How a limiter behaves. Times in seconds."""

    start: int = 8
    most: int = 512
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    rest_s: float = 15.0
    """How long the limit does not grow after a 429 or a fault."""
    tries: int = 5
    """How often a request is sent before a fault of the server is given up. 429 doesn't count."""
    patience_s: float = 600.0
    """How long after its first try a request is sent again."""


class Clock(Protocol):
    """Time, as the limiter needs it: injected, so that tests don't wait."""

    def now(self) -> float: ...

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> None:
        """Wait to be notified, at most so long; the condition's lock is held before and after."""
        ...


class WallClock:
    """The real time, monotonic."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> None:
        condition.wait(timeout_s)


class _Ticket(NamedTuple):
    """What was known when a request was sent. One burst of 429 answers halves once: for those with the same count."""

    last_slot: bool
    throttles: int
    faults: int


class Limiter:
    """Additive growth, halving on 429. Thread-safe; `call` is all that an agent needs."""

    def __init__(self, pace: Pace | None = None, clock: Clock | None = None) -> None:
        self.pace = pace or Pace()
        self.limit = float(self.pace.start)
        """How many requests may be on their way; its whole part counts."""
        self.in_flight = 0
        self._clock = clock or WallClock()
        self._changed = threading.Condition()
        self._open_at = 0.0
        self._growth_at = 0.0
        self._throttles = 0
        self._faults = 0
        self._bad_in_a_row = 0
        self._last_fault = ""
        self._stopping = threading.Event()

    def watch(self, stopping: threading.Event) -> None:
        """Once the event is set, what failed is not sent again, and nobody waits for the end of a pause."""
        self._stopping = stopping

    def trouble(self) -> str | None:
        """The last fault or 429, where there have been several and no answer since; else None."""
        return self._last_fault if self._bad_in_a_row >= TROUBLE else None

    def call(self, send: Callable[[], T]) -> T:
        """What `send` returns, sent again after `Throttled` and `Faltered` until tries or patience end.

        Any other exception of `send` goes through. Raises InfrastructureError with the last reason in it.
        """
        started, faults = None, 0
        while True:
            try:
                with self._slot():
                    started = self._clock.now() if started is None else started
                    return send()
            except (Throttled, Faltered) as error:
                faults += isinstance(error, Faltered)
                self._give_up(error, faults, self._clock.now() - (started or 0.0))

    def _give_up(self, error: Throttled | Faltered, faults: int, spent_s: float) -> None:
        wait_s = error.retry_after_s or 0.0
        stopping = self._stopping.is_set()
        if not stopping and faults < self.pace.tries and spent_s + wait_s < self.pace.patience_s:
            return
        raise InfrastructureError(
            f"{error} (given up after {spent_s:.0f} s)", retry_after_s=error.retry_after_s
        ) from error

    @contextmanager
    def _slot(self) -> Generator[None]:
        ticket = self.acquire()
        try:
            yield
        except BaseException as error:
            self.release(ticket, error)
            raise
        self.release(ticket)

    def acquire(self) -> _Ticket:
        """A slot, once there is one and no pause. Each is given back with `release`; `call` does both.

        InfrastructureError in a pause while the run is stopping.
        """
        with self._changed:
            while True:
                pause_s = self._open_at - self._clock.now()
                if pause_s > 0:
                    if self._stopping.is_set():
                        raise InfrastructureError(f"{self._last_fault} (not sent again: the run is stopping)")
                    self._clock.wait(self._changed, min(pause_s, LOOK_S))
                elif self.in_flight < int(self.limit):
                    break
                else:
                    self._clock.wait(self._changed, None)
            self.in_flight += 1
            return _Ticket(self.in_flight >= int(self.limit), self._throttles, self._faults)

    def release(self, ticket: _Ticket, error: BaseException | None = None) -> None:
        """Give a slot back and learn from how the request ended."""
        with self._changed:
            self.in_flight -= 1
            if isinstance(error, Throttled | Faltered):
                self._last_fault = str(error)
            if error is None:
                self._succeeded(ticket)
            elif isinstance(error, Throttled):
                self._throttled(ticket, error.retry_after_s)
            elif isinstance(error, Faltered):
                self._faltered(ticket, error.retry_after_s)
            self._changed.notify(max(1, int(self.limit) - self.in_flight))

    def _succeeded(self, ticket: _Ticket) -> None:
        if (ticket.throttles, ticket.faults) == (self._throttles, self._faults):
            self._bad_in_a_row = 0
        if ticket.last_slot and self._clock.now() >= self._growth_at:
            step = 1 / int(self.limit) if self._throttles else 1.0
            self.limit = min(self.limit + step, float(self.pace.most))

    def _throttled(self, ticket: _Ticket, retry_after_s: float | None) -> None:
        if ticket.throttles == self._throttles:
            self._throttles += 1
            self._bad_in_a_row += 1
            self.limit = max(1.0, self.limit / 2)
        self._pause(retry_after_s)

    def _faltered(self, ticket: _Ticket, retry_after_s: float | None) -> None:
        if ticket.faults == self._faults:
            self._faults += 1
            self._bad_in_a_row += 1
        self._pause(retry_after_s)

    def _pause(self, asked_s: float | None) -> None:
        doubled_s = self.pace.first_wait_s * 2.0 ** min(self._bad_in_a_row - 1, 32)
        # A server that asks for no wait at all would be asked again and again.
        wait_s = asked_s or min(max(doubled_s, self.pace.first_wait_s), self.pace.longest_wait_s)
        self._open_at = max(self._open_at, self._clock.now() + min(wait_s, self.pace.patience_s))
        self._growth_at = max(self._growth_at, self._open_at + self.pace.rest_s)


def retry_after(headers: dict[str, str], now_s: float) -> float | None:
    """Seconds that an answer asks to wait, by `retry-after-ms` or `retry-after` (seconds or an HTTP date).

    `headers` have lower-case names; `now_s` is the time since the epoch. None where it asks nothing that can be read.
    """
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        if "retry-after" in headers:
            return max(0.0, _seconds(headers["retry-after"], now_s))
    except (ValueError, OverflowError):
        return None
    return None


def _seconds(value: str, now_s: float) -> float:
    if value.strip().replace(".", "", 1).isdigit():
        return float(value)
    date = parsedate_to_datetime(value)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now_s


_LIMITERS: dict[str, Limiter] = {}
_LIMITERS_LOCK = threading.Lock()


def limiter_of(endpoint: str) -> Limiter:
    """The one limiter of this endpoint in this process."""
    with _LIMITERS_LOCK:
        return _LIMITERS.setdefault(endpoint, Limiter())
