"""`python tests/toys/toycli.py ARGS` is `harness ARGS` with the benchmark `toy` in the registry, and dies where told (`dying.py`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import dying
import toybench

from harness.cli import main

if __name__ == "__main__":
    dying.arm()
    toybench.register()
    main()
