"""The simulated services of one multi-turn task: fresh for each rollout, and for the grader's two sides.

Upstream keeps instances in module globals under a name made of the model's name and the task's id, so a task that is
played twice goes on from the old state; here each `Simulation` has its own instances and modules. That name reaches
the text of results where a string argument looks like a call; ours has the model name `model`.
"""

import copy
import decimal
import hashlib
import random
from collections.abc import Sequence
from typing import Any, cast

from envs.bfcl.dataset import Row
from envs.bfcl.execute import Executed, Executor
from envs.bfcl.simulator_code import World
from trajectories.failures import InputError
from trajectories.schema import CallError

STATELESS = "MathAPI"


class Simulation:
    """The instances of the classes that a row involves. Not for two threads at once.

    `world` may be shared between simulations that should see each other's changes to module globals, as upstream's
    do; `side` is the ending of the instances' names. Raises InputError where the row's data has no simulators.
    """

    def __init__(self, row: Row, *, world: World | None = None, side: str = "") -> None:
        world = world or new_world(row)
        self.instances = {name: _instance(world, name, row) for name in row.involved_classes}
        methods: dict[str, Any] = {}
        variables: dict[str, str] = {}
        for class_name, instance in self.instances.items():
            for name in _tools(type(instance)):
                methods[name] = getattr(instance, name)
                variables[name] = f"model{side}_{row.id}_{class_name.lower()}_instance"
        self.tools = frozenset(methods)
        self._executor = Executor(methods, variables)
        self._errors: dict[tuple[str, str], CallError | None] = {}
        self._digest: str | None = None

    def run(self, calls: Sequence[str]) -> list[str]:
        """Run the calls of one step in order, a failure not stopping the rest; the result strings that upstream gives."""
        return [executed.text for executed in self.execute(calls)]

    def execute(self, calls: Sequence[str]) -> list[Executed]:
        """As `run`, with the class of each call's error."""
        self._digest = None
        with decimal.localcontext():
            executed = [self._executor.run(call) for call in calls]
        self._errors = {(call, result.text): result.error for call, result in zip(calls, executed, strict=True)}
        return executed

    def error_class(self, call: str, result: str) -> CallError | None:
        """The class of error of a call of the last step. KeyError for another call."""
        return self._errors[call, result]

    def state_digest(self) -> str:
        """Over all that later results can depend on: attributes, current directory, position of random generators."""
        if self._digest is None:
            state = [
                f"{name}.{key}={_text(value)}"
                for name, instance in self.instances.items()
                for key, value in sorted(vars(instance).items())
                if key != "_api_description"
            ]
            self._digest = hashlib.sha256("\n".join(state).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._digest


def new_world(row: Row) -> World:
    """Fresh simulator modules for a row. InputError where its data has no simulators."""
    if row.simulators is None:
        raise InputError(f"The simulators of {row.id!r} are not there: run 'harness data pull bfcl-v3'.")
    return World(row.simulators)


def _instance(world: World, class_name: str, row: Row) -> Any:
    instance = world.simulator(class_name)
    if class_name != STATELESS:
        scenario = copy.deepcopy(row.initial_config.get(class_name, {}))
        instance._load_scenario(scenario, long_context=row.long_context)
    return instance


def _tools(simulator: type) -> list[str]:
    return [name for name, value in vars(simulator).items() if callable(value) and not name.startswith("_")]


def _text(value: Any) -> str:
    """An unambiguous text of one attribute; a file's time of change is left out."""
    if isinstance(value, random.Random):
        words = cast("tuple[int, ...]", value.getstate()[1])
        return f"{words[0]}:{words[-1]}"
    if hasattr(value, "contents"):
        return _directory(value, set())
    return repr(value)


def _directory(directory: Any, above: set[int]) -> str:
    """Name, parent's name and contents; `above` guards against directories that were copied into themselves."""
    if id(directory) in above:
        return "<above>"
    inside = above | {id(directory)}
    items = [
        f"{name!r}:{_directory(item, inside) if hasattr(item, 'contents') else repr((item.name, item.content))}"
        for name, item in directory.contents.items()
    ]
    parent = directory.parent.name if directory.parent else None
    return f"{directory.name!r}<{parent!r}{{{','.join(items)}}}"
