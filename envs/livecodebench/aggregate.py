"""LiveCodeBench's score table: pass@k overall and by difficulty, and pass@1 by platform and quarter (spec 1.6).

pass@k is upstream's estimator, the mean over problems of 1 - C(n-c, k) / C(n, k), for each k that no problem has fewer attempts than.
Known differences: a group without a problem has no value, where upstream's is NaN; and problems of the errata are left out of one more row.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from envs.base import Score, TaskScore
from envs.livecodebench.errata import ERRATA

KS = (1, 5, 10, 20, 40, 50, 75, 100, 125, 150, 200, 500, 1000)
HEADLINE = "pass@1"
CLEAN = "pass@1 without errata"


class About(NamedTuple):
    """What a task is grouped by."""

    difficulty: str
    platform: str
    contest_date: str

    @property
    def quarter(self) -> str:
        return f"{self.contest_date[:4]}-Q{(int(self.contest_date[5:7]) + 2) // 3}" if self.contest_date else ""


class Counted(NamedTuple):
    """One problem: how many attempts have a verdict, and how many of them passed."""

    attempts: int
    passed: int


def pass_at_k(attempts: int, passed: int, k: int) -> float:
    """The chance that at least one of k attempts passes, estimated from all."""
    if attempts - passed < k:
        return 1.0
    return 1.0 - prod(1.0 - k / i for i in range(attempts - passed + 1, attempts + 1))


def table(scores: Sequence[TaskScore], about: Mapping[str, About]) -> tuple[Score, ...]:
    """`about` has what is known of each task: those without scores count in a denominator only where nothing was run."""
    counted = _counted(scores)
    ids = list(counted) or list(about)
    least = min((problem.attempts for problem in counted.values() if problem.attempts), default=1)
    rows = [_row(f"pass@{k}", ids, counted, k) for k in KS if k <= least]
    rows.append(_row(CLEAN, [key for key in ids if key not in ERRATA], counted, 1))
    groups = [_groups(ids, {key: kind(about[key]) for key in ids if key in about}) for kind in _KINDS]
    for difficulty, members in groups[0].items():
        rows += [_row(_named(difficulty, k), members, counted, k) for k in KS if k <= least]
    rows += [_row(name, members, counted, 1) for group in groups[1:] for name, members in group.items()]
    return tuple(rows)


_KINDS = (lambda about: about.difficulty, lambda about: about.platform, lambda about: about.quarter)


def _named(difficulty: str, k: int) -> str:
    return difficulty if k == 1 else f"{difficulty} pass@{k}"


def _counted(scores: Iterable[TaskScore]) -> dict[str, Counted]:
    seen: dict[str, list[bool]] = defaultdict(list)
    for score in scores:
        found = seen[score.task.id]
        if score.score is not None:
            found.append(score.score == 1.0)
    return {key: Counted(len(found), sum(found)) for key, found in sorted(seen.items())}


_ORDER = ("easy", "medium", "hard")


def _groups(ids: Iterable[str], names: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for key in ids:
        if names.get(key):
            found[names[key]].append(key)
    return {name: found[name] for name in sorted(found, key=lambda name: (*_rank(name), name))}


def _rank(name: str) -> tuple[int]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER),)


def _row(name: str, ids: Sequence[str], counted: Mapping[str, Counted], k: int) -> Score:
    known = [counted[key] for key in ids if key in counted and counted[key].attempts]
    values = [pass_at_k(problem.attempts, problem.passed, k) for problem in known]
    return Score(name, sum(values) / len(values) if values else None, len(ids), len(values))
