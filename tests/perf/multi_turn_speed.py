"""CPU seconds for grading the 800 multi-turn ground truths, ours and upstream's in one run: `python tests/perf/multi_turn_speed.py`.

Both sides get decoded calls and replay them with the ground truth on fresh instances. Upstream runs in the oracle's
environment, one process each. Prints the best of three rounds and exits with 1 where ours is slower.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "parity"))

from oracle import Oracle

from envs.bfcl.dataset import Row, load
from envs.bfcl.multi_turn import check_multi_turn

Turns = list[list[list[str]]]
ROUNDS = 3


def one_step(row: Row) -> Turns:
    return [[list(turn)] if turn else [] for turn in row.ground_truth or ()]


def one_call_a_step(row: Row) -> Turns:
    return [[[call] for call in turn] for turn in row.ground_truth or ()]


def ours_s(work: Sequence[tuple[Row, Turns]]) -> float:
    start = time.process_time()
    passed = sum(check_multi_turn(turns, row).valid for row, turns in work)
    spent = time.process_time() - start
    if passed != len(work):
        raise RuntimeError(f"{passed} of {len(work)} ground truths pass.")
    return spent


def upstream_s(oracle: Oracle, work: Sequence[tuple[Row, Turns]]) -> float:
    before = oracle.spent["multi_turn_check"]
    verdicts = oracle.ask("multi_turn_check", [{"id": row.id, "turns": turns} for row, turns in work])
    if not all(valid for valid, _ in verdicts):
        raise RuntimeError("Upstream fails a ground truth.")
    return oracle.spent["multi_turn_check"] - before


def measure(oracle: Oracle, rows: Sequence[Row], form: Callable[[Row], Turns]) -> float:
    """How many times as fast ours is."""
    work = [(row, form(row)) for row in rows]
    pairs = [(ours_s(work), upstream_s(oracle, work)) for _ in range(ROUNDS)]
    ours, theirs = (min(side) for side in zip(*pairs, strict=True))
    print(f"{form.__name__}: ours {ours:.3f} s, upstream {theirs:.3f} s, {theirs / ours:.2f} times as fast")
    return theirs / ours


def main() -> int:
    rows = [row for row in load("test").rows.values() if row.multi_turn]
    oracle = Oracle()
    try:
        ratios = [measure(oracle, rows, form) for form in (one_step, one_call_a_step)]
    finally:
        oracle.close()
    return 0 if min(ratios) >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
