"""What a checker says of one prediction."""

from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """`error_type` is upstream's own name for the fault (None: valid); `detail` says more, for people."""

    valid: bool
    error_type: str | None = None
    detail: dict[str, Any] = {}  # noqa: RUF012 - read only, by convention of NamedTuple defaults
