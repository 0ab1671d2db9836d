"""What is docker's own: hardening as the engine tells it, faults of the engine, orphans and their reaper.

The engine that is killed here is a second one, on a socket of its own, so that nobody else's containers are lost.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from envs.sandbox import docker
from envs.sandbox.limits import Limits
from envs.sandbox.pool import Pool, open_pool
from trajectories.failures import InputError, SandboxError

pytestmark = pytest.mark.xdist_group("docker")


@pytest.fixture(autouse=True)
def engine() -> None:
    reason = docker.unavailable()
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def pool() -> Generator[Pool]:
    with open_pool("docker", 1, "docker-tests") as found:
        yield found


def containers(run: str) -> list[str]:
    with docker._daemon("list") as found:
        return [item.name for item in found.containers.list(all=True, filters={"label": f"{docker.RUN_LABEL}={run}"})]


def test_the_engine_tells_the_hardening(pool: Pool) -> None:
    with docker._daemon("inspect") as found:
        told = found.containers.get(pool.jails()[0].name).attrs
    host = told["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert set(host["CapAdd"]) <= {"SETUID", "SETGID", "KILL", "CAP_SETUID", "CAP_SETGID", "CAP_KILL"}
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["Memory"] == host["MemorySwap"] > 0
    assert 0 < host["PidsLimit"] <= 64
    assert host["NanoCpus"] == 10**9
    assert host["Privileged"] is False
    assert not host["Binds"]
    assert told["Mounts"] == []
    assert told["Config"]["Labels"][docker.LABEL] == docker.owner()


def test_only_the_zygote_holds_a_privilege(pool: Pool) -> None:
    """Told from outside: the supervisor is process 1 and holds none, the zygote those to give each child its user."""
    first = docker.process_of(pool.jails()[0].name)
    (zygote,) = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    held = {pid: int(_field(pid, "CapEff"), 16) for pid in (str(first), zygote)}
    assert held == {str(first): 0, zygote: 1 << 5 | 1 << 6 | 1 << 7}
    assert _field(str(first), "Uid") != "0"


def _field(pid: str, name: str) -> str:
    return next(
        line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(f"{name}:")
    )


def test_a_container_removed_by_hand_is_a_fault_and_the_next_lease_works(pool: Pool) -> None:
    with pool.lease() as worker:
        threading.Timer(0.3, docker.remove, (worker.jail.name,)).start()
        with pytest.raises(SandboxError):
            worker.run_program("import time; time.sleep(30)", limits=Limits(wall_s=40))
    with pool.lease() as worker:
        assert worker.run_program("print(1)").stdout == b"1\n"


def test_a_full_scratch_folder_is_the_codes_own_affair(pool: Pool) -> None:
    source = "n = 0\ntry:\n while True: open(f'/tmp/{n}', 'wb').write(bytes(2**23)); n += 1\nexcept OSError as error: print(error.strerror)"
    with pool.lease() as worker:
        assert worker.run_program(source).stdout == b"No space left on device\n"
    with pool.lease() as worker:
        assert worker.run_program("open('/tmp/x', 'wb').write(bytes(2**23)); print(1)").stdout == b"1\n"


def test_memory_that_the_kernel_takes_back_is_a_memory_limit(pool: Pool) -> None:
    """Shared memory is no process's own: the container's limit ends it, or the file system's."""
    source = "import mmap, os\nkept = []\nwhile True:\n m = mmap.mmap(-1, 2**24); m.write(bytes(2**24)); kept.append(m)"
    with pool.lease() as worker:
        result = worker.run_program(source, limits=Limits(wall_s=10))
    assert result.status.value in ("memory_limit", "ok"), result
    assert result.exit_code != 0
    with pool.lease() as worker:
        assert worker.run_program("print(1)").stdout == b"1\n"


ORPHAN = """
import os, sys, time
from envs.sandbox.pool import open_pool
from envs.sandbox.limits import Limits
with open_pool("{kind}", 2, "{run}") as pool, pool.lease() as worker:
    print(worker.jail.name, flush=True)
    worker.run_program("import time; time.sleep(600)", limits=Limits(wall_s=600))
"""


def test_a_run_that_was_killed_leaves_no_container() -> None:
    run = f"orphan-{os.getpid()}"
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN.format(kind="docker", run=run)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        time.sleep(0.5)
        assert len(containers(run)) == 1
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while containers(run) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert containers(run) == []


def test_an_orphan_that_stays_is_removed_by_the_reaper() -> None:
    """One that does not hear its connection end: its owner is a process that is dead."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as dead:
        pass
    owner = ":".join((*docker.owner().split(":")[:2], str(dead.pid), "1"))
    with docker._daemon("start") as found:
        found.containers.run(
            docker.tag(),
            ["sleep", "600"],
            labels={docker.LABEL: owner, docker.RUN_LABEL: "stays"},
            network_mode="none",
            detach=True,
        )
        other = found.containers.run(
            docker.tag(),
            ["sleep", "600"],
            labels={docker.LABEL: docker.owner(), docker.RUN_LABEL: "lives"},
            network_mode="none",
            detach=True,
        )
    try:
        docker.reap()  # or a pool that somebody opens at the same time
        assert containers("stays") == []
        assert containers("lives") == [other.name]
    finally:
        docker.remove(other.name)


def test_an_image_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envs.sandbox.jail.supervisor_digest", lambda: "0" * 12)
    assert "harness sandbox build" in docker.unavailable()
    with pytest.raises(InputError, match="harness sandbox build"):
        open_pool("docker", 1)


def test_a_base_that_is_not_there_is_told() -> None:
    with pytest.raises(InputError, match="--base"):
        docker.build("lopd-harness-no-such-base:1")


@pytest.fixture
def second_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator["SecondEngine"]:
    with docker._daemon("save the image") as found:
        image = tmp_path / "image.tar"
        with image.open("wb") as file:
            file.writelines(found.images.get(docker.tag()).save(named=True))
    own = SecondEngine(Path("/run/harness-tests"), tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{own.socket}")
    try:
        own.start()
        with docker._daemon("load the image") as found, image.open("rb") as file:
            found.images.load(file)
        yield own
    finally:
        own.stop()


class SecondEngine:
    """A dockerd with a socket, data and state of its own."""

    def __init__(self, run: Path, data: Path) -> None:
        run.mkdir(exist_ok=True)
        self.socket, self.run, self.data = run / "docker.sock", run, data
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        bare = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false", "--ip-masq=false"]
        places = [
            f"--host=unix://{self.socket}",
            f"--data-root={self.data / 'data'}",
            f"--exec-root={self.run / 'exec'}",
            f"--pidfile={self.run / 'pid'}",
        ]
        with (self.data / "log").open("ab") as log:
            self.process = subprocess.Popen(["dockerd", *bare, *places], stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                docker.client(2).close()
            except SandboxError:
                time.sleep(0.3)
            else:
                return
        pytest.fail((self.data / "log").read_text()[-2000:])

    def kill(self) -> None:
        """The engine and its containerd, as a service manager would; what runs in the containers is left to itself."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        pid_file = self.run / "exec/containerd/containerd.pid"
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        for path in (pid_file, self.run / "pid"):
            path.unlink(missing_ok=True)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.run).encode() in (folder / "cmdline").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted(mounts, reverse=True):
            if place.startswith((str(self.run), str(self.data))):
                subprocess.run(["umount", place], check=True)
        shutil.rmtree(self.run)
        shutil.rmtree(self.data / "data")


def test_an_engine_killed_in_mid_run_is_a_fault_and_comes_back(second_engine: SecondEngine) -> None:
    with open_pool("docker", 1, "second") as pool:
        with pool.lease() as worker:
            assert worker.run_program("print(1)").stdout == b"1\n"
            threading.Timer(0.5, second_engine.kill).start()
            with pytest.raises(SandboxError):
                worker.run_program("import time; time.sleep(30)", limits=Limits(wall_s=40))
        deadline = time.monotonic() + 60
        while pool.jails() and time.monotonic() < deadline:
            time.sleep(0.1)
        with pytest.raises(SandboxError, match="No Docker daemon answers"), pool.lease():
            pass
        second_engine.start()
        with pool.lease() as worker:
            assert worker.run_program("print(2)").stdout == b"2\n"
    docker.reap()
    assert containers("second") == []
