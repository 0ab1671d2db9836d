"""Which system calls a jail refuses, compiled by libseccomp (through pyseccomp) on the host and installed by the supervisor.

A deny list beside the namespaces and, in docker, on top of the engine's own profile: what reaches parts of the kernel that no
program needs, what outlives a process (System V IPC, message queues, keyrings), what touches other processes by number, what makes
the whole machine wait (`sync`), and memory that no limit of a process counts (`memfd_create`, anonymous shared mappings, huge pages).
"""

import errno
import functools
import os
import platform
import tempfile
from typing import Any

from trajectories.failures import InputError

REFUSED = (
    "acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "create_module", "delete_module", "fanotify_init", "finit_module",
    "fsconfig", "fsmount", "fsopen", "fspick", "get_kernel_syms", "init_module", "io_uring_enter", "io_uring_register",
    "io_uring_setup", "ioperm", "iopl", "ioprio_set", "kcmp", "kexec_file_load", "kexec_load", "keyctl", "landlock_create_ruleset",
    "lookup_dcookie", "mbind", "memfd_create", "memfd_secret", "migrate_pages", "mount", "mount_setattr", "move_mount", "move_pages", "mq_open", "msgget",
    "name_to_handle_at", "nfsservctl", "open_by_handle_at", "open_tree", "perf_event_open", "personality", "pidfd_getfd",
    "pivot_root", "process_madvise", "process_mrelease", "process_vm_readv", "process_vm_writev", "ptrace", "query_module",
    "quotactl", "quotactl_fd", "reboot", "request_key", "semget", "set_mempolicy", "setdomainname", "sethostname", "setns",
    "settimeofday", "shmget", "swapoff", "swapon", "sync", "syncfs", "syslog", "umount", "umount2", "unshare", "userfaultfd", "uselib", "vhangup",
)  # fmt: skip
OWN_ONLY = ("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")
"""Allowed for the caller itself (pid 0) alone."""
FAMILIES = (1, 2, 10)
"""Socket families that may be asked for: AF_UNIX, AF_INET, AF_INET6. Others reach what no network namespace closes off."""
NEW_NAMESPACES = 0x7E020000
"""All CLONE_NEW* flags of clone()."""


SHARED_ANONYMOUS_MASK, SHARED_ANONYMOUS = 0x2F, 0x21
"""The kind of a mapping and MAP_ANONYMOUS; MAP_SHARED with MAP_ANONYMOUS."""
HUGE_PAGES = 0x40000
MADV_PAGEOUT = 21
F_SETLEASE = 1024
SOL_SOCKET, BUFFER_SIZES = 1, (7, 8, 32, 33)
"""SO_SNDBUF and SO_RCVBUF: what a socket may hold of the kernel's memory stays as small as the system makes it."""
RLIMIT_CORE = 4


@functools.cache
def compiled() -> bytes:
    """The filter as kernel instructions. InputError where libseccomp isn't there."""
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise InputError(
            f"The local sandbox needs the system library libseccomp ({error}): install it (Debian: apt-get install libseccomp2), or use docker."
        ) from error
    rules = pyseccomp.SyscallFilter(defaction=pyseccomp.ALLOW)
    refuse = pyseccomp.ERRNO(errno.EPERM)
    for name in REFUSED:
        _refuse(rules, refuse, name)
    for name in OWN_ONLY:
        _refuse(rules, refuse, name, pyseccomp.Arg(0, pyseccomp.NE, 0))
    _refuse(rules, refuse, "setpriority", pyseccomp.Arg(0, pyseccomp.NE, 0))  # of a group or a whole user
    _refuse(rules, refuse, "setpriority", pyseccomp.Arg(1, pyseccomp.NE, 0))
    _refuse(rules, refuse, "mmap", pyseccomp.Arg(3, pyseccomp.MASKED_EQ, SHARED_ANONYMOUS_MASK, SHARED_ANONYMOUS))
    _refuse(rules, refuse, "mmap", pyseccomp.Arg(3, pyseccomp.MASKED_EQ, HUGE_PAGES, HUGE_PAGES))
    _refuse(rules, refuse, "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, F_SETLEASE))  # others would wait for it
    for option in BUFFER_SIZES:
        _refuse(
            rules,
            refuse,
            "setsockopt",
            pyseccomp.Arg(1, pyseccomp.EQ, SOL_SOCKET),
            pyseccomp.Arg(2, pyseccomp.EQ, option),
        )
    _refuse(rules, refuse, "madvise", pyseccomp.Arg(2, pyseccomp.EQ, MADV_PAGEOUT))
    _refuse(rules, refuse, "setrlimit", pyseccomp.Arg(0, pyseccomp.EQ, RLIMIT_CORE))
    _refuse(rules, refuse, "prlimit64", pyseccomp.Arg(1, pyseccomp.EQ, RLIMIT_CORE), pyseccomp.Arg(2, pyseccomp.NE, 0))
    _refuse_families(rules, refuse, pyseccomp)
    for bit in _bits(NEW_NAMESPACES):
        _refuse(rules, refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, bit, bit))
    _refuse(
        rules, pyseccomp.ERRNO(errno.ENOSYS), "clone3"
    )  # its flags lie in memory: the C library falls back to clone
    return _exported(rules)


def _refuse(rules: Any, action: Any, name: str, *arguments: Any) -> None:
    import pyseccomp

    try:
        pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
        rules.add_rule(action, name, *arguments)
    except (OSError, ValueError, TypeError):
        if name in ("ptrace", "clone", "unshare", "mount", "socket"):
            raise


def _refuse_families(rules: Any, action: Any, pyseccomp: Any) -> None:
    for call in ("socket", "socketpair"):
        for family in range(46):
            if family not in FAMILIES:
                _refuse(rules, action, call, pyseccomp.Arg(0, pyseccomp.EQ, family))
        _refuse(rules, action, call, pyseccomp.Arg(0, pyseccomp.GT, 45))


def _bits(mask: int) -> list[int]:
    return [1 << number for number in range(64) if mask >> number & 1]


def _exported(rules: Any) -> bytes:
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.flush()
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        return file.read()


def for_machine(machine: str) -> bytes | None:
    """The filter where the jail's processor is of this machine's kind and libseccomp is here; None otherwise (docker's own profile stands anyhow)."""
    if machine != platform.machine():
        return None
    try:
        return compiled()
    except InputError:
        return None
