"""What users get wrong: each case ends with the right exit code and one sentence that says what to do."""

import http.server
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import agents.limiter
from harness.run_dir import RunDir

Cli = Callable[..., Any]
EVAL = ("eval", "-b", "toy", "-a", "scripted:oracle")


class Case(NamedTuple):
    """A command line, and what its one sentence on stderr holds. Files are made first."""

    arguments: tuple[str, ...]
    sentence: str
    files: dict[str, str] = {}  # noqa: RUF012 - read only


def config(text: str) -> dict[str, Any]:
    return {"arguments": ("eval", "--config", "run.toml"), "files": {"run.toml": text}}


WRONG: dict[str, Case] = {
    # Names
    "unknown command": Case(("evl",), "No such command 'evl'. Did you mean 'eval'?"),
    "unknown subcommand": Case(("data", "pul"), "No such command 'pul'"),
    "unknown flag": Case((*EVAL, "--atempts", "2"), "No such option: --atempts"),
    "flag without a value": Case((*EVAL, "--seed"), "requires an argument"),
    "missing argument": Case(("grade", "bfcl-v3"), "Missing argument"),
    "no benchmark": Case(("eval", "-a", "scripted:nop"), "--benchmark (-b) is missing"),
    "no agent": Case(("eval", "-b", "toy"), "--agent (-a) is missing"),
    "unknown benchmark": Case(("eval", "-b", "bfcl_v3", "-a", "scripted:nop"), "Unknown benchmark 'bfcl_v3'. Did you mean 'bfcl-v3'?"),
    "unknown agent kind": Case(("eval", "-b", "toy", "-a", "script:nop"), "Did you mean 'scripted:nop'"),
    "unknown scripted agent": Case(("eval", "-b", "toy", "-a", "scripted:orakel"), "Did you mean 'oracle'"),
    "agent without a name": Case(("eval", "-b", "toy", "-a", "openai:"), "says no more than its kind"),
    "agent class that isn't there": Case(("eval", "-b", "toy", "-a", "module:toyagents:Addr"), "Addr"),
    "agent module that isn't there": Case(("eval", "-b", "toy", "-a", "module:nowhere:Adder"), "nowhere"),
    "agent module that ends the process": Case(("eval", "-b", "toy", "-a", "module:leaving:X"), "called sys.exit", {"leaving.py": "import sys\nsys.exit(3)\n"}),
    "agent script that isn't there": Case(("eval", "-b", "toy", "-a", "scripted:gone.jsonl"), "gone.jsonl' can't be read: No such file"),
    "agent script of junk": Case(("eval", "-b", "toy", "-a", "scripted:junk.jsonl"), "Line 1 of 'junk.jsonl' is no JSON", {"junk.jsonl": "{"}),
    "benchmark named twice": Case((*EVAL, "-b", "toy"), "The benchmark 'toy' is named twice"),
    "agent named twice": Case((*EVAL, "-a", "scripted:oracle"), "The agent 'scripted:oracle' is named twice"),
    "unknown category": Case((*EVAL, "--category", "evn"), "Unknown category 'evn'. Did you mean 'even'?"),
    "unknown split": Case((*EVAL, "--split", "tests"), "Unknown split of toy: 'tests'. Did you mean 'test'?"),
    "unknown language": Case((*EVAL, "--language", "zh"), "Unknown language of toy: 'zh'. Known: en."),
    "unknown language to grade": Case(("grade", "toy", "x.jsonl", "--language", "zh"), "Unknown language of toy: 'zh'. Known: en."),
    "task glob without a task": Case((*EVAL, "--tasks", "toy_9*"), "No task of toy matches 'toy_9*'."),
    "filters without a task": Case((*EVAL, "--category", "odd", "--tasks", "toy_00002"), "passes all filters together"),
    "unknown profile": Case(("eval", "-b", "bfcl-v3", "--split", "sample", "-a", "scripted:nop", "--profile", "fast"), "'fast'"),
    "unknown mode": Case((*EVAL, "--mode", "both"), "--mode can't be 'both': input should be 'prompt' or 'fc'"),
    "unknown texts": Case((*EVAL, "--texts", "mine"), "--texts can't be 'mine'"),
    "unknown grader": Case((*EVAL, "--grader", "kind"), "--grader can't be 'kind'"),
    "unknown thing to list": Case(("list", "agent"), "Did you mean 'agents'"),
    "unknown format": Case(("report", "run", "--format", "html"), "Unknown format 'html'"),
    # Numbers
    "no number": Case((*EVAL, "-k", "two"), "Invalid value for '--attempts' / '-k'"),
    "a time limit beyond the clock": Case((*EVAL, "--time-limit", "1e12"), "--time-limit can't be 1000000000000.0"),
    "an endless request": Case((*EVAL, "--request-timeout", "inf"), "--request-timeout can't be inf"),
    "a list of fewer than none": Case(("trajectories", "ls", "run", "-n", "-3"), "Invalid value for '-n'"),
    "no attempts": Case((*EVAL, "-k", "0"), "--attempts can't be 0"),
    "negative limit": Case((*EVAL, "-n", "-1"), "--limit can't be -1"),
    "negative seed": Case((*EVAL, "--seed", "-1"), "--seed can't be -1"),
    "no threads": Case((*EVAL, "-c", "0"), "--concurrency can't be 0"),
    "negative temperature": Case((*EVAL, "--temperature", "-0.1"), "--temperature can't be -0.1"),
    "top_p above one": Case((*EVAL, "--top-p", "1.1"), "--top-p can't be 1.1"),
    "negative time limit": Case((*EVAL, "--time-limit", "-5"), "--time-limit can't be -5"),
    "infinite cost": Case((*EVAL, "--cost-limit", "inf"), "--cost-limit can't be inf"),
    # Config files
    "config that isn't there": Case(("eval", "--config", "gone.toml"), "gone.toml' can't be read"),
    "config that is no TOML": Case(**config("agent = "), sentence="is no TOML"),
    "config with an unknown key": Case(**config('bench = "toy"'), sentence="Did you mean 'benchmark'?"),
    "config with a wrong type": Case(**config('seed = "one"'), sentence="--seed can't be 'one' in 'run.toml'"),
    # Folders and files
    "resume without a folder": Case((*EVAL, "--resume"), "--resume goes on with a run: name its folder"),
    "resume alone where there is no run": Case(("eval", "--resume", "-o", "gone"), "There is no run in 'gone'"),
    "run folder is a file": Case((*EVAL, "-o", "taken"), "'taken' is a file", {"taken": ""}),
    "run folder below a file": Case((*EVAL, "-o", "taken/run"), "Can't write to 'taken/run' (Not a directory)", {"taken": ""}),
    "run folder holds other things": Case((*EVAL, "-o", "mine"), "'mine' is not empty and holds no run", {"mine/notes.txt": "x"}),
    "run folder's name is too long": Case((*EVAL, "-o", "x" * 300), "name too long"),
    "damaged run record": Case(("eval", "--resume", "-o", "run"), "is damaged or from another version", {"run/run.json": "{"}),
    "report of no run": Case(("report", "gone"), "There is no run in 'gone'"),
    "leaderboard of no run": Case(("leaderboard", "gone"), "There is no run in 'gone'"),
    "trajectories of no run": Case(("trajectories", "ls", "gone"), "gone"),
    "verify what is no store": Case(("trajectories", "verify", "mine"), "mine", {"mine/notes.txt": "x"}),
    # Data and predictions
    "data of an unknown name": Case(("data", "pull", "bfcl-v4"), "Did you mean 'bfcl-v3'"),
    "data from a path that isn't there": Case(("data", "pull", "bfcl-v3", "--from", "gone"), "gone"),
    "data from a folder of other things": Case(("data", "pull", "bfcl-v3", "--from", "mine"), "mine", {"mine/a.json": "{}"}),
    "data that was never pulled": Case(("eval", "-b", "bfcl-v3", "-a", "scripted:nop"), "harness data pull bfcl-v3"),
    "predictions that aren't there": Case(("grade", "bfcl-v3", "gone.jsonl"), "gone.jsonl"),
    "predictions that are no JSON": Case(("grade", "bfcl-v3", "junk.jsonl"), "junk.jsonl", {"junk.jsonl": "{\n"}),
    "predictions of no task": Case(("grade", "bfcl-v3", "p.jsonl"), "None of the 1 rows", {"p.jsonl": '{"task_id": "x", "output": ""}\n'}),
    "predictions of another benchmark": Case(("grade", "bfcl-v4", "p.jsonl"), "Did you mean 'bfcl-v3'", {"p.jsonl": "{}\n"}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_wrong_input_exits_with_2_and_one_sentence_and_starts_nothing(cli: Cli, case: Case) -> None:
    for name, text in case.files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    ran = cli(*case.arguments)
    assert ran.code == 2, ran
    assert case.sentence.lower() in ran.error().lower()
    assert not list(Path().glob("**/trajectories"))


def test_a_folder_that_cannot_be_written_is_named(cli: Cli) -> None:
    Path("closed").mkdir(mode=0o500)
    folder = "/proc/closed" if os.access("closed", os.W_OK) else "closed/run"  # root writes everywhere but in /proc
    ran = cli(*EVAL, "-o", folder)
    assert (ran.code, "Can't write to" in ran.error()) == (2, True)


def test_a_pinned_file_with_another_digest_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from envs.bfcl import source

    def fetch(folder: Path) -> Path:
        (folder / "bfcl.whl").write_bytes(b"not what was pinned")
        return folder / "bfcl.whl"

    monkeypatch.setattr(source, "SOURCE", replace(source.SOURCE, fetch=fetch))
    ran = cli("data", "pull", "bfcl-v3")
    assert ran.code == 2
    assert "sha256" in ran.error()


def test_installed_data_that_was_changed_fails_its_check(
    cli: Cli, bfcl_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(bfcl_data / "data/bfcl-v3", tmp_path / "copy/data/bfcl-v3")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "copy"))
    assert cli("data", "verify").code == 0
    victim = next((tmp_path / "copy/data").glob("**/BFCL_v3_simple.json"))
    victim.write_bytes(victim.read_bytes().replace(b"a", b"b", 1))
    ran = cli("data", "verify", "--json")
    assert ran.code == 1
    assert [row["ok"] for row in json.loads(ran.out)] == [False]


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Answers every request with the server's `answer`: status, type and body."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, kind, body = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        pass


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Starts an endpoint with one answer for everything; its base URL."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    pace = agents.limiter.Pace(first_wait_s=0.01, longest_wait_s=0.02)
    monkeypatch.setattr(agents.limiter, "Pace", lambda: pace)
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(status: int, kind: str, body: bytes) -> str:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        server.answer = (status, kind, body)  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}/v1"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


ENDPOINT_ANSWERS = {
    "garbage": (200, "application/json", b"<html>hello</html>"),
    "other JSON": (200, "application/json", b'{"hello": 1}'),
    "nothing": (200, "application/json", b""),
    "a fault of its own": (500, "text/plain", b"oops"),
    "a redirect page": (503, "text/html", b"<html>later</html>"),
}


@pytest.mark.parametrize("answer", ENDPOINT_ANSWERS.values(), ids=ENDPOINT_ANSWERS.keys())
def test_an_endpoint_that_answers_nonsense_leaves_episodes_owed_and_never_scored(
    cli: Cli, endpoint: Callable[..., str], answer: tuple[int, str, bytes]
) -> None:
    url = endpoint(*answer)
    ran = cli("eval", "-b", "toy", "-a", "openai:m", "--base-url", url, "-o", "run", "-n", "3", "--retries", "0")
    assert ran.code == 1
    assert "3 of 3 episodes broke outside the agent (the last: " in ran.err.splitlines()[-1]
    assert "Traceback" not in ran.err
    with RunDir.open(Path("run")).store() as store:
        assert [(summary.boundary, summary.official) for summary in store.summaries()] == [("infrastructure", None)] * 3


def test_an_address_where_nobody_ever_answered_ends_the_run_at_once(cli: Cli) -> None:
    flags = ("--base-url", "http://127.0.0.1:9/v1", "--retries", "0")
    ran = cli("eval", "-b", "toy", "-a", "openai:m", *flags, "-o", "run", "-n", "2")
    assert ran.code == 2
    assert "can't be reached" in ran.err.splitlines()[-1]


def test_a_wrong_key_or_a_wrong_address_ends_the_run_at_once(cli: Cli, endpoint: Callable[..., str]) -> None:
    for status, advice in ((401, "OPENAI_API_KEY"), (404, "--base-url")):
        url = endpoint(status, "application/json", b'{"error": {"message": "no"}}')
        ran = cli("eval", "-b", "toy", "-a", "openai:m", "--base-url", url, "-o", f"run{status}")
        assert ran.code == 2
        assert ran.err.splitlines()[-1].startswith("Error: ")
        assert advice in ran.err.splitlines()[-1]


READY = """
import json, os, sys, time
say = lambda reply: print(json.dumps(reply), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["type"] == "hello":
        say({"type": "ready", "protocol": 1, "name": "own"})
        continue
"""
PROCESSES = {
    "dies": ("    sys.exit('out of coffee')", "out of coffee"),
    "is killed": ("    os.kill(os.getpid(), 9)", "-9"),
    "hangs": ("    time.sleep(600)", "1 s"),
    "prints junk": ("    print('Hello!', flush=True)", "Hello!"),
    "answers something else": ("    say({'type': 'action', 'tool_calls': 7})", "tool_calls"),
    "says it failed": ("    say({'type': 'error', 'message': 'no idea'})", "no idea"),
}


@pytest.mark.parametrize(("body", "reason"), PROCESSES.values(), ids=PROCESSES.keys())
def test_an_agent_process_that_breaks_is_a_stored_failure_of_the_agent(cli: Cli, body: str, reason: str) -> None:
    Path("own.py").write_text(READY + body)
    agent = f"process:{sys.executable} own.py"
    ran = cli("eval", "-b", "toy", "-a", agent, "-o", "run", "-n", "2", "-c", "2", "--request-timeout", "1")
    assert (ran.code, "Traceback" in ran.err) == (0, False)
    with RunDir.open(Path("run")).store() as store:
        for trajectory in store:
            assert trajectory.failure is not None
            assert (trajectory.failure.boundary, trajectory.reward, trajectory.done) == ("agent", 0.0, True)
            assert reason in trajectory.failure.message
        assert len(store) == 2


@pytest.mark.parametrize("command", ["no-such-command --fast", f"{sys.executable} gone.py", "true", "'unclosed"])
def test_an_agent_process_that_never_gets_ready_is_refused_before_anything_is_played(cli: Cli, command: str) -> None:
    ran = cli("eval", "-b", "toy", "-a", f"process:{command}", "-o", "run")
    assert ran.code == 2
    assert ran.err.startswith("Error: ")
    assert ran.err.count("\n") == 1
    assert not Path("run").exists()
