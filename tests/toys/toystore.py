"""Trajectories for tests of the store, and child processes that write them and die.

Run as a program it is a fork server: one JSON request a line on stdin, one JSON answer a line on stdout. Each request is
played by a forked child, so that a hundred real SIGKILLs cost no hundred starts.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trajectories.schema import (
    Action,
    CallRecord,
    EpisodeKey,
    Failure,
    Message,
    Step,
    StepTiming,
    Task,
    Timing,
    TokenTrace,
    ToolCall,
    ToolSpec,
    Trajectory,
    Usage,
    Verdict,
)
from trajectories.store import Store

TOOLS = tuple(
    ToolSpec(name=f"tool_{at}", description="What it does. " * 8, parameters={"type": "object", "properties": {}})
    for at in range(4)
)


def episode(
    number: int, *, steps: int = 2, failure: Failure | None = None, text: str = "", **changes: Any
) -> Trajectory:
    """The trajectory of episode `number`: the same arguments, the same trajectory."""
    key = EpisodeKey(
        task=Task(
            benchmark="toy",
            id=f"task_{number}",
            category=f"category_{number % 3}",
            split="test",
            cluster=f"cluster_{number}",
            digest=f"{number:032x}",
        ),
        env_version="1",
        env_settings={"mode": "fc"},
        agent=f"agent_{number % 2}",
        agent_config={"temperature": 0.7},
        seed=number,
        attempt=0,
    )
    scores = {"official": Verdict(grader="official@1", passed=number % 2 == 0, score=float(number % 2 == 0))}
    fields: dict[str, Any] = {
        "id": key.trajectory_id(),
        "key": key,
        "opening": (
            Message(role="system", content="You are a toy. " * 12),
            Message(role="user", content=f"Do {number}."),
        ),
        "tools": TOOLS,
        "steps": tuple(_step(number, at, text) for at in range(steps)),
        "ended": "failed" if failure else "terminated",
        "failure": failure,
        "reward": float(number % 2 == 0),
        "verdicts": {} if failure else scores,
        "usage": Usage(prompt_tokens=10 * steps, completion_tokens=3 * steps),
        "timing": Timing(started_at=1.7e9 + number, wall_s=0.25, agent_s=0.2, env_s=0.05),
    }
    return Trajectory(**{**fields, **changes})


def _step(number: int, at: int, text: str) -> Step:
    result = f"result {number}.{at} " * 12 + text
    call = ToolCall(id=f"call_{at}", name="tool_1", arguments={"number": number, "at": at})
    prompt = tuple(range(100, 120 + 5 * at))
    return Step(
        action=Action(
            content=f"Step {at} of {number}.",
            tool_calls=(call,),
            tokens=TokenTrace(prompt_ids=prompt, completion_ids=(7, 8, number), logprobs=(-0.5, -0.25, -1.0)),
        ),
        observation=(Message(role="tool", content=result, tool_call_id=call.id, name=call.name),),
        calls=(CallRecord(name=call.name, arguments=call.arguments, result=result),),
        turn=at,
        timing=StepTiming(agent_s=0.125, env_s=0.5),
    )


OURS = Failure(boundary="infrastructure", kind="InfrastructureError", message="the endpoint is down")
THEIRS = Failure(boundary="agent", kind="ValueError", message="the agent broke")


class Writers:
    """The fork server, seen from a test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def play(
        self,
        store: Path,
        first: int,
        count: int,
        *,
        die: str = "",
        seal: int = 8,
        times: int = 1,
        compact: bool = False,
    ) -> list[dict[str, Any]]:
        """Lets `times` children at once append `count` episodes each, and then perhaps compact. One answer a child: its
        exit code (-9: killed) and the numbers that were reported done before."""
        request: dict[str, Any] = {"store": str(store), "first": first, "count": count, "die": die, "seal": seal}
        request |= {"times": times, "compact": compact}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def writers() -> Iterator[Writers]:
    """A running fork server."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[2]), str(Path(__file__).parent))),
    }
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield Writers(process)
    finally:
        process.communicate()


def _serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        children = [_spawn(request, request["first"] + at * request["count"]) for at in range(request["times"])]
        print(json.dumps([_collect(*child) for child in children]), flush=True)


def _spawn(request: dict[str, Any], first: int) -> tuple[int, int]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            _write(request, first, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return child, reading


def _collect(child: int, reading: int) -> dict[str, Any]:
    with os.fdopen(reading) as pipe:
        done = [int(number) for number in pipe.read().split()]
    _, status = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), "done": done}


def _write(request: dict[str, Any], first: int, pipe: int) -> None:
    import dying

    from trajectories import store as module
    from trajectories import upkeep

    module.SEAL_RECORDS = request["seal"]
    upkeep.SEGMENT_RECORDS = 9
    os.environ["TOY_DIE"] = request["die"]
    with Store.open(request["store"], writable=True) as store:
        dying.arm()
        for number in range(first, first + request["count"]):
            store.append(episode(number))
            os.write(pipe, f"{number}\n".encode())
        if request["compact"]:
            store.compact()


if __name__ == "__main__":
    _serve()
