"""Jails as long-lived, hardened Docker containers; the image they need, and what removes them after a run that was killed.

A container has no network, a read-only root, no capability but those that its zygote needs to give each child a user id of its
own, no new privileges, the engine's default seccomp profile (and ours on top, where libseccomp is here), and limits on memory,
swap, processes, CPU, files and scratch space. Its standard input is ours alone: when we die, it ends, and the engine removes it.
"""

import base64
import contextlib
import io
import os
import secrets
import socket
import struct
import tarfile
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from envs.sandbox import jail, syscalls, wire
from envs.sandbox.limits import Limits
from envs.sandbox.pool import Pool
from trajectories.failures import InputError, SandboxError

BASE = "python:3.12-slim"
REPOSITORY = "lopd-harness-sandbox"
LABEL = "lopd-harness.sandbox"
"""On images: the supervisor's digest. On containers: its owner, see `owner`."""
RUN_LABEL = "lopd-harness.run"
TMP_MIB = 64
OVERHEAD_MIB = 192
"""Memory of a container beyond what a submission may use: supervisor, zygote, scratch space."""
DAEMON_S = 30
"""Longest wait for one answer of the daemon."""
BUILD_S = 900
OLDEST_API = "1.41"
"""Of Docker 20.10; only to ask which one the daemon speaks."""
CAPABILITIES = ["SETUID", "SETGID", "KILL"]
COMMAND = ["python3", "-s", "-P", "-S", "/harness/supervisor.py"]
DOCKERFILE = """\
FROM {base}
RUN python3 -c "import numpy, pandas" || python3 -m pip install --no-cache-dir numpy pandas
COPY supervisor.py /harness/supervisor.py
LABEL {label}={digest}
"""
STREAM = struct.Struct(">BxxxI")
"""The engine's own framing of a container's output: stream, length."""


def tag() -> str:
    """The image that belongs to this version of the supervisor."""
    return f"{REPOSITORY}:{jail.supervisor_digest()}"


def client(timeout_s: int = DAEMON_S) -> Any:
    """A client of the daemon that the environment names. InputError where the SDK is missing, SandboxError where none answers."""
    try:
        import docker.errors
        import requests
    except ImportError as error:
        raise InputError('The docker sandbox needs the Docker SDK: pip install "lopd-harness[sandbox]".') from error
    _require_listener()
    try:
        asked = _api_version(docker.from_env(timeout=timeout_s, version=OLDEST_API))
        return docker.from_env(timeout=timeout_s, version=asked)
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise SandboxError(f"No Docker daemon answers: {_short(error)}") from error


def _require_listener() -> None:
    """SandboxError where nobody listens on the engine's local socket. The SDK finds out too, but leaves its own socket open then."""
    from docker.utils import parse_host

    kind, _, path = str(parse_host(os.environ.get("DOCKER_HOST"))).partition("://")
    if kind != "http+unix":
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(DAEMON_S)
        try:
            probe.connect(path)
        except OSError as error:
            raise SandboxError(f"No Docker daemon answers at {path}: {error.strerror or error}.") from error


def _api_version(engine: Any) -> str:
    """The newest that both sides speak. The SDK's own way to ask can't be closed where it fails."""
    from docker.constants import DEFAULT_DOCKER_API_VERSION

    try:
        theirs = str(engine.api.version(api_version=False)["ApiVersion"])
    finally:
        engine.close()
    return min(theirs, DEFAULT_DOCKER_API_VERSION, key=lambda version: [int(part) for part in version.split(".")])


@contextlib.contextmanager
def _daemon(what: str, timeout_s: int = DAEMON_S) -> Generator[Any]:
    """A client, closed in the end; whatever goes wrong between us and the daemon is a SandboxError."""
    import docker.errors
    import requests

    engine = client(timeout_s)
    try:
        yield engine
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise SandboxError(f"Docker could not {what}: {_short(error)}") from error
    finally:
        engine.close()


def _short(error: BaseException) -> str:
    return str(error).replace("\n", " ")[:300]


def unavailable() -> str:
    """Why docker can't be used here, in one sentence; empty where it can."""
    try:
        with _daemon("list images", 5) as engine:
            if not engine.images.list(name=tag()):
                return f"Docker answers, but has no image {tag()}: run `harness sandbox build`."
    except (InputError, SandboxError) as error:
        return str(error)
    return ""


def build(base: str = BASE, *, network: str | None = None) -> str:
    """Make the image of this version from any image that has Python >= 3.11; its tag. numpy and pandas are added where the base
    lacks them, which needs a network. SandboxError with the builder's last words where it fails."""
    import docker.errors

    with _daemon("build the image", BUILD_S) as engine:
        _require_base(engine, base)
        text = DOCKERFILE.format(base=base, label=LABEL, digest=jail.supervisor_digest())
        try:
            engine.images.build(
                fileobj=_context(text),
                custom_context=True,
                tag=tag(),
                rm=True,
                forcerm=True,
                network_mode=network or _build_network(engine),
            )
        except docker.errors.BuildError as error:
            words = " ".join(str(line.get("stream") or line.get("error") or "").strip() for line in error.build_log)[
                -600:
            ]
            raise SandboxError(f"The image could not be built: {words}") from error
    return tag()


def _build_network(engine: Any) -> str:
    """An engine without a bridge can still build from a base that has all it needs."""
    return "bridge" if engine.networks.list(names=["bridge"]) else "none"


def _require_base(engine: Any, base: str) -> None:
    import docker.errors

    with contextlib.suppress(docker.errors.ImageNotFound):
        engine.images.get(base)
        return
    try:
        engine.images.pull(*base.rsplit(":", 1)) if ":" in base else engine.images.pull(base, "latest")
    except docker.errors.APIError as error:
        raise InputError(
            f"The base image {base!r} is not here and can't be pulled: name one that is with --base. {_short(error)}"
        ) from error


def _context(dockerfile: str) -> io.BytesIO:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in (("Dockerfile", dockerfile.encode()), ("supervisor.py", jail.SUPERVISOR.read_bytes())):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o444
            archive.addfile(entry, io.BytesIO(content))
    data.seek(0)
    return data


def pool(workers: int, run_id: str, *, ceiling: Limits, preload: Sequence[str], runtime: str | None) -> Pool:
    """See `envs.sandbox.pool.open_pool`. Removes first what dead runs left."""
    reason = unavailable()
    if reason:
        raise InputError(reason)
    reap()
    return Pool(lambda: start(run_id, ceiling=ceiling, preload=preload, runtime=runtime), workers, ceiling)


def start(run_id: str, *, ceiling: Limits, preload: Sequence[str] = (), runtime: str | None = None) -> jail.Jail:
    """One container, standing."""
    name = f"{REPOSITORY}-{secrets.token_hex(8)}"
    try:
        with _daemon("start a sandbox") as engine:
            machine = engine.version()["Arch"]
            container = engine.containers.create(tag(), COMMAND, name=name, **_settings(run_id, ceiling, runtime))
            stream = _attach(container)
            container.start()
            return _greeted(stream, name, _setup(preload, machine))
    except BaseException:
        remove(name)
        raise


def _greeted(stream: "AttachedStream", name: str, setup: dict[str, Any]) -> jail.Jail:
    connection = wire.Connection(stream)
    try:
        python = jail.greet(connection, setup, lambda: _logs(name))
    except BaseException:
        connection.close()
        raise
    return jail.Jail("docker", connection, python, name, partial(remove, name))


def _setup(preload: Sequence[str], machine: str) -> dict[str, Any]:
    program = syscalls.for_machine({"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine))
    first = 100_000 + 1_000 * secrets.randbelow(
        1_000_000
    )  # so that two containers share no user id, whose processes the kernel counts
    return {
        "own_pids": False,
        "bare": False,
        "uids": (first + 10, 900),
        "host_uids": None,
        "own_uid": first,
        "filter": base64.b64encode(program).decode() if program else None,
        "preload": list(preload),
        "site": None,
        "cwd": "/tmp",  # noqa: S108 - the jail's own
    }


def _settings(run_id: str, ceiling: Limits, runtime: str | None) -> dict[str, Any]:
    memory = f"{ceiling.memory_mib + TMP_MIB + OVERHEAD_MIB}m"
    scratch = "rw,noexec,nosuid,nodev,mode=1777,nr_inodes=4096"
    return {
        "user": "0:0",
        "environment": jail.ENVIRONMENT,
        "working_dir": "/",
        "hostname": "sandbox",
        "labels": {LABEL: owner(), RUN_LABEL: run_id},
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "cap_add": CAPABILITIES,
        "security_opt": ["no-new-privileges:true"],
        "ipc_mode": "private",
        "shm_size": "1m",
        "tmpfs": {"/tmp": f"{scratch},size={TMP_MIB}m"},  # noqa: S108 - the jail's own
        "mem_limit": memory,
        "memswap_limit": memory,
        "pids_limit": max(64, ceiling.processes + 16),
        "nano_cpus": 1_000_000_000,
        "ulimits": _ulimits(ceiling),
        "log_config": {"type": "none", "config": {}},
        "stdin_open": True,
        "auto_remove": True,
        "runtime": runtime,
    }


def _ulimits(ceiling: Limits) -> list[dict[str, Any]]:
    files = max(64, ceiling.open_files)
    size = int(ceiling.file_mib * (1 << 20))
    pairs = (("nofile", files), ("fsize", size), ("core", 1), ("memlock", 0), ("msgqueue", 0))
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in pairs]


def _attach(container: Any) -> "AttachedStream":
    """Both directions, before the start, so that nothing is missed."""
    raw = container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 0, "stream": 1})
    return AttachedStream(raw)


class AttachedStream:
    """A container's standard input and output over the engine's connection."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._plain = wire.SocketStream(getattr(raw, "_sock", raw))
        self._buffer = bytearray()

    def send(self, data: bytes, deadline: float) -> None:
        self._plain.send(data, deadline)

    def receive(self, deadline: float) -> bytes:
        """The content of the next frames of standard output."""
        found = bytearray()
        while not found:
            self._buffer += self._plain.receive(deadline)
            self._take_frames(found)
        return bytes(found)

    def close(self) -> None:
        self._plain.close()
        self._raw.close()

    def _take_frames(self, found: bytearray) -> None:
        while len(self._buffer) >= STREAM.size:
            _, length = STREAM.unpack_from(self._buffer)
            if length > wire.MAX_FRAME:
                raise SandboxError(f"Docker announced {length} bytes of output at once.")
            end = STREAM.size + length
            if len(self._buffer) < end:
                return
            found += memoryview(self._buffer)[STREAM.size : end]
            del self._buffer[:end]


def _logs(name: str) -> str:
    """Why a container did not stand, as far as the engine tells."""
    with contextlib.suppress(SandboxError), _daemon("inspect a sandbox") as engine:
        import docker.errors

        with contextlib.suppress(docker.errors.NotFound):
            state = engine.containers.get(name).attrs["State"]
            return (
                f"Its container is {state['Status']}, exit status {state['ExitCode']}. {state.get('Error', '')}".strip()
            )
    return ""


def process_of(name: str) -> int:
    """Pid of a container's first process, as this machine counts."""
    with _daemon("inspect a sandbox") as engine:
        return int(engine.containers.get(name).attrs["State"]["Pid"])


def remove(name: str) -> None:
    """Remove a container, whatever its state. One that is gone, or whose daemon is, is no error: the reaper comes by later."""
    with contextlib.suppress(SandboxError, InputError), _daemon("remove a sandbox") as engine:
        import docker.errors

        with contextlib.suppress(docker.errors.NotFound, docker.errors.APIError):
            engine.api.remove_container(name, force=True, v=True)


def owner() -> str:
    """Who answers for a container: this machine's boot, its pid namespace, our pid and start time."""
    return ":".join((_boot(), str(Path("/proc/self/ns/pid").stat().st_ino), str(os.getpid()), _start_time(os.getpid())))


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_time(pid: int) -> str:
    """Clock ticks from boot to the process's start, which with its pid names it for good; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def orphaned(label: str, state: str) -> bool:
    """Whether the owner of a container is dead for certain. A container that doesn't run any more has no use for its owner."""
    if state in ("exited", "dead"):
        return True
    boot, namespace, pid, started = label.split(":")
    ours = owner().split(":")
    return (boot, namespace) == (ours[0], ours[1]) and _start_time(int(pid)) != started


def reap(*, everything: bool = False) -> list[str]:
    """Remove the containers of dead owners (`everything`: of living ones too); their names."""
    import docker.errors

    removed: list[str] = []
    with _daemon("list sandboxes") as engine:
        for container in engine.containers.list(all=True, filters={"label": LABEL}):
            label = container.labels.get(LABEL, "")
            if everything or (label.count(":") == 3 and orphaned(label, container.status)):
                with contextlib.suppress(docker.errors.NotFound, docker.errors.APIError):
                    engine.api.remove_container(container.id, force=True, v=True)
                removed.append(str(container.name))
    return removed


def remove_old_images() -> list[str]:
    """Remove the images of other versions of the supervisor; their tags."""
    removed: list[str] = []
    with _daemon("list images") as engine:
        for image in engine.images.list(name=REPOSITORY):
            for name in image.tags:
                if name != tag():
                    engine.images.remove(name, force=True)
                    removed.append(str(name))
    return removed
