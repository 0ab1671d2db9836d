"""BFCL-v3's score table (spec A3.4): upstream's unequal weights, reproduced.

Source: `generate_leaderboard_csv` of the wheel. A category that was not run counts 0 in every group, with its number of
tasks from the data; the floor is therefore 19.73 % for an agent that answers nothing. Where only some tasks of a
category have a verdict, its accuracy is over those, while upstream can't score it at all; several attempts at a task count
by their mean.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from envs.base import Score, TaskScore, task_means

PINNED_COUNTS = {
    "simple": 400, "multiple": 200, "parallel": 200, "parallel_multiple": 200, "java": 100, "javascript": 50,
    "irrelevance": 240, "live_simple": 258, "live_multiple": 1053, "live_parallel": 16, "live_parallel_multiple": 24,
    "live_irrelevance": 882, "live_relevance": 18, "multi_turn_base": 200, "multi_turn_miss_func": 200,
    "multi_turn_miss_param": 200, "multi_turn_long_context": 200,
}  # fmt: skip
"""Tasks a category in the pinned data, for where no data is at hand."""


class Group(NamedTuple):
    """The mean of its parts (categories or other groups), weighted by their numbers of tasks or not."""

    parts: tuple[str, ...]
    weighted: bool = False


GROUPS: Mapping[str, Group] = {
    "simple_ast": Group(("simple", "java", "javascript")),
    "non_live_ast": Group(("simple_ast", "multiple", "parallel", "parallel_multiple")),
    "non_live": Group(("simple_ast", "multiple", "parallel", "parallel_multiple", "irrelevance")),
    "live_ast": Group(("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"), weighted=True),
    "live": Group(
        ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple", "live_irrelevance", "live_relevance"),
        weighted=True,
    ),
    "multi_turn": Group(("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")),
    "all_irrelevance": Group(("irrelevance", "live_irrelevance")),
    "overall": Group(("live", "non_live", "multi_turn")),
}  # fmt: skip
"""In an order in which each group follows its parts."""

ORDER = ("overall", "non_live", "live", "multi_turn", "non_live_ast", "simple_ast", "live_ast", "all_irrelevance")


def table(scores: Sequence[TaskScore], counts: Mapping[str, int]) -> tuple[Score, ...]:
    """`overall` first, then the groups, then the categories of `counts` (its tasks by category)."""
    cells = {name: Score(name, None, n, 0) for name, n in counts.items()}
    for category, values in task_means(scores).items():
        value = sum(values) / len(values) if values else None
        cells[category] = Score(category, value, counts.get(category, len(values)), len(values))
    for name, group in GROUPS.items():
        cells[name] = _mean(name, [cells.get(part, Score(part, None, 0, 0)) for part in group.parts], group.weighted)
    return tuple(cells[name] for name in (*ORDER, *(name for name in cells if name not in GROUPS)))


def _mean(name: str, parts: Sequence[Score], weighted: bool) -> Score:
    n, graded = sum(part.n for part in parts), sum(part.graded for part in parts)
    if all(part.value is None for part in parts):
        return Score(name, None, n, graded)
    weights = [part.n if weighted else 1 for part in parts]
    total = sum(weight * (part.value or 0.0) for weight, part in zip(weights, parts, strict=True))
    return Score(name, total / sum(weights), n, graded)
