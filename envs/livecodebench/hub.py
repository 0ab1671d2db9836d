"""Files of a Hugging Face data set, fetched over plain HTTPS and checked against the digests that the hub keeps of them."""

import hashlib
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from trajectories.failures import InfrastructureError

ENDPOINT = "https://huggingface.co"
"""The environment's HF_ENDPOINT replaces it, as in Hugging Face's own tools; HF_TOKEN is sent if it is set."""
TIMEOUT_S = 60
CHUNK_BYTES = 1 << 20


class Snapshot(NamedTuple):
    """One commit of a data set: the size and SHA-256 of its files (None: a small file, kept in git itself)."""

    repository: str
    commit: str
    files: dict[str, str | None]


def snapshot(repository: str, revision: str = "main") -> Snapshot:
    """What the data set holds now. InfrastructureError where the hub can't be asked."""
    url = f"{_endpoint()}/api/datasets/{repository}/revision/{revision}?blobs=true"
    try:
        with _open(url) as reply:
            told = cast("dict[str, Any]", json.loads(reply.read()))
        files = {row["rfilename"]: (row.get("lfs") or {}).get("sha256") for row in told["siblings"]}
        return Snapshot(repository, _commit(told["sha"]), files)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InfrastructureError(f"{url!r} answered in a form that is not the hub's ({error!r}).") from error


def fetch(snap: Snapshot, names: Sequence[str], folder: Path) -> list[Path]:
    """Download files into a folder. InfrastructureError where one is not there, is cut off, or has another digest."""
    absent = [name for name in names if name not in snap.files]
    if absent:
        raise InfrastructureError(f"{snap.repository!r} at {snap.commit[:8]} has no file {absent[0]!r}.")
    return [_fetch(snap, name, folder / name) for name in names]


def _fetch(snap: Snapshot, name: str, path: Path) -> Path:
    url = f"{_endpoint()}/datasets/{snap.repository}/resolve/{snap.commit}/{name}"
    seen = hashlib.sha256()
    try:
        with _open(url) as reply, path.open("wb") as file:
            while chunk := reply.read(CHUNK_BYTES):
                seen.update(chunk)
                file.write(chunk)
    except (OSError, ValueError) as error:
        raise _unreachable(url, error) from error
    due = snap.files[name]
    if due is not None and seen.hexdigest() != due:
        raise InfrastructureError(f"{url!r} came with sha256 {seen.hexdigest()}, not the hub's {due}: pull again.")
    return path


def _open(url: str) -> Any:
    if not re.match(r"https?://", url):
        raise InfrastructureError(f"HF_ENDPOINT has to begin with http:// or https://, and the address is {url!r}.")
    token = os.environ.get("HF_TOKEN")
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310 - the scheme is checked above
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise _unreachable(url, error) from error


def _unreachable(url: str, error: Exception) -> InfrastructureError:
    return InfrastructureError(
        f"{url!r} could not be fetched ({error}): check the network, or fetch the files elsewhere and use --from."
    )


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", ENDPOINT).rstrip("/")


def _commit(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{40}", value):
        raise ValueError(f"no commit: {value!r}")
    return value
