"""EvalPlus' graders on what is known: the reference solutions, and six official result files of three models.

By default a seeded part; `HARNESS_EVALPLUS=full` takes all 542 reference solutions and all 1,626 rows (a quarter of an hour), and
`HARNESS_EVALPLUS_SANDBOX=docker` another jail.
"""

import gzip
import json
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from evalplus_oracle import ask

from envs import judging
from envs.evalplus import grading
from envs.evalplus.problems import TEST_SETS, Problem, load

FULL = os.environ.get("HARNESS_EVALPLUS") == "full"
SANDBOX = os.environ.get("HARNESS_EVALPLUS_SANDBOX", "local")
SLOW = frozenset(
    ("HumanEval/15", "HumanEval/36", "HumanEval/59", "HumanEval/83", "HumanEval/94", "HumanEval/130", "HumanEval/139", "Mbpp/59", "Mbpp/71",
     "Mbpp/84", "Mbpp/123", "Mbpp/255", "Mbpp/271", "Mbpp/300", "Mbpp/389", "Mbpp/392", "Mbpp/559", "Mbpp/583", "Mbpp/589", "Mbpp/592",
     "Mbpp/599", "Mbpp/603", "Mbpp/630", "Mbpp/739", "Mbpp/770", "Mbpp/781")
)  # fmt: skip
"""Tasks whose reference, or whose peers' solutions, take seconds: left to the full form."""

MODELS = {
    "Llama-3-8B": "meta-llama--Meta-Llama-3-8B_vllm",
    "Llama-3-8B-Instruct": "Meta-Llama-3-8B-Instruct",
    "Mistral-7B": "Mistral-7B",
}
EXPLAINED = {
    # Upstream's own wheel passes it (`test_upstream_itself_passes_...`): 102 additions. The machine that recorded it ran out of its
    # second (the wheel's limit of that time).
    ("Llama-3-8B", "Mbpp/566", "plus"): ("fail", "pass"),
}
"""(model, task, tests) -> (recorded, ours): each row where we differ, with the proven cause."""
BY_SPEED = {
    # Each was recorded as failed on a machine, and by a version, whose limits it broke (1 s a call, 60 s in all); here it may be in time.
    ("Llama-3-8B", "HumanEval/31", "plus"),  # trial division of a prime by every number
    (
        "Llama-3-8B",
        "Mbpp/583",
        "plus",
    ),  # Catalan numbers by plain recursion, as the reference, which takes 20 s for one of them
}
"""Rows whose recorded verdict, a failure, was a matter of time."""


class Row(NamedTuple):
    model: str
    problem: Problem
    solution: str
    recorded: dict[str, str]


@pytest.fixture(scope="module", autouse=True)
def sandbox() -> Iterator[None]:
    judging.use_sandbox(SANDBOX, 2)
    yield
    judging.close()


@pytest.fixture(scope="module")
def problems(evalplus_data: Path) -> dict[str, Problem]:
    return dict(load("test").problems)


def recorded(folder: Path, problems: dict[str, Problem]) -> Iterator[Row]:
    for path in sorted((folder / "evalplus" / "samples").glob("*.json.gz")):
        model = next(name for name, part in MODELS.items() if part in path.name)
        for task_id, attempts in json.loads(gzip.decompress(path.read_bytes()))["eval"].items():
            for attempt in attempts:
                statuses = {tests: attempt[f"{tests}_status"] for tests in TEST_SETS}
                yield Row(model, problems[task_id], attempt["solution"], statuses)


def part(items: list[Any], count: int, task_of: Any) -> list[Any]:
    return items if FULL else random.Random(11).sample([item for item in items if task_of(item) not in SLOW], count)


@pytest.mark.study
@pytest.mark.timeout(3600)
def test_every_reference_solution_passes_both_sets_by_both_graders(problems: dict[str, Problem]) -> None:
    chosen = part(list(problems.values()), 120, lambda problem: problem.id)
    assert not FULL or len(chosen) == 164 + 378

    def failed(problem: Problem) -> Any:
        found = grading.verdicts(problem, problem.reference, "data")
        return {name: verdict.detail for name, verdict in found.items() if not verdict.passed}

    with ThreadPoolExecutor(2) as threads:
        failures = dict(zip((problem.id for problem in chosen), threads.map(failed, chosen), strict=True))
    assert {task_id: detail for task_id, detail in failures.items() if detail} == {}


@pytest.mark.study
@pytest.mark.timeout(7200)
def test_official_agrees_with_every_recorded_verdict_but_those_explained(
    shared_data: Path, problems: dict[str, Problem]
) -> None:
    rows = part(list(recorded(shared_data, problems)), 250, lambda row: row.problem.id)
    assert not FULL or len(rows) == 1626

    def differences(row: Row) -> dict[tuple[str, str, str], tuple[str, Any]]:
        ours = grading.verdicts(row.problem, row.solution, "data", ("official",))["official"].detail
        return {
            (row.model, row.problem.id, tests): (row.recorded[tests], ours[tests])
            for tests in TEST_SETS
            if ours[tests] != row.recorded[tests]
        }

    with ThreadPoolExecutor(2) as threads:
        found = {key: value for each in threads.map(differences, rows) for key, value in each.items()}
    chosen = {(row.model, row.problem.id) for row in rows}
    assert {key: found.pop(key) for key in BY_SPEED & set(found)}.items() <= dict.fromkeys(
        BY_SPEED, ("fail", "pass")
    ).items()
    assert found == {key: value for key, value in EXPLAINED.items() if key[:2] in chosen}


def test_upstream_fails_what_is_a_matter_of_speed_by_its_time_limit_alone(
    shared_data: Path, problems: dict[str, Problem]
) -> None:
    (row,) = (
        row for row in recorded(shared_data, problems) if (row.model, row.problem.id) == ("Llama-3-8B", "HumanEval/31")
    )
    files = [str(shared_data / "evalplus" / "HumanEvalPlus-v0.1.10.jsonl.gz")]
    for least_s, plus in ((0.005, {"fail", "timeout"}), (30.0, {"pass"})):
        (answer,) = ask(do="check", data=files, held=[[]], least_s=least_s, rows=[[row.problem.id, row.solution]])
        assert answer["verdicts"][0][1] in plus


def test_upstream_itself_passes_what_is_recorded_as_failed_and_passes_here(
    shared_data: Path, problems: dict[str, Problem]
) -> None:
    rows = [
        row
        for row in recorded(shared_data, problems)
        for (model, task, _) in EXPLAINED
        if (row.model, row.problem.id) == (model, task)
    ]
    assert len(rows) == len(EXPLAINED)
    files = [
        str(shared_data / "evalplus" / name) for name in ("HumanEvalPlus-v0.1.10.jsonl.gz", "MbppPlus-v0.2.0.jsonl.gz")
    ]
    (answer,) = ask(
        do="check", data=files, held=[[]], least_s=4.0, rows=[[row.problem.id, row.solution] for row in rows]
    )
    assert answer["verdicts"] == [["pass", "pass"]] * len(rows)
    for row in rows:
        assert grading.verdicts(row.problem, row.solution, "data")["official"].detail == {
            "base": "pass",
            "plus": "pass",
        }
