"""Batched sampling gives what each request gives alone, and what the formulas say."""

import math
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Olmo3Config, Olmo3ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from agents.generation import Batch, GenerationQueue, Request, choose, generate
from trajectories.failures import InfrastructureError

SHAPE: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.5,
}


def make(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()
    if kind == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**SHAPE)).eval()
    return Olmo3ForCausalLM(
        Olmo3Config(**{**SHAPE, "sliding_window": 6, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2})
    ).eval()


@pytest.fixture(scope="module", params=["llama", "qwen3", "olmo3"])
def model(request: pytest.FixtureRequest) -> Any:
    return make(request.param)


@pytest.fixture(scope="module")
def llama() -> Any:
    return make("llama")


def requests(n: int = 9, **more: Any) -> list[Request]:
    """Prompts of 1 to 23 tokens, lengths of 1 to 14, every way of sampling."""
    ways = [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_p": 0.8},
        {"temperature": 1.3, "top_k": 5},
        {"temperature": 0.0},
    ]
    return [
        Request(
            prompt_ids=tuple((7 * i + j * j) % 61 for j in range(1 + (5 * i) % 23)),
            max_new_tokens=1 + (3 * i) % 14,
            seed=i,
            **{**ways[i % 4], "stop_ids": frozenset({3, 4, 5}), **more},
        )
        for i in range(n)
    ]


def alone(model: Any, wanted: list[Request]) -> list[Any]:
    return [generate(model, [request], token_budget=10_000)[0] for request in wanted]


def test_a_batch_gives_what_each_gives_alone(model: Any) -> None:
    wanted = requests()
    single = alone(model, wanted)
    for budget in (1, 60, 200, 10_000):
        together = generate(model, wanted, token_budget=budget)
        assert [c.ids for c in together] == [c.ids for c in single]
        for one, other in zip(single, together, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert {completion.stopped for completion in single} == {True, False}


def test_logprobs_are_those_of_a_full_forward_pass(model: Any) -> None:
    for request, completion in zip(requests(), generate(model, requests(), token_budget=10_000), strict=True):
        ids = torch.tensor([[*request.prompt_ids, *completion.ids]])
        with torch.inference_mode():
            logits = model(input_ids=ids).logits[0, len(request.prompt_ids) - 1 : -1]
        full = (logits / (request.temperature or 1.0)).log_softmax(-1)
        wanted = full.gather(1, torch.tensor(completion.ids)[:, None])[:, 0]
        assert completion.logprobs == pytest.approx(wanted.tolist(), abs=1e-4)


def test_greedy_equals_transformers_own_generate(model: Any) -> None:
    wanted = requests(temperature=0.0, stop_ids=frozenset())
    for request, completion in zip(wanted, generate(model, wanted, token_budget=10_000), strict=True):
        own = model.generate(
            torch.tensor([request.prompt_ids]),
            max_new_tokens=request.max_new_tokens,
            do_sample=False,
            attention_mask=torch.ones(1, len(request.prompt_ids), dtype=torch.long),
            eos_token_id=1000,
            pad_token_id=0,
        )
        assert completion.ids == tuple(own[0, len(request.prompt_ids) :].tolist())


def test_rows_may_join_and_leave_at_any_step(llama: Any) -> None:
    wanted = requests(8)
    single = alone(llama, wanted)
    batch, done, left = Batch(llama), {}, list(enumerate(wanted))
    while left or batch.keys:
        if left:
            done.update(batch.join([left.pop(0)]))
        if batch.keys:
            done.update(batch.step())
    assert [done[i].ids for i in range(8)] == [c.ids for c in single]


def test_the_seed_decides(llama: Any) -> None:
    one, same, other = generate(
        llama, [Request((1, 2), 20, seed) for seed in (1, 1, 2)], token_budget=10_000
    )  # fmt: skip
    assert one.ids == same.ids != other.ids


def exponential(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.empty(rows, 4).exponential_(generator=torch.Generator().manual_seed(seed))


def test_sampling_follows_the_distribution() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]]).repeat(20_000, 1)
    ids, logprobs = choose(logits, [Request((), 1, 0, temperature=0.5)] * 20_000, exponential(20_000))
    wanted = (logits[0] / 0.5).softmax(-1)
    counts = Counter(ids.tolist())
    for token in range(4):
        assert counts[token] / 20_000 == pytest.approx(float(wanted[token]), abs=0.012)
    assert float(logprobs[0]) == pytest.approx(math.log(float(wanted[ids[0]])), abs=1e-5)


@pytest.mark.parametrize(
    ("cut", "allowed"),
    [
        ({"top_k": 2}, {1, 2}),
        ({"top_p": 0.5}, {2}),
        ({"top_p": 0.8}, {1, 2}),
        ({"top_k": 3, "top_p": 0.99}, {0, 1, 2}),
        ({"top_k": 1, "top_p": 0.01}, {2}),
        ({"top_k": 0, "top_p": 1.0}, {0, 1, 2, 3}),
        ({"top_k": 999}, {0, 1, 2, 3}),
    ],
)
def test_cuts_leave_what_they_should_and_keep_the_uncut_logprobs(cut: dict[str, Any], allowed: set[int]) -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]]).repeat(3000, 1)
    ids, logprobs = choose(logits, [Request((), 1, 0, **cut)] * 3000, exponential(3000))
    assert set(ids.tolist()) == allowed
    assert torch.allclose(logprobs, logits.log_softmax(-1).gather(1, ids[:, None])[:, 0])


def test_a_mixed_batch_cuts_each_row_by_its_own_rule() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]]).repeat(4, 1)
    asked = [
        Request((), 1, 0, top_k=1),
        Request((), 1, 0),
        Request((), 1, 0, top_p=0.8),
        Request((), 1, 0, temperature=0),
    ]
    for seed in range(20):
        first, _, third, greedy = choose(logits, asked, exponential(4, seed))[0].tolist()
        assert (first, greedy) == (2, 2)
        assert third in (1, 2)
    all_but_last = torch.tensor([[9.0, 9.0, 9.0, 1e-9]]).repeat(4, 1)
    assert choose(logits, asked, all_but_last)[0].tolist() == [2, 3, 2, 2]


def test_logits_that_are_no_numbers_are_our_fault() -> None:
    with pytest.raises(InfrastructureError, match="no numbers"):
        choose(torch.full((1, 4), math.nan), [Request((), 1, 0)], exponential(1))


@pytest.fixture
def queue(llama: Any) -> Iterator[GenerationQueue]:
    queue = GenerationQueue(llama, token_budget=300)
    yield queue
    queue.close()


def test_threads_share_one_batch_and_get_their_own_answers(llama: Any, queue: GenerationQueue) -> None:
    wanted = requests(24)
    seen: list[int] = []
    step = queue._batch.step
    queue._batch.step = lambda: seen.append(len(queue._batch.keys)) or step()
    with ThreadPoolExecutor(12) as pool:
        got = list(pool.map(queue.complete, wanted))
    assert [c.ids for c in got] == [c.ids for c in alone(llama, wanted)]
    assert max(seen) > 1


def test_a_fault_of_torch_fails_its_round_and_the_queue_lives_on(queue: GenerationQueue) -> None:
    with pytest.raises(InfrastructureError, match="IndexError"):
        queue.complete(Request((1, 999), 5, 0))
    assert len(queue.complete(Request((1, 2), 5, 0)).ids) == 5


def test_a_fault_of_the_model_is_ours(queue: GenerationQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(joining: Any) -> None:
        raise TypeError("forward() got an unexpected argument")

    with monkeypatch.context() as patch:
        patch.setattr(queue._batch, "join", broken)
        with pytest.raises(InfrastructureError, match=r"TypeError: forward\(\) got"):
            queue.complete(Request((1, 2), 5, 0))
    assert len(queue.complete(Request((1, 2), 5, 0)).ids) == 5


def test_a_closed_queue_answers_nobody(llama: Any) -> None:
    queue = GenerationQueue(llama, token_budget=10_000)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            queue.complete(Request((1, 2), 100_000, 0))
        except InfrastructureError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not queue._batch.keys:
        threading.Event().wait(0.001)
    queue.close()
    thread.join(5)
    assert "closed" in str(caught[0])
    with pytest.raises(InfrastructureError, match="closed"):
        queue.complete(Request((1, 2), 1, 0))
