"""What `harness eval` and `harness collect` are told: one validated record, from a TOML file, from flags, or both.

Each field is the flag of the same name (`max_steps` is `--max-steps`), and a key of the file (`max_steps` or `max-steps`); a
flag wins over the file.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from agents.base import shown_url
from envs.base import unknown_name
from trajectories.failures import InputError
from trajectories.schema import Record

OPERATIONAL = frozenset({"base_url", "request_timeout", "concurrency", "retries", "sandbox", "output"})
"""Fields that decide where and how fast a run goes, not what it is: a resumed run may change them."""


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Share = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class EvalOptions(Record):
    """A field that is None is left to the benchmark or to the model's side; 0 means no limit."""

    benchmark: Names = ()
    agent: Names = ()
    split: str | None = None
    """None: each benchmark's first."""
    category: Names = ()
    """Names or globs; empty: all."""
    language: Names = ()
    tasks: Names = ()
    """Globs over task ids; empty: all."""
    limit: Count = 0
    """Tasks of each benchmark, first by id."""
    attempts: Positive = 1
    seed: Count = 0
    mode: Literal["prompt", "fc"] = "fc"
    profile: str = "default"
    texts: Literal["official", "ours"] = "official"
    grader: Literal["official", "strict"] = "official"
    base_url: str | None = None
    temperature: Amount | None = None
    top_p: Share | None = None
    top_k: Count | None = None
    max_tokens: Positive | None = None
    max_steps: Count = 0
    time_limit: Seconds = 0.0
    """Seconds of wall time of one episode."""
    token_limit: Count = 0
    cost_limit: Amount = 0.0
    """US dollars of one episode."""
    request_timeout: Annotated[Seconds, Field(gt=0)] = 600.0
    """Seconds for one answer of a model endpoint."""
    concurrency: Positive = 4
    """Episodes at once."""
    retries: Count | None = None
    """How often an episode that an infrastructure fault broke is started again; None: twice."""
    sandbox: Literal["auto", "docker", "local"] = "auto"
    """Where code that models write is run. What it is stands in the grader's id; it is no part of the plan."""
    output: str | None = None
    """The run's folder; None: a new one under `runs/`."""


def recorded(options: EvalOptions) -> dict[str, Any]:
    """What a run keeps of its options: those that led to the plan, and where the endpoint is, without its secrets."""
    kept = options.model_dump(mode="json", exclude=set(OPERATIONAL))
    return {**kept, "base_url": options.base_url and shown_url(options.base_url)}


def operational(options: EvalOptions) -> dict[str, Any]:
    """The options that a plan doesn't have, as they may be shown."""
    return {
        **options.model_dump(mode="json", include=set(OPERATIONAL)),
        "base_url": options.base_url and shown_url(options.base_url),
    }


def read_options(
    config: Path | None, flags: Mapping[str, Any], recorded: Mapping[str, Any] | None = None
) -> EvalOptions:
    """The options of a command: `recorded` ones first, then the file's, then the flags that were given.

    Raises InputError that names the key, the value and the rule.
    """
    values = {**(recorded or {}), **(_read_file(config) if config else {}), **flags}
    try:
        return EvalOptions.model_validate(values)
    except ValidationError as error:
        fault = error.errors()[0]
        name = str(fault["loc"][0])
        given = f" in {str(config)!r}" if config and name not in flags else ""
        raise InputError(f"{_flag(name)} can't be {fault['input']!r}{given}: {_sentence(fault['msg'])}.") from None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _sentence(message: str) -> str:
    return message[0].lower() + message[1:]


def _read_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"The config {str(path)!r} can't be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The config {str(path)!r} is no TOML: {error}.") from None
    values = {key.replace("-", "_"): value for key, value in table.items()}
    for key in values:
        if key not in EvalOptions.model_fields:
            raise unknown_name(f"key in {str(path)!r}:", key, EvalOptions.model_fields)
    return values
