"""Tables of endings and failures."""

from typing import Any

from evaluators.failures import end_of, endings, error_types, failure_groups
from trajectories.schema import EpisodeKey, Failure, Task, Trajectory, Verdict


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


def test_why_graders_failed_what_ended_is_counted_by_error_type_and_grader() -> None:
    def verdict(passed: bool, **detail: Any) -> Verdict:
        return Verdict(grader="g@1", passed=passed, score=float(passed), detail=detail)

    wrong, unnamed, right = verdict(False, error_type="wrong_count"), verdict(False, error_type=3), verdict(True)
    episodes = [
        trajectory(1, verdicts={"official": wrong, "strict": wrong}),
        trajectory(2, verdicts={"official": right, "strict": wrong}),
        trajectory(3, verdicts={"official": unnamed, "strict": right}),
        trajectory(4, "agent"),
    ]
    found = [(each.name, each.episodes) for each in error_types(map(end_of, episodes))]
    assert found == [("wrong_count", {"official": 1, "strict": 2}), ("not passed", {"official": 1})]


def test_nothing_recorded_gives_empty_tables() -> None:
    assert endings([]) == ()
    assert failure_groups([]) == ()
