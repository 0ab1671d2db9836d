"""Leases under load, replacement of jails, the choice between kinds, faults of the jail itself."""

import os
import signal
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest

from envs.sandbox import docker, jail, local, promises, wire
from envs.sandbox.limits import Limits
from envs.sandbox.pool import Pool, open_pool
from envs.sandbox.results import Status
from envs.sandbox.worker import Code, Worker, request
from trajectories.failures import InputError, SandboxError


@pytest.fixture
def two() -> Generator[Pool]:
    with open_pool("local", 2, "tests") as pool:
        yield pool


def test_sixty_four_threads_on_two_workers_lose_nothing(two: Pool) -> None:
    def one(number: int) -> tuple[int, object]:
        with two.lease() as worker:
            if number % 16 == 5:
                return number, worker.run_program("while True: pass", limits=Limits(wall_s=0.2)).status
            if number % 16 == 9:
                return number, worker.run_program("import os; os.abort()").status
            return number, worker.call_all(Code("def f(x): return x * 2"), [request("f", number)]).results[0].value

    with ThreadPoolExecutor(64) as threads:
        found = dict(threads.map(one, range(128)))
    special = {5: Status.TIME_LIMIT, 9: Status.CRASHED}
    assert found == {number: special.get(number % 16, number * 2) for number in range(128)}
    assert sum(two.replaced.values()) == 16


def test_no_more_than_the_asked_number_of_jails_stand(two: Pool) -> None:
    most = 0

    def one(_: int) -> None:
        nonlocal most
        with two.lease() as worker:
            most = max(most, len(two.jails()))
            worker.run_program("import os; os.abort()")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(16)))
    assert most <= 2


def test_a_lease_that_is_not_to_be_had_is_a_fault_of_ours(two: Pool) -> None:
    with two.lease(), two.lease(), pytest.raises(SandboxError, match="None of 2 sandboxes came free"), two.lease(0.1):
        pass


def test_a_jail_is_replaced_after_two_hundred_submissions(two: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envs.sandbox.line.SUBMISSIONS", 3)
    for _ in range(8):
        with two.lease() as worker:
            assert worker.run_program("print(1)").stdout == b"1\n"
    assert two.replaced == {"after 3 submissions": 2}


def test_a_closed_pool_lends_nothing_and_leaves_no_process() -> None:
    pool = open_pool("local", 2, "tests")
    with pool.lease():
        pids = [int(found.name) for found in pool.jails()]
    pool.close()
    pool.close()
    with pytest.raises(SandboxError, match="closed"), pool.lease():
        pass
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]  # noqa: PTH110


def kill_tree(found: jail.Jail, depth: int) -> None:
    """SIGKILL to a process of a local jail: 0 its root on the host, 1 the supervisor, 2 the zygote."""
    pid = int(found.name)
    for _ in range(depth):
        with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
            pid = int(file.read().split()[0])
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("depth", [0, 1, 2], ids=["root", "supervisor", "zygote"])
def test_a_killed_part_of_the_jail_is_a_fault_of_ours_and_the_next_lease_works(two: Pool, depth: int) -> None:
    with two.lease() as worker:
        threading.Timer(0.3, kill_tree, (worker.jail, depth)).start()
        started = time.monotonic()
        with pytest.raises(SandboxError):
            worker.run_program("import time; time.sleep(30)", limits=Limits(wall_s=40))
        assert time.monotonic() - started < 10
        with pytest.raises(SandboxError, match="broken"):
            worker.run_program("print(1)")
    for _ in range(3):
        with two.lease() as worker:
            assert worker.run_program("print(1)").stdout == b"1\n"
    assert two.replaced == {"broken": 1}


def test_a_jail_that_died_at_rest_is_noticed_before_it_is_lent(two: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envs.sandbox.pool.IDLE_S", 0)
    kill_tree(two.jails()[0], 1)
    time.sleep(0.2)
    with two.lease() as worker:
        assert worker.run_program("print(1)").stdout == b"1\n"
    assert two.replaced == {"no answer": 1}


def test_calls_that_were_left_open_end_with_the_lease(two: Pool) -> None:
    with two.lease() as worker:
        worker.open_calls(Code("x = 1"))
    with two.lease() as worker:
        assert worker.run_program("print(1)").stdout == b"1\n"
    assert two.replaced == {"calls left open": 1}


def test_one_submission_at_a_time_even_on_one_worker(two: Pool) -> None:
    with two.lease() as worker:
        worker.open_calls(Code("import os, time\nif os.fork() == 0: time.sleep(99)\nx = 1"))
        seen = worker.run_program("import os; print(sum(n.isdigit() for n in os.listdir('/proc')))")
        assert int(seen.stdout) == 2


class Rubbish:
    """A stream of a jail that has been taken over."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def send(self, data: bytes, deadline: float) -> None: ...
    def receive(self, deadline: float) -> bytes:
        data, self.data = self.data, b""
        if not data:
            raise SandboxError("The jail ended unasked.")
        return data

    def close(self) -> None: ...


def framed(text: bytes, rest: bytes = b"") -> bytes:
    return wire.WORDS.pack(4 + len(text) + len(rest), len(text)) + text + rest


GARBAGE = {
    "noise": os.urandom(64),
    "nothing": b"",
    "a length of gigabytes": wire.WORDS.pack(2**31, 4),
    "a header longer than all": wire.WORDS.pack(8, 99) + b"xxxx",
    "no JSON": framed(b"{nope"),
    "a list": framed(b"[]"),
    "deep JSON": framed(b"[" * 50_000),
    "an empty object": framed(b"{}"),
    "sizes that lie": framed(b'{"sizes": [99]}', b"x"),
    "sizes below zero": framed(b'{"sizes": [-1, 2]}', b"x"),
    "sizes of text": framed(b'{"sizes": "ab"}', b"xx"),
    "a failure": framed(b'{"failed": "so"}'),
    "rows of no form": framed(b'{"rows": [1, 2], "more": false, "report": {}, "sizes": []}'),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_a_jail_that_speaks_rubbish_is_a_fault_and_never_a_verdict(data: bytes) -> None:
    def worker() -> Worker:
        return Worker(jail.Jail("none", wire.Connection(Rubbish(data)), "none-0", "0", lambda: None))

    with pytest.raises(SandboxError):
        worker().run_program("print(1)")
    with pytest.raises(SandboxError):
        worker().call_all(Code("x = 1"), [request("f")])
    with pytest.raises(SandboxError):
        worker().open_calls(Code("x = 1"))


def test_without_a_jail_it_is_loud_and_told_in_the_id() -> None:
    with pytest.warns(UserWarning, match="without a jail"):
        pool = open_pool("local", 1, "tests", unsafe=True)
    with pool, pool.lease() as worker:
        assert pool.id.startswith("unsafe:cpython-3.")
        assert worker.run_program("print(1)").stdout == b"1\n"
        result = worker.run_program(
            "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(99)\n os._exit(0)\nos.wait()"
        )
        assert result.usage.processes_left == 1


def test_the_kernels_no_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    no = ["sh", "-c", 'echo \'{"errno": 1, "text": "unshare: Operation not permitted"}\' >&2; exit 1', "sh"]
    with pytest.raises(InputError, match=r"gives no namespaces .* use --sandbox docker"):
        local.start(launcher=no)


def test_a_start_that_fails_otherwise_is_a_fault() -> None:
    with pytest.raises(SandboxError, match="did not start"):
        local.start(launcher=["sh", "-c", "echo oops >&2; exit 1", "sh"])


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="at least one worker"):
        open_pool("local", 0)
    with pytest.raises(InputError, match="no sandbox 'moon'"):
        open_pool("moon")  # type: ignore[arg-type]
    with (
        open_pool("local", 1, ceiling=Limits(memory_mib=64)) as pool,
        pool.lease() as worker,
        pytest.raises(InputError, match="memory_mib=64"),
    ):
        worker.run_program("print(1)", limits=Limits(memory_mib=65))


def test_an_engine_that_is_not_there_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    assert docker.unavailable().startswith("No Docker daemon answers")
    with pytest.raises(InputError, match="No Docker daemon answers"):
        open_pool("docker", 1)
    with open_pool("auto", 1) as pool:
        assert pool.id.startswith("local:")


def test_orphans_are_told_from_the_living() -> None:
    boot, namespace, pid, started = docker.owner().split(":")
    assert not docker.orphaned(docker.owner(), "running")
    assert docker.orphaned(":".join((boot, namespace, pid, "1")), "running")
    assert docker.orphaned(":".join((boot, namespace, "999999999", started)), "running")
    assert not docker.orphaned(":".join(("other", namespace, "999999999", started)), "running")
    assert docker.orphaned(":".join(("other", namespace, pid, started)), "exited")


def test_every_promise_holds(pool: Pool) -> None:
    assert [finding for finding in promises.findings(pool) if not finding.held] == []
