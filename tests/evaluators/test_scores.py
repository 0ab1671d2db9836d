"""Score tables: official aggregation, both denominators, intervals, attempts, unwinnable tasks."""

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.base import Benchmark, Score, TaskScore
from envs.bfcl.aggregate import PINNED_COUNTS, table
from evaluators.scores import AgentScores, EpisodeScore, Graded, State, episode_score, score_agent
from evaluators.statistics import wilson
from evaluators.tables import Table
from trajectories.schema import EpisodeKey, Failure, Task, Trajectory, Verdict

SIMULATIONS = int(os.environ.get("HARNESS_SIMULATIONS", "400"))


class Flat:
    """A benchmark whose table is the mean of its category means, then the categories; unrun ones count 0."""

    name = "flat"
    unwinnable: frozenset[str] = frozenset()

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def aggregate(self, scores: Sequence[TaskScore]) -> tuple[Score, ...]:
        cells = [self._cell(name, [each for each in scores if each.task.category == name]) for name in self.counts]
        overall = sum(cell.value or 0.0 for cell in cells) / len(cells)
        head = Score("overall", overall, sum(self.counts.values()), sum(cell.graded for cell in cells))
        return (head, *cells)

    def _cell(self, name: str, scores: Sequence[TaskScore]) -> Score:
        found: dict[str, list[float]] = {}
        for each in scores:
            if each.score is not None:
                found.setdefault(each.task.id, []).append(each.score)
        means = [sum(values) / len(values) for values in found.values()]
        return Score(name, sum(means) / len(means) if means else None, self.counts[name], len(means))


class Bfcl(Flat):
    name = "bfcl-v3"

    def aggregate(self, scores: Sequence[TaskScore]) -> tuple[Score, ...]:
        return table(scores, self.counts)


def task(category: str, index: int, cluster: str = "") -> Task:
    task_id = f"{category}_{index}"
    return Task(
        benchmark="flat", id=task_id, category=category, split="test", cluster=cluster or task_id, digest=task_id
    )


def episode(task_id: str, score: float | None = 1.0, attempt: int = 0, state: State = "ended") -> EpisodeScore:
    graded = {} if score is None else {name: Graded(score, score == 1.0) for name in ("official", "strict")}
    return EpisodeScore(task_id, attempt, state, graded, {"official": "official@1", "strict": "strict@1"}, "data-1")


def missing(task_id: str, attempt: int = 0) -> EpisodeScore:
    return episode(task_id, None, attempt, "missing")


def scored(
    benchmark: Flat, tasks: Sequence[Task], episodes: Iterable[EpisodeScore], attempts: int = 1, seed: int = 1
) -> AgentScores:
    return score_agent(cast("Benchmark", benchmark), "a", tasks, attempts, episodes, seed=seed)


ONE = Flat({"c": 100})
HUNDRED = [task("c", index) for index in range(100)]


def test_errored_episodes_do_not_vanish_from_the_denominator() -> None:
    """The complaint of inspect_ai#3707: 80 right of 100 with 10 errors read 88.9 % and nothing beside it."""
    episodes = [episode(each.id, float(index < 80)) for index, each in enumerate(HUNDRED[:90])]
    found = scored(ONE, HUNDRED, [*episodes, *(missing(each.id) for each in HUNDRED[90:])])
    official = found.graders["official"]
    assert official.table[0].estimate.value == pytest.approx(80 / 90)
    assert official.missing_as_zero == pytest.approx(0.8)
    assert found.denominators.model_dump() == {
        "planned": 100, "ended": 90, "agent_failed": 0, "missing": 10, "not_started": 0,
    }  # fmt: skip
    assert (official.table[0].n, official.table[0].graded) == (100, 90)


def test_an_agent_failure_scores_zero_and_stays_in_the_denominator() -> None:
    episodes = [episode(each.id, 1.0) for each in HUNDRED[:80]]
    failed = [episode(each.id, 0.0, state="agent_failed") for each in HUNDRED[80:]]
    found = scored(ONE, HUNDRED, episodes + failed)
    assert found.graders["official"].table[0].estimate.value == pytest.approx(0.8)
    assert found.graders["official"].missing_as_zero == pytest.approx(0.8)
    assert (found.denominators.agent_failed, found.denominators.missing) == (20, 0)


def test_an_empty_run_has_no_score_and_says_that_nothing_was_started() -> None:
    found = scored(ONE, HUNDRED, [])
    official = found.graders["official"]
    assert found.denominators.not_started == 100
    assert official.table[1].estimate.value is None
    assert official.table[1].estimate.low is None
    assert official.mean.value is None
    assert official.ids == ()


def test_a_run_that_failed_by_our_side_alone_has_no_score_either() -> None:
    found = scored(ONE, HUNDRED, [missing(each.id) for each in HUNDRED])
    assert found.denominators.missing == 100
    assert found.graders["strict"].table[1].estimate.value is None
    assert found.graders["strict"].missing_as_zero == 0


def test_one_task_has_a_score_and_no_interval() -> None:
    found = scored(Flat({"c": 1}), [task("c", 0)], [episode("c_0")])
    head = found.graders["official"].table[0].estimate
    assert (head.value, head.low, head.high) == (1.0, None, None)


def test_a_category_of_independent_tasks_has_wilsons_interval() -> None:
    found = scored(ONE, HUNDRED, [episode(each.id, float(index < 30)) for index, each in enumerate(HUNDRED)])
    cell = found.graders["official"].table[1].estimate
    assert (cell.low, cell.high) == pytest.approx(tuple(wilson(30, 100)))


def test_clusters_widen_the_interval() -> None:
    clustered = [task("c", index, f"k{index // 10}") for index in range(100)]
    episodes = [episode(each.id, float(index // 10 % 2)) for index, each in enumerate(HUNDRED)]
    alone, together = (scored(ONE, tasks, episodes).graders["official"].mean for tasks in (HUNDRED, clustered))
    assert alone.value == together.value == 0.5
    assert _width(together) > 2 * _width(alone)


def _width(estimate: Any) -> float:
    return estimate.high - estimate.low


def test_the_mean_over_attempts_of_each_task_counts_and_missing_attempts_do_not() -> None:
    tasks = HUNDRED[:2]
    episodes = [episode("c_0", 1.0), episode("c_0", 0.0, 1), episode("c_1", 1.0), missing("c_1", 1)]
    found = scored(ONE, tasks, episodes, attempts=2)
    assert found.graders["official"].mean.value == pytest.approx(0.75)
    assert found.graders["official"].missing_as_zero == pytest.approx(0.5)
    assert found.denominators.planned == 4


def test_pass_at_k_is_given_for_several_attempts_with_the_tasks_that_have_enough() -> None:
    tasks = HUNDRED[:2]
    episodes = [episode("c_0", 1.0), episode("c_0", 0.0, 1), episode("c_1", 1.0), missing("c_1", 1)]
    (two,) = scored(ONE, tasks, episodes, attempts=2).graders["official"].pass_at_k
    assert (two.k, two.tasks, two.any.value, two.all.value) == (2, 1, 1.0, 0.0)


@pytest.mark.parametrize(("attempts", "ks"), [(2, [2]), (3, [2, 3]), (8, [2, 4, 8]), (10, [2, 4, 8, 10])])
def test_many_attempts_are_shown_for_powers_of_two_and_all(attempts: int, ks: list[int]) -> None:
    episodes = [episode("c_0", float(k == 0), k) for k in range(attempts)]
    found = scored(ONE, HUNDRED[:2], episodes, attempts=attempts).graders["official"].pass_at_k
    assert [each.k for each in found] == ks
    assert [each.any.value for each in found] == pytest.approx([k / attempts for k in ks])


def test_one_attempt_has_no_pass_at_k_and_no_interval_over_attempts() -> None:
    official = scored(ONE, HUNDRED, [episode(each.id) for each in HUNDRED]).graders["official"]
    assert official.pass_at_k == ()
    assert official.attempts is None


def test_the_interval_over_attempts_is_narrow_where_attempts_agree() -> None:
    agreeing = [episode(each.id, float(index < 50), k) for index, each in enumerate(HUNDRED) for k in range(3)]
    differing = [episode(each.id, float((index + k) % 2), k) for index, each in enumerate(HUNDRED) for k in range(3)]
    still, noisy = (
        scored(ONE, HUNDRED, each, attempts=3).graders["official"].attempts for each in (agreeing, differing)
    )
    assert still is not None
    assert noisy is not None
    assert (still.low, still.high) == (0.5, 0.5)
    assert _width(noisy) > 0.05


def test_unwinnable_tasks_are_named_and_the_headline_is_given_without_them() -> None:
    benchmark = Flat({"c": 4, "d": 2})
    benchmark.unwinnable = frozenset({"c_0", "c_9"})
    tasks = [task("c", index) for index in range(4)] + [task("d", index) for index in range(2)]
    found = scored(benchmark, tasks, [episode(each.id, float(each.id not in {"c_0", "d_0"})) for each in tasks])
    assert found.unwinnable == ("c_0",)
    assert found.graders["official"].table[0].estimate.value == pytest.approx((0.75 + 0.5) / 2)
    assert found.graders["official"].without_unwinnable == pytest.approx((1.0 + 0.5) / 2)


def test_a_part_of_the_benchmark_shows_both_the_official_headline_and_the_mean_of_what_was_planned() -> None:
    benchmark = Flat({"c": 100, "d": 100})
    found = scored(benchmark, HUNDRED[:10], [episode(each.id) for each in HUNDRED[:10]])
    assert (found.tasks, found.benchmark_tasks) == (10, 200)
    assert found.graders["official"].table[0].estimate.value == 0.5
    assert found.graders["official"].mean.value == 1.0


def test_the_headline_leads_only_where_the_whole_split_was_planned() -> None:
    benchmark = Flat({"c": 10, "d": 10})
    tasks = [task(name, index) for name in ("c", "d") for index in range(10)]
    episodes = [episode(each.id, float(each.category == "c")) for each in tasks]
    whole, part = scored(benchmark, tasks, episodes), scored(benchmark, tasks[:15], episodes)
    assert (whole.whole, whole.lead, whole.graders["official"].lead.value) == (True, "overall", 0.5)
    assert (part.whole, part.lead) == (False, "mean of the planned tasks")
    assert part.graders["official"].lead == part.graders["official"].mean
    assert part.graders["official"].lead.value == pytest.approx(10 / 15)
    beyond = score_agent(cast("Benchmark", benchmark), "a", tasks, 1, episodes, seed=1, split_tasks=21)
    assert (beyond.whole, beyond.benchmark_tasks) == (False, 21)


def test_all_that_is_said_of_a_part_is_said_of_its_planned_tasks() -> None:
    benchmark = Flat({"c": 100, "d": 100})
    benchmark.unwinnable = frozenset({"c_3"})
    scores = [(1.0, 0.0), (1.0, 1.0), (0.0, 0.0), (0.0, 0.0)]
    episodes = [episode(f"c_{index}", score, k) for index, pair in enumerate(scores) for k, score in enumerate(pair)]
    found = scored(benchmark, HUNDRED[:5], [*episodes, missing("c_4"), missing("c_4", 1)], attempts=2).graders[
        "official"
    ]
    assert found.lead.value == pytest.approx(3 / 8)
    assert found.missing_as_zero == pytest.approx(3 / 10)
    assert found.without_unwinnable == pytest.approx(3 / 6)
    assert (found.pass_at_k[0].any.value, found.pass_at_k[0].all.value) == (0.5, 0.25)
    assert found.attempts is not None
    assert found.attempts.value == pytest.approx(3 / 8)
    assert (found.attempts.low or 0) < 3 / 8 < (found.attempts.high or 0) < 0.7


def test_episodes_on_which_the_graders_differ_are_counted_though_the_means_are_equal() -> None:
    def differing(task_id: str, official: float) -> EpisodeScore:
        graded = {"official": Graded(official, official == 1), "strict": Graded(1 - official, official == 0)}
        return episode(task_id)._replace(by_grader=graded)

    found = scored(ONE, HUNDRED[:3], [differing("c_0", 1.0), differing("c_1", 0.0), episode("c_2")])
    assert found.graders["official"].mean.value == found.graders["strict"].mean.value
    assert found.disagreements == 2


def test_episodes_that_were_not_planned_are_left_aside_and_the_order_is_of_no_effect() -> None:
    episodes = [episode(each.id, float(index % 3 == 0)) for index, each in enumerate(HUNDRED)]
    strangers = [episode("c_1", 0.0, attempt=7), episode("other")]
    assert scored(ONE, HUNDRED, episodes) == scored(ONE, HUNDRED, [*strangers, *reversed(episodes)])


class Best(Flat):
    """A table that is no function of category means."""

    def aggregate(self, scores: Sequence[TaskScore]) -> tuple[Score, ...]:
        values = [each.score for each in scores if each.score is not None]
        return (Score("best", max(values) if values else None, len(scores), len(values)),)


def test_a_table_that_is_no_function_of_category_means_gets_no_interval() -> None:
    tasks = HUNDRED[:10]
    head = scored(Best({}), tasks, [episode(each.id, index / 10) for index, each in enumerate(tasks)])
    estimate = head.graders["official"].table[0].estimate
    assert (estimate.value, estimate.low) == (0.9, None)


BFCL_TASKS = [
    task(category, index, f"multi_turn_{index}" if category.startswith("multi_turn") else "")
    for category, n in PINNED_COUNTS.items()
    for index in range(n)
]


def test_bfcl_is_scored_with_its_floor_and_intervals_in_a_few_seconds_of_cpu() -> None:
    episodes = [episode(each.id, float("irrelevance" in each.category)) for each in BFCL_TASKS]
    start = time.process_time()
    found = scored(Bfcl(PINNED_COUNTS), BFCL_TASKS, episodes)
    assert time.process_time() - start < 8
    head = found.graders["official"].table[0].estimate
    assert f"{100 * (head.value or 0):.2f}" == "19.73"
    assert (found.tasks, found.benchmark_tasks) == (4441, 4441)


def test_the_interval_of_bfcls_headline_is_that_of_its_weighted_sum() -> None:
    rng = np.random.default_rng(5)
    episodes = [episode(each.id, float(rng.random() < 0.5)) for each in BFCL_TASKS]
    independent = [each.model_copy(update={"cluster": each.id}) for each in BFCL_TASKS]
    estimate = scored(Bfcl(PINNED_COUNTS), independent, episodes).graders["official"].table[0].estimate
    live = 1 / 9 / 2251
    weights = {name: 1 / 12 / 200 for name in PINNED_COUNTS if name.startswith("multi_turn")}
    weights |= {name: live for name in PINNED_COUNTS if name.startswith("live")}
    variance = 0.25 / 9 * (1 / 2251 + (1 / 16) * 4 / 200)
    variance += 0.25 / 9 / 25 * (1 / 200 * 3 + 1 / 240 + (1 / 400 + 1 / 100 + 1 / 50) / 9)
    assert _width(estimate) == pytest.approx(2 * 1.96 * variance**0.5, rel=0.06)


@pytest.mark.study
def test_the_interval_of_a_mean_of_category_means_covers_the_truth_about_95_times_in_100() -> None:
    """Two categories share their clusters (one scenario in two variants), a third is apart and larger."""
    rng = np.random.default_rng(21)
    tasks = [task("a", index) for index in range(120)]
    tasks += [task(name, index, f"scenario_{index}") for name in ("b", "c") for index in range(60)]
    benchmark = cast("Benchmark", Flat({"a": 120, "b": 60, "c": 60}))
    table_of = Table(benchmark, tasks, frozenset(each.id for each in tasks), seed=1)
    hits = 0
    for _ in range(SIMULATIONS):
        scenario = rng.beta(1, 2, 60)
        chances = np.concatenate([np.full(120, 0.6), scenario, scenario])
        _, interval = table_of.headline(rng.binomial(1, chances).astype(float))
        assert interval is not None
        hits += interval.low <= (0.6 + 1 / 3 + 1 / 3) / 3 <= interval.high
    print(f"mean of category means: the interval covers the truth in {hits / SIMULATIONS:.3f} of {SIMULATIONS}")
    assert 0.92 <= hits / SIMULATIONS <= 0.98


KEY = EpisodeKey(
    task=task("c", 0), env_version="1", env_settings={}, agent="a", agent_config={}, seed=0, attempt=2
)  # fmt: skip


def trajectory(**fields: Any) -> Trajectory:
    return Trajectory(id=KEY.trajectory_id(), key=KEY, data="data-1", **fields)


def test_a_trajectory_becomes_the_state_that_its_failure_says() -> None:
    verdicts = {"official": Verdict(grader="official@1", passed=True, score=1.0)}
    ended = episode_score(trajectory(ended="terminated", verdicts=verdicts))
    agent = episode_score(trajectory(ended="failed", failure=Failure(boundary="agent", kind="E", message="")))
    ours = episode_score(trajectory(ended="failed", failure=Failure(boundary="sandbox", kind="E", message="")))
    assert (ended.state, ended.attempt, ended.by_grader["official"]) == ("ended", 2, Graded(1.0, True))
    assert (agent.state, agent.by_grader["strict"]) == ("agent_failed", Graded(0.0, False))
    assert (ours.state, ours.by_grader) == ("missing", {})
    assert ended.grader_ids == {"official": "official@1"}


STATES = st.sampled_from(["right", "wrong", "agent_failed", "missing", "not_started"])


@settings(max_examples=30, deadline=None)
@given(st.lists(STATES, min_size=1, max_size=12))
def test_the_states_always_add_up_and_the_headline_is_bounded_by_what_is_missing(states: list[str]) -> None:
    tasks = HUNDRED[: len(states)]
    episodes = [_made(each.id, state) for each, state in zip(tasks, states, strict=True) if state != "not_started"]
    found = scored(Flat({"c": len(states)}), tasks, episodes)
    counts = found.denominators
    assert counts.planned == counts.ended + counts.agent_failed + counts.missing + counts.not_started == len(states)
    official = found.graders["official"]
    assert official.missing_as_zero == pytest.approx(states.count("right") / len(states))
    value = official.table[1].estimate.value
    assert (value is None) == all(state in ("missing", "not_started") for state in states)
    assert value is None or value >= (official.missing_as_zero or 0) - 1e-12


def _made(task_id: str, state: str) -> EpisodeScore:
    if state in ("agent_failed", "missing"):
        return episode(task_id, None if state == "missing" else 0.0, state=cast("State", state))
    return episode(task_id, float(state == "right"))
