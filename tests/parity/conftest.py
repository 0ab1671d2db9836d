"""The oracle, started once a session: the official wheel's own code (see `oracle_server.py`)."""

from collections.abc import Iterator

import pytest
from oracle import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Builds the oracle's environment on first use (about 10 s); `make oracle` does it beforehand."""
    server = Oracle()
    yield server
    server.close()
