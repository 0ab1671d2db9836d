"""The kinds of agents there are: one row each, imported on use.

An agent is named `KIND:REST`: `scripted:oracle`, `openai:gpt-4o`, `hf:PATH`, `process:CMD`, `module:pkg.mod:Attr`, or the bare name of an
entry point in the group `harness.agents`.
"""

KINDS: dict[str, str] = {
    "scripted": "agents.scripted:build",
    "openai": "agents.openai_compat:build",
    "hf": "agents.hf:build",
    "process": "agents.process:build",
    "module": "agents.module:build",
}
"""Kind -> `module:function`, called as `build(rest, options)` with what follows the colon and `AgentOptions`."""
