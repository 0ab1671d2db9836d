"""A flipped bit anywhere is named or harmless, never a wrong trajectory; and there is a way on."""

import os
import random
import shutil
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toystore import episode

from trajectories import journal
from trajectories.failures import InputError
from trajectories.store import Store, StoreDamaged

FLIPS = int(os.environ.get("HARNESS_STORE_FLIPS", "40"))
COUNT = 40


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of two segments."""
    path = tmp_path_factory.mktemp("sealed") / "store"
    with Store.create(path) as store:
        for number in range(COUNT):
            store.append(episode(number))
            if number == COUNT // 2:
                store.seal()
    return path


@pytest.fixture(scope="module")
def unsealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose writer has died: all is in one journal."""
    folder = tmp_path_factory.mktemp("unsealed")
    with Store.create(folder / "live") as store:
        for number in range(8):
            store.append(episode(number))
        shutil.copytree(folder / "live", folder / "store")
        return folder / "store"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "store"


def flip(path: Path, at: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def forget_catalogue(path: Path) -> None:
    for file in path.glob("catalogue.sqlite*"):
        file.unlink()


def right_or_named(store: Store, count: int) -> set[int]:
    """Reads each episode: it is right, or StoreDamaged names its id. Gives those that are right."""
    right: set[int] = set()
    for number in range(count):
        wanted = episode(number)
        try:
            assert store.get(wanted.id) == wanted
            right.add(number)
        except StoreDamaged as error:
            named = wanted.id in str(error)
            assert named
        except KeyError:
            assert store.problems or store.verify()
    return right


@pytest.mark.study
@pytest.mark.parametrize("with_catalogue", [True, False])
def test_a_flipped_bit_in_a_segment_is_named(sealed: Path, copy: Path, with_catalogue: bool) -> None:
    rng = random.Random(11)
    for _ in range(FLIPS):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(sealed, copy)
        victim = rng.choice(sorted((copy / "segments").iterdir()))
        at = rng.randrange(victim.stat().st_size)
        flip(victim, at, rng.randrange(8))
        if not with_catalogue:
            forget_catalogue(copy)
            with pytest.raises(StoreDamaged, match=victim.name):
                Store.open(copy)
        with Store.open(copy, damaged_ok=True) as store:
            right = right_or_named(store, COUNT)
            assert len(right) >= COUNT // 2 - 1, at  # the other segment is untouched
            assert any(problem.place == victim.name for problem in store.verify()), at
        _mended(copy, right)


def _mended(path: Path, right: set[int]) -> None:
    """Compacting drops what can't be read, says so, and leaves a sound store in which it is owed again."""
    with Store.open(path, writable=True, damaged_ok=True) as store:
        did = store.compact(drop_damaged=True)
    with Store.open(path, writable=True) as store:
        kept = {trajectory.key.seed for trajectory in store}
        assert right <= kept
        assert store.verify() == []
        assert set(did.dropped).isdisjoint(store.done_ids())
        for number in set(range(COUNT)) - kept:
            store.append(episode(number))
        assert sorted(trajectory.key.seed for trajectory in store) == list(range(COUNT))
    assert list((path / "damaged").iterdir())


@pytest.mark.study
def test_a_flipped_bit_in_a_journal_is_named_or_harmless(unsealed: Path, copy: Path) -> None:
    rng = random.Random(12)
    shutil.copytree(unsealed, copy)
    (file,) = (copy / "journals").iterdir()
    content = file.read_bytes()
    last = _last_frame(content, file)
    for at in [*range(journal.HEADER_SIZE), *rng.sample(range(len(content)), 4 * FLIPS)]:
        file.write_bytes(content)
        flip(file, at, rng.randrange(8))
        with Store.open(copy, damaged_ok=True) as store:
            right_or_named(store, 8)
            problems = store.verify()
        assert [problem.place for problem in problems] != [], at
        if at < last:
            with pytest.raises((StoreDamaged, InputError), match=file.name):
                Store.open(copy)
        else:  # nothing tells the last frame from a write that never ended
            assert problems[0].severity == "info"


def _last_frame(content: bytes, file: Path) -> int:
    frames = list(journal.scan(content[journal.HEADER_SIZE :], file.stem, base=journal.HEADER_SIZE))
    return frames[-1].offset


def test_a_damaged_frame_leaves_the_others_readable_and_is_dropped_on_demand(unsealed: Path, copy: Path) -> None:
    shutil.copytree(unsealed, copy)
    (file,) = (copy / "journals").iterdir()
    frames = list(journal.scan(file.read_bytes()[journal.HEADER_SIZE :], file.stem, base=journal.HEADER_SIZE))
    flip(file, frames[3].offset + 200, 0)
    with pytest.raises(StoreDamaged, match=r"is damaged between bytes \d+ and \d+.*compact .* --drop-damaged"):
        Store.open(copy, writable=True)
    with Store.open(copy, damaged_ok=True) as reader:
        assert right_or_named(reader, 8) == {0, 1, 2, 4, 5, 6, 7}
    with Store.open(copy, writable=True, damaged_ok=True) as store:
        store.compact(drop_damaged=True)
    with Store.open(copy) as reader:
        assert sorted(trajectory.key.seed for trajectory in reader) == [0, 1, 2, 4, 5, 6, 7]
    assert (copy / "damaged" / file.name).exists()


def test_a_flipped_bit_in_a_segments_dictionary_makes_no_wrong_trajectory(sealed: Path, copy: Path) -> None:
    shutil.copytree(sealed, copy)
    victim = min((copy / "segments").iterdir())
    flip(victim, victim.read_bytes().index(b'"body": "') + 200, 0)
    with Store.open(copy) as store, pytest.raises(StoreDamaged, match="The checksum of its metadata is wrong"):
        store.get(episode(0).id)


def test_a_missing_segment_is_named_with_what_was_in_it(sealed: Path, copy: Path) -> None:
    shutil.copytree(sealed, copy)
    gone = min((copy / "segments").iterdir())
    gone.unlink()
    with pytest.raises(StoreDamaged, match=rf"{gone.name} is damaged: it is missing\. It holds 21 trajectories"):
        Store.open(copy)
    with Store.open(copy, damaged_ok=True) as reader:
        assert len(right_or_named(reader, COUNT)) == COUNT - 21
    with Store.open(copy, writable=True, damaged_ok=True) as store:
        assert len(store.compact(drop_damaged=True).dropped) == 21
    with Store.open(copy) as reader:
        assert len(reader) == COUNT - 21


def test_a_truncated_segment_is_named(sealed: Path, copy: Path) -> None:
    shutil.copytree(sealed, copy)
    victim = min((copy / "segments").iterdir())
    os.truncate(victim, victim.stat().st_size - 100)
    with pytest.raises(StoreDamaged, match="bytes instead of"):
        Store.open(copy)


def test_compacting_a_damaged_store_without_being_told_to_drop_changes_nothing(sealed: Path, copy: Path) -> None:
    shutil.copytree(sealed, copy)
    victim = min((copy / "segments").iterdir())
    _damage_a_body(copy, victim)
    before = {path.name: path.read_bytes() for path in (copy / "segments").iterdir()}
    with Store.open(copy, writable=True) as store, pytest.raises(StoreDamaged):
        store.compact()
    assert {path.name: path.read_bytes() for path in (copy / "segments").iterdir()} == before


def _damage_a_body(path: Path, victim: Path) -> None:
    content = victim.read_bytes()
    for at in range(1000, len(content), 97):
        flip(victim, at, 0)
        with Store.open(path) as reader:
            if any("can't be read" in problem.sentence for problem in reader.verify()):
                return
        victim.write_bytes(content)
    raise AssertionError("no flip touched a body")


def test_a_flipped_value_in_the_catalogue_is_found_by_verify(sealed: Path, copy: Path) -> None:
    shutil.copytree(sealed, copy)
    with Store.open(copy, writable=True) as store:
        store._catalogue._connection.execute("UPDATE main.records SET official = 0.25 WHERE task_id = 'task_3'")
    with Store.open(copy) as reader:
        (problem,) = reader.verify()
    assert problem.ids == (episode(3).id,)
    assert "delete catalogue.sqlite" in problem.sentence
    forget_catalogue(copy)
    with Store.open(copy) as reader:
        assert reader.verify() == []


def test_a_newer_store_is_refused(sealed: Path, copy: Path) -> None:
    shutil.copytree(sealed, copy)
    marker = copy / "store.json"
    marker.write_text(marker.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(
        InputError, match="has format 1 and schema version 2, this version reads up to 1 and 1: upgrade"
    ):
        Store.open(copy)
    marker.write_text("{")
    with pytest.raises(InputError, match="can't be read"):
        Store.open(copy)


def test_a_newer_journal_is_refused(unsealed: Path, copy: Path) -> None:
    shutil.copytree(unsealed, copy)
    (file,) = (copy / "journals").iterdir()
    content = file.read_bytes()
    for at, what in ((8, "journal format 2"), (10, "schema version 2")):
        fields = bytearray(content[: journal.HEADER_SIZE - 4])
        fields[at] = 2
        file.write_bytes(bytes(fields) + zlib.crc32(fields).to_bytes(4, "little") + content[journal.HEADER_SIZE :])
        with pytest.raises(InputError, match=f"has {what}, this version reads up to 1: upgrade"):
            Store.open(copy)


def test_a_newer_segment_is_refused(sealed: Path, copy: Path) -> None:
    shutil.copytree(sealed, copy)
    old = min((copy / "segments").iterdir())
    table, meta = pq.read_table(old), pq.ParquetFile(old).metadata.metadata[b"harness.segment"]
    said = meta[8:].replace(b'"schema": 1', b'"schema": 2')
    newer = f"{zlib.crc32(said):08x}".encode() + said
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"harness.segment": newer.decode()})
    content = sink.getvalue().to_pybytes()
    old.unlink()
    name = f"{old.name[:26]}{zlib.crc32(content):08x}.parquet"
    (copy / "segments" / name).write_bytes(content)
    forget_catalogue(copy)
    with pytest.raises(InputError, match="schema version 2, this version reads up to 1 and 1: upgrade"):
        Store.open(copy)
