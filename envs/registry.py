"""The benchmarks there are: one row each, imported on use."""

import importlib
from typing import cast

from envs.base import Benchmark, unknown_name

BENCHMARKS: dict[str, str] = {
    "bfcl-v3": "envs.bfcl.benchmark:BFCLv3",
    "livecodebench": "envs.livecodebench.benchmark:LiveCodeBench",
    "livecodebench-testoutput": "envs.livecodebench.scenario_benchmark:OutputPrediction",
    "livecodebench-execution": "envs.livecodebench.scenario_benchmark:CodeExecution",
    "code-tasks": "envs.livecodebench.benchmark:CodeTasks",
    "evalplus": "envs.evalplus.benchmark:EvalPlus",
}
"""Benchmark name -> `module:Class` of its `Benchmark`. The Gymnasium id is `harness/<name>`."""


def load(name: str) -> Benchmark:
    """The benchmark of this name; InputError with the near names for one that isn't there."""
    if name not in BENCHMARKS:
        raise unknown_name("benchmark", name, BENCHMARKS)
    module, attribute = BENCHMARKS[name].split(":")
    return cast("Benchmark", getattr(importlib.import_module(module), attribute)())
