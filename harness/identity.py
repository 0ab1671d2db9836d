"""Which code this is."""

import importlib.metadata
import os
import subprocess
from functools import cache
from pathlib import Path

DISTRIBUTION = "lopd-harness"


@cache
def harness_version() -> str:
    """The version of this distribution."""
    return importlib.metadata.version(DISTRIBUTION)


def harness_commit() -> str | None:
    """The commit of the checkout that this code is run from, with a `+` where tracked files differ; None where there is none."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, env=quiet, check=False)  # noqa: S603 - fixed words
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
