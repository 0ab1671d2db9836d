"""The kinds of agents there are: one row each, imported on use.

An agent is named `KIND:REST`: `scripted:oracle`, `openai:gpt-4o`, `hf:PATH`, `process:CMD`, `module:pkg.mod:Attr`, or the bare name of an
entry point in the group `harness.agents`.
"""

import importlib
from importlib.metadata import EntryPoint, entry_points

from agents.base import Agent, AgentOptions
from envs.base import unknown_name
from trajectories.failures import InputError

KINDS: dict[str, str] = {
    "scripted": "agents.scripted:build",
    "openai": "agents.openai_compat:build",
    "hf": "agents.hf:build",
    "process": "agents.process:build",
    "module": "agents.module:build",
}
"""Kind -> `module:function`, called as `build(rest, options)` with what follows the colon and `AgentOptions`."""

EXTRAS: dict[str, str] = {"hf": "hf"}
"""Kind -> the extra of our distribution that it needs."""

FORMS: tuple[str, ...] = (
    "hf:PATH",
    "module:pkg.mod:Attr",
    "openai:MODEL",
    "process:CMD",
    "scripted:FILE.jsonl",
    "scripted:nop",
    "scripted:oracle",
    "scripted:random",
)
"""How agents can be named, as `harness list agents` shows it. Capitals stand for what the user fills in."""

GROUP = "harness.agents"
"""Entry point group in which other distributions name their agents."""


def names() -> list[str]:
    """All forms, then the entry points that are installed."""
    return [*FORMS, *sorted(_plugins())]


def build(spec: str, options: AgentOptions) -> Agent:
    """The agent of this name, ready to act. InputError with the near names for one that isn't there."""
    kind, colon, rest = spec.partition(":")
    if kind in KINDS:
        if not (colon and rest.strip()):
            forms = " or ".join(repr(form) for form in FORMS if form.startswith(f"{kind}:"))
            raise InputError(f"Agent {spec!r} says no more than its kind: write {forms}.")
        return _build_kind(kind, rest, options)
    plugins = _plugins()
    if spec in plugins:
        return _build_plugin(plugins[spec], options)
    raise unknown_name("agent", spec, _near(spec, plugins))


def _build_kind(kind: str, rest: str, options: AgentOptions) -> Agent:
    module, function = KINDS[kind].split(":")
    try:
        return getattr(importlib.import_module(module), function)(rest, options)
    except ModuleNotFoundError as error:
        if kind not in EXTRAS:
            raise
        hint = f"pip install 'lopd-harness[{EXTRAS[kind]}]'"
        raise InputError(
            f"Agent '{kind}:{rest}' needs the package {error.name!r}, which is missing: {hint}."
        ) from error


def _build_plugin(plugin: EntryPoint, options: AgentOptions) -> Agent:
    from agents.module import make_agent

    try:
        target = plugin.load()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"Agent {plugin.name!r} is named by an installed package, but {plugin.value!r} does not load: {error}."
        ) from error
    return make_agent(target, plugin.name, options)


def _plugins() -> dict[str, EntryPoint]:
    return {plugin.name: plugin for plugin in entry_points(group=GROUP)}


def _near(spec: str, plugins: dict[str, EntryPoint]) -> list[str]:
    """What a misspelt name may have meant: with its own rest where only the kind is wrong."""
    _, colon, rest = spec.partition(":")
    kinds = [f"{kind}:{rest}" for kind in KINDS] if colon and rest else []
    return [*kinds, *FORMS, *plugins] if not colon else [*kinds, *plugins]
