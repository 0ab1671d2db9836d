"""What a run shows."""

import io
import sys

import pytest

from harness import progress
from harness.progress import Bar, Lines, Played, Silent, Tally, show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


RIGHT = Played("a", 1.0)
FAILED = Played("a", 0.0, "agent", "no")
OWED = Played("a", None, "infrastructure", "The endpoint is down")


def test_the_score_so_far_counts_agent_failures_as_zero_and_leaves_out_what_is_owed() -> None:
    tally = Tally(10)
    tally.carry(1.0)
    for played in (RIGHT, FAILED, OWED, RIGHT):
        tally.add(played)
    assert (tally.scored, tally.fresh, tally.agent_failures, tally.owed) == (4, 4, 1, 1)
    assert tally.score == 0.75
    assert tally.text() == "mean score 0.750, 1 agent failures, 1 owed"
    assert tally.last_fault == "The endpoint is down"


def test_before_the_first_episode_there_is_no_score_and_no_eta() -> None:
    assert (Tally(5).score, Tally(5).eta_s(), Tally(5).text()) == (None, None, "no score yet")


def test_scores_of_several_agents_or_benchmarks_are_not_mixed_into_one() -> None:
    tally = Tally(4, alone=False)
    stream = io.StringIO()
    Lines(tally, stream).close()
    tally.add(RIGHT)
    assert tally.text() == ""
    tally.add(FAILED)
    assert tally.text() == "1 agent failures"
    assert stream.getvalue() == "0/4 episodes, 0.0 a second\n"


def test_the_bar_shows_score_rate_failures_and_time_left() -> None:
    stream = Terminal()
    bar = Bar(Tally(4), stream)
    for played in (RIGHT, FAILED, RIGHT):
        bar.add(played)
    bar.close()
    last = stream.getvalue().split("\r")[-1]
    assert "3/4" in last
    assert "ep/s" in last or "s/ep" in last
    assert "mean score 0.667, 1 agent failures" in last
    assert "<" in last  # tqdm's elapsed<left


def test_where_there_is_no_terminal_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_S", 0.0)
    stream = io.StringIO()
    lines = Lines(Tally(2), stream)
    lines.add(RIGHT)
    lines.add(OWED)
    lines.close()
    first, second, third = stream.getvalue().splitlines()
    assert first.startswith("1/2 episodes, mean score 1.000, ")
    assert first.endswith(" s left")
    assert second.startswith("2/2 episodes, mean score 1.000, 1 owed, ")
    assert "\r" not in stream.getvalue()
    assert third.startswith("2/2")


def test_quiet_says_only_what_must_be_said() -> None:
    stream = io.StringIO()
    silent = Silent(Tally(1), stream)
    silent.add(RIGHT)
    silent.close()
    assert stream.getvalue() == ""
    silent.note("something that matters")
    assert stream.getvalue() == "something that matters\n"


def test_the_kind_of_progress_fits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, quiet, kind in ((Terminal(), False, Bar), (io.StringIO(), False, Lines), (Terminal(), True, Silent)):
        monkeypatch.setattr(sys, "stderr", stream)
        shown = show(Tally(1), quiet=quiet)
        assert type(shown) is kind
        shown.close()
