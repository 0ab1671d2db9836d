"""The score table against `generate_leaderboard_csv` of the wheel, on synthetic result sets."""

import random
from typing import Any

import pytest

from envs.base import TaskScore
from envs.bfcl.aggregate import PINNED_COUNTS, table
from trajectories.schema import Task

COLUMNS = {
    ("data_overall.csv", "Overall Acc"): "overall",
    ("data_overall.csv", "Non-Live AST Acc"): "non_live_ast",
    ("data_overall.csv", "Non-Live Simple AST"): "simple_ast",
    ("data_overall.csv", "Live Acc"): "live",
    ("data_overall.csv", "Multi Turn Acc"): "multi_turn",
    ("data_overall.csv", "Irrelevance Detection"): "all_irrelevance",
    ("data_overall.csv", "Relevance Detection"): "live_relevance",
    ("data_non_live.csv", "Non_Live Overall Acc"): "non_live",
    ("data_non_live.csv", "AST Summary"): "non_live_ast",
    ("data_live.csv", "Live Overall Acc"): "live",
    ("data_live.csv", "AST Summary"): "live_ast",
    ("data_multi_turn.csv", "Multi Turn Overall Acc"): "multi_turn",
    ("data_multi_turn.csv", "Base"): "multi_turn_base",
    ("data_multi_turn.csv", "Long Context"): "multi_turn_long_context",
}


def result_sets() -> dict[str, dict[str, float]]:
    """Category -> share that is right."""
    rng = random.Random(3)
    everything = {name: rng.random() for name in PINNED_COUNTS}
    return {
        "floor": {name: float("irrelevance" in name) for name in PINNED_COUNTS},
        "all right": dict.fromkeys(PINNED_COUNTS, 1.0),
        "random": everything,
        "multi-turn alone": {name: value for name, value in everything.items() if name.startswith("multi_turn")},
        "holes": {
            name: value for name, value in everything.items() if name not in ("java", "live_parallel", "irrelevance")
        },
    }


def scored(shares: dict[str, float]) -> list[TaskScore]:
    return [
        TaskScore(
            Task(benchmark="bfcl-v3", id=f"{name}_{i}", category=name, split="test", cluster="c", digest="d"),
            0,
            float(i < round(share * PINNED_COUNTS[name])),
        )
        for name, share in shares.items()
        for i in range(PINNED_COUNTS[name])
    ]


@pytest.mark.parametrize("name", result_sets())
def test_the_table_equals_upstreams(oracle: Any, name: str) -> None:
    scores = scored(result_sets()[name])
    ours = {score.name: score for score in table(scores, PINNED_COUNTS)}
    accuracies = {score.name: score for score in ours.values() if score.name in PINNED_COUNTS and score.graded}
    asked = {category: {"accuracy": score.value, "total_count": score.graded} for category, score in accuracies.items()}
    (theirs,) = oracle.ask("aggregate", [{"scores": asked}])
    for (file, column), cell in COLUMNS.items():
        shown = theirs[file][column]
        if shown != "N/A":  # upstream shows no sub-column of which a part is missing
            assert shown == f"{(ours[cell].value or 0) * 100:.2f}%", (file, column)
