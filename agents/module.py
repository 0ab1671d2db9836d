"""Agents from the user's own Python: `module:pkg.mod:Attr`, or an entry point in the group `harness.agents`.

`Attr` is a class, a function that makes an agent, or a configured object; a dotted `Attr` reaches into one. What is called takes
nothing, or the keyword `options` (`AgentOptions`). The result needs an `act(history, tools, *, seed)`, or a
`for_episode(env, *, seed)` that gives such an agent; `name`, `config` and `close` may be left out. The current directory
is importable. The digest of the source file is part of the identity, so that changed code is not taken for the old agent.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from agents.base import Agent, AgentOptions, PerEpisode
from envs.base import unknown_name
from trajectories.failures import InputError
from trajectories.schema import Action, Json, Message, Record, ToolSpec

USER_CODE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What the user's code may raise while it is imported or called: told in one sentence, with the cause chained."""


class _Config(Record):
    value: dict[str, Json]


class Plain:
    """Somebody's agent with a name and a config; an answer that is no `Action` is refused with a sentence."""

    def __init__(self, inner: Any, name: str, config: Mapping[str, Any]) -> None:
        self.name = name
        self.config = config
        self._inner = inner

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        answer = self._inner.act(history, tools, seed=seed)
        if not isinstance(answer, Action):
            raise TypeError(
                f"act of {self.name} returned {type(answer).__name__}: return an Action (from trajectories.schema import Action)."
            )
        return answer

    def close(self) -> None:
        if callable(close := getattr(self._inner, "close", None)):
            close()


class PlainPerEpisode(Plain):
    """The same for an agent that makes one of its kind for each episode."""

    def for_episode(self, env: Any, *, seed: int) -> Agent:
        return Plain(self._inner.for_episode(env, seed=seed), self.name, self.config)


def build(rest: str, options: AgentOptions) -> Agent:
    """The agent at `pkg.mod:Attr`."""
    name = f"module:{rest}"
    module_name, colon, attribute = rest.partition(":")
    if not (module_name and colon and attribute):
        raise InputError(f"Agent {name!r} names no attribute: write 'module:pkg.mod:Attr'.")
    return make_agent(_attribute(_import(module_name, name), attribute, name), name, options)


def make_agent(target: Any, name: str, options: AgentOptions) -> Agent:
    """An agent from a class, a factory or an object; InputError for anything else."""
    agent = target if _plays(target) and not inspect.isclass(target) else _call(target, name, options)
    if not _plays(agent):
        raise InputError(f"Agent {name!r} is {_kind(agent)} without a method 'act(history, tools, *, seed)'.")
    config = {**_own_config(agent, name), **_source(target)}
    wrap = PlainPerEpisode if isinstance(agent, PerEpisode) else Plain
    own_name = getattr(agent, "name", None)
    return wrap(agent, own_name if isinstance(own_name, str) else name, config)


OURS = ("agents", "envs", "evaluators", "harness", "trajectories")
"""Top-level packages of this distribution."""


def _refuse_our_names(module_name: str, name: str) -> None:
    """A module of the user's that is named as one of ours would never be found."""
    top = module_name.partition(".")[0]
    theirs = Path.cwd() / top
    if top not in OURS or Path.cwd() == Path(__file__).resolve().parent.parent:
        return
    if theirs.is_dir() or theirs.with_suffix(".py").is_file():
        raise InputError(
            f"Agent {name!r}: the name {top!r} is taken by harness's own package, which comes first: rename {str(theirs)!r}."
        )


def _import(module_name: str, name: str) -> Any:
    _refuse_our_names(module_name, name)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise InputError(
                f"Agent {name!r}: there is no module {error.name!r} in the current directory or among installed packages."
            ) from error
        raise InputError(
            f"Agent {name!r}: module {module_name!r} imports {error.name!r}, which is not installed."
        ) from error
    except USER_CODE_ERRORS as error:
        raise InputError(f"Agent {name!r}: module {module_name!r} fails on import with {_said(error)}") from error


def _attribute(module: Any, attribute: str, name: str) -> Any:
    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [known for known in vars(module) if not known.startswith("_")]
            raise unknown_name(f"attribute of module {module.__name__!r} in agent {name!r}:", part, public)
        found = getattr(found, part)
    return found


def _call(target: Any, name: str, options: AgentOptions) -> Any:
    if not callable(target):
        raise InputError(
            f"Agent {name!r} is {_kind(target)}: name a class, a function that makes an agent, or an agent."
        )
    make = cast("Callable[..., Any]", target)
    takes_options = "options" in inspect.signature(make).parameters
    try:
        return make(options=options) if takes_options else make()
    except USER_CODE_ERRORS as error:
        raise InputError(
            f"Agent {name!r} can't be made with {'options' if takes_options else 'no arguments'}: {_said(error)}"
        ) from error


def _plays(agent: Any) -> bool:
    return callable(getattr(agent, "act", None)) or callable(getattr(agent, "for_episode", None))


def _own_config(agent: Any, name: str) -> dict[str, Any]:
    config = getattr(agent, "config", {})
    if not isinstance(config, Mapping):
        raise InputError(f"The config of agent {name!r} is {_kind(config)}: it has to be a mapping of JSON values.")
    try:
        return dict(_Config(value=dict(cast("Mapping[str, Any]", config))).value)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"][1:2])
        raise InputError(f"The config of agent {name!r} holds no JSON value at {place!r}.") from error


def _source(target: Any) -> dict[str, str]:
    """The digest of the file that defines the target, or its class; nothing where there is no such file."""
    defined = target if inspect.isclass(target) or inspect.isfunction(target) else type(target)
    module = sys.modules.get(getattr(defined, "__module__", ""))
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        return {}
    return {"source": sha256(Path(file).read_bytes()).hexdigest()[:32]}


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}" if not inspect.isclass(value) else f"the class {value.__name__}"


def _said(error: BaseException) -> str:
    text = str(error).rstrip(".")
    return f"{type(error).__name__}: {text}." if text else f"{type(error).__name__}."
