"""Builds the environment of upstream's own EvalPlus: the wheel and what its evaluation imports, in a venv of its own.

`python tests/parity/build_evalplus.py` makes `.cache/evalplus` in the checkout and says where its interpreter is; where it stands with
the same pins, nothing is done. What only generating samples needs (every vendor's SDK, datasets) is left out: `evalplus_upstream.py`
puts an empty module in the one place where it is imported at the top.
"""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".cache" / "evalplus"
LOCK = ROOT / ".cache" / "evalplus.lock"
PINS = (
    "evalplus==0.3.1",
    "numpy==1.26.4",
    "psutil==7.0.0",
    "termcolor==2.5.0",
    "tqdm==4.67.1",
    "rich==13.9.4",
    "markdown-it-py==3.0.0",
    "mdurl==0.1.2",
    "pygments==2.19.1",
    "appdirs==1.4.4",
    "tree-sitter==0.23.2",
    "tree-sitter-python==0.23.6",
)


def ensure() -> Path:
    """The interpreter of the environment, built first where it is missing. Safe to call from many processes."""
    LOCK.parent.mkdir(exist_ok=True)
    python = HOME / "bin" / "python"
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = HOME / "pins"
        if not stamp.is_file() or stamp.read_text() != "\n".join(PINS):
            shutil.rmtree(HOME, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*pip, *PINS], check=True)
            stamp.write_text("\n".join(PINS))
    return python


if __name__ == "__main__":
    print(ensure())
