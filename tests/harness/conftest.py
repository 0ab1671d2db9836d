"""The command line inside the test's own process, with the toy benchmark in the registry."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import toybench

from envs import registry
from harness.cli import run


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    def error(self) -> str:
        """The one sentence that a refused command says; fails where it says more, or less."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("Error: "), self.err
        assert lines[0].endswith((".", "?")), self.err
        assert self.out == ""
        return lines[0].removeprefix("Error: ")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `harness ARGS` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.BENCHMARKS, toybench.Toy.name, "toybench:Toy")
    monkeypatch.setenv("TOY_TASKS", "8")

    def call(*arguments: str) -> Ran:
        capfd.readouterr()
        code = run(list(arguments))
        return Ran(code, *capfd.readouterr())

    return call
