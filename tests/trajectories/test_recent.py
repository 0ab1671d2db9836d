"""The bounded cache."""

import pytest

from trajectories.recent import Recent


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    made: list[str] = []
    kept: Recent[str, bytes] = Recent(10, len)

    def make(key: str, size: int) -> bytes:
        return kept.get(key, lambda: (made.append(key), bytes(size))[1])

    make("a", 4)
    make("b", 4)
    make("a", 4)
    make("c", 4)
    assert made == ["a", "b", "c"]
    make("a", 4)
    assert made == ["a", "b", "c"]
    make("b", 4)
    assert made == ["a", "b", "c", "b"]


def test_a_value_larger_than_the_bound_is_kept_alone() -> None:
    kept: Recent[int, bytes] = Recent(10, len)
    kept.get(1, lambda: bytes(5))
    kept.get(2, lambda: bytes(100))
    assert len(kept.get(2, lambda: pytest.fail("made again"))) == 100
    made: list[int] = []
    kept.get(1, lambda: (made.append(1), bytes(5))[1])
    assert made == [1]
