"""`harness grade` on predictions files: forms, names, versions, errors (design 10), and `rescore`."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envs import registry
from envs.base import EnvSettings
from harness import grade as grading
from harness.run_dir import RunDir
from trajectories.failures import InputError

pytestmark = pytest.mark.usefixtures("bfcl_data")

CALL = "[calculate_triangle_area(base=10, height=5)]"
NATIVE = [{"calculate_triangle_area": '{"base": 10, "height": 5}'}]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def graded(path: Path, grader: str = "official", **options: str) -> tuple[list[dict[str, Any]], grading.Graded]:
    out = io.StringIO()
    summary = grading.grade("bfcl-v3", path, out, grader=grader, options=options)
    return [json.loads(line) for line in out.getvalue().splitlines()], summary


def verdicts(path: Path, **options: str) -> list[bool]:
    return [row["passed"] for row in graded(path, **options)[0]]


def test_a_row_says_task_attempt_verdict_grader_and_why(tmp_path: Path) -> None:
    rows, summary = graded(
        write(tmp_path / "p.jsonl", [{"task_id": "simple_0", "output": CALL}, {"id": "simple_2", "result": "no"}])
    )
    assert list(rows[0]) == ["task_id", "attempt", "passed", "score", "grader", "detail"]
    assert rows[0] | {"detail": {}} == {
        "task_id": "simple_0", "attempt": 0, "passed": True, "score": 1.0,
        "grader": "official@bfcl-eval-2025.8.6.2", "detail": {},
    }  # fmt: skip
    assert rows[0]["detail"] == {"category": "simple", "error_type": None}
    assert rows[1]["detail"]["error_type"] == "ast_decoder:decoder_failed"
    assert (summary.rows, summary.passed, summary.skipped, summary.absent) == (2, 1, (), 4439)


@pytest.mark.parametrize(
    ("result", "passed"),
    [
        (CALL, True),
        (NATIVE, True),
        ([{"calculate_triangle_area": {"base": 10, "height": 5}}], True),
        (["I would call calculate_triangle_area."], False),
        ([], False),
        ("", False),
        (None, False),
        (7, False),
        (True, False),
        ({"calculate_triangle_area": {"base": 10, "height": 5}}, False),
        ([None], False),
        ([[NATIVE]], False),
        ([{}], False),
        ([{"calculate_triangle_area": "{"}], False),
        ([{"calculate_triangle_area": '{"base": NaN, "height": 5}'}], False),
        ("Error during inference: timed out", False),
    ],
)
def test_any_result_is_graded_whatever_its_type(tmp_path: Path, result: Any, passed: bool) -> None:
    assert verdicts(write(tmp_path / "p.jsonl", [{"id": "simple_0", "result": result}])) == [passed]


@pytest.mark.parametrize(("result", "passed"), [(None, False), (3, False), ({}, False), ("", True), ([], True)])
@pytest.mark.parametrize("grader", ["official", "strict"])
def test_no_result_is_no_refusal(tmp_path: Path, result: Any, passed: bool, grader: str) -> None:
    path = write(tmp_path / "p.jsonl", [{"id": "irrelevance_0", "result": result}])
    assert verdicts(path, grader=grader) == [passed]


@pytest.mark.parametrize(
    "result", [None, "text", 3, [], [None] * 4, [["x"]] * 4, [[{"ls": 1}]] * 4, [[[1]]] * 4, [[["a"]]] * 4]
)
def test_any_multi_turn_result_is_graded_whatever_its_type(tmp_path: Path, result: Any) -> None:
    rows, _ = graded(write(tmp_path / "p.jsonl", [{"id": "multi_turn_base_0", "result": result}]))
    assert [row["passed"] for row in rows] == [False]
    assert rows[0]["detail"]["error_type"].startswith("multi_turn:")


def reference_result(task: str, mode: str) -> Any:
    """The reference play as upstream's result file would hold it."""
    env = registry.load("bfcl-v3").make(task, EnvSettings(mode=mode))
    env.reset(seed=0)
    turns: dict[int, list[Any]] = {}
    for action in env.reference_actions():
        *_, info = env.step(action)
        raw = [{call.name: json.dumps(call.arguments)} for call in action.tool_calls]
        turns.setdefault(info["turn"], []).append(raw or action.content)
    return list(turns.values())


@pytest.mark.parametrize("mode", ["fc", "prompt"])
def test_nested_multi_turn_results_grade_as_their_episodes_do(tmp_path: Path, mode: str) -> None:
    tasks = ["multi_turn_base_0", "multi_turn_miss_func_171", "multi_turn_miss_param_3", "multi_turn_long_context_60"]
    rows = [{"id": task, "result": reference_result(task, mode)} for task in tasks]
    rows.append({"id": tasks[0], "result": rows[0]["result"][:-1]})
    assert verdicts(write(tmp_path / "p.jsonl", rows)) == [True] * 4 + [False]


def test_text_among_native_steps_is_no_call_and_text_alone_is(tmp_path: Path) -> None:
    truth = reference_result("multi_turn_base_0", "prompt")
    native = reference_result("multi_turn_base_0", "fc")
    rows = [{"id": "multi_turn_base_0", "result": result} for result in (truth, [*truth[:-1], native[-1]])]
    assert verdicts(write(tmp_path / "p.jsonl", rows)) == [True, False]


def test_gzipped_files_and_arrays_and_blank_lines_are_read(tmp_path: Path) -> None:
    rows = [{"id": "simple_0", "result": CALL}, {"id": "simple_0", "result": "[]"}]
    plain = write(tmp_path / "p.jsonl", rows)
    (tmp_path / "p.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "array.json").write_text(json.dumps(rows, indent=2))
    (tmp_path / "blank.jsonl").write_text("\ufeff\n" + plain.read_text().replace("\n", "\r\n\n"))
    for name in ("p.jsonl", "p.json.gz", "array.json", "blank.jsonl"):
        assert verdicts(tmp_path / name) == [True, False], name


def test_repeated_ids_are_further_attempts_in_file_order(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "simple_0", "result": CALL},
        {"id": "simple_1", "result": "x"},
        {"id": "simple_0", "result": "x"},
    ]
    rows += [{"id": "simple_0", "result": "x", "attempt": 7}, {"id": "simple_0", "result": CALL}]
    found, _ = graded(write(tmp_path / "p.jsonl", rows))
    assert [(row["task_id"], row["attempt"]) for row in found] == [
        ("simple_0", 0), ("simple_1", 0), ("simple_0", 1), ("simple_0", 7), ("simple_0", 8),
    ]  # fmt: skip


UNDERSCORES = [{"math_factorial": '{"number": 5}'}]
DOTS = [{"math.factorial": '{"number": 5}'}]


class TestDots:
    def test_list_rows_may_write_underscores_if_no_name_has_a_dot(self, tmp_path: Path) -> None:
        assert verdicts(write(tmp_path / "p.jsonl", [{"id": "simple_1", "result": UNDERSCORES}])) == [True]

    def test_one_dotted_name_means_that_the_file_keeps_dots(self, tmp_path: Path) -> None:
        rows = [{"id": "simple_1", "result": UNDERSCORES}, {"id": "simple_1", "result": DOTS}]
        assert verdicts(write(tmp_path / "p.jsonl", rows)) == [False, True]

    def test_text_rows_must_have_the_documents_name(self, tmp_path: Path) -> None:
        rows = [
            {"id": "simple_1", "result": text} for text in ("[math.factorial(number=5)]", "[math_factorial(number=5)]")
        ]
        assert verdicts(write(tmp_path / "p.jsonl", rows)) == [True, False]

    def test_the_flag_overrides_the_file(self, tmp_path: Path) -> None:
        rows = [{"id": "simple_1", "result": UNDERSCORES}]
        assert verdicts(write(tmp_path / "p.jsonl", rows), dots="keep") == [False]
        rows.append({"id": "simple_1", "result": DOTS})
        assert verdicts(write(tmp_path / "p.jsonl", rows), dots="underscore") == [True, False]
        with pytest.raises(InputError, match=r"--dots is 'maybe'.*'keep'.*'underscore'"):
            verdicts(tmp_path / "p.jsonl", dots="maybe")


class TestVersionFour:
    def test_renamed_categories_are_v3s_under_the_ids_of_the_file(self, tmp_path: Path) -> None:
        rows = [
            {"id": "simple_python_0", "result": NATIVE},
            {"id": "simple_java_0", "result": "x"},
            {"id": "simple_javascript_0", "result": "x"},
        ]
        found, _ = graded(write(tmp_path / "p.jsonl", rows))
        assert [(row["task_id"], row["detail"]["category"], row["passed"]) for row in found] == [
            ("simple_python_0", "simple", True), ("simple_java_0", "java", False), ("simple_javascript_0", "javascript", False),
        ]  # fmt: skip

    def test_a_multi_turn_file_is_told_by_its_name(self, tmp_path: Path) -> None:
        path = write(tmp_path / "BFCL_v4_multi_turn_base_result.json", [{"id": "multi_turn_base_0", "result": []}])
        with pytest.raises(InputError, match="multi-turn results of BFCL v4: other tasks"):
            graded(path)

    def test_a_multi_turn_row_among_v4_ids_is_v4s(self, tmp_path: Path) -> None:
        rows = [{"id": "multi_turn_base_0", "result": []}, {"id": "simple_python_0", "result": CALL}]
        with pytest.raises(InputError, match="multi-turn results of BFCL v4"):
            graded(write(tmp_path / "p.jsonl", rows))

    def test_a_log_with_other_user_messages_tells_too(self, tmp_path: Path) -> None:
        said = {"role": "user", "content": [{"type": "text", "text": "Please play chess with me."}]}
        rows = [{"id": "multi_turn_base_0", "result": [], "inference_log": [[], {"begin_of_turn_query": [said]}]}]
        with pytest.raises(InputError, match=r"1 of 1 logs have other user messages"):
            graded(write(tmp_path / "p.jsonl", rows))

    def test_v3s_own_log_is_no_evidence_not_even_of_a_reveal_turn(self, tmp_path: Path) -> None:
        env = registry.load("bfcl-v3").make("multi_turn_miss_func_0", EnvSettings())
        observation, _ = env.reset()
        log: list[Any] = [[]]
        while observation:
            log.append({"begin_of_turn_query": [{"role": m.role, "content": m.content} for m in observation]})
            observation, *_ = env.step(env.reference_actions()[-1])
        assert len(log) == 6
        rows = [{"id": "multi_turn_miss_func_0", "result": [], "inference_log": log}]
        assert verdicts(write(tmp_path / "p.jsonl", rows)) == [False]


BAD_LINES = {
    "not json": ("{oops", "line 2: no JSON"),
    "a list": ('["simple_0"]', "line 2: a row is a JSON object, not list"),
    "no id": ('{"result": "x"}', 'line 2: a row needs "task_id" or "id"'),
    "a number for an id": ('{"id": 3, "result": "x"}', 'line 2: a row needs "task_id" or "id"'),
    "no result": ('{"id": "simple_0"}', "line 2: the row of 'simple_0' has neither"),
    "a bad attempt": ('{"id": "simple_0", "result": "x", "attempt": -1}', 'line 2: "attempt" is -1'),
    "a true attempt": ('{"id": "simple_0", "result": "x", "attempt": true}', 'line 2: "attempt" is True'),
    "a score file": ('{"accuracy": 0.5, "total_count": 2}', "grade the result file"),
    "endless nesting": ("[" * 100_000, "line 2: no JSON"),
    "a huge number": ('{"id": "simple_0", "result": ' + "9" * 5000 + "}", "line 2: no JSON"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_malformed_line_is_named_with_its_rule(tmp_path: Path, case: str) -> None:
    line, sentence = BAD_LINES[case]
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "simple_0", "result": "x"}\n' + line + "\n")
    with pytest.raises(InputError) as error:
        graded(path)
    assert sentence in str(error.value)
    assert "p.jsonl" in str(error.value)


BAD_FILES: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "can't be read: No such file"),
    "empty": (b"", "holds no rows"),
    "an empty array": (b"[]", "holds no rows"),
    "torn gzip": (gzip.compress(b'{"id": "simple_0", "result": ""}' * 9)[:-20], "is damaged"),
    "latin-1": ('{"id": "simple_0", "result": "é"}'.encode("latin-1"), "is not UTF-8"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(tmp_path: Path, case: str) -> None:
    content, sentence = BAD_FILES[case]
    path = tmp_path / "p.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        graded(path)


def test_a_folder_stands_for_the_result_files_below_it(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    (folder / "live").mkdir(parents=True)
    with pytest.raises(InputError, match="holds no result files"):
        graded(tmp_path)
    dotted = {"id": "live_simple_0-0-0", "result": DOTS}
    files = {
        "BFCL_v3_simple_result.json": {"id": "simple_1", "result": UNDERSCORES},
        "BFCL_v3_irrelevance_result.json": {"id": "irrelevance_0", "result": "No."},
        "live/BFCL_v3_live_simple_result.json": dotted,
    }
    for name, row in files.items():
        write(folder / name, [row])
    write(folder / "BFCL_v3_simple_score.json", [{"accuracy": 1}])
    rows, summary = graded(folder)
    assert [(row["task_id"], row["passed"]) for row in rows] == [
        ("irrelevance_0", True), ("simple_1", True), ("live_simple_0-0-0", False),
    ]  # fmt: skip
    assert summary.by_category == {"irrelevance": (1, 1), "simple": (1, 1), "live_simple": (0, 1)}
    assert list(summary.sentences())[:2] == [
        "2 of 3 solutions passed (66.67%).",
        "By category: irrelevance 1 of 1, simple 1 of 1, live_simple 0 of 1.",
    ]


def test_repeated_ids_and_names_of_another_version_are_said(tmp_path: Path) -> None:
    rows = [{"id": "simple_0", "result": CALL}] * 3 + [{"id": "simple_python_2", "result": "x"}]
    _, summary = graded(write(tmp_path / "p.jsonl", rows))
    said = list(summary.sentences())
    assert "2 rows repeat a task id: graded as further attempts." in said
    renamed = "1 row names its task as another version of the benchmark does ('simple_python_2' is 'simple_2' here)"
    assert f"{renamed}: graded by the data that is here." in said
    _, plain = graded(write(tmp_path / "p.jsonl", rows[:1]))
    assert list(plain.sentences()) == [
        "1 of 1 solutions passed (100.00%).",
        "4440 tasks of the data are not in the file.",
    ]


def test_unknown_ids_are_skipped_counted_and_named(tmp_path: Path) -> None:
    rows = [{"id": name, "result": CALL} for name in ("simple_0", "simple_400", "exec_simple_1", "nonsense", "")]
    found, summary = graded(write(tmp_path / "p.jsonl", rows))
    assert [row["task_id"] for row in found] == ["simple_0"]
    assert summary.skipped == ("simple_400", "exec_simple_1", "nonsense", "")
    assert any(
        "4 rows skipped" in sentence and "'" not in sentence and "simple_400" in sentence
        for sentence in summary.sentences()
    )
    with pytest.raises(InputError, match="None of the 4 rows"):
        graded(write(tmp_path / "p.jsonl", rows[1:]))


def test_a_category_keeps_its_rows_alone(tmp_path: Path) -> None:
    rows = [{"id": "simple_0", "result": CALL}, {"id": "irrelevance_0", "result": "No."}]
    path = write(tmp_path / "p.jsonl", rows)
    found, summary = graded(path, category="irrelevance")
    assert [row["task_id"] for row in found] == ["irrelevance_0"]
    assert summary.absent == 239
    with pytest.raises(InputError, match="has no row of the category"):
        graded(path, category="java")
    with pytest.raises(InputError, match=r"Unknown category of bfcl-v3 'simpel'. Did you mean 'simple'"):
        graded(path, category="simpel")


def test_the_graders_differ_where_they_should(tmp_path: Path) -> None:
    path = write(
        tmp_path / "p.jsonl",
        [{"id": "irrelevance_0", "result": "[area(base=10"}, {"id": "irrelevance_0", "result": "No."}],
    )
    assert [row["passed"] for row in graded(path)[0]] == [True, True]
    strict, _ = graded(path, grader="strict")
    assert [row["passed"] for row in strict] == [False, True]
    assert strict[0]["grader"] == "strict1@bfcl-eval-2025.8.6.2"
    with pytest.raises(InputError, match=r"Unknown grader 'stict'\. Did you mean 'strict'"):
        graded(path, grader="stict")


def test_sample_tasks_are_graded_too(tmp_path: Path) -> None:
    rows = [{"id": "simple_90000", "result": "[kettle.boil(litres=1.5)]"}]
    found, summary = graded(write(tmp_path / "p.jsonl", rows))
    assert found[0]["passed"]
    assert found[0]["grader"].startswith("official@samples:")
    assert summary.absent == 16


def test_the_same_input_gives_the_same_ascii_bytes_in_any_process(tmp_path: Path) -> None:
    results: list[Any] = [
        "é\ud800",
        NATIVE,
        [{"f": '{"b": 1, "a": 2, "c": 3}'}],
        "[calculate_triangle_area(z=1, y=2, x=3)]",
    ]
    path = write(tmp_path / "p.jsonl", [{"id": "simple_0", "result": result} for result in results])
    command = [sys.executable, "-m", "harness", "grade", "bfcl-v3", str(path)]
    outputs = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            command, capture_output=True, check=True, env=os.environ | {"PYTHONHASHSEED": seed, "LC_ALL": "C"}
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert outputs.pop().isascii()


def test_an_output_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    good = write(tmp_path / "p.jsonl", [{"id": "simple_0", "result": CALL}])
    out = tmp_path / "verdicts.jsonl"
    grading.grade_to(out, "bfcl-v3", good, grader="official", options={})
    kept = out.read_bytes()
    assert len(kept.splitlines()) == 1
    with pytest.raises(InputError):
        grading.grade_to(out, "bfcl-v3", tmp_path / "none", grader="official", options={})
    assert out.read_bytes() == kept
    assert {path.name for path in tmp_path.iterdir()} == {"p.jsonl", "verdicts.jsonl"}
    with pytest.raises(InputError, match="can't be written"):
        grading.grade_to(tmp_path / "no" / "v.jsonl", "bfcl-v3", good, grader="official", options={})


def played_run(folder: Path) -> Path:
    """A run of the oracle over the sample tasks."""
    command = [
        sys.executable,
        "-m",
        "harness",
        "eval",
        "-b",
        "bfcl-v3",
        "-a",
        "scripted:oracle",
        "--split",
        "sample",
        "-q",
    ]
    subprocess.run([*command, "-o", str(folder)], check=True, capture_output=True)
    return folder


def with_verdict(run: Path, task: str, which: str, **fields: Any) -> None:
    """Tamper with one stored verdict, as an older grader may have given it."""
    with RunDir.open(run).store(writable=True) as store:
        (found,) = store.iterate(task_id=task)
        changed = found.verdicts[which].model_copy(update=fields)
        store.amend_verdicts(found.id, found.verdicts | {which: changed})


def test_rescoring_an_unchanged_run_changes_nothing(tmp_path: Path) -> None:
    run = played_run(tmp_path / "run")
    with RunDir.open(run).store() as store:
        before = {trajectory.id: trajectory.to_json() for trajectory in store}
    summary = grading.rescore(run)
    assert (summary.graded, summary.changed, summary.rewritten, summary.failed) == (17, (), 0, 0)
    with RunDir.open(run).store() as store:
        assert {trajectory.id: trajectory.to_json() for trajectory in store} == before


def test_rescoring_mends_what_an_older_grader_said_and_counts_it(tmp_path: Path) -> None:
    run = played_run(tmp_path / "run")
    with_verdict(run, "simple_90000", "official", passed=False, score=0.0)
    with_verdict(run, "multi_turn_base_90000", "strict", passed=False, score=0.0)
    with_verdict(run, "java_90000", "official", grader="official@older")
    official = grading.rescore(run, "official")
    assert (len(official.changed), official.rewritten) == (1, 1)
    assert any("1 verdicts changed" in sentence for sentence in official.sentences())
    strict = grading.rescore(run)
    assert (len(strict.changed), strict.rewritten) == (1, 0)
    assert grading.rescore(run).changed == ()
    with RunDir.open(run).store() as store:
        assert all(verdict.passed for trajectory in store for verdict in trajectory.verdicts.values())


def test_rescoring_refuses_data_that_was_not_played(tmp_path: Path) -> None:
    run = played_run(tmp_path / "run")
    with RunDir.open(run).store(writable=True) as store:
        (found,) = store.iterate(task_id="simple_90000")
        key = found.key.model_copy(update={"task": found.task.model_copy(update={"digest": "0" * 32})})
        store.append(found.model_copy(update={"key": key, "id": key.trajectory_id(), "data": "custom:12345678"}))
    with pytest.raises(
        InputError, match=r"'simple_90000' was played on custom:12345678, and is another task in samples:"
    ):
        grading.rescore(run)


def test_rescoring_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no run in"):
        grading.rescore(tmp_path)
