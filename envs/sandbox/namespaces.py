"""Builds a local jail and becomes its supervisor: run as a program, `python -I -S namespaces.py SETUP`, never imported.

SETUP is JSON: `environment` (the only one the jail sees), `host` (pid of the owner, whose death ends the jail), `python` (the interpreter, a path that the binds hold),
`supervisor` (the file to run), `binds` (source, target pairs), `tmp_mib`, `inner_uid` (None for a real root user).

Namespaces: user (for a real root user only the zygote gets one, see supervisor.py), mount, pid, net, ipc, uts. The root is a
tmpfs that is read-only in the end, on which the binds lie, read-only too. Needs the standard library alone.
"""

# pathlib stays out of the jail, where it would cost start time and memory of each fork.
# ruff: noqa: PTH100, PTH101, PTH102, PTH103, PTH106, PTH112, PTH114, PTH115, PTH120, PTH123, PTH211

import contextlib
import json
import os
import platform
import select
import signal
import sys
from typing import Any, NoReturn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import supervisor as kernel

CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET = 0x4000000, 0x8000000, 0x40000000
MS_NOATIME, MS_NODIRATIME, MS_STRICTATIME, MS_RELATIME, MS_PRIVATE = 1024, 2048, 1 << 24, 1 << 21, 1 << 18
MNT_DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
ROOT = "/sys"
"""Where the new root is put together: a folder that every Linux has and that no bind comes from."""
DEVICES = {"null": "null", "zero": "full", "full": "full", "random": "random", "urandom": "urandom"}
"""What each is really. `full` gives zeros too, but can't be mapped: a mapping of `zero` is memory that no limit of a process counts."""


def unshare(inner_uid: int | None) -> None:
    """New namespaces; without privileges these need a user namespace, in which we are `inner_uid`."""
    uid, gid = os.getuid(), os.getgid()
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET
    if inner_uid is not None:
        flags |= kernel.CLONE_NEWUSER
    kernel.checked("unshare", flags)
    if inner_uid is not None:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{inner_uid} {uid} 1"),
            ("gid_map", f"{inner_uid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def build_root(setup: dict[str, Any]) -> None:
    kernel.mount("none", "/", None, kernel.MS_REC | MS_PRIVATE)
    kernel.mount("root", ROOT, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=8m,nr_inodes=1k,mode=755")
    for source, target in setup["binds"]:
        bind(source, ROOT + target)
    make_devices(setup["tmp_mib"])
    os.mkdir(f"{ROOT}/harness", 0o755)
    with open(setup["supervisor"], "rb") as file, open(f"{ROOT}/harness/supervisor.py", "wb") as copy:
        copy.write(file.read())
    os.chmod(f"{ROOT}/harness/supervisor.py", 0o444)
    for name in ("proc", "old"):
        os.mkdir(f"{ROOT}/{name}", 0o755)


def bind(source: str, target: str) -> None:
    """The same files at `target`, read-only; a link is copied as a link."""
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.makedirs(target, 0o755, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)
    for point in mounts_below(target):
        read_only(point)


def mounts_below(target: str) -> list[str]:
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4].encode().decode("unicode_escape") for line in file]
    return [point for point in points if point == target or point.startswith(target + "/")]


def read_only(point: str) -> None:
    """Remount with what the kernel may have locked (nosuid, nodev, noexec, atime) kept."""
    flags = os.statvfs(point).f_flag
    kept = kernel.MS_NOSUID | kernel.MS_NODEV
    for bit, flag in ((8, kernel.MS_NOEXEC), (1024, MS_NOATIME), (2048, MS_NODIRATIME), (4096, MS_RELATIME)):
        kept |= flag if flags & bit else 0
    kernel.mount("none", point, None, kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | kept)


def make_devices(tmp_mib: int) -> None:
    os.mkdir(f"{ROOT}/dev", 0o755)
    for name, source in DEVICES.items():
        os.close(os.open(f"{ROOT}/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o644))
        kernel.mount(f"/dev/{source}", f"{ROOT}/dev/{name}", None, kernel.MS_BIND)
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{target}", f"{ROOT}/dev/{name}")
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    for name, size in (("tmp", f"{tmp_mib}m"), ("dev/shm", "1m")):
        os.makedirs(f"{ROOT}/{name}", 0o755, exist_ok=True)
        kernel.mount("scratch", f"{ROOT}/{name}", "tmpfs", flags, f"size={size},nr_inodes=4k,mode=1777")


def enter_root() -> None:
    """PID 1 only: its own /proc, the new root, nothing of the old one."""
    kernel.mount("proc", f"{ROOT}/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    os.chdir(ROOT)
    kernel.checked("syscall", PIVOT_ROOT[platform.machine()], b".", b"old")
    os.chdir("/")
    kernel.checked("umount2", b"/old", MNT_DETACH)
    os.rmdir("/old")
    kernel.checked("sethostname", b"sandbox", 7)
    kernel.mount(
        "none", "/", None, kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    )


def become_supervisor(setup: dict[str, Any]) -> NoReturn:
    enter_root()
    if setup["inner_uid"] is not None:
        kernel.keep_capabilities_over_exec()
    kernel.forbid_cores()
    os.closerange(3, 1 << 12)
    os.execve(setup["python"], [setup["python"], "-s", "-P", "-S", "/harness/supervisor.py"], setup["environment"])  # noqa: S606 - that is the point


def guard(supervisor: int, owner: int) -> int:
    """Wait until the supervisor or the owner ends; neither outlives the other. The supervisor's exit status."""
    poll = select.poll()
    watched = os.pidfd_open(supervisor)
    poll.register(watched, select.POLLIN)
    poll.register(owner, select.POLLIN)
    if watched not in {fd for fd, _ in poll.poll()}:
        os.kill(supervisor, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1])


def main() -> int:
    setup = json.loads(sys.argv[1])
    owner = os.pidfd_open(setup["host"])
    if os.getppid() != setup["host"]:
        return 1
    try:
        unshare(setup["inner_uid"])
        build_root(setup)
        pid = os.fork()
        if pid == 0:
            become_supervisor(setup)
    except OSError as error:
        print(json.dumps({"errno": error.errno, "text": str(error)}), file=sys.stderr)  # noqa: T201 - read by the host
        return 1
    for fd in (0, 1):
        with contextlib.suppress(OSError):
            os.close(fd)
    return abs(guard(pid, owner))


if __name__ == "__main__":
    sys.exit(main())
