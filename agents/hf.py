"""A local transformers model through its own chat template: `hf:PATH`.

One generation queue batches the calls of all threads. Each action carries the exact prompt ids, the sampled ids and their log-probs;
nothing is tokenised twice. Families: Qwen3 and other ChatML tunes with `<tool_call>`, OLMo3, Llama 3; any other template plays
without native tools, in prompt mode. The identity is made of the files' contents and the sampling, not of the path.
"""

import importlib
import os
import threading
from collections.abc import Mapping, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from agents.base import Agent, AgentOptions, Sampling
from agents.chat import template_messages, tool_block
from agents.generation import GenerationQueue, Request
from envs.parsing import PROTOCOLS, THINK_START, Parsed, split_reasoning
from trajectories.failures import ContextWindowExceeded, InputError
from trajectories.schema import Action, Message, TokenTrace, ToolSpec, Usage, digest

DEFAULT_MAX_TOKENS = 4096
"""Longest answer where nobody says otherwise; the rest of the context window where that is less."""

CACHE_SHARE = 0.25
"""How much of the free memory the key-value cache of a full batch may take."""

MIN_TOKEN_BUDGET = 4096

PROBE = ToolSpec(
    name="probe_q7",
    description="Probe.",
    parameters={"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
)


class Chat:
    """A tokenizer with its chat template: conversations to token ids, token ids to what was said."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self.tokenizer = tokenizer
        self.name = name
        self._lock = threading.Lock()
        """A fast tokenizer may not be entered by two threads at once."""

    def render(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, prompt: bool = True) -> str:
        """The text that the model reads; with `prompt` it ends where the model is to speak.

        InputError where the template refuses the conversation (some know no system message, or want turns to alternate).
        """
        from jinja2 import TemplateError

        blocks = [tool_block(tool) for tool in tools] or None
        try:
            return self.tokenizer.apply_chat_template(
                template_messages(history), tools=blocks, add_generation_prompt=prompt, tokenize=False
            )
        except TemplateError as error:
            raise InputError(f"{self.name}: its chat template refuses the conversation: {error}.") from error

    def encode(self, text: str) -> tuple[int, ...]:
        with self._lock:
            return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        with self._lock:
            return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def stop_ids(self, listed: Any) -> frozenset[int]:
        """`listed` (of the model's generation config), the tokenizer's end token, and what the template puts after an answer."""
        ids = {int(i) for i in (listed if isinstance(listed, list) else [listed]) if i is not None}
        if self.tokenizer.eos_token_id is not None:
            ids.add(int(self.tokenizer.eos_token_id))
        turn = (Message(role="user", content="a"), Message(role="assistant", content="answer_q7"))
        after = self.render(turn, (), prompt=False).rpartition("answer_q7")[2]
        special = set(self.tokenizer.all_special_ids) | set(self.tokenizer.added_tokens_decoder)
        ids.update([token for token in self.encode(after) if token in special][:1])
        return frozenset(ids)

    def protocol(self) -> str | None:
        """How the model writes calls, by its template: a name in `PROTOCOLS`, or None where it is not known."""
        template = self.tokenizer.get_chat_template(tools=[tool_block(PROBE)])
        if "<tool_call>" in template and "<function=" not in template:
            return "qwen3"
        if "<function_calls>" in template:
            return "olmo3"
        return "llama3" if "python_tag" in template or '"parameters": ' in template else None

    def require_tools(self) -> str:
        """The protocol of native tool calls; InputError where the rendered prompt does not hold the tools."""
        opening = (Message(role="user", content="a"),)
        if PROBE.name not in self.render(opening, (PROBE,)):
            raise InputError(
                f"{self.name}: its chat template renders no tools, so it can't see them: use --mode prompt."
            )
        protocol = self.protocol()
        if protocol is None:
            known = ", ".join(PROTOCOLS)
            raise InputError(
                f"{self.name}: its chat template renders tools, but how it writes calls is not known (known: {known}): use --mode prompt."
            )
        return protocol


class LocalModel:
    """The agent: renders, completes, parses."""

    def __init__(self, name: str, chat: Chat, model: Any, options: AgentOptions, identity: Mapping[str, Any]) -> None:
        self.name = name
        self.chat = chat
        self.sampling = resolve_sampling(options.sampling, model.generation_config)
        self.window = int(model.config.get_text_config().max_position_embeddings)
        """Most tokens of prompt and answer together."""
        protocol = chat.require_tools() if options.mode == "fc" else None
        self._parse = PROTOCOLS[protocol] if protocol else Parsed
        self._stop_ids = chat.stop_ids(model.generation_config.eos_token_id)
        self.config: Mapping[str, Any] = {
            **identity,
            "sampling": self.sampling.model_dump(),
            "protocol": protocol,
            "dtype": str(model.dtype).removeprefix("torch."),
        }
        self._queue = GenerationQueue(model, token_budget=token_budget(model, self.window))

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        text = self.chat.render(history, tools)
        prompt_ids = self.chat.encode(text)
        completion = self._queue.complete(self._request(prompt_ids, seed))
        said = completion.ids[:-1] if completion.stopped else completion.ids
        reasoning, answer = split_reasoning(self.chat.decode(said), opened=text.rstrip().endswith(THINK_START))
        parsed = self._parse(answer)
        finish = "stop" if completion.stopped else "length"
        return Action(
            content=parsed.content,
            reasoning=reasoning,
            tool_calls=parsed.calls,
            finish_reason="tool_calls" if parsed.calls else finish,
            tokens=TokenTrace(prompt_ids=prompt_ids, completion_ids=completion.ids, logprobs=completion.logprobs),
            usage=Usage(prompt_tokens=len(prompt_ids), completion_tokens=len(completion.ids)),
        )

    def close(self) -> None:
        self._queue.close()

    def _request(self, prompt_ids: tuple[int, ...], seed: int) -> Request:
        room = self.window - len(prompt_ids)
        if room < 1:
            raise ContextWindowExceeded(
                f"The prompt has {len(prompt_ids)} tokens, and {self.name} reads {self.window}."
            )
        sampling = self.sampling
        return Request(
            prompt_ids,
            min(sampling.max_tokens or DEFAULT_MAX_TOKENS, room),
            seed,
            temperature=sampling.temperature or 0.0,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            top_k=sampling.top_k or 0,
            stop_ids=self._stop_ids,
        )


def resolve_sampling(asked: Sampling, generation_config: Any) -> Sampling:
    """What is asked, then what the model's generation config says, then plain sampling; `do_sample` off means greedy."""
    greedy = not generation_config.do_sample

    def either(value: Any, own: Any, default: Any) -> Any:
        return value if value is not None else (default if own is None else own)

    return Sampling(
        temperature=either(asked.temperature, 0.0 if greedy else generation_config.temperature, 1.0),
        top_p=either(asked.top_p, generation_config.top_p, 1.0),
        top_k=either(asked.top_k, generation_config.top_k, 0),
        max_tokens=asked.max_tokens or DEFAULT_MAX_TOKENS,
    )


def token_budget(model: Any, window: int) -> int:
    """Cache positions that fit into `CACHE_SHARE` of the free memory, at least `MIN_TOKEN_BUDGET`."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    position_bytes = 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize
    return max(MIN_TOKEN_BUDGET, int(CACHE_SHARE * _free_bytes(model) / position_bytes))


def _free_bytes(model: Any) -> int:
    import torch

    if model.device.type == "cuda":
        return torch.cuda.mem_get_info(model.device)[0]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def fingerprint(folder: Path) -> str:
    """Digest of the contents of config, weights and tokenizer files, by their names; reads all of the weights."""
    wanted = ("*.json", "*.jinja", "*.safetensors", "*.bin", "*.model", "*.txt")
    files = sorted({path for pattern in wanted for path in folder.glob(pattern) if path.is_file()})
    return digest({path.name: _sha256(path) for path in files})


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, sha256).hexdigest()


def load_tokenizer(folder: Path, name: str) -> Any:
    """The tokenizer in the folder; InputError where there is none, or it has no chat template."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{name}: no tokenizer can be loaded from {str(folder)!r}: {_first_line(error)}") from error
    if not tokenizer("text", add_special_tokens=False)["input_ids"]:
        raise InputError(
            f"{name}: no tokenizer can be loaded from {str(folder)!r}: it has no vocabulary (tokenizer.json)."
        )
    if not tokenizer.chat_template:
        raise InputError(f"{name}: its tokenizer has no chat template; put a chat_template.jinja into {str(folder)!r}.")
    return tokenizer


def load_model(folder: Path, name: str) -> Any:
    """The model in the folder, on a GPU in its own precision or else on the CPU in float32.

    InputError where files are missing or broken, or where the weights don't fill the model.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    gpu = torch.cuda.is_available()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype="auto" if gpu else torch.float32, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{name}: no model can be loaded from {str(folder)!r}: {_first_line(error)}") from error
    model, report = loaded
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise InputError(f"{name}: its weights lack {len(missing)} parameters, such as {missing[0]!r}.")
    return model.eval().to("cuda" if gpu else "cpu")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def build(rest: str, options: AgentOptions) -> Agent:
    """The model in the folder `rest`, loaded at once."""
    importlib.import_module("torch")  # a missing extra is told before a missing file
    import transformers

    folder = Path(rest).expanduser()
    name = f"hf:{folder.resolve().name}"
    if not (folder / "config.json").is_file():
        raise InputError(
            f"Agent 'hf:{rest}' is no folder with a model: it has no config.json. Save a model there first."
        )
    transformers.utils.logging.disable_progress_bar()
    chat = Chat(load_tokenizer(folder, name), name)
    if options.mode == "fc":
        chat.require_tools()
    return LocalModel(name, chat, load_model(folder, name), options, {"model": fingerprint(folder)})
