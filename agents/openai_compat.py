"""Any OpenAI-compatible endpoint: `openai:MODEL` with `--base-url`, key from OPENAI_API_KEY.

Requests go through the one limiter of their endpoint, which also sends them again; the client's own retries are off. A refused
key, an unknown model, an empty account and a server that nobody has ever reached stop the run (InputError): every other episode
would end the same way. What the server breaks is InfrastructureError, what no longer fits the model ContextWindowExceeded. A prompt that a content filter refuses
is answered with nothing, by finish reason `content_filter`: so the system behaves as a model.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from agents import openai_wire as wire
from agents.base import Agent, AgentOptions, shown_url
from agents.limiter import Faltered, Throttled, limiter_of, retry_after
from trajectories.failures import ContextWindowExceeded, InfrastructureError, InputError
from trajectories.schema import Action, Message, ToolSpec

if TYPE_CHECKING:
    import openai

LONGEST_BODY = 64 * 2**20
"""Bytes of an answer beyond which a server is taken for broken."""

CONNECT_TIMEOUT_S = 10.0

UNREACHED = 3
"""After so many failed connections, and none that succeeded, an address is taken for wrong."""

_LOG = logging.getLogger(__name__)


class OpenAICompatible:
    """A model behind the chat completions API, with native tool calls where the environment passes tools."""

    def __init__(self, model: str, options: AgentOptions, base_url: str, key: str) -> None:
        self.name = f"openai:{model}"
        self.config: Mapping[str, Any] = {"model": model, "sampling": options.sampling.model_dump(exclude_none=True)}
        self._model = model
        self._options = options
        self._official = base_url == wire.OPENAI_URL
        self._key = key
        self._base_url = shown_url(base_url)
        self._client = _client(base_url, key, options)
        self._limiter = limiter_of(base_url)
        self._reasoning_field = wire.REASONING_FIELDS[0]
        self._reached = False
        self._unreached = 0
        self._checked = threading.Lock()

    def act(self, history: Sequence[Message], tools: Sequence[ToolSpec], *, seed: int) -> Action:
        request = wire.request(
            self._model,
            history,
            tools,
            self._options.sampling,
            seed=seed,
            official=self._official,
            reasoning_field=self._reasoning_field,
        )
        answer = self._complete(request)
        if answer.reasoning_field:
            self._reasoning_field = answer.reasoning_field
        # The lock is never released: the first of all threads checks, once.
        if tools and self._checked.acquire(blocking=False):
            self._check_tools(request, answer.action)
        return answer.action

    def watch(self, stopping: threading.Event) -> None:
        self._limiter.watch(stopping)

    def trouble(self) -> str | None:
        return self._limiter.trouble()

    def close(self) -> None:
        self._client.close()

    def _complete(self, request: dict[str, Any]) -> wire.Answer:
        return self._limiter.call(lambda: self._send(request))

    def _send(self, request: dict[str, Any]) -> wire.Answer:
        import httpx2
        import openai

        deadline = time.monotonic() + self._options.request_timeout_s
        try:
            with self._client.chat.completions.with_streaming_response.create(**request) as response:
                self._reached = True
                return wire.read_answer(_read(response.iter_bytes(), deadline))
        except openai.APIStatusError as error:
            self._reached = True
            return self._refused(error)
        except (openai.APITimeoutError, httpx2.TimeoutException, TimeoutError) as error:
            self._count_unreached(error)
            raise Faltered(f"{self._base_url} gave no answer within {self._options.request_timeout_s:g} s") from error
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            reason = self._count_unreached(error)
            raise Faltered(f"{self._base_url} can't be reached: {type(reason).__name__}: {reason}") from error
        except wire.Malformed as error:
            raise Faltered(f"{self._base_url} answered with something that is no chat completion: {error}") from error

    def _count_unreached(self, error: Exception) -> BaseException:
        """What lies behind the error; InputError where no connection to the server was ever made."""
        import httpx2

        reason = error.__cause__ or error
        if isinstance(reason, httpx2.ConnectError | httpx2.ConnectTimeout) and not self._reached:
            self._unreached += 1
            if self._unreached >= UNREACHED:
                raise InputError(
                    f"{self._base_url} can't be reached ({reason}): start the server, or check --base-url."
                ) from error
        return reason

    def _refused(self, error: "openai.APIStatusError") -> wire.Answer:
        """An answer with an error status: an action for a content filter, otherwise the exception that fits."""
        status, code, said = error.status_code, str(error.code), self._said(error)
        if code == "content_filter":
            return wire.Answer(Action(finish_reason="content_filter"), None)
        if status in (400, 413, 422) and (code == "context_length_exceeded" or wire.too_long(said)):
            raise ContextWindowExceeded(said) from error
        if status in (401, 402, 403, 404) or code == "insufficient_quota":
            self._stop(status, said, error)
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        wait_s = retry_after(headers, time.time())
        if status == 429:
            raise Throttled(f"{self._base_url} asks to slow down (429): {said}", wait_s) from error
        if status in (408, 409, 425) or status >= 500:
            raise Faltered(f"{self._base_url} failed ({status}): {said}", wait_s) from error
        raise InfrastructureError(f"{self._base_url} refused the request ({status}): {said}") from error

    def _stop(self, status: int, said: str, error: Exception) -> NoReturn:
        advice = {
            401: "check OPENAI_API_KEY",
            404: f"check the model's name {self._model!r}, and --base-url, which usually ends in /v1",
        }
        todo = advice.get(status, "check the account behind OPENAI_API_KEY")
        raise InputError(f"{self._base_url} refuses every request ({status}: {said}): {todo}.") from error

    def _said(self, error: "openai.APIStatusError") -> str:
        """The server's own words, at most 300 characters, without the key."""
        body: Any = error.body
        message = body.get("message") if isinstance(body, dict) else body
        words = " ".join(str(message or error.response.reason_phrase).split())[:300]
        return words.replace(self._key, "[key]") if self._key else words

    def _check_tools(self, request: dict[str, Any], first: Action) -> None:
        """Warn where a prompt with tools is no longer than one without: then the model never sees them."""
        with_tools = first.usage.prompt_tokens if first.usage else None
        bare = {key: value for key, value in request.items() if key != "tools"}
        limit = "max_completion_tokens" if self._official else "max_tokens"
        try:
            probe = self._complete({**bare, limit: 16}).action if with_tools else None
        except (InfrastructureError, ContextWindowExceeded, InputError) as error:
            _LOG.info("Whether %s passes tools to its model could not be checked: %s", self.name, error)
            return
        without = probe.usage.prompt_tokens if probe and probe.usage else None
        if with_tools is None or without is None:
            _LOG.warning("%s reports no prompt_tokens: whether its prompt holds the tools can't be checked.", self.name)
        elif with_tools <= without:
            _LOG.warning(
                "%s seems to drop the tools: the prompt has %d tokens with them and %d without. Its chat template may render none: use --mode prompt.",
                self.name,
                with_tools,
                without,
            )


def _read(chunks: Iterator[bytes], deadline: float) -> bytes:
    """The whole body. The client's timeout is for one read; a server that drips must not hold an episode for ever."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if time.monotonic() > deadline:
            raise TimeoutError
        if len(body) > LONGEST_BODY:
            raise wire.Malformed(f"more than {LONGEST_BODY >> 20} MiB")
    return bytes(body)


def _client(base_url: str, key: str, options: AgentOptions) -> "openai.OpenAI":
    import httpx2
    import openai

    timeout = httpx2.Timeout(options.request_timeout_s, connect=min(CONNECT_TIMEOUT_S, options.request_timeout_s))
    # A connection for each thread: requests that queue inside the pool cost quadratic time.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=options.concurrency + 1)
    http = openai.DefaultHttpxClient(limits=limits, timeout=timeout)
    return openai.OpenAI(base_url=base_url, api_key=key or "none", timeout=timeout, max_retries=0, http_client=http)


def build(rest: str, options: AgentOptions) -> Agent:
    """The model of this name at `--base-url`, OPENAI_BASE_URL, or OpenAI itself. Sends nothing yet."""
    base_url = (options.base_url or os.environ.get("OPENAI_BASE_URL") or wire.OPENAI_URL).rstrip("/")
    key = os.environ.get("OPENAI_API_KEY", "")
    if not base_url.startswith(("http://", "https://")):
        raise InputError(f"The base URL {base_url!r} is none: it starts with http:// or https://.")
    if base_url == wire.OPENAI_URL and not key:
        raise InputError(
            f"Agent 'openai:{rest}' needs OPENAI_API_KEY in the environment, or --base-url URL of another server."
        )
    if base_url == wire.OPENAI_URL and options.sampling.top_k is not None:
        raise InputError(f"{base_url} knows no top_k: leave --top-k out, or name another server with --base-url.")
    return OpenAICompatible(rest, options, base_url, key)
