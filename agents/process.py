"""An agent in a process of its own, in any language or environment: `process:CMD`.

The protocol is JSON lines: one object a line, UTF-8, requests on the agent's standard input, one reply each on its standard
output, in order. Standard error is free for logs. At the end standard input is closed, and the agent is to leave.

    -> {"type": "hello", "protocol": 1}
    <- {"type": "ready", "protocol": 1, "name": "my-agent", "config": {"version": 2}}       name and config may be left out
    -> {"type": "act", "episode": "e17", "history": [...], "tools": [...], "seed": 123}
    <- {"type": "action", "content": "...", "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}
    <- {"type": "error", "message": "..."}                                                  instead: the episode fails with it

`history` is the whole conversation (the fields of `Message`), `tools` has `name`, `description` and a JSON schema in
`parameters`. An action has the fields of `Action`; all may be left out, and so may the ids of calls. `episode` is the same for
all steps of an episode; a process plays one episode at a time and then another, and as many run as episodes are played at once.

    import json, sys
    for line in sys.stdin:
        request = json.loads(line)
        if request["type"] == "hello":
            reply = {"type": "ready", "protocol": 1, "name": "first-tool"}
        elif request["tools"] and request["history"][-1]["role"] == "user":
            call = {"name": request["tools"][0]["name"], "arguments": {}}
            reply = {"type": "action", "tool_calls": [call]}
        else:
            reply = {"type": "action", "content": "Done."}
        print(json.dumps(reply), flush=True)

A process that dies, hangs, prints anything else or a line of more than 16 MiB is killed with all it started, and the episode
is an agent failure that quotes the end of its standard error; the next episode gets a new process.
"""

import itertools
import shlex
import shutil
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import orjson
from pydantic import ValidationError

from agents.base import Agent, AgentOptions
from agents.child import FAREWELL_S, Child, ProcessError
from trajectories.failures import InfrastructureError, InputError
from trajectories.schema import Action, Json, Message, Record, ToolSpec

PROTOCOL = 1

HELLO_TIMEOUT_S = 60.0
"""How long a process may take to start and say `ready`."""


class Ready(Record):
    """The reply to `hello`."""

    type: str
    protocol: int
    name: str | None = None
    config: dict[str, Json] = {}  # noqa: RUF012 - pydantic copies it


class Pool:
    """Processes that wait for an episode, and those that play one."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self._idle: list[Child] = []
        self._playing: set[Child] = set()
        self._lock = threading.Lock()
        self._closed = False

    def take(self) -> tuple[Child, Ready | None]:
        """A process that is ready: an idle one, or a new one with what it said."""
        with self._lock:
            if self._closed:
                raise ProcessError("The agent is closed already.")
            child = self._idle.pop() if self._idle else None
            if child is not None:
                self._playing.add(child)
                return child, None
        return self._start()

    def _start(self) -> tuple[Child, Ready]:
        try:
            child = Child(self.command)
        except OSError as error:
            raise InfrastructureError(f"{self.command[0]!r} can't be started: {error.strerror}.") from error
        with self._lock:
            self._playing.add(child)
        try:
            return child, _read_ready(child, ask(child, {"type": "hello", "protocol": PROTOCOL}, HELLO_TIMEOUT_S))
        except ProcessError:
            self.drop(child)
            raise

    def give_back(self, child: Child) -> None:
        with self._lock:
            self._playing.discard(child)
            if not self._closed:
                self._idle.append(child)
                return
        child.dispose()

    def drop(self, child: Child) -> None:
        """Kill a process that broke, or that nobody waits for any longer."""
        child.dispose()
        with self._lock:
            self._playing.discard(child)

    def close(self) -> None:
        """Dismiss the idle processes, and kill those in the middle of an episode."""
        with self._lock:
            self._closed = True
            idle, playing = self._idle, self._playing
            self._idle, self._playing = [], set()
        for child in idle:
            child.hang_up()
        deadline = time.monotonic() + FAREWELL_S
        for child in idle:
            child.dispose(max(0.0, deadline - time.monotonic()))
        for child in playing:
            child.dispose()


class Player:
    """Plays one episode in one process, which it takes at the first step and gives back in `close`."""

    def __init__(self, agent: "ProcessAgent", episode: str) -> None:
        self.name = agent.name
        self.config = agent.config
        self._agent = agent
        self._episode = episode
        self._child: Child | None = None
        self._lock = threading.Lock()
        self._busy = False

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        request = {
            "type": "act",
            "episode": self._episode,
            "history": [message.model_dump(mode="json") for message in history],
            "tools": [tool.model_dump(mode="json") for tool in tools],
            "seed": seed,
        }
        self._child = child = self._child or self._agent.pool.take()[0]
        self._busy = True
        try:
            action = _read_action(child, ask(child, request, self._agent.timeout_s))
        except ProcessError:
            self._release(broken=True)
            raise
        self._busy = False
        return action

    def close(self) -> None:
        """Give the process back, or kill it where it still thinks: the episode was given up."""
        self._release(broken=self._busy)

    def _release(self, *, broken: bool) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            (self._agent.pool.drop if broken else self._agent.pool.give_back)(child)


class ProcessAgent:
    """The agent behind a command."""

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.pool = Pool(command)
        child, ready = self.pool.take()
        self.pool.give_back(child)
        assert ready is not None, "the first process is new"  # noqa: S101 - for the type checker
        self.name = f"process:{ready.name or Path(command[-1]).name}"
        self.config: Mapping[str, Any] = {**ready.config, "command": identity(command)}
        self._episodes = itertools.count(1)
        self._finalizer = weakref.finalize(self, self.pool.close)

    def for_episode(self, env: Any, *, seed: int) -> Agent:
        return Player(self, f"e{next(self._episodes)}")

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        """One step outside of an episode."""
        player = Player(self, f"e{next(self._episodes)}")
        try:
            return player.act(history, tools, seed=seed)
        finally:
            player.close()

    def close(self) -> None:
        self._finalizer()


def identity(command: Sequence[str]) -> list[str]:
    """The command without paths: of each file its name and the digest of its contents.

    The program itself has a digest where it is a script that is named by a path: what is found on PATH is the machine's.
    """
    program, *arguments = command
    return [_program(program), *(_without_path(argument) for argument in arguments)]


def _program(program: str) -> str:
    path = Path(program)
    if "/" not in program or not path.is_file():
        return path.name
    content = path.read_bytes()
    if not content.startswith(b"#!"):
        return path.name
    _, _, body = content.partition(b"\n")  # the first line names an interpreter's path
    return f"{path.name}@{sha256(body).hexdigest()[:16]}"


def _without_path(argument: str) -> str:
    path = Path(argument)
    if len(argument) < 4096 and path.is_file():
        return f"{path.name}@{sha256(path.read_bytes()).hexdigest()[:16]}"
    return path.name if path.is_absolute() else argument


def ask(child: Child, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """The reply to one request; ProcessError where it is no JSON object, or an error that the agent reports."""
    line = child.exchange(orjson.dumps(request), timeout_s)
    try:
        reply = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise child.error(f"printed a line that is no JSON: {line[:120].decode(errors='replace')!r}") from None
    if not isinstance(reply, dict):
        raise child.error(f"printed a line that is no JSON object: {line[:120].decode(errors='replace')!r}")
    if reply.get("type") == "error":
        raise child.error(f"reports an error: {reply.get('message')}")
    return cast("dict[str, Any]", reply)


def _read_ready(child: Child, reply: Mapping[str, Any]) -> Ready:
    try:
        ready = Ready.model_validate(reply)
    except ValidationError as error:
        raise child.error(f"answered hello with {_fault(error)}") from error
    if ready.type != "ready" or ready.protocol != PROTOCOL:
        raise child.error(
            f"answered hello with type {ready.type!r} and protocol {ready.protocol}, not 'ready' and {PROTOCOL}"
        )
    return ready


def _read_action(child: Child, reply: Mapping[str, Any]) -> Action:
    fields = {key: value for key, value in reply.items() if key != "type"}
    if reply.get("type") != "action":
        raise child.error(f"answered act with type {reply.get('type')!r}, not 'action' or 'error'")
    if isinstance(calls := fields.get("tool_calls"), list):
        fields["tool_calls"] = [_with_id(call, index) for index, call in enumerate(cast("list[Any]", calls))]
    try:
        return Action.model_validate(fields)
    except ValidationError as error:
        raise child.error(f"answered act with {_fault(error)}") from error


def _with_id(call: Any, index: int) -> Any:
    return {"id": f"call_{index}", **call} if isinstance(call, dict) else call


def _fault(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"a bad field {'.'.join(str(part) for part in first['loc'])!r}: {first['msg']}"


def build(rest: str, options: AgentOptions) -> Agent:
    """The agent behind the command `rest`, split as a shell would; one process is started to say hello."""
    try:
        command = shlex.split(rest)
    except ValueError as error:
        raise InputError(f"Agent 'process:{rest}' is no command: {error}.") from error
    if not command or shutil.which(command[0]) is None:
        raise InputError(f"Agent 'process:{rest}': there is no program {command[0] if command else ''!r} to run.")
    try:
        return ProcessAgent(command, options.request_timeout_s)
    except (ProcessError, InfrastructureError) as error:
        raise InputError(f"Agent 'process:{rest}' does not start: {error}") from error
