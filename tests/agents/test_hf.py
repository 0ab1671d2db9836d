"""`hf:` with the real Qwen3 and SmolLM2 tokenizers and templates, on models small enough to train in a test."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agents import registry
from agents.base import AgentOptions, Sampling
from agents.hf import Chat, LocalModel, fingerprint, load_tokenizer, resolve_sampling
from trajectories.failures import ContextWindowExceeded, InputError
from trajectories.schema import Message, ToolCall, ToolSpec

WEATHER = ToolSpec(
    name="get_weather",
    description="Weather now.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
QUESTION = (Message(role="user", content="How is the weather in Paris?"),)
CALL = '<think>\nI need the tool.\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
AFTER_CALL = (
    Message(
        role="assistant",
        reasoning="I need the tool.",
        tool_calls=(ToolCall(id="call_0", name="get_weather", arguments={"city": "Paris"}),),
    ),
    Message(role="tool", name="get_weather", tool_call_id="call_0", content="sunny"),
)
ANSWER = "<think>\nSunny, then.\n</think>\n\nIt is sunny."
LESSONS = ((QUESTION, CALL), ((*QUESTION, *AFTER_CALL), ANSWER))


@pytest.fixture(scope="module")
def random_folder(models: Any, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.tiny_qwen3(shared_data, tmp_path_factory.mktemp("random") / "qwen3")


@pytest.fixture(scope="module")
def trained_folder(models: Any, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.fitted_qwen3(shared_data, tmp_path_factory.mktemp("fitted") / "qwen3", LESSONS, (WEATHER,))


def build(folder: Path, mode: Any = "fc", **sampling: Any) -> LocalModel:
    options = AgentOptions(mode=mode, sampling=Sampling(**{"temperature": 0.0, "max_tokens": 60, **sampling}))
    agent = registry.build(f"hf:{folder}", options)
    assert isinstance(agent, LocalModel)
    return agent


@pytest.fixture
def trained(trained_folder: Path) -> Iterator[LocalModel]:
    agent = build(trained_folder)
    yield agent
    agent.close()


def test_native_tools_are_rendered_called_and_answered(trained: LocalModel) -> None:
    first = trained.act(QUESTION, (WEATHER,), seed=0)
    assert first.tool_calls == AFTER_CALL[0].tool_calls
    assert (first.content, first.reasoning, first.finish_reason) == ("", "I need the tool.", "tool_calls")
    history = (*QUESTION, first.message(), AFTER_CALL[1])
    second = trained.act(history, (WEATHER,), seed=1)
    assert (second.content, second.reasoning, second.finish_reason) == ("It is sunny.", "Sunny, then.", "stop")
    assert first.tokens is not None
    assert second.tokens is not None
    prompt = trained.chat.decode(second.tokens.prompt_ids)
    assert json.dumps(WEATHER.parameters) in prompt
    assert "<tool_response>\nsunny\n</tool_response>" in prompt
    sampled = (*first.tokens.prompt_ids, *first.tokens.completion_ids)
    assert second.tokens.prompt_ids[: len(sampled)] == sampled


def test_ids_logprobs_and_usage_are_those_of_the_model(trained: LocalModel) -> None:
    action = trained.act(QUESTION, (WEATHER,), seed=0)
    assert action.tokens is not None
    assert action.usage is not None
    assert trained.chat.decode(action.tokens.completion_ids) == CALL + "<|im_end|>"
    assert len(action.tokens.logprobs) == len(action.tokens.completion_ids) == action.usage.completion_tokens
    assert len(action.tokens.prompt_ids) == action.usage.prompt_tokens
    assert all(-0.2 < logprob <= 0 for logprob in action.tokens.logprobs)
    assert action.tokens.prompt_ids == trained.chat.encode(trained.chat.render(QUESTION, (WEATHER,)))


def test_prompt_mode_leaves_call_markup_as_text(trained_folder: Path) -> None:
    agent = build(trained_folder, mode="prompt")
    action = agent.act(QUESTION, (WEATHER,), seed=0)
    agent.close()
    assert action.tool_calls == ()
    assert action.content.startswith("<tool_call>")
    assert action.reasoning == "I need the tool."


def test_threads_get_what_each_would_get_alone(random_folder: Path) -> None:
    agent = build(random_folder, temperature=1.0, max_tokens=12)
    asked = [(Message(role="user", content=f"{'word ' * (i * 3)}{i}?"),) for i in range(12)]
    alone = [agent.act(history, (WEATHER,), seed=i).tokens for i, history in enumerate(asked)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda i: agent.act(asked[i], (WEATHER,), seed=i).tokens, range(12)))
    agent.close()
    for one, other in zip(alone, together, strict=True):
        assert one is not None
        assert other is not None
        assert (one.prompt_ids, one.completion_ids) == (other.prompt_ids, other.completion_ids)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert len({trace.completion_ids for trace in alone if trace}) == 12


def test_a_conversation_that_does_not_fit_is_named(random_folder: Path) -> None:
    agent = build(random_folder)
    with pytest.raises(ContextWindowExceeded, match="reads 2048"):
        agent.act((Message(role="user", content="word " * 2100),), (), seed=0)
    nearly = agent.act((Message(role="user", content="word " * 2030),), (), seed=0)
    agent.close()
    assert nearly.usage is not None
    assert nearly.usage.prompt_tokens is not None
    assert nearly.usage.completion_tokens == 2048 - nearly.usage.prompt_tokens
    assert nearly.finish_reason == "length"


def test_the_identity_is_the_content_not_the_path(random_folder: Path, trained_folder: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(random_folder, tmp_path / "moved")
    assert fingerprint(moved) == fingerprint(random_folder) != fingerprint(trained_folder)
    (moved / "tokenizer_config.json").write_text(
        (moved / "tokenizer_config.json").read_text().replace("# Tools", "# Tool")
    )
    assert fingerprint(moved) != fingerprint(random_folder)
    agent = build(random_folder)
    agent.close()
    assert str(random_folder) not in json.dumps(dict(agent.config))
    assert agent.config["sampling"] == {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "max_tokens": 60}


class GenerationConfig:
    do_sample, temperature, top_p, top_k = True, 0.6, 0.95, 20


def test_what_is_not_asked_for_is_left_to_the_models_own_settings() -> None:
    assert resolve_sampling(Sampling(), GenerationConfig()) == Sampling(
        temperature=0.6, top_p=0.95, top_k=20, max_tokens=4096
    )
    asked = Sampling(temperature=0.0, top_p=1.0, top_k=0, max_tokens=5)
    assert resolve_sampling(asked, GenerationConfig()) == asked
    greedy = GenerationConfig()
    greedy.do_sample = False
    assert resolve_sampling(Sampling(), greedy).temperature == 0.0


def test_answers_end_where_the_template_ends_them(
    models: Any, shared_data: Path, random_folder: Path, tmp_path: Path
) -> None:
    chat = Chat(load_tokenizer(random_folder, "qwen3"), "qwen3")
    assert chat.stop_ids([151_643]) == {151_643, 151_645}
    models.copy_tokenizer(shared_data / "lm" / "smollm2_tokenizer", tmp_path)
    smol = Chat(load_tokenizer(tmp_path, "smollm2"), "smollm2")
    assert smol.stop_ids(None) == {2}
    assert smol.tokenizer.convert_ids_to_tokens(2) == "<|im_end|>"


def test_a_template_without_tools_is_refused_natively_and_played_in_prompt_mode(
    models: Any, shared_data: Path, tmp_path: Path
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    models.copy_tokenizer(shared_data / "lm" / "smollm2_tokenizer", tmp_path)
    shape = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    LlamaForCausalLM(LlamaConfig(vocab_size=49_152, **shape)).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="renders no tools, so it can't see them: use --mode prompt"):
        build(tmp_path)
    agent = build(tmp_path, mode="prompt", max_tokens=3)
    action = agent.act(QUESTION, (), seed=0)
    agent.close()
    assert action.usage is not None
    assert action.usage.completion_tokens == 3
    assert agent.config["protocol"] is None


def test_tools_in_an_unknown_form_are_refused(random_folder: Path) -> None:
    chat = Chat(load_tokenizer(random_folder, "odd"), "odd")
    chat.tokenizer.chat_template = "{% for t in tools %}{{ t | tojson }}{% endfor %}"
    with pytest.raises(InputError, match="how it writes calls is not known"):
        chat.require_tools()


def test_a_conversation_that_the_template_refuses_is_one_sentence(random_folder: Path) -> None:
    chat = Chat(load_tokenizer(random_folder, "strict"), "strict")
    chat.tokenizer.chat_template = "{{ raise_exception('no system messages') }}"
    with pytest.raises(InputError, match="strict: its chat template refuses the conversation: no system messages"):
        chat.render(QUESTION, ())


def test_unusable_folders_are_one_sentence(random_folder: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    def broken(name: str) -> Path:
        return Path(shutil.copytree(random_folder, tmp_path / name))

    no_tokenizer, no_template, cut, sparse = map(broken, ("a", "b", "c", "d"))
    (no_tokenizer / "tokenizer.json").unlink()
    config = json.loads((no_template / "tokenizer_config.json").read_text())
    (no_template / "tokenizer_config.json").write_text(
        json.dumps({k: v for k, v in config.items() if k != "chat_template"})
    )
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:1000])
    weights = load_file(sparse / "model.safetensors")
    save_file({k: v for k, v in weights.items() if "layers.1" not in k}, sparse / "model.safetensors", {"format": "pt"})
    for folder, sentence in [
        (tmp_path / "none", "no folder with a model"),
        (no_tokenizer, "no tokenizer can be loaded"),
        (no_template, "no chat template"),
        (cut, "no model can be loaded"),
        (sparse, r"its weights lack \d+ parameters, such as 'model.layers.1"),
    ]:
        with pytest.raises(InputError, match=sentence):
            build(folder)
    assert torch.is_grad_enabled()
