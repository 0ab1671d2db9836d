"""Benchmarks as Gymnasium environments. Importing this registers `harness/<name>` for each; nothing else is loaded."""

import gymnasium

_ENTRY_POINTS = {
    "bfcl-v3": "envs.bfcl.env:BFCLEnv",
    "evalplus": "envs.evalplus.env:EvalPlusEnv",
    "livecodebench": "envs.livecodebench.env:LiveCodeBenchEnv",
    "livecodebench-testoutput": "envs.livecodebench.scenario_benchmark:OutputPredictionEnv",
    "livecodebench-execution": "envs.livecodebench.scenario_benchmark:CodeExecutionEnv",
    "code-tasks": "envs.livecodebench.env:CodeTasksEnv",
}

for _name, _entry_point in _ENTRY_POINTS.items():
    if f"harness/{_name}" not in gymnasium.registry:
        gymnasium.register(f"harness/{_name}", entry_point=_entry_point, order_enforce=False, disable_env_checker=True)
