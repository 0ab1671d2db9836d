"""What can be wrong with a store, one sentence each."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from trajectories.failures import InfrastructureError

CATALOGUE = "catalogue.sqlite"
"""The place of a problem of the index alone: the trajectories are safe."""


class Problem(NamedTuple):
    """Something wrong with a file of the store, in one sentence. `ids` are the trajectories it concerns, where known."""

    severity: Literal["info", "error"]
    """`info`: mended, or harmless."""
    place: str
    sentence: str
    ids: tuple[str, ...] = ()


class StoreDamaged(InfrastructureError):
    """Records that were done can't be read any more. The message names the first problem, `problems` has all."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        more = f" ({len(problems) - 1} more: `harness trajectories verify`.)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0].sentence}{more} {way_out(path)}")
        self.problems = tuple(problems)


def way_out(path: Path) -> str:
    """What to do about damage in this store."""
    return (
        f"Restore the file from a backup, or run `harness trajectories compact {shlex.quote(str(path))} --drop-damaged`: "
        "what can't be read is then owed again."
    )


def lost_frames(path: Path, start: int, end: int) -> Problem:
    sentence = f"The journal {path} is damaged between bytes {start} and {end}: the records there are lost."
    return Problem("error", path.name, sentence)


def bad_header(path: Path) -> Problem:
    return Problem("error", path.name, f"The header of the journal {path} is damaged.")


def torn_tail(path: Path, size: int) -> Problem:
    sentence = f"The journal {path} ended in {size} bytes of an unfinished write: that episode is owed again."
    return Problem("info", path.name, sentence)


def bad_segment(path: Path, reason: str, ids: Sequence[str] = ()) -> Problem:
    concerns = f" It holds {_some(ids)}." if ids else ""
    return Problem("error", path.name, f"The segment {path} is damaged: {reason}.{concerns}", tuple(ids))


def bad_record(path: Path, trajectory_id: str, reason: Exception | str) -> Problem:
    first_line = next(iter(str(reason).splitlines()), "") or type(reason).__name__
    sentence = f"Trajectory {trajectory_id} in {path} can't be read ({first_line.rstrip('.')})."
    return Problem("error", path.name, sentence, (trajectory_id,))


def bad_catalogue(trajectory_id: str) -> Problem:
    return Problem(
        "error",
        CATALOGUE,
        f"The catalogue disagrees with the segments about trajectory {trajectory_id}: delete catalogue.sqlite, "
        "it is built again.",
        (trajectory_id,),
    )


def _some(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:3]) + (", ..." if len(ids) > 3 else "")
    return f"{len(ids)} {'trajectory' if len(ids) == 1 else 'trajectories'} ({shown})"
