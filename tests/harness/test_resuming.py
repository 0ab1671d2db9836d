"""What `--resume` notices about the agent's own code."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]
TOY = ("eval", "-b", "toy")


def test_resume_refuses_an_agent_whose_script_has_changed(cli: Cli) -> None:
    Path("own.py").write_text(READY)
    agent = f"process:{sys.executable} own.py"
    assert cli(*TOY, "-a", agent, "-o", "run", "-n", "2").code == 0
    assert cli("eval", "--resume", "-o", "run").code == 0
    Path("own.py").write_text(READY + "# changed\n")
    refused = cli("eval", "--resume", "-o", "run").error()
    assert "agent process:own.command was [" in refused
    assert refused.count("own.py@") == 2


READY = """
import json, sys
for line in sys.stdin:
    hello = json.loads(line)["type"] == "hello"
    reply = {"type": "ready", "protocol": 1, "name": "own"} if hello else {"type": "action", "content": "Done."}
    print(json.dumps(reply), flush=True)
"""
