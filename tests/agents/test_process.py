"""`process:` with agents in three languages, and with ones that do everything wrong."""

import os
import re
import shlex
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agents import child, process, registry
from agents.base import AgentOptions, PerEpisode
from agents.child import ProcessError
from agents.process import ProcessAgent
from trajectories.failures import InputError
from trajectories.schema import Message, ToolCall, ToolSpec

TOOL = ToolSpec(name="pay", parameters={"type": "object", "properties": {}})
ASK = (Message(role="user", content="Pay."),)
TOLD = (*ASK, Message(role="assistant", content=""), Message(role="tool", content="paid"))

LOOP = """
import json, os, sys, time, subprocess
print("starting", file=sys.stderr, flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["type"] == "hello":
        reply = {"type": "ready", "protocol": 1, "name": "own", "config": {"version": 2}}
    else:
        BODY
    print(json.dumps(reply), flush=True)
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[ProcessAgent] = []

    def build(source: str, **options: Any) -> ProcessAgent:
        path = tmp_path / "agent.py"
        path.write_text(source)
        agent = registry.build(
            f"process:{sys.executable} -u {shlex.quote(str(path))}",
            AgentOptions(**{"request_timeout_s": 10.0, **options}),
        )
        assert isinstance(agent, ProcessAgent)
        made.append(agent)
        return agent

    yield build
    for agent in made:
        agent.close()


def loop(body: str) -> str:
    return LOOP.replace("BODY", textwrap.indent(textwrap.dedent(body).strip(), "        ").strip())


ECHO = loop('reply = {"type": "action", "content": request["history"][-1]["content"] + str(request["seed"])}')
PID = loop('reply = {"type": "action", "content": f"{os.getpid()} {request[\'episode\']}"}')


def example() -> str:
    """The agent that the module's docstring shows."""
    lines = (process.__doc__ or "").splitlines()
    start = lines.index("    import json, sys")
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("    "))
    return textwrap.dedent("\n".join(lines[start:end])) + "\n"


def test_the_documented_example_plays(make: Any) -> None:
    source = example()
    assert len(source.splitlines()) <= 20
    agent = make(source)
    assert agent.name == "process:first-tool"
    assert agent.act(ASK, (TOOL,), seed=0).tool_calls == (ToolCall(id="call_0", name="pay", arguments={}),)
    assert agent.act(TOLD, (TOOL,), seed=0).content == "Done."


BASH = """
while read -r line; do
  case "$line" in
    *'"hello"'*) echo '{"type": "ready", "protocol": 1}' ;;
    *) echo '{"type": "action", "content": "from bash"}' ;;
  esac
done
"""
NODE = """
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const request = JSON.parse(line);
  const reply = request.type === "hello"
    ? { type: "ready", protocol: 1 }
    : { type: "action", content: `from node: ${request.history.length}` };
  console.log(JSON.stringify(reply));
});
"""


@pytest.mark.parametrize(
    ("program", "file", "source", "said"),
    [("bash", "agent.sh", BASH, "from bash"), ("node", "agent.js", NODE, "from node: 1")],
)
def test_other_languages_play(program: str, file: str, source: str, said: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    path = tmp_path / file
    path.write_text(source)
    agent = registry.build(f"process:{program} {path}", AgentOptions())
    assert isinstance(agent, ProcessAgent)
    assert agent.act(ASK, (), seed=0).content == said
    assert agent.name == f"process:{file}"
    agent.close()


def test_a_script_that_is_named_by_its_path_counts_by_its_code(tmp_path: Path) -> None:
    script = tmp_path / "agent.sh"
    seen = []
    for text in ("#!/bin/sh\necho 1\n", "#!/usr/bin/env sh\necho 1\n", "#!/bin/sh\necho 2\n"):
        script.write_text(text)
        seen.append(process.identity([str(script), "--fast"]))
    assert seen[0] == seen[1] != seen[2]
    assert re.fullmatch(r"agent\.sh@[0-9a-f]{16}", seen[0][0])
    assert process.identity(["sh", "-c", "x"]) == ["sh", "-c", "x"]
    assert process.identity([sys.executable, "-u"]) == [Path(sys.executable).name, "-u"]


def test_the_identity_has_the_code_but_no_path(make: Any, tmp_path: Path) -> None:
    config = make(ECHO).config
    assert config == make(ECHO).config
    assert config["version"] == 2
    assert re.fullmatch(r"agent\.py@[0-9a-f]{16}", config["command"][-1])
    assert str(tmp_path) not in str(config)
    assert config != make(ECHO + "# changed\n").config


def test_an_episode_keeps_its_process_and_the_next_one_reuses_it(make: Any) -> None:
    agent = make(PID)
    assert isinstance(agent, PerEpisode)
    first, second = agent.for_episode(None, seed=0), agent.for_episode(None, seed=0)
    one, two = first.act(ASK, (), seed=0).content, second.act(ASK, (), seed=0).content
    assert first.act(ASK, (), seed=1).content == one
    assert one.split()[0] != two.split()[0]
    assert (one.split()[1], two.split()[1]) == ("e1", "e2")
    first.close()
    third = agent.for_episode(None, seed=0)
    assert third.act(ASK, (), seed=0).content.split()[0] == one.split()[0]
    second.close()
    third.close()


def test_many_threads_play_at_once(make: Any) -> None:
    agent = make(ECHO)

    def play(number: int) -> list[str]:
        player = agent.for_episode(None, seed=number)
        said = [player.act((Message(role="user", content=f"{number}:"),), (), seed=step).content for step in range(3)]
        player.close()
        return said

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(play, range(24))) == [[f"{n}:{step}" for step in range(3)] for n in range(24)]
    assert len(agent.pool._idle) <= 6


BAD = {
    "dies": ("sys.exit(3)", r"ended with exit status 3\. Its standard error ends: starting"),
    "dies with a traceback": ("1 / 0", r"exit status 1\. Its standard error ends:(?s:.*)ZeroDivisionError"),
    "kills itself": ("os.kill(os.getpid(), 9)", "ended with exit status -9"),
    "closes its output": ("os.close(1); time.sleep(60)", "closed its standard output"),
    "prints junk": ("print('hello!'); continue", "no JSON: 'hello!'"),
    "prints a list": ("print('[]'); continue", r"no JSON object: '\[\]'"),
    "prints bytes": ("sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stdout.flush(); continue", "no JSON: "),
    "reports an error": ("reply = {'type': 'error', 'message': 'no credit'}", "reports an error: no credit"),
    "has no type": ("reply = {'content': 'x'}", "answered act with type None"),
    "has a wrong field": ("reply = {'type': 'action', 'contents': 'x'}", "bad field 'contents'"),
    "has a call without a name": ("reply = {'type': 'action', 'tool_calls': [{}]}", r"bad field 'tool_calls\.0\.name'"),
    "floods its output": ("os.write(1, b'x' * (4 << 20)); time.sleep(60)", "a line of more than 1 MiB"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_breaks_the_protocol_is_one_failure_and_a_new_process_plays_on(
    what: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, sentence = BAD[what]
    monkeypatch.setattr(child, "LONGEST_LINE", 2**20)
    good = 'reply = {"type": "action", "content": "fine"}'
    agent = make(loop(f"if request['seed'] == 13:\n    {body}\nelse:\n    {good}"))
    started = time.monotonic()
    with pytest.raises(ProcessError, match=sentence):
        agent.act(ASK, (), seed=13)
    assert agent.act(ASK, (), seed=0).content == "fine"
    assert time.monotonic() - started < 8


def test_a_second_reply_is_not_taken_for_the_next_one(make: Any) -> None:
    agent = make(loop("""reply = {"type": "action", "content": "x"}\nprint(json.dumps(reply))"""))
    player = agent.for_episode(None, seed=0)
    player.act(ASK, (), seed=0)
    time.sleep(0.1)
    with pytest.raises(ProcessError, match="printed what nobody asked for"):
        player.act(ASK, (), seed=1)
    player.close()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"


def gone(pid: int) -> bool:
    """Whether the process ends within two seconds."""
    for _ in range(200):
        if not alive(pid):
            return True
        time.sleep(0.01)
    return False


def test_a_hanging_agent_is_killed_with_all_it_started(make: Any, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    body = f"""
    kid = subprocess.Popen(["sleep", "600"])
    open({str(note)!r}, "w").write(f"{{os.getpid()}} {{kid.pid}}")
    time.sleep(600)
    """
    agent = make(loop(body), request_timeout_s=1.0)
    with pytest.raises(ProcessError, match="gave no answer within 1 s"):
        agent.act(ASK, (), seed=0)
    assert all(gone(int(pid)) for pid in note.read_text().split())


def test_an_episode_that_is_given_up_ends_its_process(make: Any, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    agent = make(loop(f'open({str(note)!r}, "w").write(str(os.getpid())); time.sleep(600)'), request_timeout_s=300.0)
    player, caught = agent.for_episode(None, seed=0), []

    def act() -> None:
        with pytest.raises(ProcessError) as error:
            player.act(ASK, (), seed=0)
        caught.append(error.value)

    thread = threading.Thread(target=act)
    thread.start()
    while not (note.exists() and note.read_text()):
        time.sleep(0.01)
    player.close()
    thread.join(5)
    assert len(caught) == 1
    assert gone(int(note.read_text()))


def test_standard_error_may_be_flooded(make: Any) -> None:
    body = """
    os.write(2, b"x" * (1 << 20))
    reply = {"type": "action", "content": "y" * (1 << 20)}
    """
    agent = make(loop(body))
    assert len(agent.act((Message(role="user", content="z" * (1 << 20)),), (), seed=0).content) == 1 << 20


def test_close_ends_idle_and_playing_processes_even_those_that_will_not_leave(make: Any, tmp_path: Path) -> None:
    source = loop('reply = {"type": "action", "content": str(os.getpid())}') + "\ntime.sleep(600)\n"
    agent = make(source)
    players = [agent.for_episode(None, seed=0) for _ in range(3)]
    pids = [int(player.act(ASK, (), seed=0).content) for player in players]
    players[0].close()
    started = time.monotonic()
    agent.close()
    assert time.monotonic() - started < 6
    assert all(gone(pid) for pid in pids)
    agent.close()
    with pytest.raises(ProcessError, match="closed"):
        agent.act(ASK, (), seed=0)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("no_such_program_at_all x", "there is no program 'no_such_program_at_all'"),
        ("'unclosed", "is no command: No closing quotation"),
        ("false", "does not start: The agent's process ended with exit status 1"),
        ("echo hello", "does not start: The agent's process printed a line that is no JSON: 'hello'"),
        ("""echo '{"type": "ready", "protocol": 9}'""", "protocol 9, not 'ready' and 1"),
        ("""echo '{"protocol": 1}'""", "answered hello with a bad field 'type'"),
        ("sh -c 'echo key missing >&2; exit 2'", "exit status 2. Its standard error ends: key missing"),
    ],
)
def test_a_command_that_does_not_start_is_one_sentence(command: str, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        registry.build(f"process:{command}", AgentOptions())
