"""The limiter grows, halves, pauses and comes back, by a clock that the test holds."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agents.limiter import Faltered, Limiter, Pace, Throttled, limiter_of, retry_after
from trajectories.failures import InfrastructureError

PACE = Pace(start=8, most=64, first_wait_s=1.0, longest_wait_s=30.0, rest_s=15.0, tries=3, patience_s=600.0)


class HandClock:
    """Time passes only while somebody waits."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> None:
        assert timeout_s is not None, "waits for a slot that nobody will free"
        self.time += timeout_s


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def limiter(clock: HandClock) -> Limiter:
    return Limiter(PACE, clock)


def answers(*outcomes: Any) -> Callable[[], Any]:
    """A `send` that raises or returns these in turn."""
    left = list(outcomes)

    def send() -> Any:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return send


def burst(limiter: Limiter, outcomes: list[Any]) -> None:
    """Requests that are all on their way before the first answer comes."""
    tickets = [limiter.acquire() for _ in outcomes]
    for ticket, outcome in zip(tickets, outcomes, strict=True):
        limiter.release(ticket, outcome if isinstance(outcome, Exception) else None)


def full(limiter: Limiter, outcome: Any = "ok") -> None:
    burst(limiter, [outcome] * int(limiter.limit))


def test_it_does_not_grow_without_demand(limiter: Limiter) -> None:
    for _ in range(100):
        limiter.call(lambda: "ok")
    assert limiter.limit == 8


def test_it_grows_while_all_slots_are_used_up_to_the_most(limiter: Limiter) -> None:
    for _ in range(4):
        full(limiter)
    assert limiter.limit == 12
    for _ in range(100):
        full(limiter)
    assert limiter.limit == 64


def test_a_burst_of_429_halves_once(limiter: Limiter, clock: HandClock) -> None:
    full(limiter, Throttled("slow down"))
    assert limiter.limit == 4
    full(limiter, Throttled("slow down"))
    assert limiter.limit == 2
    for _ in range(5):
        full(limiter, Throttled("slow down"))
    assert limiter.limit == 1


def test_a_429_stops_new_requests_for_as_long_as_it_asks(limiter: Limiter, clock: HandClock) -> None:
    started = clock.now()
    assert limiter.call(answers(Throttled("slow", 42.0), "ok")) == "ok"
    assert clock.now() - started == 42.0


def test_without_retry_after_the_waits_double_and_end_with_a_success(limiter: Limiter, clock: HandClock) -> None:
    started = clock.now()
    limiter.call(answers(*[Throttled("slow")] * 7, "ok"))
    assert clock.now() - started == 1 + 2 + 4 + 8 + 16 + 30 + 30
    started = clock.now()
    limiter.call(answers(Throttled("slow"), "ok"))
    assert clock.now() - started == 1


def test_a_server_that_asks_for_no_wait_is_not_hammered(limiter: Limiter, clock: HandClock) -> None:
    started = clock.now()
    limiter.call(answers(Throttled("slow", 0.0), Throttled("slow", 0.0), "ok"))
    assert clock.now() - started == 1 + 2


def test_once_the_run_stops_nothing_is_sent_again_and_no_pause_is_waited_for(
    limiter: Limiter, clock: HandClock
) -> None:
    stopping = threading.Event()
    limiter.watch(stopping)

    def failing() -> str:
        stopping.set()
        raise Faltered("It failed (500)")

    with pytest.raises(InfrastructureError, match="given up after 0 s"):
        limiter.call(failing)
    started = clock.now()
    with pytest.raises(InfrastructureError, match=r"It failed \(500\) \(not sent again: the run is stopping\)"):
        limiter.call(lambda: "never asked")
    assert clock.now() == started
    stopping.clear()
    assert limiter.call(lambda: "ok") == "ok"


def test_a_pause_ends_within_moments_of_a_stop() -> None:
    limiter, stopping = Limiter(PACE), threading.Event()
    limiter.watch(stopping)
    burst(limiter, [Faltered("It failed", 30.0)])
    threading.Timer(0.1, stopping.set).start()
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match="the run is stopping"):
        limiter.acquire()
    assert time.monotonic() - started < 5


def test_trouble_is_several_faults_without_an_answer(limiter: Limiter) -> None:
    for _ in range(2):
        burst(limiter, [Faltered("It failed")])
    assert limiter.trouble() is None
    burst(limiter, [Faltered("It failed again")])
    assert limiter.trouble() == "It failed again"
    limiter.call(lambda: "ok")
    assert limiter.trouble() is None


def test_after_a_429_it_rests_and_then_grows_by_one_a_round(limiter: Limiter, clock: HandClock) -> None:
    full(limiter, Throttled("slow", 2.0))
    clock.time += 2.0
    full(limiter)
    assert limiter.limit == 4
    clock.time += PACE.rest_s
    for _ in range(4):
        full(limiter)
    assert limiter.limit == 5
    for _ in range(200):
        full(limiter)
    assert 10 < limiter.limit < 30


def test_a_server_fault_pauses_growth_and_requests_but_does_not_halve(limiter: Limiter, clock: HandClock) -> None:
    full(limiter, Faltered("503"))
    assert limiter.limit == 8
    started = clock.now()
    full(limiter)
    assert clock.now() - started == 1.0
    assert limiter.limit == 8
    clock.time += PACE.rest_s
    full(limiter)
    assert limiter.limit == 9


def test_faults_are_given_up_after_the_tries(limiter: Limiter) -> None:
    assert limiter.call(answers(Faltered("503"), Faltered("503"), "ok")) == "ok"
    with pytest.raises(InfrastructureError, match="502 bad gateway"):
        limiter.call(answers(*[Faltered("502 bad gateway")] * 3))
    assert limiter.in_flight == 0


def test_429_is_given_up_when_patience_ends(limiter: Limiter, clock: HandClock) -> None:
    started = clock.now()
    with pytest.raises(InfrastructureError, match="slow") as caught:
        limiter.call(answers(*[Throttled("slow", 100.0)] * 20))
    assert caught.value.retry_after_s == 100.0
    assert clock.now() - started <= PACE.patience_s
    with pytest.raises(InfrastructureError):
        limiter.call(answers(Throttled("tomorrow", 86_400.0)))


def test_other_exceptions_go_through_and_free_their_slot(limiter: Limiter) -> None:
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            limiter.call(lambda: 1 / 0)
        with pytest.raises(KeyboardInterrupt):
            limiter.call(answers_interrupt)
    assert limiter.in_flight == 0
    assert limiter.limit == 8


def answers_interrupt() -> None:
    raise KeyboardInterrupt


def test_many_threads_never_exceed_the_limit_and_all_come_through() -> None:
    limiter = Limiter(Pace(start=3, most=6, first_wait_s=0.001, longest_wait_s=0.002, rest_s=0.0, tries=10_000))
    gate, now, worst = threading.Lock(), 0, 0

    def send(number: int) -> int:
        nonlocal now, worst
        with gate:
            now += 1
            worst = max(worst, now)
            allowed = now <= 4
        threading.Event().wait(0.001)
        with gate:
            now -= 1
        if not allowed:
            raise Throttled("too many")
        if number % 7 == 0 and number not in failed:
            failed.add(number)
            raise Faltered("503")
        return number

    failed: set[int] = set()
    with ThreadPoolExecutor(32) as pool:
        done = list(pool.map(lambda n: limiter.call(lambda: send(n)), range(400)))
    assert done == list(range(400))
    assert worst <= 6
    assert limiter.in_flight == 0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:16:50 GMT"}, 10.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now_s=1000.0) == seconds


def test_one_endpoint_has_one_limiter() -> None:
    assert limiter_of("http://a.test/v1") is limiter_of("http://a.test/v1")
    assert limiter_of("http://a.test/v1") is not limiter_of("http://b.test/v1")
