"""Pulling data: what is accepted, how it is named, and that nothing half-made is ever installed."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envs import data
from envs.bfcl import dataset, source
from envs.bfcl.simulators import Simulation
from trajectories.failures import InfrastructureError, InputError

PINNED = source.SOURCE.version


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HARNESS_HOME."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HARNESS_HOME", str(folder))
    return folder


@pytest.fixture
def wheel_folder(bfcl_data: Path, tmp_path: Path) -> Path:
    """A copy of the unpacked wheel, as far as it is installed."""
    copy = tmp_path / "some-name"
    shutil.copytree(bfcl_data / "data" / "bfcl-v3" / PINNED, copy)
    return copy


def write(path: Path, *records: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def question(task_id: str = "simple_0", **changes: Any) -> dict[str, Any]:
    return {"id": task_id, "question": [[{"role": "user", "content": "?"}]], "function": [{"name": "f"}], **changes}


def answer(task_id: str = "simple_0") -> dict[str, Any]:
    return {"id": task_id, "ground_truth": [{"f": {}}]}


def small_copy(folder: Path) -> Path:
    write(folder / "questions.json", question("simple_0"), question("simple_1"))
    write(folder / "possible_answer" / "answers.json", answer("simple_0"), answer("simple_1"))
    return folder


def zipped(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
    return path


def test_the_pinned_wheel_comes_from_the_package_index_and_holds_4441_tasks(bfcl_data: Path) -> None:
    pulled = data.verify("bfcl-v3")
    assert (pulled.version, pulled.custom, pulled.missing) == (PINNED, False, ())
    assert pulled.sha256 == source.SOURCE.sha256
    rows = dataset.load("test")
    assert (len(rows.rows), rows.version, rows.missing) == (4441, PINNED, ())
    assert rows.categories == source.CATEGORIES


def test_an_identical_unpacked_wheel_is_the_pinned_version_by_any_name(home: Path, wheel_folder: Path) -> None:
    for given in (wheel_folder, wheel_folder / "bfcl_eval"):
        pulled = data.pull("bfcl-v3", given)
        assert (pulled.version, pulled.custom, pulled.missing) == (PINNED, False, ())
        assert pulled == data.current("bfcl-v3") == data.verify("bfcl-v3")


def test_a_zip_with_other_bytes_is_custom_and_named_by_its_own_sha256(home: Path, wheel_folder: Path) -> None:
    archive = zipped(wheel_folder, wheel_folder.with_name("x.bin"))
    pulled = data.pull("bfcl-v3", archive)
    assert pulled.version == f"custom:{data.file_sha256(archive)[:8]}"
    assert pulled.custom
    assert dataset.load("test").version == pulled.version


def test_a_data_folder_alone_offers_the_single_turn_tasks_and_names_what_is_missing(
    home: Path, wheel_folder: Path
) -> None:
    pulled = data.pull("bfcl-v3", wheel_folder / "bfcl_eval" / "data")
    assert re.fullmatch(r"custom:[0-9a-f]{8}", pulled.version)
    assert pulled.missing == ("simulators", "prompt texts")
    rows = dataset.load("test")
    assert len(rows.rows) == 3641
    assert len(rows.missing) == 4
    assert all("harness data pull bfcl-v3" in sentence for sentence in rows.missing)


def test_a_data_folder_uses_the_simulators_of_an_earlier_pull(home: Path, wheel_folder: Path) -> None:
    data.pull("bfcl-v3", wheel_folder)
    data.pull("bfcl-v3", wheel_folder / "bfcl_eval" / "data")
    rows = dataset.load("test")
    assert len(rows.rows) == 4441
    assert Simulation(rows.rows["multi_turn_base_0"]).run(["pwd()"]) == ['{"current_working_directory": "/workspace"}']


def test_foreign_simulators_are_never_run(home: Path, wheel_folder: Path) -> None:
    data.pull("bfcl-v3", wheel_folder)
    simulator = wheel_folder / source.SIMULATORS / "math_api.py"
    simulator.write_text(simulator.read_text() + "\nraise SystemExit('ran')\n")
    assert data.pull("bfcl-v3", wheel_folder).custom
    rows = dataset.load("test")
    assert len(rows.rows) == 3641
    assert all("math_api.py of this data is not the pinned one" in sentence for sentence in rows.missing)


def test_one_changed_record_makes_the_data_custom_and_changes_that_row_alone(home: Path, wheel_folder: Path) -> None:
    data.pull("bfcl-v3", wheel_folder)
    before = {row.id: row.digest for row in dataset.load("test").rows.values() if row.category == "java"}
    path = wheel_folder / source.question_file("java")
    path.write_text(path.read_text().replace("GeometryPresentation", "Geometry", 1))
    assert data.pull("bfcl-v3", wheel_folder).custom
    after = {row.id: row.digest for row in dataset.load("test").rows.values() if row.category == "java"}
    assert sum(before[task] != after[task] for task in before) == 1


def test_keys_that_nobody_reads_change_nothing(home: Path, tmp_path: Path) -> None:
    copy = small_copy(tmp_path / "copy")
    data.pull("bfcl-v3", copy)
    before = [row.digest for row in dataset.load("test").rows.values()]
    write(copy / "questions.json", question("simple_0", note="new"), question("simple_1", note="new"))
    data.pull("bfcl-v3", copy)
    assert [row.digest for row in dataset.load("test").rows.values()] == before


def test_files_are_told_by_their_records_and_missing_parts_are_named(home: Path, tmp_path: Path) -> None:
    pulled = data.pull("bfcl-v3", small_copy(tmp_path / "copy"))
    assert "questions of java" in pulled.missing
    assert "function documents of MathAPI" in pulled.missing
    assert "answers of simple" not in pulled.missing
    rows = dataset.load("test")
    assert list(rows.rows) == ["simple_0", "simple_1"]
    assert rows.categories == ("simple",)


def test_a_category_without_answers_is_left_out_and_named(home: Path, tmp_path: Path) -> None:
    copy = small_copy(tmp_path / "copy")
    write(copy / "more.json", question("java_0"))
    assert "answers of java" in data.pull("bfcl-v3", copy).missing
    rows = dataset.load("test")
    assert "java_0" not in rows.rows
    assert any("No answers of java" in sentence for sentence in rows.missing)


def test_a_second_pull_of_the_same_changes_nothing_and_the_last_pull_counts(home: Path, tmp_path: Path) -> None:
    one, other = small_copy(tmp_path / "one"), small_copy(tmp_path / "other")
    write(other / "extra.json", question("irrelevance_0"))
    first = data.pull("bfcl-v3", one)
    assert data.pull("bfcl-v3", one) == first
    second = data.pull("bfcl-v3", other)
    assert data.current("bfcl-v3") == second != first
    assert {found.version for found in data.installed("bfcl-v3")} == {first.version, second.version}


BAD_COPIES: dict[str, tuple[Callable[[Path], Path], str]] = {}


def bad_copy(message: str) -> Callable[[Callable[[Path], Path]], Callable[[Path], Path]]:
    def register(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
        BAD_COPIES[make.__name__] = (make, message)
        return make

    return register


@bad_copy("does not exist")
def absent(folder: Path) -> Path:
    return folder / "nowhere"


@bad_copy("holds no BFCL-v3 records")
def empty_folder(folder: Path) -> Path:
    return folder


@bad_copy("holds no BFCL-v3 records")
def folder_of_other_things(folder: Path) -> Path:
    write(folder / "a.json", {"task_id": "HumanEval/0"})
    write(folder / "b.json", question("exec_simple_0"))
    write(folder / "c.json", [1, 2])
    return folder


@bad_copy("neither a wheel nor a folder")
def text_file(folder: Path) -> Path:
    (folder / "data.json").write_text("{}")
    return folder / "data.json"


@bad_copy("no readable zip archive")
def torn_zip(folder: Path) -> Path:
    path = zipped(small_copy(folder / "copy"), folder / "w.whl")
    path.write_bytes(path.read_bytes()[:-40])
    return path


@bad_copy("no readable zip archive")
def zip_with_a_flipped_byte(folder: Path) -> Path:
    path = zipped(small_copy(folder / "copy"), folder / "w.whl")
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)
    return path


def _zip_with(folder: Path, member: str | zipfile.ZipInfo) -> Path:
    path = zipped(small_copy(folder / "copy"), folder / "w.whl")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(member, "x")
    return path


@bad_copy("unsafe member '../outside'")
def zip_that_climbs(folder: Path) -> Path:
    return _zip_with(folder, "../outside")


@bad_copy("unsafe member '/outside'")
def zip_with_an_absolute_member(folder: Path) -> Path:
    return _zip_with(folder, "/outside")


@bad_copy("unsafe member 'link'")
def zip_with_a_link(folder: Path) -> Path:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    return _zip_with(folder, link)


@bad_copy("BFCL v4 tasks")
def version_four(folder: Path) -> Path:
    write(folder / "BFCL_v4_simple_python.json", question("simple_python_0"))
    return folder


@bad_copy("one file holds one category")
def mixed_categories(folder: Path) -> Path:
    write(folder / "a.json", question("simple_0"), question("java_0"))
    return folder


@bad_copy("hold an id twice")
def an_id_twice(folder: Path) -> Path:
    write(folder / "a.json", question("irrelevance_0"), question("irrelevance_0"))
    return folder


@bad_copy("answers of 'simple' lack 'simple_2'")
def an_answer_lacking(folder: Path) -> Path:
    small_copy(folder)
    write(folder / "questions.json", question("simple_0"), question("simple_2"))
    return folder


@bad_copy("both hold questions of 'simple'")
def two_versions_of_a_file(folder: Path) -> Path:
    write(small_copy(folder) / "again.json", question("simple_0"))
    return folder


@bad_copy("is damaged")
def a_torn_line(folder: Path) -> Path:
    path = small_copy(folder) / "questions.json"
    path.write_text(path.read_text()[:-9])
    return folder


@bad_copy("is damaged")
def not_utf8(folder: Path) -> Path:
    path = small_copy(folder) / "questions.json"
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n")
    return folder


@bad_copy("line 2: not a record with an id")
def a_line_without_id(folder: Path) -> Path:
    write(folder / "a.json", question("simple_0"), {"question": []})
    return folder


@bad_copy("record 'simple_0' has no list 'function'")
def a_record_without_functions(folder: Path) -> Path:
    write(folder / "a.json", question("simple_0", function=None))
    return folder


@bad_copy("record 'multi_turn_base_0' has no dict 'initial_config'")
def a_multi_turn_record_without_its_world(folder: Path) -> Path:
    write(folder / "a.json", question("multi_turn_base_0"))
    return folder


@bad_copy("does not end in a number")
def an_id_without_number(folder: Path) -> Path:
    write(folder / "a.json", question("simple_first"))
    return folder


@pytest.mark.parametrize("name", list(BAD_COPIES))
def test_a_bad_copy_is_refused_in_one_sentence_and_leaves_no_trace(name: str, home: Path, tmp_path: Path) -> None:
    good = data.pull("bfcl-v3", small_copy(tmp_path / "good"))
    folder = tmp_path / "bad"
    folder.mkdir()
    make, message = BAD_COPIES[name]
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        data.pull("bfcl-v3", make(folder))
    assert "\n" not in str(caught.value)
    assert data.current("bfcl-v3") == good
    assert sorted(path.name for path in (home / "data" / "bfcl-v3").iterdir()) == sorted([good.path.name, "current"])
    assert not (tmp_path / "outside").exists()


def _fake_download(content: bytes) -> Callable[[Path], Path]:
    def fetch(folder: Path) -> Path:
        path = folder / "bfcl_eval.whl"
        path.write_bytes(content)
        return path

    return fetch


def test_a_download_with_another_sha256_is_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = zipped(small_copy(tmp_path / "copy"), tmp_path / "w.whl")
    other = dataclasses.replace(source.SOURCE, fetch=_fake_download(wheel.read_bytes()))
    monkeypatch.setattr(source, "SOURCE", other)
    with pytest.raises(InputError, match=r"not the pinned fdb996ac.*refused.*--from FILE"):
        data.pull("bfcl-v3")
    assert data.current("bfcl-v3") is None


def test_an_index_out_of_reach_is_said_in_one_sentence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InfrastructureError, match=r"could not fetch .* --from FILE"):
        data.pull("bfcl-v3")


def test_a_python_without_pip_is_told_what_to_do(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\necho '{sys.executable}: No module named pip' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(InputError, match="has no pip"):
        data.pull("bfcl-v3")


def test_an_unknown_name_lists_the_near_ones(home: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'bfcl-v3'"):
        data.pull("bfcl")


def test_a_home_that_cant_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "file"))
    for ask in (lambda: data.pull("bfcl-v3", small_copy(tmp_path / "copy")), lambda: data.current("bfcl-v3")):
        with pytest.raises(InfrastructureError, match=r"Not a directory\. Data is kept under HARNESS_HOME"):
            ask()


def test_nothing_pulled_is_said_with_the_way_out(home: Path) -> None:
    assert data.current("bfcl-v3") is None
    assert data.listing()[0].pulled is None
    for ask in (lambda: data.verify("bfcl-v3"), lambda: dataset.load("test")):
        with pytest.raises(InputError, match="run 'harness data pull bfcl-v3'"):
            ask()


@pytest.mark.parametrize("damage", ["flip", "delete"])
def test_damage_is_found_by_verify_and_mended_by_a_pull(damage: str, home: Path, tmp_path: Path) -> None:
    copy = small_copy(tmp_path / "copy")
    pulled = data.pull("bfcl-v3", copy)
    victim = pulled.path / source.question_file("simple")
    if damage == "delete":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes().replace(b"simple_0", b"simple_9"))
    with pytest.raises(InputError, match=r"is damaged \(1 files.*BFCL_v3_simple.json.*data pull bfcl-v3"):
        data.verify("bfcl-v3")
    assert data.pull("bfcl-v3", copy) == pulled == data.verify("bfcl-v3")


def test_a_damaged_record_is_named_in_the_list(home: Path, tmp_path: Path) -> None:
    copy = small_copy(tmp_path / "copy")
    pulled = data.pull("bfcl-v3", copy)
    assert data.current("bfcl-v3") == pulled
    (pulled.path / data.RECORD).write_text("{")
    with pytest.raises(InputError, match="damaged: run 'harness data pull bfcl-v3' again"):
        data.current("bfcl-v3")
    (row,) = [row for row in data.listing() if row.name == "bfcl-v3"]
    assert row.pulled is None
    assert "damaged" in str(row.problem)
    assert data.pull("bfcl-v3", copy) == pulled


def test_many_pulls_at_once_all_succeed(home: Path, tmp_path: Path) -> None:
    copies = [small_copy(tmp_path / "one"), small_copy(tmp_path / "other")]
    write(copies[1] / "extra.json", question("irrelevance_0"))
    script = (
        "import sys; from pathlib import Path; from envs import data\n"
        "for _ in range(5): print(data.pull('bfcl-v3', Path(sys.argv[1])).version, data.verify('bfcl-v3').name)"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(copies[index % 2])], env=os.environ, stdout=subprocess.PIPE)
        for index in range(4)
    ]
    assert [len(process.communicate()[0].split()) for process in running] == [10] * 4
    assert [process.returncode for process in running] == [0] * 4
    left = [path.name for path in (home / "data" / "bfcl-v3").iterdir()]
    assert len(left) == 3
    assert not [name for name in left if name.startswith(".")]


def test_the_platforms_cache_folder_is_the_default_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_HOME")
    assert data.home().is_absolute()
    assert "harness" in data.home().parts[-1]
