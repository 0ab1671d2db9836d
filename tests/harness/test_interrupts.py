"""What SIGINT and SIGTERM do while a run is open."""

import signal
import threading

import pytest

from harness.interrupts import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_drains_and_the_second_aborts(number: int, capfd: pytest.CaptureFixture[str]) -> None:
    with Interrupts() as interrupts:
        interrupts.abortable = True
        signal.raise_signal(number)
        assert (interrupts.heard, interrupts.stopping.is_set()) == (True, True)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert "the running episodes finish" in capfd.readouterr().err


def test_no_signal_breaks_into_the_opening_or_closing_of_files() -> None:
    with Interrupts() as interrupts:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        assert interrupts.stopping.is_set()


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_in_another_thread_there_is_nothing_to_hear() -> None:
    seen: list[object] = []

    def use() -> None:
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
