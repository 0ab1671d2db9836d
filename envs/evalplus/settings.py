"""The settings that an EvalPlus episode really has, and the wording that goes with them."""

from pathlib import Path

from envs import code_episodes, data
from envs.base import EnvSettings
from envs.evalplus import prompts, source


def resolve(asked: EnvSettings, split: str) -> EnvSettings:
    """Part of an episode's identity. Official texts are in the wheel that `harness data pull evalplus` fetches; data that came without
    it (`--from` a folder of release files, the samples) is played with ours, and the record says so. InputError for an unknown profile.
    """
    settings = code_episodes.resolve(asked, source.NAME)
    if settings.texts == "official" and _wheel() is None:
        return settings.model_copy(update={"texts": "ours"})
    return settings


def instruction(settings: EnvSettings) -> str:
    """What stands before the task, by resolved settings."""
    wheel = _wheel() if settings.texts == "official" else None
    return prompts.official_instruction(wheel) if wheel else prompts.OURS


def texts_missing() -> str | None:
    """Why prompts have our wording, in one sentence; None: upstream's is here."""
    if _wheel() is not None:
        return None
    return "The data has no official prompt texts, so prompts are in our words: run 'harness data pull evalplus' for all of it."


def _wheel() -> Path | None:
    pulled = data.current(source.NAME)
    path = pulled.path / source.WHEEL if pulled else None
    return path if path and path.is_file() else None
