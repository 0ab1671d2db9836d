"""What was used last, within a bound of bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """A cache that forgets what was not used for longest. One value larger than the bound is still kept, alone."""

    def __init__(self, max_bytes: int, size: Callable[[Value], int]) -> None:
        self._max_bytes, self._size = max_bytes, size
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of the key, made where it is not kept. Two threads may make it at once."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        value = make()
        with self._lock:
            self._keep(key, value)
        return value

    def _keep(self, key: Key, value: Value) -> None:
        if key in self._kept:
            return
        self._kept[key] = (value, self._size(value))
        self._bytes += self._kept[key][1]
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            _, (_, size) = self._kept.popitem(last=False)
            self._bytes -= size
