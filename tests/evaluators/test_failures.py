"""Tables of endings and failures."""

from typing import Any

from evaluators.failures import end_of, endings, failure_groups
from trajectories.schema import EpisodeKey, Failure, Task, Trajectory


def trajectory(index: int, boundary: Any = None, kind: str = "ValueError", **fields: Any) -> Trajectory:
    task = Task(benchmark="b", id=f"t_{index}", category="c", split="test", cluster=f"t_{index}", digest="0")
    key = EpisodeKey(task=task, env_version="1", env_settings={}, agent="a", agent_config={}, seed=0, attempt=0)
    failure = Failure(boundary=boundary, kind=kind, message=f"broke {index}") if boundary else None
    ended = fields.pop("ended", "failed" if failure else "terminated")
    return Trajectory(id=key.trajectory_id(), key=key, ended=ended, failure=failure, **fields)


EPISODES = [
    trajectory(4, "agent"),
    trajectory(1, "agent"),
    trajectory(2, "agent"),
    trajectory(3, "agent"),
    trajectory(5, "infrastructure"),
    trajectory(6, "agent", "KeyError"),
    trajectory(7),
    trajectory(8, ended="truncated", limit="max_steps"),
]


def test_failures_are_grouped_by_boundary_and_kind_with_the_first_as_examples() -> None:
    groups = failure_groups(map(end_of, EPISODES))
    assert [(group.boundary, group.kind, group.count) for group in groups] == [
        ("agent", "ValueError", 4), ("agent", "KeyError", 1), ("infrastructure", "ValueError", 1),
    ]  # fmt: skip
    assert [example.task for example in groups[0].examples] == ["t_1", "t_2", "t_3"]
    assert groups[0].examples[0].trajectory == trajectory(1).id
    assert groups[0].message == "broke 1"


def test_the_order_of_episodes_is_of_no_effect() -> None:
    assert failure_groups(map(end_of, EPISODES)) == failure_groups(map(end_of, reversed(EPISODES)))
    assert endings(map(end_of, EPISODES)) == endings(map(end_of, reversed(EPISODES)))


def test_endings_name_the_limit_and_the_boundary() -> None:
    found = {ending.name: ending.episodes for ending in endings(map(end_of, EPISODES))}
    assert found == {
        "failed: agent": 5, "failed: infrastructure": 1, "terminated": 1, "truncated by max_steps": 1,
    }  # fmt: skip


def test_nothing_recorded_gives_empty_tables() -> None:
    assert endings([]) == ()
    assert failure_groups([]) == ()
