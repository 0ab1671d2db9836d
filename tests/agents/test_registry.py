"""Agents are found by name, and a wrong name says what was meant."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents import registry
from agents.base import AgentOptions
from trajectories.failures import InputError

OPTIONS = AgentOptions()


@pytest.mark.parametrize("name", ["oracle", "nop", "random"])
def test_scripted_agents_are_built_by_name(name: str) -> None:
    assert registry.build(f"scripted:{name}", OPTIONS).name == f"scripted:{name}"


def test_names_lists_every_kind() -> None:
    listed = registry.names()
    assert {form.partition(":")[0] for form in listed} >= set(registry.KINDS)


@pytest.mark.parametrize(
    ("spec", "near"),
    [
        ("scriptd:oracle", "'scripted:oracle'"),
        ("opnai:gpt-4o", "'openai:gpt-4o'"),
        ("scripted-oracle", "'scripted:oracle'"),
        ("scripted:orcale", "'oracle'"),
    ],
)
def test_an_unknown_name_gives_the_near_ones(spec: str, near: str) -> None:
    with pytest.raises(InputError, match=f"Did you mean .*{near}"):
        registry.build(spec, OPTIONS)


@pytest.mark.parametrize("spec", ["openai", "openai:", "scripted: ", "hf"])
def test_a_kind_alone_asks_for_the_rest(spec: str) -> None:
    with pytest.raises(InputError, match="says no more than its kind"):
        registry.build(spec, OPTIONS)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(rest: str, options: AgentOptions) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setitem(sys.modules, "agents.hf", SimpleNamespace(build=build))
    with pytest.raises(InputError, match=r"'torch', which is missing: pip install 'lopd-harness\[hf\]'"):
        registry.build("hf:somewhere", OPTIONS)


def test_installed_packages_name_agents_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shiny_agents.py").write_text("class Shiny:\n    def act(self, history, tools, *, seed): ...\n")
    info = tmp_path / "shiny-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shiny\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[harness.agents]\nshiny = shiny_agents:Shiny\nbroken = shiny_agents:Gone\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "shiny" in registry.names()
    assert registry.build("shiny", OPTIONS).name == "shiny"
    with pytest.raises(InputError, match="'shiny_agents:Gone' does not load"):
        registry.build("broken", OPTIONS)
    with pytest.raises(InputError, match=r"Did you mean .*'shiny'"):
        registry.build("shinny", OPTIONS)
