"""`python tests/toys/toycli.py ARGS` is `harness ARGS` with the benchmark `toy` in the registry."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import toybench

from harness.cli import main

if __name__ == "__main__":
    toybench.register()
    main()
