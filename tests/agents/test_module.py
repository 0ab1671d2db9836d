"""`module:` takes a class, a factory or a configured object, and says in one sentence what is wrong with anything else."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import registry
from agents.base import AgentOptions, PerEpisode
from trajectories.failures import InputError
from trajectories.schema import Action

SOURCE = """
from trajectories.schema import Action

class Echo:
    def __init__(self, word="echo"):
        self.word = word
        self.closed = False
        self.config = {"word": word}

    def act(self, history, tools, *, seed):
        return Action(content=self.word)

    def close(self):
        self.closed = True

class Named(Echo):
    name = "my-agent"

class WantsMore:
    def __init__(self, key):
        pass

class Words:
    def act(self, history, tools, *, seed):
        return "just text"

class OddConfig(Echo):
    def __init__(self):
        super().__init__()
        self.config = {"when": object()}

class OnePerEpisode:
    def for_episode(self, env, *, seed):
        return Echo(f"for {env}")

class holder:
    configured = Echo("configured")

configured = Echo("configured")

def make():
    return Echo("made")

def make_with(options):
    return Echo(options.mode)

def fails():
    raise RuntimeError("no key")

number = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "own_agents.py").write_text(SOURCE)
    (tmp_path / "broken_agents.py").write_text("import surely_not_there\n")
    (tmp_path / "crashing_agents.py").write_text("1 / 0\n")
    (tmp_path / "unparsable_agents.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("own_agents", None)


def build(rest: str, **options: Any) -> Any:
    return registry.build(f"module:own_agents:{rest}", AgentOptions(**options))


@pytest.mark.parametrize(
    ("attribute", "word"),
    [
        ("Echo", "echo"),
        ("configured", "configured"),
        ("holder.configured", "configured"),
        ("make", "made"),
        ("make_with", "prompt"),
    ],
)
def test_classes_objects_and_factories_play(folder: Path, attribute: str, word: str) -> None:
    assert build(attribute, mode="prompt").act((), (), seed=0) == Action(content=word)


def test_the_name_is_the_spec_unless_the_agent_has_one(folder: Path) -> None:
    assert build("Echo").name == "module:own_agents:Echo"
    assert build("Named").name == "my-agent"


def test_changed_code_is_another_agent(folder: Path) -> None:
    first = build("Echo").config
    assert first["word"] == "echo"
    assert first == build("Echo").config != build("configured").config
    (folder / "own_agents.py").write_text(SOURCE + "# changed\n")
    assert build("Echo").config["source"] != first["source"]


def test_an_agent_per_episode_is_wrapped_as_one(folder: Path) -> None:
    agent = build("OnePerEpisode")
    assert isinstance(agent, PerEpisode)
    assert agent.for_episode("env", seed=0).act((), (), seed=0).content == "for env"
    assert not isinstance(build("Echo"), PerEpisode)


def test_close_reaches_the_agent(folder: Path) -> None:
    build("configured").close()
    assert sys.modules["own_agents"].configured.closed


def test_an_answer_that_is_no_action_is_named(folder: Path) -> None:
    with pytest.raises(TypeError, match="act of module:own_agents:Words returned str: return an Action"):
        build("Words").act((), (), seed=0)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("module:own_agents", "names no attribute"),
        ("module:own_agents:", "names no attribute"),
        ("module:nowhere_at_all:X", "no module 'nowhere_at_all' in the current directory"),
        ("module:own_agents.sub:X", "'own_agents' is not a package|no module 'own_agents.sub'"),
        ("module:own_agents:Ecko", "Did you mean 'Echo'"),
        ("module:own_agents:number", "is of type int"),
        ("module:own_agents:WantsMore", "can't be made with no arguments: TypeError.*key"),
        ("module:own_agents:fails", "RuntimeError: no key"),
        ("module:own_agents:OddConfig", "no JSON value at 'when'"),
        ("module:own_agents:Action", "can't be made|without a method 'act"),
        ("module:broken_agents:X", "imports 'surely_not_there', which is not installed"),
        ("module:crashing_agents:X", "fails on import with ZeroDivisionError"),
        ("module:unparsable_agents:X", "fails on import with SyntaxError"),
    ],
)
def test_a_wrong_thing_is_one_sentence(folder: Path, spec: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        registry.build(spec, AgentOptions())


@pytest.mark.parametrize("taken", ["agents/mine.py", "envs.py"])
def test_a_module_that_is_named_as_one_of_ours_is_told_that_the_name_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / taken).parent.mkdir(exist_ok=True)
    (tmp_path / taken).write_text(SOURCE)
    module = taken.removesuffix(".py").replace("/", ".")
    with pytest.raises(InputError, match=f"the name '{module.partition('.')[0]}' is taken by harness's own package"):
        registry.build(f"module:{module}:Echo", AgentOptions())
