"""Which entries may be ranked together, and in which order."""

from evaluators.leaderboard import Entry, by_benchmark, differences, ranked, varying
from evaluators.scores import AgentScores, Cell, Denominators, Estimate, GraderScores


def grader(value: float | None, *ids: str) -> GraderScores:
    return GraderScores(
        ids=ids,
        table=(Cell(name="overall", n=4, graded=4, estimate=Estimate(value=value)),),
        mean=Estimate(value=value),
        lead=Estimate(value=value),
        missing_as_zero=value,
        without_unwinnable=None,
        attempts=None,
    )


def entry(
    agent: str,
    value: float | None,
    *,
    run: str = "r1",
    benchmark: str = "b",
    tasks: str = "digest-1",
    data: str = "data-1",
    official: str = "official@1",
    strict: str = "strict@1",
    whole: bool = True,
    missing: int = 0,
    settings: dict[str, str] | None = None,
) -> Entry:
    scores = AgentScores(
        benchmark=benchmark,
        agent=agent,
        headline="overall",
        denominators=Denominators(planned=4, ended=4 - missing, agent_failed=0, missing=missing, not_started=0),
        tasks=4,
        benchmark_tasks=4 if whole else 9,
        whole=whole,
        lead="overall" if whole else "mean of the planned tasks",
        disagreements=0,
        attempts=1,
        unwinnable=(),
        data=(data,) if value is not None else (),
        graders={"official": grader(value, official), "strict": grader(value, strict)}
        if value is not None
        else {"official": grader(None), "strict": grader(None)},
    )
    return Entry(run=run, task_digest=tasks, scores=scores, settings=settings or {})


def test_the_best_comes_first_equals_share_a_rank_and_the_unscored_have_none() -> None:
    places = ranked([entry("c", None), entry("b", 0.5), entry("a", 0.5), entry("d", 0.9), entry("e", 0.1)])
    assert [(place.rank, place.entry.scores.agent) for place in places] == [
        (1, "d"), (2, "a"), (2, "b"), (4, "e"), (None, "c"),
    ]  # fmt: skip


def test_a_score_that_differs_by_rounding_alone_is_the_same() -> None:
    assert [place.rank for place in ranked([entry("a", 0.1 + 0.2), entry("b", 0.3), entry("c", 0.3 - 1e-9)])] == [
        1,
        1,
        3,
    ]


def test_an_unscored_entry_is_not_a_zero() -> None:
    places = ranked([entry("none", None), entry("zero", 0.0)])
    assert [(place.rank, place.entry.scores.agent) for place in places] == [(1, "zero"), (None, "none")]


def test_runs_alike_in_tasks_data_and_graders_do_not_differ() -> None:
    assert differences([entry("a", 0.5), entry("b", 0.4, run="r2")]) == []


def test_a_difference_is_named_with_both_sides_and_where_they_stand() -> None:
    rows = [entry("a", 0.5), entry("b", 0.4, run="r2", data="custom:12345678"), entry("c", 0.3, run="r3")]
    (sentence,) = differences(rows)
    assert sentence == "b: the runs differ in data: data-1 in r1, r3; custom:12345678 in r2."


def test_tasks_and_either_grader_count_too() -> None:
    rows = [entry("a", 0.5), entry("b", 0.4, run="r2", tasks="other", official="official@2", strict="strict@2")]
    assert [sentence.split(":")[1] for sentence in differences(rows)] == [
        " the runs differ in tasks", " the runs differ in official grader", " the runs differ in strict grader",
    ]  # fmt: skip


def test_benchmarks_are_compared_each_for_itself() -> None:
    rows = [entry("a", 0.5), entry("a", 0.5, benchmark="c", data="other", tasks="other")]
    assert differences(rows) == []
    assert list(by_benchmark(rows)) == ["b", "c"]


def test_an_entry_in_which_nothing_was_graded_says_nothing_of_data_and_graders() -> None:
    assert differences([entry("a", 0.5), entry("b", None, run="r2")]) == []


def test_who_is_owed_episodes_stands_below_the_others_without_a_rank() -> None:
    places = ranked([entry("none", None), entry("owed", 1.0, missing=1), entry("low", 0.1), entry("lower", 0.0)])
    assert [(place.rank, place.entry.scores.agent) for place in places] == [
        (1, "low"), (2, "lower"), (None, "owed"), (None, "none"),
    ]  # fmt: skip


def test_where_not_all_have_the_whole_split_means_are_ranked() -> None:
    part = entry("part", 0.5, whole=False)
    found = part.scores.graders["official"]
    better = found.model_copy(update={"mean": Estimate(value=0.9)})
    scores = part.scores.model_copy(update={"graders": {**part.scores.graders, "official": better}})
    places = ranked([entry("whole", 0.6), part.model_copy(update={"scores": scores})])
    assert [place.entry.scores.agent for place in places] == ["part", "whole"]


def test_settings_are_named_where_rows_differ_in_them_and_the_agents_own_only_within_an_agent() -> None:
    common = {"texts": "ours", "agent's model": "x"}
    rows = [
        entry("a", 0.5, settings={"mode": "fc", "agent's dtype": "bf16", **common}),
        entry("a", 0.5, settings={"mode": "prompt", "agent's dtype": "fp32", **common}),
        entry("b", 0.5, settings={"mode": "fc", **common, "agent's model": "y"}),
    ]
    assert varying(rows) == ["mode", "agent's dtype"]
    assert varying(rows[:1]) == []
