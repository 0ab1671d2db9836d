"""Upstream's simulator classes, loaded privately from the pulled wheel: never vendored, never on `sys.path`.

Only files with the pinned sha256 are run (they were read: none of them opens a file, starts a process or uses the
network; `subprocess` is imported and never used). A `World` executes them afresh in namespaces of its own, so nothing
that they keep in module globals or default arguments can pass from one rollout to another; `sys.modules` is left
alone, and a `bfcl_eval` that the user has installed is never looked at. What a world sees of Python stands in
`sealed.py`.
"""

import ast
import builtins
import hashlib
import types
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from envs import data
from envs.bfcl import sealed
from envs.bfcl.source import CLASS_FILES, SIMULATOR_MODULES, SIMULATORS
from trajectories.failures import InputError

_PINNED = {
    "gorilla_file_system": "f5a9dc073fdaa13a119244342c145d3da035a165718c1941ce68b1a08be671a3",
    "long_context": "5c9a5710115609c779e5b2ccb43f6ad58271ed96f2ea7a797edb0d65c385aa38",
    "math_api": "abde32cc25e71b2ff3acf4d028a3c005b98409c174aba4abddbfe1c018afb9a8",
    "message_api": "ff65c20ac7af5bf5f13048805b7a50fcf0a82eeb5922605b9343a022737f88cd",
    "posting_api": "6436d6ba622acb3a3e425fc9f97992af2278d1819f743350a1326ed6e9b8af58",
    "ticket_api": "3d74510e1ea1dd8e677fcc85457da7c7f4b38eae71a199b6bb48f32681ffc483",
    "trading_bot": "69cd9b56229aedc251fbac507f84b70b9241ba2f3a96a19fab71b467c26bf07f",
    "travel_booking": "2f020681b8ad4d6ad605c5d5dc81107f2aabed82219dcdaf016e5bd4753c4c7f",
    "vehicle_control": "cfea31423d9ca954d9688aec1aedc91ad6e11eb0ba20f5b7c918df27515d9455",
}
_LONG_CONTEXT = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code.long_context"


class Found(NamedTuple):
    """Where the simulators lie, or one sentence that says why there are none."""

    folder: Path | None
    problem: str | None


def find(pulled: data.Pulled | None) -> Found:
    """The simulators of this data; where it has none, those of any other BFCL-v3 data that was ever pulled.

    Simulators other than the pinned ones are code that nobody here has read: they are refused, and not replaced by
    the pinned ones either, since the tasks beside them were made for them.
    """
    if pulled is not None and "simulators" not in pulled.missing:
        return _pinned(pulled.path / SIMULATORS)
    for other in data.installed("bfcl-v3"):
        found = _pinned(other.path / SIMULATORS)
        if found.folder:
            return found
    return Found(None, "No simulators for multi-turn tasks: run 'harness data pull bfcl-v3' once.")


class World:
    """Freshly executed simulator modules, loaded as they are asked for. Not for two threads at once."""

    def __init__(self, folder: Path) -> None:
        self._code = _compiled(folder)
        self._modules: dict[str, types.SimpleNamespace] = {}
        self._builtins = {name: getattr(builtins, name) for name in sealed.BUILTINS}
        self._builtins |= {"set": sealed.SortedSet, "__import__": self._import}

    def simulator(self, class_name: str) -> Any:
        """A new instance without a scenario. KeyError for a class that is none of the eight."""
        return self._class(class_name)()

    def tools(self, class_name: str) -> Sequence[str]:
        """The names that a model may call."""
        return _tools(self._class(class_name))

    def shared(self) -> tuple[list[Any], list[Any]]:
        """What instances could change for each other: mutable default arguments, and the padding of long contexts.

        Default states at module level are no part of it: each instance copies them.
        """
        classes = [vars(self._class(name)).values() for name in CLASS_FILES]
        functions = [value for values in classes for value in values if isinstance(value, types.FunctionType)]
        defaults = [value for function in functions for value in function.__defaults__ or ()]
        padding = [value for name, value in vars(self._module("long_context")).items() if not name.startswith("__")]
        return _containers(defaults), _containers(padding)

    def _class(self, name: str) -> Any:
        return getattr(self._module(CLASS_FILES[name]), name)

    def _module(self, stem: str) -> types.SimpleNamespace:
        if stem not in self._modules:
            namespace: dict[str, Any] = {"__name__": stem, "__builtins__": self._builtins}
            exec(self._code[stem], namespace)  # noqa: S102 - pinned files only, see the module's docstring
            self._modules[stem] = types.SimpleNamespace(**namespace)
        return self._modules[stem]

    def _import(self, name: str, *_: Any) -> Any:
        if name == _LONG_CONTEXT:
            return self._module("long_context")
        if name not in sealed.MODULES:
            raise ImportError(f"A simulator may not import {name!r}.")
        return sealed.MODULES[name]


class _Lent:
    """A world with a copy of what a rollout could change in it."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self._shared = self.world.shared()
        self._copies = _copy_containers(self._shared)

    def unchanged(self, long_context: bool) -> bool:
        defaults, padding = self._shared
        return defaults == self._copies[0] and (not long_context or padding == self._copies[1])


@contextmanager
def lent_world(folder: Path, *, long_context: bool) -> Generator[World]:
    """A world as good as new, for a short while: faster than a new one. One that comes back changed is thrown away."""
    idle = _idle(folder)
    try:
        lent = idle.pop()
    except IndexError:
        lent = _Lent(folder)
    yield lent.world
    if lent.unchanged(long_context):
        idle.append(lent)


@lru_cache(maxsize=8)
def _idle(folder: Path) -> deque[_Lent]:
    return deque(maxlen=16)


@lru_cache(maxsize=256)
def _tools(simulator: type) -> tuple[str, ...]:
    return tuple(name for name, value in vars(simulator).items() if callable(value) and not name.startswith("_"))


def _copy_containers(value: Any) -> Any:
    """A copy that shares its leaves, so that comparing it with the original mostly compares addresses."""
    if isinstance(value, dict):
        return {key: _copy_containers(item) for key, item in value.items()}
    return type(value)(map(_copy_containers, value)) if isinstance(value, list | tuple | set) else value


def _containers(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, list | dict | set)]


@lru_cache(maxsize=8)
def _pinned(folder: Path) -> Found:
    try:
        _compiled(folder)
    except (OSError, InputError) as error:
        reason = str(error) if isinstance(error, InputError) else "No simulators for multi-turn tasks"
        return Found(None, f"{reason}: run 'harness data pull bfcl-v3'.")
    return Found(folder, None)


@lru_cache(maxsize=8)
def _compiled(folder: Path) -> Mapping[str, types.CodeType]:
    """The code of all modules. OSError where one is missing, InputError where it is not the pinned one."""
    return {stem: _compile(folder / f"{stem}.py") for stem in SIMULATOR_MODULES}


def _compile(path: Path) -> types.CodeType:
    source = path.read_bytes()
    if hashlib.sha256(source).hexdigest() != _PINNED[path.stem]:
        raise InputError(f"The simulator {path.name} of this data is not the pinned one, and foreign code is not run")
    tree = _StableSets().visit(ast.parse(source))
    return compile(ast.fix_missing_locations(tree), f"<bfcl-v3 {path.name}>", "exec", dont_inherit=True)


class _StableSets(ast.NodeTransformer):
    """`{a, b}` becomes `set([a, b])`, where `set` is the world's own."""

    def visit_Set(self, node: ast.Set) -> ast.AST:
        self.generic_visit(node)
        call = ast.Call(ast.Name("set", ast.Load()), [ast.List(node.elts, ast.Load())], [])
        return ast.copy_location(call, node)
