"""The body of `harness doctor`: what this machine has, what it lacks, and how to get it."""

import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.requirements import Requirement

from harness.console import out, out_json

DISK_MIB = 1024
"""Less free space than this is worth a warning."""


GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""One of these is there where a GPU's driver is: NVIDIA's, AMD's, Windows' under WSL."""


class Check(NamedTuple):
    """One line. `missing` is a fault, `optional` something that only some commands need."""

    what: str
    state: Literal["ok", "optional", "missing"]
    detail: str


def report(*, as_json: bool) -> int:
    """Print all checks; 1 if something that everything needs is missing."""
    checks = list(_checks())
    if as_json:
        out_json([check._asdict() for check in checks])
    else:
        for check in checks:
            out(f"{check.state:<8}  {check.what:<24}  {check.detail}")
    return int(any(check.state == "missing" for check in checks))


def _checks() -> Iterator[Check]:
    yield _python()
    yield from _packages()
    yield from _data()
    yield _docker()
    yield _gpu()
    yield from _folders()


def _python() -> Check:
    version = platform.python_version()
    state = "ok" if sys.version_info >= (3, 11) else "missing"
    return Check("python", state, f"{version} on {platform.system()} {platform.machine()} (3.11 or newer is needed)")


def _packages() -> Iterator[Check]:
    """Our own requirements, the extras' among them."""
    seen: set[str] = set()
    for line in importlib.metadata.requires("lopd-harness") or []:
        requirement = Requirement(line)
        extra = _extra(requirement)
        if requirement.name in seen:
            continue
        if extra in {"test", "dev", "all"} or (
            requirement.marker and not requirement.marker.evaluate({"extra": extra or ""})
        ):
            continue
        seen.add(requirement.name)
        yield _package(requirement, extra)


def _extra(requirement: Requirement) -> str | None:
    text = str(requirement.marker or "")
    return text.partition("extra == ")[2].strip("\"'() ") or None


def _package(requirement: Requirement, extra: str | None) -> Check:
    state: Literal["optional", "missing"] = "optional" if extra else "missing"
    install = f"pip install 'lopd-harness{f'[{extra}]' if extra else ''}'"
    what = f"package {requirement.name}"
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return Check(what, state, f"not installed: {install}")
    if not requirement.specifier.contains(version, prereleases=True):
        return Check(what, state, f"{version}, but {requirement.specifier} is needed: {install}")
    return Check(what, "ok", version)


def _data() -> Iterator[Check]:
    from envs import data

    for listed in data.listing():
        if listed.pulled:
            yield Check(f"data {listed.name}", "ok", f"{listed.pulled.version} in {listed.pulled.path}")
        else:
            problem = listed.problem or "not installed"
            yield Check(f"data {listed.name}", "optional", f"{problem}: 'harness data pull {listed.name}'")


def _docker() -> Check:
    """Whether a daemon listens, without the client library: nothing is asked of it."""
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not address.startswith("unix://"):
        return Check("docker", "ok", f"DOCKER_HOST is {address} (not tried)")
    path = address.removeprefix("unix://")
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(2)
            client.connect(path)
    except OSError as error:
        return Check("docker", "optional", f"no daemon answers at {path} ({error.strerror or error})")
    return Check("docker", "ok", f"a daemon answers at {path}")


def _gpu() -> Check:
    """What torch sees. It is asked in a process of its own, and only where there is a driver."""
    driver = next((path for path in GPU_DRIVERS if Path(path).exists()), None)
    if driver is None:
        return Check("gpu", "optional", "no driver is loaded: local models run on the CPU")
    if not _has_torch():
        return Check("gpu", "optional", f"{driver} is there, torch is not: pip install 'lopd-harness[hf]'")
    command = [sys.executable, "-c", _ASK_TORCH]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own
    except subprocess.TimeoutExpired:
        return Check("gpu", "optional", f"{driver} is there, but torch did not answer within 120 s")
    found = done.stdout.strip()
    if done.returncode or not found:
        last = (done.stderr.strip().splitlines() or ["it was built without CUDA, or no device is visible"])[-1]
        return Check(
            "gpu", "optional", f"{driver} is there, but torch sees no GPU ({last}): local models run on the CPU"
        )
    return Check("gpu", "ok", found)


def _has_torch() -> bool:
    return any(importlib.metadata.distributions(name="torch"))


_ASK_TORCH = """
import torch
count = torch.cuda.device_count()
free = [torch.cuda.mem_get_info(at) for at in range(count)]
print(", ".join(f"{torch.cuda.get_device_name(at)} ({a >> 30} of {b >> 30} GiB free)" for at, (a, b) in enumerate(free)))
"""


def _folders() -> Iterator[Check]:
    from envs import data

    yield _folder("home (HARNESS_HOME)", data.home())
    yield _folder("current folder", Path.cwd())


def _folder(what: str, path: Path) -> Check:
    """Whether files can be made in the folder, or in the nearest one above it that exists, and the space there."""
    there = next(folder for folder in (path, *path.parents) if folder.is_dir())
    if not os.access(there, os.W_OK):
        return Check(what, "missing", f"{path} can't be written")
    free_mib = shutil.disk_usage(there).free // 2**20
    if free_mib < DISK_MIB:
        return Check(what, "missing", f"{path}: {free_mib} MiB free, at least {DISK_MIB} are needed")
    return Check(what, "ok", f"{path}: {free_mib // 1024} GiB free")
