"""A real HTTP server on loopback that answers as the test says, and small models in folders."""

import importlib.util
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# Before torch is imported: on shared cores its threads spin against each other, ten times slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")


class Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what some tests are about."""


class FakeEndpoint:
    """Answers each chat completion with the next of `replies`, then with `fallback`.

    A reply is a dict (200, JSON), bytes (200, as they are), a tuple (status, dict or bytes, headers), or a function of the
    request's JSON that gives one of these. `requests` are the bodies received.
    """

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.fallback: Any = {"choices": [{"finish_reason": "stop", "message": {"content": "ok"}}]}
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                endpoint.answer(self)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self.thread = threading.Thread(target=lambda: self.server.serve_forever(0.01), daemon=True)
        self.thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        request = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self.lock:
            self.requests.append(request)
            self.keys.append(handler.headers.get("authorization", ""))
            reply = self.replies.pop(0) if self.replies else self.fallback
        reply = reply(request) if callable(reply) else reply
        if isinstance(reply, Iterator):
            return self.drip(handler, reply)
        status, body, headers = reply if isinstance(reply, tuple) else (200, reply, {})
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)
        if int(headers.get("content-length", len(data))) != len(data):
            handler.close_connection = True
        return None

    def drip(self, handler: BaseHTTPRequestHandler, chunks: Iterator[bytes]) -> None:
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("connection", "close")
        handler.end_headers()
        try:
            for chunk in chunks:
                handler.wfile.write(chunk)
                handler.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return

    def close(self) -> None:
        """May be called again."""
        if not self.thread.is_alive():
            return
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    fake = FakeEndpoint()
    yield fake
    fake.close()


@pytest.fixture(scope="session")
def models() -> ModuleType:
    """The module `models.py` beside this file: test files are not importable by name."""
    spec = importlib.util.spec_from_file_location("agent_models", Path(__file__).with_name("models.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
