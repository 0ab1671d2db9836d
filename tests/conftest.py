"""Fixtures for real data: what lies beside the checkout, and what `harness data pull` fetches."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
TEST_HOME = ROOT / ".cache" / "home"

# Before anything of ours is imported: tests never touch the user's own data.
os.environ["HARNESS_HOME"] = str(TEST_HOME)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout. Its absence is a failure in CI and a visible skip elsewhere."""
    if not SHARED_DATA.is_dir():
        reason = "The real data is not beside the checkout (../shared/data)."
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return SHARED_DATA


@pytest.fixture(scope="session")
def bfcl_data() -> Path:
    """HARNESS_HOME with the pinned BFCL-v3 wheel pulled into it (once per checkout, from the package index)."""
    from envs import data

    if data.current("bfcl-v3") is None:
        data.pull("bfcl-v3")
    return TEST_HOME


@pytest.fixture(scope="session")
def evalplus_data(shared_data: Path) -> Path:
    """HARNESS_HOME with the EvalPlus release files that lie beside the checkout."""
    from envs import data

    if data.current("evalplus") is None:
        data.pull("evalplus", shared_data / "evalplus")
    return TEST_HOME
