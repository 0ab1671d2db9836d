"""The tests' side of the oracle: starts the server in its own environment and asks it in batches."""

import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import build_oracle
import wire

BATCH = 2000
"""Items a request: a few megabytes of JSON at most."""


class Oracle:
    """The wheel's own code, asked by operation name (`oracle_server.OPERATIONS`); `spent[op]` is its CPU seconds."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the server
        server = Path(__file__).with_name("oracle_server.py")
        self._process = subprocess.Popen(
            [str(build_oracle.ensure()), "-E", "-s", "-W", "ignore", str(server)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def ask(self, op: str, items: Iterable[dict[str, Any]]) -> list[Any]:
        """One result an item, in order; `{"crash": sentence}` where upstream raises."""
        results: list[Any] = []
        for batch in _batches(items):
            reply = self._request(op, batch)
            self.spent[op] += reply["cpu_s"]
            results += reply["results"]
        return results

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()
        self._errors.close()

    def _request(self, op: str, items: list[dict[str, Any]]) -> dict[str, Any]:
        try:
            self._process.stdin.write(wire.dumps({"op": op, "items": items}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"The oracle died at '{op}':\n{self._errors.read()[-3000:]}")
        return wire.loads(line)


def crashed(result: Any) -> bool:
    """Whether upstream raised instead of answering."""
    return isinstance(result, dict) and set(result) == {"crash"}


def _batches(items: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH)):
        yield batch
