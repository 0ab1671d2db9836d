"""`openai:` against a real server on loopback that behaves badly in every way servers do."""

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agents.base import AgentOptions, Sampling
from agents.limiter import Limiter, Pace
from agents.openai_compat import OpenAICompatible, build
from trajectories.failures import ContextWindowExceeded, InfrastructureError, InputError
from trajectories.schema import Action, Message, ToolSpec, Usage

HELLO = (Message(role="user", content="Hello"),)
TOOL = ToolSpec(name="pay", description="Pays.", parameters={"type": "object", "properties": {"n": {"type": "number"}}})
QUICK = Pace(start=4, first_wait_s=0.01, longest_wait_s=0.02, rest_s=0.0, tries=3, patience_s=5.0)


def completion(content: Any = None, *, usage: Any = None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    return {"id": "c", "object": "chat.completion", "choices": [choice], **({"usage": usage} if usage else {})}


def call(arguments: Any, call_id: Any = "id_1", name: Any = "pay") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.fixture
def make(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    made: list[OpenAICompatible] = []

    def build_one(**options: Any) -> OpenAICompatible:
        agent = build("m", AgentOptions(**{"base_url": endpoint.base_url, "request_timeout_s": 5.0, **options}))
        assert isinstance(agent, OpenAICompatible)
        agent._limiter = Limiter(QUICK)
        made.append(agent)
        return agent

    yield build_one
    for agent in made:
        agent.close()


def test_an_answer_becomes_an_action(endpoint: Any, make: Any) -> None:
    usage = {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    endpoint.replies = [completion("Hi.", usage=usage, reasoning_content="hm")]
    assert make().act(HELLO, (), seed=5) == Action(
        content="Hi.",
        reasoning="hm",
        finish_reason="stop",
        usage=Usage(prompt_tokens=11, completion_tokens=7, reasoning_tokens=2, cached_tokens=4),
    )
    assert endpoint.requests == [{"model": "m", "messages": [{"role": "user", "content": "Hello"}], "seed": 5}]
    assert endpoint.keys == ["Bearer sk-very-secret"]


def test_sampling_and_tools_are_passed(endpoint: Any, make: Any) -> None:
    sampling = Sampling(temperature=0.2, top_p=0.9, top_k=20, max_tokens=64)
    make(sampling=sampling).act(HELLO, (TOOL,), seed=2**40 + 1)
    sent = endpoint.requests[0]
    assert {key: sent[key] for key in ("temperature", "top_p", "top_k", "max_tokens", "seed")} == {
        "temperature": 0.2,
        "top_p": 0.9,
        "top_k": 20,
        "max_tokens": 64,
        "seed": 1,
    }
    assert sent["tools"] == [
        {"type": "function", "function": {"name": "pay", "description": "Pays.", "parameters": TOOL.parameters}}
    ]


def test_the_identity_has_no_url_and_no_key(make: Any) -> None:
    agent = make(sampling=Sampling(temperature=0.0))
    assert agent.config == {"model": "m", "sampling": {"temperature": 0.0}}
    assert agent.name == "openai:m"


def test_parallel_calls_and_raw_arguments_are_kept(endpoint: Any, make: Any) -> None:
    calls = [call('{"n": 1}', "a"), call("{n: 1", "b"), call("[1]", "b"), call({"n": 2}, None), call("", "e")]
    endpoint.replies = [completion(None, tool_calls=calls, finish="tool_calls")]
    action = make().act(HELLO, (), seed=0)
    assert [(c.id, c.arguments) for c in action.tool_calls] == [
        ("a", {"n": 1}),
        ("b", "{n: 1"),
        ("call_2", "[1]"),
        ("call_3", {"n": 2}),
        ("e", ""),
    ]
    assert action.content == ""
    assert action.finish_reason == "tool_calls"


def test_the_conversation_goes_back_as_the_server_sent_it(endpoint: Any, make: Any) -> None:
    agent = make()
    endpoint.replies = [completion("", reasoning="why", tool_calls=[call('{"n": 1}', "a"), call("{oops", "b")])]
    action = agent.act(HELLO, (), seed=0)
    results = [Message(role="tool", content=f"r{i}", tool_call_id=i, name="pay") for i in "ab"]
    agent.act((*HELLO, action.message(), *results), (), seed=0)
    assert endpoint.requests[1]["messages"][1:] == [
        {"role": "assistant", "content": "", "reasoning": "why", "tool_calls": [call('{"n": 1}', "a"), call('"{oops"', "b")]},
        {"role": "tool", "content": "ra", "tool_call_id": "a", "name": "pay"},
        {"role": "tool", "content": "rb", "tool_call_id": "b", "name": "pay"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "text"),
    [([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "ab"), (None, ""), ("", "")],
)
def test_content_may_be_parts_or_nothing(endpoint: Any, make: Any, content: Any, text: str) -> None:
    endpoint.replies = [completion(content)]
    assert make().act(HELLO, (), seed=0).content == text


def test_a_refusal_and_a_length_stop_are_answers(endpoint: Any, make: Any) -> None:
    endpoint.replies = [
        completion(None, refusal="No."),
        completion("cut", finish="length"),
        completion("", finish="content_filter"),
    ]
    agent = make()
    assert agent.act(HELLO, (), seed=0).content == "No."
    assert agent.act(HELLO, (), seed=0).finish_reason == "length"
    assert agent.act(HELLO, (), seed=0).finish_reason == "content_filter"


BAD_BODIES = [
    b"",
    b"<html>busy</html>",
    b"[]",
    b"null",
    b"{}",
    b'{"choices": []}',
    b'{"choices": [{"finish_reason": "stop"}]}',
    b'{"choices": [{"message": null}]}',
    b'{"choices": [{"message": {"content": 7}}]}',
    b'{"choices": [{"message": {"tool_calls": "x"}}]}',
    b'{"choices": [{"message": {"tool_calls": [{"id": "a"}]}}]}',
    b'{"choices": [{"error": {"message": "upstream"}, "message": {"content": ""}}]}',
    b'{"error": {"message": "overloaded"}, "choices": [{"message": {"content": "x"}}]}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_a_200_that_is_no_completion_is_a_fault_of_the_server(endpoint: Any, make: Any, body: bytes) -> None:
    endpoint.fallback = body
    with pytest.raises(InfrastructureError, match="no chat completion"):
        make().act(HELLO, (), seed=0)
    assert len(endpoint.requests) == QUICK.tries


def error(status: int, message: str = "oh no", headers: dict[str, str] | None = None, **more: Any) -> tuple[Any, ...]:
    return status, {"error": {"message": message, **more}}, headers or {}


def test_429_and_faults_are_sent_again(endpoint: Any, make: Any) -> None:
    endpoint.replies = [error(429, headers={"Retry-After": "0.2"}), error(503), error(500), completion("at last")]
    started = time.monotonic()
    assert make().act(HELLO, (), seed=0).content == "at last"
    assert time.monotonic() - started >= 0.2
    assert len(endpoint.requests) == 4


def test_a_429_halves_the_limit(endpoint: Any, make: Any) -> None:
    agent = make()
    endpoint.replies = [error(429)]
    agent.act(HELLO, (), seed=0)
    assert agent._limiter.limit == 2


def test_an_overloaded_server_is_given_up_with_its_words(endpoint: Any, make: Any) -> None:
    endpoint.fallback = error(503, "overloaded", headers={"Retry-After": "0.02"})
    with pytest.raises(InfrastructureError, match=r"failed \(503\): overloaded") as caught:
        make().act(HELLO, (), seed=0)
    assert caught.value.retry_after_s == 0.02


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        (error(401, "Incorrect API key sk-very-secret"), "check OPENAI_API_KEY"),
        (error(403), "check the account"),
        (error(404, "no such model"), "check the model's name 'm', and --base-url, which usually ends in /v1"),
        (error(429, "quota", code="insufficient_quota"), "check the account"),
    ],
)
def test_what_no_retry_can_mend_stops_the_run_at_once(endpoint: Any, make: Any, reply: Any, advice: str) -> None:
    endpoint.fallback = reply
    with pytest.raises(InputError, match=advice) as caught:
        make().act(HELLO, (), seed=0)
    assert len(endpoint.requests) == 1
    assert "sk-very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "reply",
    [
        error(400, "too big", code="context_length_exceeded"),
        error(400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"),
        error(413, "the request exceeds the available context size"),
        (400, {"object": "error", "message": "prompt is too long: 9 > 8", "code": 400}, {}),
    ],
)
def test_what_does_not_fit_the_model_truncates(endpoint: Any, make: Any, reply: Any) -> None:
    endpoint.fallback = reply
    with pytest.raises(ContextWindowExceeded):
        make().act(HELLO, (), seed=0)


def test_another_refusal_is_not_sent_again(endpoint: Any, make: Any) -> None:
    endpoint.fallback = error(400, "unknown field 'seed'")
    with pytest.raises(InfrastructureError, match=r"refused the request \(400\): unknown field 'seed'"):
        make().act(HELLO, (), seed=0)
    assert len(endpoint.requests) == 1


def test_a_prompt_that_a_filter_refuses_is_answered_with_nothing(endpoint: Any, make: Any) -> None:
    endpoint.fallback = error(400, "filtered", code="content_filter")
    assert make().act(HELLO, (), seed=0) == Action(finish_reason="content_filter")


def test_a_server_that_never_answers_is_not_waited_for(endpoint: Any, make: Any) -> None:
    done = threading.Event()
    endpoint.fallback = lambda request: (done.wait(5), completion("late"))[1]
    agent = make(request_timeout_s=0.2)
    agent._limiter = Limiter(QUICK._replace(tries=2))
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match=r"no answer within 0\.2 s"):
        agent.act(HELLO, (), seed=0)
    assert time.monotonic() - started < 2
    done.set()


def test_a_server_that_drips_is_not_waited_for(endpoint: Any, make: Any) -> None:
    endpoint.fallback = lambda request: itertools.repeat(b" ", 200)
    agent = make(request_timeout_s=0.3)
    agent._limiter = Limiter(QUICK._replace(tries=1))
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match=r"no answer within 0\.3 s"):
        agent.act(HELLO, (), seed=0)
    assert time.monotonic() - started < 2


def test_a_body_that_breaks_off_or_never_ends_is_a_fault(
    endpoint: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make()
    endpoint.fallback = (200, b'{"choices"', {"content-length": "500"})
    with pytest.raises(InfrastructureError, match="can't be reached"):
        agent.act(HELLO, (), seed=0)
    monkeypatch.setattr("agents.openai_compat.LONGEST_BODY", 2**20)
    endpoint.fallback = b" " * (2**21)
    with pytest.raises(InfrastructureError, match="more than 1 MiB"):
        agent.act(HELLO, (), seed=0)


def test_an_address_that_was_never_reached_stops_the_run(make: Any) -> None:
    with pytest.raises(
        InputError, match=r"http://127.0.0.1:9/v1 can't be reached .*start the server, or check --base-url"
    ):
        make(base_url="http://127.0.0.1:9/v1").act(HELLO, (), seed=0)


def test_a_server_that_goes_down_later_is_an_infrastructure_fault(endpoint: Any, make: Any) -> None:
    agent = make()
    agent.act(HELLO, (), seed=0)
    agent._client.close()
    endpoint.close()
    agent._client = make()._client
    with pytest.raises(InfrastructureError, match=r"can't be reached: ConnectError.*given up after"):
        agent.act(HELLO, (), seed=0)


def prompt_length(tools_count: int) -> Any:
    def reply(request: dict[str, Any]) -> dict[str, Any]:
        return completion("ok", usage={"prompt_tokens": 20 + (tools_count if "tools" in request else 0)})

    return reply


def test_dropped_tools_are_warned_of_once(endpoint: Any, make: Any, caplog: pytest.LogCaptureFixture) -> None:
    endpoint.fallback = prompt_length(0)
    agent = make()
    for _ in range(3):
        agent.act(HELLO, (TOOL,), seed=0)
    assert len(endpoint.requests) == 4
    assert "tools" not in endpoint.requests[1]
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "openai:m seems to drop the tools: the prompt has 20 tokens with them and 20 without. "
        "Its chat template may render none: use --mode prompt."
    ]


def test_a_server_that_says_nothing_of_its_prompt_is_warned_of(endpoint: Any, make: Any, caplog: Any) -> None:
    agent = make()
    for _ in range(2):
        agent.act(HELLO, (TOOL,), seed=0)
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == [
        "openai:m reports no prompt_tokens: whether its prompt holds the tools can't be checked."
    ]


def test_tools_that_arrive_are_checked_in_silence(endpoint: Any, make: Any, caplog: Any) -> None:
    endpoint.fallback = prompt_length(100)
    make().act(HELLO, (TOOL,), seed=0)
    endpoint.replies = [completion("ok", usage={"prompt_tokens": 5}), error(400, "max_tokens too small")]
    make().act(HELLO, (TOOL,), seed=0)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_many_threads_are_served_and_slowed_down_together(endpoint: Any, make: Any) -> None:
    busy = threading.Semaphore(6)

    def reply(request: dict[str, Any]) -> Any:
        if not busy.acquire(blocking=False):
            return error(429)
        time.sleep(0.005)
        busy.release()
        return completion(request["messages"][0]["content"])

    endpoint.fallback = reply
    agent = make(concurrency=32)
    agent._limiter = Limiter(QUICK._replace(patience_s=60.0))
    with ThreadPoolExecutor(32) as pool:
        said = list(
            pool.map(lambda i: agent.act((Message(role="user", content=str(i)),), (), seed=0).content, range(150))
        )
    assert said == [str(i) for i in range(150)]
    assert agent._limiter.in_flight == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"base_url": "localhost:8000"}, "starts with http"),
        ({}, "needs OPENAI_API_KEY"),
    ],
)
def test_bad_settings_are_one_sentence(options: Any, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InputError, match=sentence):
        build("m", AgentOptions(**options))


def test_openai_itself_is_asked_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from agents import openai_wire

    sent = openai_wire.request(
        "m", HELLO, (), Sampling(max_tokens=9), seed=0, official=True, reasoning_field="reasoning"
    )
    assert sent["max_completion_tokens"] == 9
    assert "max_tokens" not in sent
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InputError, match="knows no top_k"):
        build("m", AgentOptions(sampling=Sampling(top_k=5)))
