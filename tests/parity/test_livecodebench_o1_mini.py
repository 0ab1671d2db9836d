"""A peer's recorded verdicts: O1-Mini's code for release_v5, on the 737 assembled records, by both graders.

What was graded "pass" has to pass every test that its record has, and what was graded "fail" has to fail where the record has the very test that
it failed; in `official` with the same error code. The records stand in for the private tests, so nothing is claimed of a failure whose test
they lack. The verdicts were recorded by an earlier version of upstream's grader and on a machine whose standard input was open: each row that
comes out otherwise is named below with its cause.

By default a seeded part; HARNESS_LCB=full for all.
"""

import json
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from envs import judging
from envs.livecodebench import lines, official, strict
from envs.livecodebench.outcome import Ran
from envs.livecodebench.records import Problem, problem_of

EVAL_ALL = "O1-Mini-2024-09-12.Scenario.codegeneration_1_0.2_eval_all.json.gz"
OWN_FAILURE = "failing case in O1-Mini verdict"
PART = 120
"""Problems of the short form, beside all that are named below."""

SLOW_MACHINE_S = 30

OPEN_0 = {"abc315_b", "abc349_a", "abc359_b", "abc365_b"}
"""`open(0)`: recorded -3, since the recording machine's standard input never ended; the grader of today reads an empty one (Q4)."""

THREADS = {"abc368_f", "abc382_c"}
"""A thread that prints is not waited for: recorded -2, and -2 today; a real process ends when its threads have."""

READ_ALL_AGAIN = {"abc303_d", "abc338_d", "abc380_c"}
"""`read()` after `readline()`: recorded as passes, before upstream's mock of standard input gave the whole text each time."""

SPEED = {"3406", "abc301_e", "abc363_c"}
"""Recorded -3 (6 s). With time enough they pass (a test shows it), in 4 to 7 s where this was written: either verdict is right."""

MEMORY = {"abc361_f"}
"""Recorded -3; with more time it runs out of memory instead (-4)."""

BROKEN_RECORDS = {"3484"}
"""The assembled test lost the quotes of its expected text: no right answer passes it, for any grader."""


class Case(NamedTuple):
    """One recorded verdict and what it is about."""

    problem: Problem
    code: str
    passed: bool
    error_code: int | None
    has_its_failure: bool


@cache
def cases(folder: Path) -> dict[str, Case]:
    records = {record["question_id"]: record for _, record in lines.records(folder / "lcb_assembled.jsonl.gz")}
    rows = [row for _, row in lines.records(folder / EVAL_ALL)]
    return {
        row["question_id"]: _case(row, records[row["question_id"]]) for row in rows if row["question_id"] in records
    }


def _case(row: dict[str, Any], record: dict[str, Any]) -> Case:
    told = json.loads(row["metadata"][0])
    own = any(source.startswith(OWN_FAILURE) for source in record["_provenance"]["private"])
    return Case(
        problem_of(record, "assembled"), row["code_list"][0], row["graded_list"][0], told.get("error_code"), own
    )


def chosen(folder: Path) -> dict[str, Case]:
    every = cases(folder)
    if os.environ.get("HARNESS_LCB") == "full":
        return every
    some = set(random.Random(7).sample(sorted(every), PART)) | OPEN_0 | THREADS | READ_ALL_AGAIN | BROKEN_RECORDS
    return {key: case for key, case in every.items() if key in some}


@pytest.fixture(scope="module")
def graded(shared_data: Path) -> Iterator[dict[str, tuple[Case, Ran, Ran]]]:
    judging.use_sandbox("local", workers=2)
    some = chosen(shared_data / "livecodebench")
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(_both, some.values()))
    yield {key: (case, *ran) for (key, case), ran in zip(some.items(), found, strict=True)}
    judging.close()


def _both(case: Case) -> tuple[Ran, Ran]:
    """The recording machine's speed is not this one's: only what ran out of time there is held to the limit."""
    limit_s = 6 if case.error_code == -3 else SLOW_MACHINE_S
    with judging.lease() as worker:
        found = official.grade(worker, case.problem, case.code, limit_s)
    with judging.lease() as worker:
        return found, strict.grade(worker, case.problem, case.code, limit_s)


def test_the_other_143_problems_of_the_release_have_no_record(shared_data: Path) -> None:
    folder = shared_data / "livecodebench"
    rows = [row for _, row in lines.records(folder / EVAL_ALL)]
    assert (len(rows), len(cases(folder))) == (880, 737)


@pytest.mark.study
def test_what_was_graded_pass_passes_every_test(graded: dict[str, tuple[Case, Ran, Ran]]) -> None:
    passed = {key: found for key, found in graded.items() if found[0].passed}
    assert {key for key, (_, ran, _) in passed.items() if not ran.passed} == READ_ALL_AGAIN | BROKEN_RECORDS
    assert {key for key, (_, _, ran) in passed.items() if not ran.passed} == BROKEN_RECORDS
    assert len(passed) > 60
    print(f"\n{len(passed)} recorded passes")


@pytest.mark.study
def test_what_was_graded_fail_fails_its_recorded_test_with_the_same_code(
    graded: dict[str, tuple[Case, Ran, Ran]],
) -> None:
    failed = {key: found for key, found in graded.items() if not found[0].passed and found[0].has_its_failure}
    assert {key for key, (_, ran, _) in failed.items() if ran.passed} <= SPEED
    other = {key for key, (case, ran, _) in failed.items() if ran.error_code != case.error_code}
    assert other - SPEED - MEMORY == OPEN_0
    print(f"\n{len(failed)} recorded failures with their tests")


@pytest.mark.study
def test_the_six_artefacts_of_the_grader_fail_official_and_pass_strict(
    graded: dict[str, tuple[Case, Ran, Ran]],
) -> None:
    failed = {key: found for key, found in graded.items() if not found[0].passed and found[0].has_its_failure}
    assert {key for key, (_, _, ran) in failed.items() if ran.passed} - SPEED == OPEN_0 | THREADS
    for key in THREADS:
        assert graded[key][1].error_code == -2
    for key in OPEN_0:
        assert graded[key][1].codes in ((-2,), (-4,))
    for key in READ_ALL_AGAIN:
        assert graded[key][1].error_code == -2
        assert graded[key][2].passed


@pytest.mark.study
@pytest.mark.usefixtures("graded")
def test_what_was_too_slow_is_right_where_there_is_time(shared_data: Path) -> None:
    keys = SPEED if os.environ.get("HARNESS_LCB") == "full" else {"abc363_c"}
    for case in (cases(shared_data / "livecodebench")[key] for key in sorted(keys)):
        with judging.lease() as worker:
            assert official.grade(worker, case.problem, case.code, SLOW_MACHINE_S).passed
