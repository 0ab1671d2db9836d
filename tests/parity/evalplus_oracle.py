"""The tests' side of upstream's own EvalPlus: one request, one process."""

import json
import subprocess
from pathlib import Path
from typing import Any

import build_evalplus

SERVER = Path(__file__).with_name("evalplus_upstream.py")


def ask(**request: Any) -> Any:
    done = subprocess.run(
        [str(build_evalplus.ensure()), "-E", "-s", "-W", "ignore", str(SERVER)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Upstream's EvalPlus died:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)
