"""Jails out of Linux namespaces, for machines without Docker. Linux >= 5.14; root or any user who may make user namespaces."""

import base64
import contextlib
import errno
import importlib.util
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from envs.sandbox import jail, syscalls, wire
from trajectories.failures import InputError, SandboxError

TMP_MIB = 64
INNER_UID = 1000
FIRST_HOST_ID = 1_879_048_192
"""Start of the range of host ids that a real root's jails use (0x70000000): far above what systems hand out."""
HOST_IDS = 65_536
CHILD_IDS = (10_000, 50_000)
REFUSALS = (errno.EPERM, errno.ENOSPC, errno.EINVAL, errno.ENOSYS, errno.EACCES)
"""What the kernel says where it gives no namespaces."""
PACKAGES_AT = "/opt/packages"
LINKS = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin")
FILES = ("/etc/ld.so.cache", "/etc/alternatives")
UNSAFE_PREFIX = "harness-unsafe-"
UNSAFE = "Code runs without a jail (unsafe): it can read, write and send whatever you can."


def start(
    *, preload: Sequence[str] = (), packages: Sequence[str] = ("numpy",), launcher: Sequence[str] = ()
) -> jail.Jail:
    """A jail of the system's own Python. InputError, with the way out, where this machine can't give one.

    `packages` are importable inside if they are installed here; `preload` are modules that are imported before any submission.
    A `launcher` is a command that runs ours without root's rights, such as `setpriv --reuid 1000 --regid 1000 --clear-groups`.
    """
    require_linux()
    setup = _setup(preload, own_pids=True) | {
        "site": [PACKAGES_AT],
        "filter": base64.b64encode(syscalls.compiled()).decode(),
    }
    outer: dict[str, Any] = {"inner_uid": INNER_UID}
    if os.geteuid() == 0 and not launcher:
        outer = {"inner_uid": None}
        setup |= {"uids": CHILD_IDS, "host_uids": (FIRST_HOST_ID, HOST_IDS), "own_uid": FIRST_HOST_ID + HOST_IDS - 2}
    outer |= {"host": os.getpid(), "python": _interpreter(), "supervisor": str(jail.SUPERVISOR), "tmp_mib": TMP_MIB}
    outer |= {"binds": list(binds(packages)), "environment": jail.ENVIRONMENT}
    program = Path(__file__).with_name("namespaces.py")
    return _launch("local", [*launcher, _interpreter(), "-I", "-S", str(program), json.dumps(outer)], setup)


def start_unsafe(*, preload: Sequence[str] = ()) -> jail.Jail:
    """The same supervisor without any jail: resource limits only. For developers on systems that can do no better."""
    warnings.warn(UNSAFE, UserWarning, stacklevel=3)
    scratch = tempfile.TemporaryDirectory(prefix=f"{UNSAFE_PREFIX}{os.getpid()}-")
    setup = _setup(preload, own_pids=False) | {"bare": True, "cwd": scratch.name, "site": []}
    return _launch("unsafe", [_interpreter(), "-s", "-P", "-S", str(jail.SUPERVISOR)], setup, scratch)


def require_linux() -> None:
    if sys.platform != "linux":
        raise InputError(f"The local sandbox needs Linux, and this is {platform.system()}: use --sandbox docker.")
    release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    if release < (5, 14):
        raise InputError(
            f"The local sandbox needs Linux 5.14 for its process limits, and this is {platform.release()}: use --sandbox docker."
        )


def _setup(preload: Sequence[str], *, own_pids: bool) -> dict[str, Any]:
    return {
        "own_pids": own_pids,
        "bare": False,
        "uids": None,
        "host_uids": None,
        "own_uid": None,
        "filter": None,
        "preload": list(preload),
        "site": [],
        "cwd": "/tmp",  # noqa: S108 - the jail's own
    }


def _interpreter() -> str:
    """The system's Python behind a virtual environment."""
    return str(Path(sys.executable).resolve())


def binds(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(source, target) of all that a jail sees of this machine, read-only."""
    base = str(Path(sys.base_prefix).resolve())
    yield "/usr", "/usr"
    for path in LINKS:
        if os.path.lexists(path):
            yield path, path
    if not base.startswith("/usr/") and base != "/usr":
        yield base, base
    for path in FILES:
        if Path(path).exists():
            yield path, path
    for name in packages:
        yield from _package(name)


def _package(name: str) -> Iterator[tuple[str, str]]:
    """An installed package and the folder of libraries that wheels put beside it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return
    folder = Path(next(iter(spec.submodule_search_locations))).resolve()
    for path in (folder, folder.with_name(f"{name}.libs")):
        if path.is_dir():
            yield str(path), f"{PACKAGES_AT}/{path.name}"


def _launch(kind: str, command: Sequence[str], setup: dict[str, Any], scratch: Any = None) -> jail.Jail:
    ours, theirs = socket.socketpair()
    said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the jail
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=said,
            env=jail.ENVIRONMENT,
            cwd="/",
        )
    connection = wire.Connection(wire.SocketStream(ours))
    end = partial(_end, process, said, scratch)
    try:
        python = jail.greet(connection, setup, lambda: _words(process, said))
    except BaseException as error:
        connection.close()
        refusal = _refusal(process, said) if isinstance(error, SandboxError) else None
        end()
        if refusal is not None:
            raise refusal from error
        raise
    return jail.Jail(kind, connection, python, str(process.pid), end)


def _end(process: "subprocess.Popen[bytes]", said: IO[bytes], scratch: Any) -> None:
    """The supervisor ends when its connection does, and its namespaces with it; whoever is late is killed."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.kill()
    process.wait()
    said.close()
    if scratch is not None:
        scratch.cleanup()


def _words(process: "subprocess.Popen[bytes]", said: IO[bytes]) -> str:
    """What the start left on standard error."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    said.seek(0)
    return said.read()[-2000:].decode(errors="replace").strip()


def _refusal(process: "subprocess.Popen[bytes]", said: IO[bytes]) -> InputError | None:
    """The kernel's own no, told as the user's sentence; None where the failure is another."""
    try:
        told = json.loads(_words(process, said))
    except ValueError:
        return None
    if told.get("errno") not in REFUSALS:
        return None
    return InputError(
        f"This kernel gives no namespaces for a local sandbox ({told['text']}): use --sandbox docker, "
        "or --unsafe to run the code without any protection."
    )


def reap_unsafe() -> list[Path]:
    """Remove the scratch folders of dead owners; jails proper leave none."""
    folders = Path(tempfile.gettempdir()).glob(f"{UNSAFE_PREFIX}*-*")
    dead = [path for path in folders if not Path(f"/proc/{path.name.split('-')[2]}").exists()]
    for path in dead:
        shutil.rmtree(path, ignore_errors=True)
    return dead
