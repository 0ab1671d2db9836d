"""What goes into a checker and what comes out of it."""

from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """`error_type` is upstream's own name for the fault (None: valid); `detail` says more, for people."""

    valid: bool
    error_type: str | None = None
    detail: dict[str, Any] = {}  # noqa: RUF012 - read only, by convention of NamedTuple defaults


class RawOutput(NamedTuple):
    """A model's raw output on one task, in upstream's form (see `grading.py`).

    `underscores`: the model saw names with `_` for each dot, so upstream's checker expects those.
    """

    value: Any
    underscores: bool = False
    native: bool = False
    """The model was to call functions natively, so a text is no call, however it looks."""
    answered: bool = True
    """False: the episode ended before the model's first response. An empty response is one; `value` holds nothing then."""
