"""Killed at any moment, a store has exactly what it reported done, perhaps one record more, and nothing twice."""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toystore import Writers, episode, writers

from trajectories import journal
from trajectories.store import Store

COUNT = 20
KILLS = int(os.environ.get("HARNESS_STORE_KILLS", "60"))
"""How many aimed kills of the study are played; all of them are about 250."""
CALLS = ("write_all", "sync", "publish", "publish_after", "remove", "remove_after", "sync_folder", "sync_folder_after")


@pytest.fixture(scope="module")
def server() -> Iterator[Writers]:
    with writers() as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Store.create(tmp_path / "store").close()
    return tmp_path / "store"


def check(path: Path, answers: list[dict[str, Any]], last: int) -> None:
    """What was reported done is there, whole and once; playing the rest gives what an undisturbed run has."""
    done = {number for answer in answers for number in answer["done"]}
    with Store.open(path) as reader:
        found = list(reader)
    numbers = [trajectory.key.seed for trajectory in found]
    assert len(numbers) == len(set(numbers))
    assert done <= set(numbers)
    assert len(numbers) <= len(done) + len(answers)
    assert all(trajectory == episode(trajectory.key.seed) for trajectory in found)
    with Store.open(path, writable=True) as again:
        owed = [number for number in range(last) if episode(number).id not in again.done_ids()]
        for number in owed:
            again.append(episode(number))
    with Store.open(path) as whole:
        assert sorted(trajectory.key.seed for trajectory in whole) == list(range(last))
        assert [problem for problem in whole.verify() if problem.severity == "error"] == []


def _aims() -> list[str]:
    aims = [f"{name}:{at}" for name in CALLS for at in range(1, 33)]
    return random.Random(7).sample(aims, min(KILLS, len(aims)))


@pytest.mark.study
def test_a_kill_in_any_call_that_reaches_the_disk_loses_nothing(server: Writers, tmp_path: Path) -> None:
    killed = 0
    for aim in _aims():
        path = tmp_path / aim.replace(":", "_")
        Store.create(path).close()
        answers = server.play(path, 0, COUNT, die=aim)
        killed += answers[0]["code"] == -9
        check(path, answers, COUNT)
        shutil.rmtree(path)
    assert killed >= min(KILLS, 256) / 3  # the others name a call that such a run makes less often


def test_a_kill_between_the_published_segment_and_the_removed_journal_shows_nothing_twice(
    server: Writers, path: Path
) -> None:
    answers = server.play(path, 0, COUNT, die="remove:1")
    assert answers[0]["code"] == -9
    assert list((path / "segments").glob("*.parquet"))
    assert list((path / "journals").glob("*.journal"))
    check(path, answers, COUNT)
    assert not list((path / "journals").iterdir())


@pytest.mark.study
def test_a_kill_in_any_call_of_a_compaction_changes_nothing_that_is_seen(server: Writers, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with Store.create(whole) as store:
        for number in [*range(12), *range(20)]:  # twelve records are superseded
            store.append(episode(number))
            if number % 5 == 4:
                store.seal()
        expected = list(store)
    killed = 0
    for name, calls in (
        ("write_all", 12),
        ("sync", 4),
        ("publish", 3),
        ("publish_after", 3),
        ("remove", 6),
        ("sync_folder", 6),
    ):
        for aim in (f"{name}:{at}" for at in range(1, calls + 1)):
            path = tmp_path / aim.replace(":", "_")
            shutil.copytree(whole, path)
            (answer,) = server.play(path, 0, 0, die=aim, compact=True)
            killed += answer["code"] == -9
            for writable in (False, True, False):
                with Store.open(path, writable=writable) as store:
                    assert list(store) == expected, aim
                    assert store.verify() == [], aim
            with Store.open(path, writable=True) as store:
                store.compact()
                assert list(store) == expected
            assert len(list((path / "segments").glob("*.parquet"))) == 1
            shutil.rmtree(path)
    assert killed >= 25


def test_killed_again_and_again_by_several_writers_at_once(server: Writers, path: Path) -> None:
    answers: list[dict[str, Any]] = []
    for round_number in range(5):
        answers += server.play(path, 30 * round_number, 10, die=f"write_all:{6 + round_number}", times=3)
    assert all(answer["code"] == -9 for answer in answers)
    check(path, answers, 150)


def test_two_writer_processes_and_a_reader_lose_nothing(server: Writers, path: Path) -> None:
    with Store.open(path) as reader:
        answers = server.play(path, 0, 40, times=2)
        assert [answer["code"] for answer in answers] == [0, 0]
        assert {trajectory.key.seed for trajectory in reader} == set(range(80))
    check(path, answers, 80)


@pytest.fixture(scope="module")
def journal_bytes(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes, list[int]]:
    """A journal of three records: its name, its bytes, and where each record ends."""
    path = tmp_path_factory.mktemp("journal") / "store"
    store = Store.create(path)
    ends = list[int]()
    for number in range(3):
        store.append(episode(number, steps=number))
        (file,) = (path / "journals").iterdir()
        ends.append(file.stat().st_size)
    content = file.read_bytes()
    store.close()
    return file.name, content, ends


def _store_with(folder: Path, name: str, content: bytes) -> Path:
    Store.create(folder).close()
    (folder / "journals" / name).write_bytes(content)
    return folder


def test_a_journal_cut_at_any_byte_has_the_records_before_it(
    tmp_path: Path, journal_bytes: tuple[str, bytes, list[int]]
) -> None:
    name, content, ends = journal_bytes
    path = _store_with(tmp_path / "store", name, content)
    every = range(ends[0], len(content) + 1)  # each byte of the last two frames
    for cut in [*range(0, ends[0], 29), *every]:
        (path / "journals" / name).write_bytes(content[:cut])
        with Store.open(path) as reader:
            found = [summary.task_id for summary in reader.summaries()]
        assert found == [f"task_{number}" for number, end in enumerate(ends) if end <= cut], cut


@pytest.mark.parametrize("missing", [1, 40, 200])
def test_a_torn_tail_is_cut_named_and_owed_again(
    tmp_path: Path, journal_bytes: tuple[str, bytes, list[int]], missing: int
) -> None:
    name, content, _ = journal_bytes
    path = _store_with(tmp_path / "store", name, content[:-missing])
    with Store.open(path, writable=True) as store:
        (notice,) = store.notices
        assert notice.severity == "info"
        assert "unfinished write: that episode is owed again" in notice.sentence
        assert store.done_ids() == {episode(number, steps=number).id for number in range(2)}
        store.append(episode(2, steps=2))
    with Store.open(path) as reader:
        assert list(reader) == [episode(number, steps=number) for number in range(3)]
        assert reader.verify() == []


@pytest.mark.parametrize("size", [0, 1, journal.HEADER_SIZE - 1, journal.HEADER_SIZE])
def test_a_journal_without_a_record_is_simply_removed(
    tmp_path: Path, journal_bytes: tuple[str, bytes, list[int]], size: int
) -> None:
    name, content, _ = journal_bytes
    path = _store_with(tmp_path / "store", name, content[:size])
    with Store.open(path, writable=True) as store:
        assert len(store) == 0
    assert not list((path / "journals").iterdir())


def test_a_live_writers_journal_is_not_sealed_by_another(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        store.append(episode(0))
        with Store.open(store.path, writable=True) as other:
            assert list(other) == [episode(0)]
        assert len(list((store.path / "journals").iterdir())) == 1
        store.append(episode(1))
        assert list(store) == [episode(0), episode(1)]
