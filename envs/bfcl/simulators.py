"""The simulated services of one multi-turn task: fresh for each rollout, and for the grader's two sides.

Upstream keeps instances in module globals under a name made of the model's name and the task's id, so a task that is
played twice goes on from the old state; here each `Simulation` has its own instances and modules. That name reaches
the text of results where a string argument looks like a call; ours has the model name `model`.
"""

import decimal
import hashlib
import random
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from envs.bfcl.dataset import Row
from envs.bfcl.execute import Executed, Executor, Key
from envs.bfcl.sealed import deep_copy
from envs.bfcl.simulator_code import World, lent_world
from trajectories.failures import InputError
from trajectories.schema import CallError

STATELESS = "MathAPI"


class Simulation:
    """The instances of the classes that a row involves. Not for two threads at once.

    `world` may be shared between simulations that should see each other's changes to module globals, as upstream's
    do; `side` is the ending of the instances' names; without `rewrite` string arguments are left as they are. Raises InputError where the row's data has no simulators.
    """

    def __init__(self, row: Row, *, world: World | None = None, side: str = "", rewrite: bool = True) -> None:
        world = world or new_world(row)
        self.instances = {name: _instance(world, name, row) for name in row.involved_classes}
        owners = {tool: instance for name, instance in self.instances.items() for tool in world.tools(name)}
        variables = {
            id(instance): f"model{side}_{row.id}_{name.lower()}_instance" for name, instance in self.instances.items()
        }
        self.tools = owners.keys()
        self._executor = Executor(owners, variables, rewrite=rewrite)
        self._last: list[tuple[str, Executed]] = []
        self._digest: str | None = None

    def run(self, calls: Sequence[str]) -> list[str]:
        """Run the calls of one step in order, a failure not stopping the rest; the result strings that upstream gives."""
        return [executed.text for executed in self.execute(calls)]

    def execute(self, calls: Sequence[str]) -> list[Executed]:
        """As `run`, with the class of each call's error."""
        self._digest = None
        with decimal.localcontext():
            self._last = [(call, self._executor.run(call)) for call in calls]
        return [executed for _, executed in self._last]

    def run_for_keys(self, calls: Sequence[str]) -> list[Key]:
        """As `run`, for results that are only compared (`execute.key_text`): several times as fast for large ones."""
        self._digest = None
        with decimal.localcontext():
            return [self._executor.run_for_key(call) for call in calls]

    def error_class(self, call: str, result: str) -> CallError | None:
        """The class of error of a call of the last step. LookupError for another call."""
        for ran, executed in self._last:
            if (ran, executed.text) == (call, result):
                return executed.error
        raise LookupError(f"The call {call!r} was not run in the last step.")

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
    return World(_folder(row))


def lend_world(row: Row) -> AbstractContextManager[World]:
    """As `new_world`, for a short while."""
    return lent_world(_folder(row), long_context=row.long_context)


def _folder(row: Row) -> Path:
    if row.simulators is None:
        raise InputError(f"The simulators of {row.id!r} are not there: run 'harness data pull bfcl-v3'.")
    return row.simulators


def _instance(world: World, class_name: str, row: Row) -> Any:
    instance = world.simulator(class_name)
    if class_name != STATELESS:
        scenario = deep_copy(row.initial_config.get(class_name, {}))
        instance._load_scenario(scenario, long_context=row.long_context)
    return instance


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
