"""A pool of each kind of jail. Without docker its half is a visible skip, and a failure in CI."""

import os
from collections.abc import Iterator

import pytest

from envs.sandbox import docker
from envs.sandbox.limits import Limits
from envs.sandbox.pool import Pool, open_pool
from envs.sandbox.worker import Worker


def require(kind: str) -> None:
    reason = docker.unavailable() if kind == "docker" else ""
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session", params=["local", "docker"])
def kind(request: pytest.FixtureRequest) -> str:
    require(request.param)
    return request.param


@pytest.fixture(scope="session")
def pool(kind: str) -> Iterator[Pool]:
    with open_pool(kind, 1, "tests", ceiling=Limits(memory_mib=512)) as found:
        yield found


@pytest.fixture
def worker(pool: Pool) -> Iterator[Worker]:
    with pool.lease() as found:
        yield found
