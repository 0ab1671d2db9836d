"""The store, used as intended: what goes in comes out, the latest wins, filters and readers see what was reported done."""

import errno
import math
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from toystore import OURS, THEIRS, episode

from trajectories import durable, journal_records
from trajectories import store as module
from trajectories.failures import InfrastructureError, InputError
from trajectories.schema import Message, ToolSpec, Trajectory, Verdict, digest
from trajectories.store import Store, find_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store") as made:
        yield made


def fill(store: Store, count: int, **changes: Any) -> list[Trajectory]:
    made = [episode(number, **changes) for number in range(count)]
    for trajectory in made:
        store.append(trajectory)
    return made


def reopened(store: Store, **options: Any) -> Store:
    store.close()
    return Store.open(store.path, **options)


@pytest.mark.parametrize("sealed", [False, True])
def test_what_was_appended_comes_back(store: Store, sealed: bool) -> None:
    made = fill(store, 30)
    if sealed:
        store.seal()
    assert list(store) == made
    assert [store.get(trajectory.id) for trajectory in reversed(made)] == made[::-1]
    assert len(store) == 30
    assert store.done_ids() == {trajectory.id for trajectory in made}
    assert made[3].id in store
    assert made[3].id[:5] not in store


@pytest.mark.parametrize("sealed", [False, True])
def test_odd_values_come_back(store: Store, sealed: bool) -> None:
    odd = [
        episode(0, id="", reward=math.nan, text="\x00"),
        episode(1, id="é'\"\x00", reward=-0.0, data="x" * 5_000_000),
        episode(2, id="5 MB", text="0123456789" * 500_000),
        episode(3, id="big", steps=0, opening=(Message(role="user", content="\ud83d"),)),
        episode(4, id="big seed").model_copy(update={"key": episode(4).key.model_copy(update={"seed": 2**70})}),
        episode(5, id="inf", verdicts={"official": Verdict(grader="g", passed=False, score=math.inf)}),
    ]
    for trajectory in odd:
        store.append(trajectory)
    if sealed:
        store.seal()
    for trajectory in odd:
        assert store.get(trajectory.id).to_json() == trajectory.to_json()
    found = {summary.id: summary for summary in store.summaries()}
    assert math.isnan(found[""].reward)
    assert found["big seed"].seed == 2**70
    assert found["inf"].official == math.inf
    assert store.verify() == []


def test_a_count_beyond_64_bits_is_refused_in_one_sentence(store: Store) -> None:
    with pytest.raises(InputError, match="more than 64 bits"):
        store.append(episode(0, tries=2**63))
    assert len(store) == 0


@pytest.mark.parametrize("sealed", [False, True])
def test_the_latest_record_of_an_id_wins(store: Store, sealed: bool) -> None:
    fill(store, 3)
    if sealed:
        store.seal()
    store.append(episode(1, reward=0.125))
    assert [trajectory.reward for trajectory in store] == [1.0, 1.0, 0.125]
    assert len(store) == 3
    with reopened(store) as again:
        assert again.get(episode(1).id).reward == 0.125


@pytest.mark.parametrize("sealed", [False, True])
def test_a_fault_of_ours_never_replaces_a_done_record_and_stays_owed(store: Store, sealed: bool) -> None:
    store.append(episode(0, failure=OURS))
    store.append(episode(1, failure=THEIRS))
    store.append(episode(2))
    if sealed:
        store.seal()
    assert store.done_ids() == {episode(1).id, episode(2).id}
    store.append(episode(2, failure=OURS))
    store.append(episode(0))
    with reopened(store) as again:
        assert again.done_ids() == {episode(at).id for at in range(3)}
        assert again.get(episode(2).id) == episode(2)
        assert again.get(episode(0).id) == episode(0)


def test_a_clock_that_steps_back_changes_no_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append(episode(0))
    store.close()
    monkeypatch.setattr(time, "time_ns", lambda: 1)
    with Store.open(store.path, writable=True) as later:
        later.append(episode(0, reward=0.5))
        later.append(episode(0, reward=0.75))
        assert later.get(episode(0).id).reward == 0.75


def test_amended_verdicts_last_and_nothing_else_changes(store: Store) -> None:
    fill(store, 3)
    fresh = {
        "official": Verdict(grader="official@2", passed=True, score=0.75),
        "strict": Verdict(grader="s", passed=False, score=0),
    }
    store.amend_verdicts(episode(1).id, fresh)
    with reopened(store) as again:
        assert again.get(episode(1).id) == episode(1).model_copy(update={"verdicts": fresh})
        assert [summary.official for summary in again.summaries()] == [1.0, 1.0, 0.75]
    with pytest.raises(KeyError):
        reopened(store, writable=True).amend_verdicts("unknown", {})


def test_amending_while_iterating_meets_each_id_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajectories.catalogue._PAGE", 16)
    made = fill(store, 50)
    seen = [trajectory.id for trajectory in store if store.amend_verdicts(trajectory.id, {}) is None]
    assert seen == [trajectory.id for trajectory in made]
    assert all(not trajectory.verdicts for trajectory in store)


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 1, 2, 3, 4, 5]),
    ({"category": "category_1"}, [1, 4]),
    ({"category": ["category_1", "category_2"], "agent": "agent_0"}, [2, 4]),
    ({"task_id": ["task_5"]}, [5]),
    ({"ended": "failed"}, [4, 5]),
    ({"boundary": "agent"}, [4]),
    ({"failure": "InfrastructureError"}, [5]),
    ({"done": True}, [0, 1, 2, 3, 4]),
    ({"done": False}, [5]),
    ({"min_score": 0.5}, [0, 2]),
    ({"max_score": 0.5}, [1, 3]),
    ({"min_steps": 3}, [3]),
    ({"benchmark": "none"}, []),
]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(("filters", "expected"), FILTERS)
def test_filters(store: Store, filters: dict[str, Any], expected: list[int], sealed: bool) -> None:
    made = [episode(at, steps=3 if at == 3 else 2, failure={4: THEIRS, 5: OURS}.get(at)) for at in range(6)]
    for trajectory in made:
        store.append(trajectory)
    if sealed:
        store.seal()
    wanted = [made[at] for at in expected]
    assert [summary.id for summary in store.summaries(**filters)] == [trajectory.id for trajectory in wanted]
    assert list(store.iterate(**filters)) == wanted


def test_an_unknown_filter_names_the_known_ones(store: Store) -> None:
    with pytest.raises(InputError, match=r"Unknown filter 'catgory'\. Known: agent, "):
        list(store.summaries(catgory="x"))  # type: ignore[call-arg]


def test_filters_read_no_bodies(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, 5)
    store.seal()
    fill(store, 2)
    monkeypatch.setattr(module, "unpack", lambda *_: pytest.fail("a body was read"))
    monkeypatch.setattr(Store, "_read", lambda *_: pytest.fail("a body was read"))
    assert len(list(store.summaries(min_steps=1))) == 5


def test_a_reader_sees_each_record_once_it_was_reported_done(store: Store) -> None:
    with Store.open(store.path) as reader:
        for number in range(20):
            store.append(episode(number))
            assert reader.get(episode(number).id) == episode(number)
            if number == 10:
                store.seal()
        assert list(reader) == list(store)
        store.compact()
        assert list(reader) == list(store)
        store.amend_verdicts(episode(3).id, {})
        assert reader.get(episode(3).id).verdicts == {}
        assert episode(3).id in reader


def test_two_writers_share_a_store(store: Store) -> None:
    with Store.open(store.path, writable=True) as other:
        for number in range(0, 20, 2):
            store.append(episode(number))
            other.append(episode(number + 1))
        assert list(store) == list(other) == [episode(number) for number in range(20)]
        other.append(episode(4, reward=0.25))
        assert store.done_ids() == {episode(number).id for number in range(20)}
        assert next(iter(store.summaries(task_id="task_4"))).reward == 0.25


def test_sealing_happens_in_the_background_of_appends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEAL_RECORDS", 10)
    made = fill(store, 35)
    assert list(store) == made
    store._sealer.drain()
    assert len(list((store.path / "segments").iterdir())) == 3
    assert len(list((store.path / "journals").iterdir())) == 1
    assert list(store) == made


def test_threads_that_append_at_once_share_an_fsync(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = 0
    real = durable.sync

    def slow_sync(fd: int) -> None:
        nonlocal syncs
        syncs += 1
        time.sleep(0.01)
        real(fd)

    monkeypatch.setattr(durable, "sync", slow_sync)
    threads = [threading.Thread(target=lambda at=at: fill_from(store, at * 10, 10)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 80
    assert syncs < 40


def fill_from(store: Store, first: int, count: int) -> None:
    for number in range(first, first + count):
        store.append(episode(number))


def test_threads_whose_shared_fsync_fails_all_hear_why_and_none_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(episode(0))

    def full(fd: int) -> None:
        time.sleep(0.05)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    heard: list[str] = []

    def append(number: int) -> None:
        try:
            store.append(episode(number))
        except InfrastructureError as error:
            heard.append(str(error))

    with monkeypatch.context() as patched:
        patched.setattr(durable, "sync", full)
        threads = [threading.Thread(target=append, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(heard) == 4
    assert all("No space left" in sentence for sentence in heard)
    store.append(episode(9))
    with Store.open(store.path) as reader:
        assert list(store) == list(reader) == [episode(0), episode(9)]


def test_every_append_is_synced_before_it_returns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    write, sync = durable.write_all, durable.sync
    monkeypatch.setattr(durable, "write_all", lambda fd, data: (events.append("write"), write(fd, data)))
    monkeypatch.setattr(durable, "sync", lambda fd: (events.append("sync"), sync(fd)))
    for number in range(3):
        store.append(episode(number))
        events.append("done")
    assert events[-9:] == ["write", "sync", "done"] * 3


def test_what_episodes_have_in_common_is_stored_once(store: Store) -> None:
    long = tuple(ToolSpec(name=digest(at), description=digest([at]) * 10) for at in range(200))
    store.append(episode(0, tools=long))
    first = store.size_bytes()
    fill(store, 21, tools=long)
    each = (store.size_bytes() - first) / 21
    assert each < 1500 < first / 5  # zstd alone makes no less of these tools than `first`


def test_segments_can_be_queried_with_parquet_tools(store: Store) -> None:
    fill(store, 10)
    store.seal()
    (path,) = (store.path / "segments").iterdir()
    table = pq.read_table(path, columns=["task_id", "official", "steps"], filters=[("official", ">=", 0.5)])
    assert table.to_pydict()["task_id"] == [f"task_{at}" for at in range(0, 10, 2)]


def test_compacting_merges_segments_and_leaves_superseded_records_out(store: Store) -> None:
    for _ in range(4):
        fill(store, 12)
        store.seal()
    before = list(store)
    did = store.compact()
    assert (did.records, did.superseded) == (12, 36)
    assert did.bytes_after < did.bytes_before / 2
    assert len(list((store.path / "segments").iterdir())) == 1
    assert list(store) == before
    assert store.verify() == []
    (only,) = (store.path / "segments").iterdir()
    store.compact()
    assert [*(store.path / "segments").iterdir()] == [only]
    with reopened(store) as again:
        assert list(again) == before


def test_compacting_into_several_segments_keeps_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajectories.upkeep.SEGMENT_RECORDS", 7)
    fill(store, 20)
    store.seal()
    fill(store, 3)
    expected = list(store)
    store.compact()
    assert len(list((store.path / "segments").iterdir())) == 3
    (store.path / "catalogue.sqlite").unlink()
    with Store.open(store.path) as fresh:
        assert list(fresh) == expected


def test_only_one_process_compacts(store: Store) -> None:
    with module._only_one(store.path / "compact.lock"), pytest.raises(InputError, match="Another process compacts"):
        store.compact()


def test_the_catalogue_can_be_deleted_at_any_time(store: Store) -> None:
    made = fill(store, 10)
    store.seal()
    made += [episode(number) for number in range(10, 15)]
    fill_from(store, 10, 5)
    for path in store.path.glob("catalogue.sqlite*"):
        path.unlink()
    with Store.open(store.path) as reader:
        assert list(reader) == made
        assert not (store.path / "catalogue.sqlite").exists()
    with Store.open(store.path, writable=True) as again:
        assert list(again) == made
        assert (store.path / "catalogue.sqlite").exists()


@pytest.mark.parametrize("garbage", [b"", b"not a database at all, but long enough to have a header" * 200])
def test_a_catalogue_of_garbage_is_built_anew(store: Store, garbage: bytes) -> None:
    made = fill(store, 10)
    store.close()
    for path in store.path.glob("catalogue.sqlite*"):
        path.unlink()
    (store.path / "catalogue.sqlite").write_bytes(garbage)
    with Store.open(store.path) as reader:
        assert list(reader) == made
    with Store.open(store.path, writable=True) as again:
        assert list(again) == made


def test_writing_to_a_reader_a_closed_store_or_after_a_fork_is_refused(store: Store) -> None:
    with Store.open(store.path) as reader, pytest.raises(RuntimeError, match="writable=True"):
        reader.append(episode(0))
    child = os.fork()
    if child == 0:
        try:
            store.append(episode(0))
        except RuntimeError as error:
            os._exit(0 if "before a fork" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.close()
    with pytest.raises(RuntimeError, match="closed"):
        store.append(episode(0))


def test_a_store_is_made_only_in_a_folder_of_its_own(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already is a trajectory store"):
        Store.create(store.path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InputError, match="not empty"):
        Store.create(tmp_path / "mine")
    with pytest.raises(InputError, match=r"there is no store\.json"):
        Store.open(tmp_path / "mine")
    with pytest.raises(InputError, match="neither a trajectory store nor a run folder"):
        find_store(tmp_path / "nowhere")
    assert find_store(store.path) == store.path
    with Store.create(tmp_path / "run" / "trajectories"):
        assert find_store(tmp_path / "run") == tmp_path / "run" / "trajectories"


def test_prefixes_find_ids(store: Store) -> None:
    for name in ("abc", "abd", "b%", "b_"):
        store.append(episode(0, id=name))
    assert store.ids("ab") == ["abc", "abd"]
    assert store.ids("b%") == ["b%"]
    assert store.ids("x") == []
    assert store.ids("", 2) == ["abc", "abd"]


def test_a_journal_is_read_only_where_it_grew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(store.path) as reader:
        fill(store, 5)
        assert len(reader) == 5
        monkeypatch.setattr(journal_records.RecordReader, "_new_frames", lambda _: pytest.fail("it was read again"))
        assert len(reader) == 5


def test_a_store_whose_making_was_killed_can_be_made_again(tmp_path: Path) -> None:
    for name in ("journals", "segments"):
        (tmp_path / name).mkdir()
    (tmp_path / ".store.json.4711.tmp").write_text("{")
    with Store.create(tmp_path) as store:
        store.append(episode(0))
    with Store.open(tmp_path) as store:
        assert len(store) == 1
