"""A full, failing or read-only disk: one sentence, and nothing that was reported done is lost."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toystore import episode

from trajectories import durable
from trajectories import store as module
from trajectories.failures import InfrastructureError, InputError
from trajectories.store import Store


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 768 KiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=768k", "tmpfs", str(mount)], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"this user can't mount a small file system: {done.stderr.strip()}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk_loses_nothing_and_can_be_resumed(small_disk: Path) -> None:
    store = Store.create(small_disk / "store")
    done: list[int] = []
    while _fits(store, len(done)):
        done.append(len(done))
    assert len(done) > 20
    another = episode(5000, text=os.urandom(4096).hex())
    with pytest.raises(
        InfrastructureError, match=r"No space left to write .*\.journal .* free some space and resume\."
    ):
        store.append(another)
    assert {trajectory.key.seed for trajectory in store} == set(done)
    with pytest.raises(InfrastructureError):
        store.close()  # a segment has no room beside its journal
    with Store.open(small_disk / "store") as reader:
        assert {trajectory.key.seed for trajectory in reader} == set(done)
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    with Store.open(small_disk / "store", writable=True) as again:
        again.append(episode(1000))
        again.compact()
        assert {trajectory.key.seed for trajectory in again} == {*done, 1000}
        assert again.verify() == []


def _fits(store: Store, number: int) -> bool:
    try:
        store.append(episode(number, text=os.urandom(4096).hex()))
    except InfrastructureError:
        return False
    return True


def test_a_disk_that_was_full_takes_the_next_append_once_there_is_room(small_disk: Path) -> None:
    store = Store.create(small_disk / "store")
    store.append(episode(0))
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(1 << 20))
    with pytest.raises(InfrastructureError, match="No space left"):
        store.append(episode(1, text=os.urandom(40960).hex()))
    ballast.unlink()
    store.append(episode(2))
    store.close()
    with Store.open(small_disk / "store") as reader:
        assert list(reader) == [episode(0), episode(2)]
        assert reader.verify() == []


def test_a_read_only_store_can_be_read_and_not_be_opened_for_writing(small_disk: Path) -> None:
    with Store.create(small_disk / "store") as store:
        for number in range(5):
            store.append(episode(number))
        shutil.copytree(store.path, small_disk / "unsealed")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for name in ("store", "unsealed"):
        with pytest.raises(
            InputError, match=r"Can't write .* \(Read-only file system\)\. .*make it writable, or use a copy\."
        ):
            Store.open(small_disk / name, writable=True)
        with Store.open(small_disk / name) as reader:
            assert list(reader) == [episode(number) for number in range(5)]
            assert reader.verify() == []
    with pytest.raises(InputError, match="Can't write"):
        Store.create(small_disk / "another")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["write_all", "sync", "publish", "remove", "sync_folder"])
def test_a_call_that_fails_once_costs_at_most_what_was_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    monkeypatch.setattr(module, "SEAL_RECORDS", 4)
    for number in range(1, 10):
        path = tmp_path / f"store_{number}"
        Store.create(path).close()
        with monkeypatch.context() as patched:
            failures = _fail_once(patched, call, number, code)
            done = _append_through(path, 10)
        assert len(failures) <= 1
        with Store.open(path, writable=True) as again:
            assert done <= {trajectory.key.seed for trajectory in again} <= set(range(10))
            assert all(trajectory == episode(trajectory.key.seed) for trajectory in again)
            again.append(episode(10))
        with Store.open(path) as reader:
            assert [problem for problem in reader.verify() if problem.severity == "error"] == []


def _fail_once(patched: pytest.MonkeyPatch, name: str, number: int, code: int) -> list[int]:
    """Lets one call of `durable` fail: a write after half of its bytes. Other calls work."""
    real, calls, failed = getattr(durable, name), list[int](), list[int]()

    def failing(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) != number:
            return real(*arguments)
        failed.append(1)
        if name == "write_all":
            real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
        raise OSError(code, os.strerror(code))

    patched.setattr(durable, name, failing)
    return failed


def _append_through(path: Path, count: int) -> set[int]:
    """Appends; opening, an append, and closing may each fail, with one sentence."""
    done: set[int] = set()
    sentences: list[str] = []
    try:
        with Store.open(path, writable=True) as store:
            for number in range(count):
                try:
                    store.append(episode(number))
                    done.add(number)
                except InfrastructureError as error:
                    sentences.append(str(error))
    except InfrastructureError as error:
        sentences.append(str(error))
    assert all("othing that was reported done is lost" in sentence for sentence in sentences)
    return done
