"""EvalPlus' score table: pass@1 of HumanEval+ and MBPP+, each over all its tasks, and their mean over tasks as the headline.

A task counts by the mean of its attempts, which is upstream's pass@1 estimate. Upstream has no number for both data sets together; our
headline is over all tasks of the split.
"""

from collections.abc import Mapping, Sequence

from envs.base import Score, TaskScore, task_means

HEADLINE = "pass@1"


def table(scores: Sequence[TaskScore], counts: Mapping[str, int]) -> tuple[Score, ...]:
    """The headline, then each category of `counts` (tasks by category)."""
    means = task_means(scores)
    cells = [_cell(category, means.get(category, []), n) for category, n in counts.items()]
    everything = [value for values in means.values() for value in values]
    return (_cell(HEADLINE, everything, sum(counts.values())), *cells)


def _cell(name: str, values: Sequence[float], n: int) -> Score:
    return Score(name, sum(values) / len(values) if values else None, n, len(values))
