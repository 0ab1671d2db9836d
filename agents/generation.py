"""Sampling from a causal language model: token ids in, token ids and log-probs out. No text, no chat.

`Batch` is a token-synchronous loop over one key-value cache: each step feeds every row its last token. Rows are padded on the
left; a row that ends leaves at once, and new ones may join between steps. Every row draws from a generator of its own, one
number a token of the vocabulary, and picks the winner of the exponential race, so its tokens don't depend on its neighbours. What
a larger batch changes in the last bits of the logits changes a token only where the first two of the race are that close
(for float32 about 1e-5 a token); drawing by the cumulated distribution would be far more sensitive.

Covered: decoder-only transformers models whose layers keep an ordinary attention cache, sliding windows included.
Not covered: recurrent and linear-attention layers, beams, penalties.
"""

import inspect
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from trajectories.failures import InfrastructureError

if TYPE_CHECKING:
    import torch

PREFILL_TOKENS = 8192
"""Most prompt tokens, padding included, that are read in one forward pass (a single longer prompt still is)."""


MODEL_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a model's forward pass is known to raise, lack of memory included."""


class Request(NamedTuple):
    """What to complete, and how. `temperature` 0 is greedy; `top_p` 1 and `top_k` 0 cut nothing."""

    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_ids: frozenset[int] = frozenset()


class Completion(NamedTuple):
    """What was sampled, the stop token included. `logprobs` are natural logs of the tempered distribution before cuts,
    in float32; for greedy rows of the untempered one. `stopped`: by a stop token, not by length."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: bool


class _Row:
    def __init__(self, request: Request, device: "torch.device") -> None:
        import torch

        self.request = request
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.generator = torch.Generator(device).manual_seed(request.seed)

    @property
    def total_tokens(self) -> int:
        return len(self.request.prompt_ids) + self.request.max_new_tokens

    @property
    def stopped(self) -> bool:
        return bool(self.ids) and self.ids[-1] in self.request.stop_ids

    @property
    def over(self) -> bool:
        return self.stopped or len(self.ids) >= self.request.max_new_tokens

    def draws(self, logits: "torch.Tensor") -> "torch.Tensor":
        """One exponential number for each of the logits; a greedy row draws none."""
        import torch

        if self.request.temperature == 0:
            return torch.ones_like(logits, dtype=torch.float32)
        return torch.empty_like(logits, dtype=torch.float32).exponential_(generator=self.generator)

    def completion(self) -> Completion:
        return Completion(tuple(self.ids), tuple(self.logprobs), self.stopped)


class Batch:
    """Rows that are sampled together. `join` and `step` give the rows that ended, by the key under which they joined."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.keys: list[Any] = []
        self._rows: list[_Row] = []
        self._cache: Any = None
        self._mask: torch.Tensor | None = None
        # The name of this argument changed between releases of transformers.
        self._cache_argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"

    def tokens(self, more: Sequence[Request] = ()) -> int:
        """Most cache positions, padding included, that the rows and `more` can come to need."""
        lengths = [row.total_tokens for row in self._rows]
        lengths += [len(request.prompt_ids) + request.max_new_tokens for request in more]
        return len(lengths) * max(lengths, default=0)

    def join(self, requests: Sequence[tuple[Any, Request]]) -> list[tuple[Any, Completion]]:
        """Read the prompts of new rows and sample their first tokens."""
        import torch
        from transformers import DynamicCache

        rows = [_Row(request, self.model.device) for _, request in requests]
        length = max(len(row.request.prompt_ids) for row in rows)
        ids = torch.zeros(len(rows), length, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, length - len(row.request.prompt_ids) :] = torch.tensor(row.request.prompt_ids)
            mask[index, length - len(row.request.prompt_ids) :] = 1
        cache = DynamicCache()
        mask = mask.to(self.model.device)
        with torch.inference_mode():
            logits = self._forward(ids.to(self.model.device), mask, cache)
            self._merge(cache, mask)
        self.keys += [key for key, _ in requests]
        self._rows += rows
        _take(rows, logits)
        return self._retire()

    def step(self) -> list[tuple[Any, Completion]]:
        """Sample one more token for each row."""
        import torch

        assert self._mask is not None, "rows joined"  # noqa: S101 - for the type checker
        last = torch.tensor([[row.ids[-1]] for row in self._rows], device=self.model.device)
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(self._rows), 1)], dim=1)
        with torch.inference_mode():
            logits = self._forward(last, self._mask, self._cache)
        _take(self._rows, logits)
        return self._retire()

    def clear(self) -> list[Any]:
        """Drop all rows; gives their keys."""
        keys, self.keys, self._rows = self.keys, [], []
        self._cache = self._mask = None
        return keys

    def _forward(self, ids: "torch.Tensor", mask: "torch.Tensor", cache: Any) -> "torch.Tensor":
        """Logits (B, V) after the last of the new ids (B, T); mask is (B, cached + T)."""
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_argument: cache},
        )
        return out.logits[:, -1]

    def _merge(self, cache: Any, mask: "torch.Tensor") -> None:
        """Put new rows below the old ones; the shorter of the two caches is padded on the left."""
        import torch

        if self._mask is None:
            self._cache, self._mask = cache, mask
            return
        length = max(self._mask.shape[1], mask.shape[1])
        self._mask = torch.cat([_pad(self._mask, length, dim=1), _pad(mask, length, dim=1)])
        for old, new in zip(self._cache.layers, cache.layers, strict=True):
            old.keys = torch.cat([_pad(old.keys, length, dim=2), _pad(new.keys, length, dim=2)])
            old.values = torch.cat([_pad(old.values, length, dim=2), _pad(new.values, length, dim=2)])

    def _retire(self) -> list[tuple[Any, Completion]]:
        import torch

        left = [index for index, row in enumerate(self._rows) if not row.over]
        ended = [(self.keys[i], row.completion()) for i, row in enumerate(self._rows) if row.over]
        if not left:
            self.clear()
        elif ended:
            assert self._mask is not None, "rows joined"  # noqa: S101 - for the type checker
            indices = torch.tensor(left, device=self.model.device)
            mask = self._mask[indices]
            unused = int(mask.shape[1] - mask.sum(-1).max())
            self._mask = mask[:, unused:]
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[indices, :, unused:], layer.values[indices, :, unused:]
            self.keys, self._rows = [self.keys[i] for i in left], [self._rows[i] for i in left]
        return ended


def _pad(tensor: "torch.Tensor", length: int, *, dim: int) -> "torch.Tensor":
    """Zeros in front, along `dim`, up to `length`."""
    import torch

    missing = length - tensor.shape[dim]
    if not missing:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = missing
    return torch.cat([tensor.new_zeros(shape), tensor], dim=dim)


def _take(rows: Sequence[_Row], logits: "torch.Tensor") -> None:
    """Sample the next token of each row from logits (B, V)."""
    import torch

    draws = torch.stack([row.draws(row_logits) for row, row_logits in zip(rows, logits, strict=True)])
    ids, logprobs = choose(logits, [row.request for row in rows], draws)
    for row, token, logprob in zip(rows, ids.tolist(), logprobs.tolist(), strict=True):
        row.ids.append(token)
        row.logprobs.append(logprob)


def choose(
    logits: "torch.Tensor", requests: Sequence[Request], draws: "torch.Tensor"
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Token ids (B,) and their log-probs (B,) from logits (B, V) and independent exponential draws (B, V).

    Top-k cuts first, then top-p among what is left, as transformers does; equal probabilities are kept together.
    Logits that are not finite raise InfrastructureError.
    """
    import torch

    temperatures = torch.tensor([request.temperature for request in requests], device=logits.device)
    greedy = (temperatures == 0)[:, None]
    logprobs = (logits.float() / torch.where(greedy, 1.0, temperatures[:, None])).log_softmax(-1)
    # Of exponential clocks that run at rate p each, clock i rings first with probability p_i.
    race = _cut(logprobs.exp(), requests) / draws.clamp(min=1e-30)
    ids = torch.where(greedy, logits, race).argmax(-1)
    chosen = logprobs.gather(1, ids[:, None])[:, 0]
    if not bool(chosen.isfinite().all()):
        raise InfrastructureError("The model gives logits that are no numbers.")
    return ids, chosen


def _cut(probs: "torch.Tensor", requests: Sequence[Request]) -> "torch.Tensor":
    """Probabilities (B, V) with those that top-k and top-p exclude set to 0; not normalised again."""
    import torch

    vocabulary = probs.shape[1]
    ks = [request.top_k if 0 < request.top_k < vocabulary else vocabulary for request in requests]
    ps = [request.top_p for request in requests]
    if min(ks) == vocabulary and min(ps) >= 1:
        return probs
    ordered = probs.topk(max(ks), sorted=True).values
    inside = torch.arange(max(ks), device=probs.device) < torch.tensor(ks, device=probs.device)[:, None]
    ordered = torch.where(inside, ordered, 0.0)
    share = torch.tensor(ps, dtype=probs.dtype, device=probs.device)[:, None] * ordered.sum(-1, keepdim=True)
    kept = (inside & (ordered.cumsum(-1) - ordered < share)).sum(-1, keepdim=True).clamp(min=1)
    return torch.where(probs >= ordered.gather(1, kept - 1), probs, 0.0)


def generate(model: Any, requests: Sequence[Request], *, token_budget: int) -> list[Completion]:
    """Completions of all requests, in their order. `token_budget` bounds the cache positions in use, padding included."""
    batch, done = Batch(model), dict[int, Completion]()
    waiting = deque(enumerate(requests))
    while waiting or batch.keys:
        if joining := admit(batch, waiting, token_budget):
            done.update(batch.join(joining))
        if batch.keys:
            done.update(batch.step())
    return [done[index] for index in range(len(requests))]


def admit(batch: Batch, waiting: deque[tuple[Any, Request]], token_budget: int) -> list[tuple[Any, Request]]:
    """Take from the front of `waiting` what fits beside the rows of the batch; always one if the batch is empty."""
    joining: list[tuple[Any, Request]] = []
    while waiting:
        requests = [request for _, request in (*joining, waiting[0])]
        padded = len(requests) * max(len(request.prompt_ids) for request in requests)
        fits = batch.tokens(requests) <= token_budget and padded <= PREFILL_TOKENS
        alone = not joining and (not batch.keys or (padded > PREFILL_TOKENS and batch.tokens(requests) <= token_budget))
        if not (fits or alone):
            break
        joining.append(waiting.popleft())
    return joining


class GenerationQueue:
    """One thread that samples for all: `complete` may be called from any number of threads at once."""

    def __init__(self, model: Any, *, token_budget: int) -> None:
        self.token_budget = token_budget
        self._batch = Batch(model)
        self._waiting: deque[tuple[Future[Completion], Request]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="generation", daemon=True)
        self._thread.start()

    def complete(self, request: Request) -> Completion:
        """Blocks until the request is completed. InfrastructureError where the model breaks or the queue is closed."""
        future: Future[Completion] = Future()
        with self._changed:
            if self._closed:
                raise InfrastructureError("The model is closed already.")
            self._waiting.append((future, request))
            self._changed.notify()
        return future.result()

    def close(self) -> None:
        """Stop after the current step; whoever still waits gets InfrastructureError."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            for joining in self._rounds():
                self._advance(joining)
        finally:
            with self._changed:
                self._closed = True
                left = [*self._batch.clear(), *(future for future, _ in self._waiting)]
                self._waiting.clear()
            _fail(left, "The model was closed before it answered.")

    def _rounds(self) -> Iterator[list[tuple[Future[Completion], Request]]]:
        """What joins in each round, until the queue is closed; waits while there is nothing to do."""
        while True:
            with self._changed:
                while not (self._closed or self._waiting or self._batch.keys):
                    self._changed.wait()
                if self._closed:
                    return
                joining = admit(self._batch, self._waiting, self.token_budget)
            yield joining

    def _advance(self, joining: list[tuple[Future[Completion], Request]]) -> None:
        """One round. What the model raises fails the rows of this round and no others."""
        try:
            ended = self._batch.join(joining) if joining else []
            if self._batch.keys:
                ended += self._batch.step()
        except MODEL_ERRORS as error:
            _fail([*self._batch.clear(), *(future for future, _ in joining)], f"{type(error).__name__}: {error}")
            return
        for future, completion in ended:
            future.set_result(completion)


def _fail(futures: Sequence[Future[Completion]], message: str) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(InfrastructureError(message))
