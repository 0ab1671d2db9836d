"""What a run shows while it goes: a bar on a terminal, a line now and then elsewhere, or nothing.

Only the main thread draws, and never more often than `BAR_S`: drawing costs less than 2 % of a run (`tests/perf/overhead.py`).
"""

import sys
import time
from typing import NamedTuple, Protocol, TextIO

from tqdm import tqdm

BAR_S = 0.2
"""Seconds between two drawings of the bar."""

LINE_S = 30.0
"""Seconds between two lines where there is no terminal."""


class Played(NamedTuple):
    """What is worth showing of one episode that is over."""

    agent: str
    score: float | None
    """By the leading grader; 0 where the agent failed, None by a fault of ours."""
    boundary: str | None = None
    """Where it failed, if it did."""
    message: str = ""


class Tally:
    """Score so far and failures, of what this run and earlier parts of it played.

    `alone`: one agent plays one benchmark. If not, a mean over all would be nobody's score, and none is shown.
    """

    def __init__(self, total: int, *, alone: bool = True) -> None:
        self.total, self.alone = total, alone
        self.scored = self.agent_failures = self.owed = self.fresh = 0
        self.last_fault = ""
        """What the last episode broke on that is owed."""
        self._sum = 0.0
        self._started = time.monotonic()

    def carry(self, score: float) -> None:
        """Count an episode that an earlier part of the run finished."""
        self.scored += 1
        self._sum += score

    def add(self, played: Played) -> None:
        self.fresh += 1
        if played.score is None:
            self.owed += 1
            self.last_fault = played.message
            return
        self.carry(played.score)
        self.agent_failures += played.boundary == "agent"

    @property
    def score(self) -> float | None:
        """Mean over the episodes with a verdict, None before the first."""
        return self._sum / self.scored if self.scored else None

    def rate(self) -> float:
        """Episodes of this part per second."""
        return self.fresh / max(time.monotonic() - self._started, 1e-9)

    def eta_s(self) -> float | None:
        """Seconds until all are played at this rate, None before the first."""
        rate = self.rate()
        return (self.total - self.scored - self.owed) / rate if self.fresh else None

    def text(self) -> str:
        parts = [f"mean score {self.score:.3f}" if self.score is not None else "no score yet"] if self.alone else []
        if self.agent_failures:
            parts.append(f"{self.agent_failures} agent failures")
        if self.owed:
            parts.append(f"{self.owed} owed")
        return ", ".join(parts)


class Progress(Protocol):
    """Is told of each episode, in the main thread."""

    def add(self, played: Played) -> None: ...

    def note(self, sentence: str) -> None:
        """Say something that must not get lost in the bar."""
        ...

    def close(self) -> None: ...


class Bar:
    """A tqdm bar: episodes, rate, time left, score so far, failures."""

    def __init__(self, tally: Tally, stream: TextIO) -> None:
        self._tally = tally
        tqdm.monitor_interval = 0  # it would start a thread of its own
        self._bar = tqdm(
            total=tally.total,
            initial=tally.scored,
            unit="ep",
            file=stream,
            mininterval=BAR_S,
            dynamic_ncols=True,
            smoothing=0.05,
        )
        self._next = 0.0

    def add(self, played: Played) -> None:
        self._tally.add(played)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + BAR_S
            self._bar.set_postfix_str(self._tally.text(), refresh=False)
        self._bar.update()

    def note(self, sentence: str) -> None:
        self._bar.write(sentence, file=sys.stderr)

    def close(self) -> None:
        self._bar.set_postfix_str(self._tally.text(), refresh=False)
        self._bar.close()


class Lines:
    """A line every `LINE_S` seconds, for logs."""

    def __init__(self, tally: Tally, stream: TextIO) -> None:
        self._tally, self._stream = tally, stream
        self._next = time.monotonic() + LINE_S

    def add(self, played: Played) -> None:
        self._tally.add(played)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_S
            self.note(self._line())

    def note(self, sentence: str) -> None:
        self._stream.write(sentence + "\n")
        self._stream.flush()

    def close(self) -> None:
        self.note(self._line())

    def _line(self) -> str:
        tally = self._tally
        eta = tally.eta_s()
        left = "" if not eta else f", {eta:.0f} s left"
        parts = [
            f"{tally.scored + tally.owed}/{tally.total} episodes",
            tally.text(),
            f"{tally.rate():.1f} a second{left}",
        ]
        return ", ".join(filter(None, parts))


class Silent:
    """Counts, shows nothing but what must be said."""

    def __init__(self, tally: Tally, stream: TextIO) -> None:
        self._tally, self._stream = tally, stream

    def add(self, played: Played) -> None:
        self._tally.add(played)

    def note(self, sentence: str) -> None:
        self._stream.write(sentence + "\n")
        self._stream.flush()

    def close(self) -> None: ...


def show(tally: Tally, *, quiet: bool) -> Progress:
    """The kind of progress that fits stderr."""
    if quiet:
        return Silent(tally, sys.stderr)
    return Bar(tally, sys.stderr) if sys.stderr.isatty() else Lines(tally, sys.stderr)
