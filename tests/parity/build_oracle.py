"""Builds the oracle's environment: the official BFCL wheel with its own pins, in a venv of its own.

`python tests/parity/build_oracle.py` makes `.oracle/` in the checkout and says where its interpreter is. It does
nothing if the environment stands already with the same pins; a half-built one is built anew. The pins contradict ours
(tree-sitter, numpy), and the wheel's other requirements (every vendor's SDK) are left out: `oracle_server.py` needs none.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".oracle"
LOCK = ROOT / ".cache" / "oracle.lock"
PINS = (
    "bfcl-eval==2025.8.6.2",
    "tree_sitter==0.21.3",
    "tree-sitter-java==0.21.0",
    "tree-sitter-javascript==0.21.4",
    "mpmath==1.3.0",
    "numpy==1.26.4",
    "pandas==2.2.3",
    "python-dateutil==2.9.0.post0",
    "pytz==2025.2",
    "six==1.17.0",
    "tenacity==9.1.2",
    "python-dotenv==1.1.1",
    "tqdm==4.67.1",
    "tzdata==2025.2",
    "overrides==7.7.0",
)


def ensure() -> Path:
    """The interpreter of the oracle's environment, built first where it is missing. Safe to call from many processes."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _stamp().exists() and _stamp().read_text() == _digest():
            return _python()
        _build()
        _stamp().write_text(_digest())
    return _python()


def _build() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    _run(sys.executable, "-m", "venv", str(HOME))
    _run(str(_python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *PINS)


def _run(*command: str) -> None:
    # Constraints of the checkout's own environment would contradict the wheel's pins.
    environment = {name: value for name, value in os.environ.items() if name not in {"PIP_CONSTRAINT", "PYTHONPATH"}}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Building the oracle failed at '{' '.join(command[:6])} ...':\n{done.stdout}{done.stderr}")


def _python() -> Path:
    return HOME / "bin" / "python"


def _stamp() -> Path:
    return HOME / "pins.sha256"


def _digest() -> str:
    text = "\n".join((f"python{sys.version_info.major}.{sys.version_info.minor}", str(HOME), *PINS))
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    print(ensure())
