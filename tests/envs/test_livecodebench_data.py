"""LiveCodeBench's data: releases and windows, copies in every form, downloads, and code tasks of one's own."""

import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from envs import data
from envs.livecodebench import dataset, generator, tasks
from envs.livecodebench.benchmark import CodeTasks, LiveCodeBench
from envs.livecodebench.records import problem_of
from envs.livecodebench.releases import SIZES, Splits, selection, shard_by_date
from trajectories.failures import InfrastructureError, InputError

DATES = {1: "2023-08-01", 2: "2024-04-01", 3: "2024-07-01", 4: "2024-09-01", 5: "2024-12-01", 6: "2025-03-01"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    return tmp_path


def record(key: str, **changes: Any) -> dict[str, Any]:
    tests = [{"input": "1\n", "output": f"{key}\n", "testtype": "stdin"}]
    return {
        "question_id": key,
        "question_content": "Print the key.",
        "platform": "atcoder",
        "contest_date": "2024-01-01T00:00:00",
        "difficulty": "easy",
        "public_test_cases": json.dumps(tests),
        "private_test_cases": "[]",
        "metadata": "{}",
    } | changes


def rows(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in records).encode()


@pytest.mark.parametrize(
    ("name", "shards"),
    [
        ("release_v1", {1}), ("release_v5", {1, 2, 3, 4, 5}), ("release_v6", set(range(1, 7))),
        ("release_latest", set(range(1, 7))), ("v5", {5}), ("v4_v6", {4, 5, 6}),
    ],
)  # fmt: skip
def test_a_release_names_its_shards_and_their_sizes(name: str, shards: set[int]) -> None:
    found = selection(name)
    assert found is not None
    assert {shard for shard in DATES if found.has(shard, DATES[shard])} == shards
    assert found.size == sum(SIZES[shard - 1] for shard in shards)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("2024-08-01..2025-01-31", ["2024-08-01T00:00:00", "2025-01-31T18:30:00"], ["2024-07-31", "2025-02-01"]),
        ("2024-08-01..", ["2024-08-01", "2031-01-01"], ["2024-07-31T23:00:00"]),
        ("..2024-08-01", ["2023-01-01", "2024-08-01T10:00:00"], ["2024-08-02"]),
    ],
)
def test_a_window_has_both_its_days_whole(name: str, inside: list[str], outside: list[str]) -> None:
    found = selection(name)
    assert found is not None
    assert found.size is None
    assert all(found.has(3, day) for day in inside)
    assert not any(found.has(3, day) for day in outside)


@pytest.mark.parametrize("name", ["v5_v4", "2024-02-30..2024-03-01", "2024-13-01.."])
def test_a_range_that_there_is_not_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        selection(name)


def test_splits_list_what_shares_no_task_and_have_their_parts() -> None:
    splits = LiveCodeBench().splits
    assert isinstance(splits, Splits)
    assert list(splits) == ["test", "sample"]
    assert all(name in splits for name in ("test", "sample", "release_v5", "v4_v5", "2024-08-01..", "release_latest"))
    assert not any(name in splits for name in ("train", "", "tests", 5))
    for name in ("release_v7", "v7", "..", "release_", "2024-08-01_2025-01-31", "2024-08..2025-01"):
        with pytest.raises(InputError, match="release_v1 to release_v6"):
            assert name in splits


def test_the_day_of_a_contest_puts_it_into_a_shard() -> None:
    assert {shard: shard_by_date(day) for shard, day in DATES.items()} == {shard: shard for shard in DATES}


def test_a_folder_of_shards_is_told_by_its_records(home: Path) -> None:
    folder = home / "shards"
    folder.mkdir()
    for shard, size in enumerate(SIZES, 1):
        # One problem of each shard is dated as its neighbour's: the number of records tells the shard all the same.
        days = [DATES[shard]] * (size - 1) + [DATES[shard % 6 + 1]]
        some = [record(f"s{shard}_{number:04}", contest_date=f"{day}T00:00:00") for number, day in enumerate(days)]
        (folder / f"any-name-{shard}.jsonl").write_bytes(rows(*some))
    (folder / "README.md").write_text("# not a record\n")
    (folder / "other.jsonl").write_text('{"task_id": 1}\n')
    pulled = data.pull("livecodebench", folder)
    assert pulled.custom
    assert pulled.version.startswith("custom:")
    assert {file.name for file in pulled.path.glob("*.jsonl")} == {f"any-name-{shard}.jsonl" for shard in range(1, 7)}
    benchmark = LiveCodeBench()
    counts = {name: len(benchmark.tasks(name)) for name in ("test", "release_v1", "release_v5", "v3", "v4", "v4_v5")}
    assert counts == {"test": 1055, "release_v1": 400, "release_v5": 880, "v3": 101, "v4": 101, "v4_v5": 268}
    assert benchmark.missing("release_v5") == ()
    assert {task.split for task in benchmark.tasks("release_v5")} == {"test"}


@pytest.mark.parametrize("form", ["lines", "gzip", "list", "indented", "folder"])
def test_a_copy_may_have_any_form(form: str, home: Path) -> None:
    some = [record("b"), record("a")]
    path = home / "copy.data"
    if form == "folder":
        path.mkdir()
        (path / "x").write_bytes(rows(*some))
    elif form == "gzip":
        path.write_bytes(gzip.compress(rows(*some)))
    elif form == "indented":
        some = [record("a")]
        path.write_text(json.dumps(some[0], indent=2))
    else:
        path.write_bytes(rows(*some) if form == "lines" else json.dumps(some).encode())
    data.pull("livecodebench", path)
    found = dataset.load("livecodebench", "test")
    assert list(found.rows) == sorted(one["question_id"] for one in some)
    assert found.rows["a"].problem().public[0].output == "a\n"
    chosen = selection("release_v2")
    assert chosen is not None
    assert found.part(chosen, "release_v2").missing[0].startswith("release_v2 has 511")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no LiveCodeBench records"),
        (b"no json\n", "no JSON"),
        (b"[1, 2]", "no JSON object"),
        (rows({"task_id": "a"}), "no LiveCodeBench records"),
        (rows(record("a"), {"question_id": "b"}), "'b'"),
        (rows(record("a", private_test_cases="%%")), "neither JSON nor packed"),
        (gzip.compress(rows(record("a")))[:-20], "gzip"),
    ],
)
def test_a_copy_that_is_something_else_or_damaged_is_refused(content: bytes, said: str, home: Path) -> None:
    path = home / "copy.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        data.pull("livecodebench", path)
    assert data.current("livecodebench") is None


def test_one_id_with_two_contents_is_refused(home: Path) -> None:
    path = home / "copy.jsonl"
    path.write_bytes(rows(record("a"), record("a"), record("b")))
    data.pull("livecodebench", path)
    assert len(dataset.load("livecodebench", "test").rows) == 2
    path.write_bytes(rows(record("a"), record("a", question_content="Other.")))
    data.pull("livecodebench", path)
    with pytest.raises(InputError, match="two tasks"):
        dataset.load("livecodebench", "test")


def test_large_data_is_read_from_its_kept_index(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "copy.jsonl"
    path.write_bytes(rows(*(record(f"k{number}", question_title="ü" * number) for number in range(50))))
    pulled = data.pull("livecodebench", path)
    plain = dict(dataset.load("livecodebench", "test").rows)
    monkeypatch.setattr(dataset, "INDEXED_BYTES", 0)
    for _ in range(2):
        dataset._whole.cache_clear()
        found = dataset.load("livecodebench", "test").rows
        assert found == plain
        assert [row.problem().public[0].output for row in found.values()] == [f"{key}\n" for key in found]
        monkeypatch.setattr(dataset, "_read", lambda paths: pytest.fail("the index was made again"))
    (kept,) = (data.home() / "cache" / "livecodebench").glob("*.json")
    assert pulled.sha256 in kept.name
    monkeypatch.undo()
    dataset._whole.cache_clear()


class Hub(BaseHTTPRequestHandler):
    """As much of Hugging Face as a download asks for."""

    files: dict[str, bytes]
    lies: str = ""
    asked: list[str]
    commit = "a" * 40

    def do_GET(self) -> None:
        self.asked.append(self.path)
        prefix = f"/datasets/livecodebench/code_generation_lite/resolve/{self.commit}/"
        if self.path == "/api/datasets/livecodebench/code_generation_lite/revision/main?blobs=true":
            told = [
                {
                    "rfilename": name,
                    "lfs": {"sha256": hashlib.sha256(content).hexdigest() if name != self.lies else "0" * 64},
                }
                for name, content in self.files.items()
            ]
            self._send(json.dumps({"sha": self.commit, "siblings": [*told, {"rfilename": "README.md"}]}).encode())
        elif self.path.removeprefix(prefix) in self.files:
            self._send(self.files[self.path.removeprefix(prefix)])
        else:
            self.send_error(404)

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    names = ["test.jsonl", *(f"test{number}.jsonl" for number in range(2, 7))]
    some = {name: rows(record(name, contest_date=DATES[number])) for number, name in enumerate(names, 1)}
    handler = type("Once", (Hub,), {"files": some, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 6),
        ({"release": "release_v2"}, 2),
        ({"release": "v5"}, 5),
        ({"release": "v5_v6"}, 2),
        ({"release": "latest"}, 6),
    ],
)
def test_a_download_has_the_shards_of_its_release(options: dict[str, str], expected: int, hub: type[Hub]) -> None:
    pulled = data.pull("livecodebench", options=options)
    assert len(dataset.load("livecodebench", "test").rows) == expected
    assert json.loads((pulled.path / "hub.json").read_text())["commit"] == Hub.commit
    assert len(hub.asked) == expected + 1
    assert data.verify("livecodebench") == pulled


def test_a_download_with_another_digest_is_refused(hub: type[Hub]) -> None:
    hub.lies = "test2.jsonl"
    with pytest.raises(InfrastructureError, match="sha256"):
        data.pull("livecodebench")
    assert data.current("livecodebench") is None


def test_a_hub_that_is_away_or_answers_nonsense_is_an_infrastructure_fault(
    hub: type[Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.files.pop("test6.jsonl")
    with pytest.raises(InfrastructureError, match=r"no file 'test6\.jsonl'"):
        data.pull("livecodebench")
    monkeypatch.setattr(hub, "commit", "main")
    with pytest.raises(InfrastructureError, match="form"):
        data.pull("livecodebench")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InfrastructureError, match="--from"):
        data.pull("livecodebench")
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(InfrastructureError, match="http"):
        data.pull("livecodebench")


@pytest.mark.parametrize(
    ("name", "options"),
    [("livecodebench", {"release": "v9"}), ("livecodebench", {"split": "train"}), ("bfcl-v3", {"release": "v5"}),
     ("code-tasks", {"split": "sample"}), ("code-tasks", {"split": "../x"})],
)  # fmt: skip
def test_an_option_that_does_not_fit_is_refused(name: str, options: dict[str, str], home: Path) -> None:
    path = home / "copy.jsonl"
    path.write_bytes(rows(record("a")))
    with pytest.raises(InputError):
        data.pull(name, path if name == "code-tasks" else None, options)


def test_code_tasks_have_a_split_for_each_pull(home: Path) -> None:
    benchmark = CodeTasks()
    assert benchmark.splits == ("sample",)
    train, test = home / "train.jsonl", home / "test.jsonl"
    generator.write(train, seed=1, count=5)
    generator.write(test, seed=2, count=3)
    data.pull("code-tasks", train)
    first = data.pull("code-tasks", test, {"split": "test"})
    assert benchmark.splits == ("test", "train", "sample")
    assert [len(benchmark.tasks(split)) for split in ("train", "test")] == [5, 3]
    assert all(benchmark.known(task.id) for split in benchmark.splits for task in benchmark.tasks(split))
    assert tasks.find("code-tasks", "task_2_0").split == "test"
    generator.write(train, seed=3, count=4)
    second = data.pull("code-tasks", train, {"split": "train"})
    assert second.version != first.version
    assert [len(benchmark.tasks(split)) for split in ("train", "test")] == [4, 3]
    assert not benchmark.known("task_1_0")


def test_a_task_in_two_splits_is_refused(home: Path) -> None:
    path = home / "tasks.jsonl"
    generator.write(path, seed=1, count=2)
    data.pull("code-tasks", path, {"split": "train"})
    with pytest.raises(InputError, match="'task_1_0', which is in the split 'train' already"):
        data.pull("code-tasks", path, {"split": "test"})


def test_without_data_the_way_out_is_named() -> None:
    assert "harness data pull livecodebench" in (LiveCodeBench().unavailable("release_v5") or "")
    assert LiveCodeBench().unavailable("sample") is None
    with pytest.raises(InputError, match="--from FILE --split train"):
        data.pull("code-tasks")
    with pytest.raises(InputError, match="Near: sample_parcels"):
        tasks.find("livecodebench", "sample_parcel")


def test_the_same_seed_generates_the_same_tasks() -> None:
    assert generator.generate(5, 3) == generator.generate(5, 6)[:3]
    assert generator.generate(5, 3) != generator.generate(6, 3)
    made = [problem_of(task.record, "made") for task in generator.generate(0, 60)]
    assert {problem.kind for problem in made} == {"call", "stdin"}
    assert {problem.difficulty for problem in made} == {"easy", "medium", "hard"}
    assert all(len(problem.tests) == generator.TESTS for problem in made)


def test_the_sample_tasks_of_code_tasks_are_the_generated_ones_of_seed_0(tmp_path: Path) -> None:
    generator.write(tmp_path / "again.jsonl", seed=0, count=12)
    assert (tmp_path / "again.jsonl").read_bytes() == (dataset.SAMPLES / "code-tasks.jsonl").read_bytes()
