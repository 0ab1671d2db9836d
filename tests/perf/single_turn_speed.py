"""CPU seconds for grading all single-turn ground truths, ours and upstream's in one run: `python tests/perf/single_turn_speed.py`.

Both sides decode a model's text and check the calls. Upstream runs in the oracle's environment, one process each, and
what it spends on the exchange is not counted. Prints the best of five rounds by language and exits with 1 where ours is slower.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "parity"))

import outputs
from oracle import Oracle

from envs.bfcl.checker import check_calls
from envs.bfcl.dataset import Row, load
from envs.bfcl.decode import DecodeError, decode_ast

Work = Sequence[tuple[Row, str]]
ROUNDS = 5


def ours(work: Work) -> tuple[float, int]:
    """CPU seconds, and how many pass."""
    start = time.process_time()
    passed = sum(_passes(row, text) for row, text in work)
    return time.process_time() - start, passed


def _passes(row: Row, text: str) -> bool:
    try:
        decoded = decode_ast(text, row.language)
    except DecodeError:
        return False
    return check_calls(
        row.functions, decoded, row.ground_truth or [], row.language, row.category, underscore_to_dot=False
    ).valid


def upstream(oracle: Oracle, work: Work) -> tuple[float, int]:
    before = oracle.spent["decode_and_check"]
    items = [{"id": row.id, "text": text} for row, text in work]
    verdicts = oracle.ask("decode_and_check", items)
    return oracle.spent["decode_and_check"] - before, sum(verdict is True for verdict in verdicts)


def measure(oracle: Oracle, title: str, work: Work) -> float:
    """How many times as fast ours is."""
    rounds = [(ours(work), upstream(oracle, work)) for _ in range(ROUNDS)]
    if any(mine[1] != theirs[1] for mine, theirs in rounds):
        raise RuntimeError(f"{title}: ours passes {rounds[0][0][1]}, upstream {rounds[0][1][1]}.")
    ours_s, upstream_s = (min(side[index][0] for side in rounds) for index in (0, 1))
    ratio = upstream_s / ours_s
    print(f"{title}: {len(work)} answers, ours {ours_s:.4f} s, upstream {upstream_s:.4f} s, {ratio:.2f} times as fast")
    return ratio


def main() -> int:
    work = [(row, outputs.text(row, outputs.calls(row))) for row in outputs.rows(load("test"))]
    oracle = Oracle()
    try:
        ratio = measure(oracle, "all", work)
        for language in ("Python", "Java", "JavaScript"):
            measure(oracle, language, [(row, text) for row, text in work if row.language == language])
    finally:
        oracle.close()
    return 0 if ratio >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
