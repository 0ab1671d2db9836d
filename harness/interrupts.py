"""SIGINT and SIGTERM while a run is played.

The first lets the running episodes finish and starts nothing new; the second raises KeyboardInterrupt in the main thread.
While the store is opened or closed neither does: a moment later all is on the disk.
"""

import os
import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupts:
    """Hears both signals between `__enter__` and `__exit__`. Signals belong to the main thread; elsewhere this hears none."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        """Set when nothing new may start, by a signal or by whoever shares the event."""
        self.heard = False
        """Whether a signal came."""
        self.abortable = False
        """Whether a second signal may raise KeyboardInterrupt now."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.heard and self.abortable:
            raise KeyboardInterrupt
        self.heard = True
        self.stopping.set()
        # A handler may interrupt a write to sys.stderr, which can't be entered twice.
        if self.abortable:
            os.write(2, b"\nStopping: the running episodes finish, nothing new starts; once more stops at once.\n")
        else:
            os.write(2, b"\nStopping, as soon as the files are in order.\n")
