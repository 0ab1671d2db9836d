"""A pool of each kind of jail. Without docker its third is a visible skip, and a failure in CI."""

import os
import stat
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from envs.sandbox import docker, local
from envs.sandbox.limits import Limits
from envs.sandbox.pool import Pool, open_pool
from envs.sandbox.worker import Worker

CEILING = Limits()
KINDS = [
    pytest.param("local", id="local"),
    pytest.param("user", id="user"),
    pytest.param("docker", id="docker", marks=pytest.mark.xdist_group("docker")),
]


def require(kind: str) -> None:
    reason = docker.unavailable() if kind == "docker" else ""
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


def as_nobody() -> list[str]:
    """A command that runs another as a user without any rights, for whom a Python below root's home is made readable."""
    if os.geteuid() != 0:
        return []
    drop = 'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'
    base = Path(sys.base_prefix).resolve()
    closed = [folder for folder in base.parents if not folder.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return ["sh", "-c", drop, "sh"]
    top = closed[-1]
    seen = f"mount --bind {base} /mnt && mount -t tmpfs -o mode=755 none {top} && mkdir -p {base} && mount --move /mnt {base}"
    return ["unshare", "-m", "sh", "-c", f"{seen} && {drop}", "sh"]


def pool_of(kind: str, workers: int = 1) -> Pool:
    """`local` and `docker` as users get them; `user` is `local` for somebody who is not root."""
    require(kind)
    if kind == "user":
        return Pool(lambda: local.start(launcher=as_nobody()), workers, CEILING)
    return open_pool("docker" if kind == "docker" else "local", workers, "tests", ceiling=CEILING)


@pytest.fixture(scope="session", params=KINDS)
def pool(request: pytest.FixtureRequest) -> Generator[Pool]:
    with pool_of(request.param) as found:
        yield found


@pytest.fixture
def worker(pool: Pool) -> Generator[Worker]:
    with pool.lease() as found:
        yield found
