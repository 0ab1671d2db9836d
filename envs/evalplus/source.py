"""Which files make the EvalPlus data, and how they are told: by their records, never by their names.

Source: the releases of evalplus/humanevalplus_release (v0.1.10) and evalplus/mbppplus_release (v0.2.0) on GitHub, JSON lines in
gzip. Upstream names a data set by the MD5 of its unpacked lines, and so do the pins here, beside their SHA-256 where one is known.
The wheel evalplus 0.3.1 is fetched along with them for its prompt wording alone; it is read, never run.
"""

import gzip
import hashlib
import json
import shutil
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from envs.data import Selection, Source, file_sha256, from_package_index
from trajectories.failures import InfrastructureError, InputError

NAME = "evalplus"
WHEEL = "evalplus-0.3.1-py3-none-any.whl"
WHEEL_SHA256 = "cd601debb67419113d10ac5c3317689d847f27de5d8cf3837975f3cab571b75d"
DOWNLOAD_S = 120
RELEASES = "https://github.com/evalplus/{}/releases/download/{}/{}"
REQUIRED: Mapping[str, type | tuple[type, ...]] = {
    "task_id": str, "entry_point": str, "prompt": str, "canonical_solution": str,
    "base_input": list, "plus_input": (list, dict), "atol": (int, float),
}  # fmt: skip
"""Keys of a record and their types. Mbpp/793 has an empty object for `plus_input`."""


class Part(NamedTuple):
    """One file of the data. `sha256` and `md5` are of the unpacked lines; `sha256` is empty where no copy was at hand to take it."""

    name: str
    version: str
    repository: str
    file: str
    md5: str
    sha256: str
    tasks: int

    @property
    def url(self) -> str:
        return RELEASES.format(self.repository, self.version, self.file)


PARTS = {
    part.name: part
    for part in (
        Part("humaneval", "v0.1.10", "humanevalplus_release", "HumanEvalPlus.jsonl.gz", "fe585eb4df8c88d844eeb463ea4d0302",
             "42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f", 164),
        Part("humaneval-mini", "v0.1.10", "humanevalplus_release", "HumanEvalPlus-Mini.jsonl.gz", "401e75ad986361dccc7afecb4121e295",
             "78fbba8865b20c5a979cda6e02fd72538e1762e65980af7d1a6e93c3e87e93af", 164),
        Part("humaneval-noextreme", "v0.1.10", "humanevalplus_release", "HumanEvalPlus-NoExtreme.jsonl.gz", "413980104ee0339c147ac09653cee3db",
             "", 164),
        Part("mbpp", "v0.2.0", "mbppplus_release", "MbppPlus.jsonl.gz", "ee43ecabebf20deef4bb776a405ac5b1",
             "b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad", 378),
        Part("mbpp-noextreme", "v0.2.0", "mbppplus_release", "MbppPlus-NoExtreme.jsonl.gz", "85d8d7a406c0686e80353e676189bfee",
             "", 378),
    )
}  # fmt: skip

EXTREMES: Mapping[str, int] = {
    "HumanEval/25": 1 << 27, "HumanEval/39": 11, "HumanEval/55": 40, "HumanEval/63": 30, "HumanEval/96": 10_000, "HumanEval/138": 100,
    "Mbpp/239": 99, "Mbpp/274": 24, "Mbpp/392": 1 << 20, "Mbpp/388": 1 << 27, "Mbpp/599": 1 << 27, "Mbpp/605": 1 << 27, "Mbpp/781": 1 << 27,
}  # fmt: skip
"""The largest number that the NoExtreme files keep in the extra inputs of these tasks."""


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a data file, packed or not. InputError with file and line where one is damaged."""
    for number, line in enumerate(_lines(path).split(b"\n"), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{str(path)!r}, line {number} is damaged ({error}): fetch the file again.") from error
            yield value


@lru_cache(maxsize=16)
def version(path: Path, name: str) -> str:
    """How scores name the data in this installed file: the pinned version, or `custom:` and 8 digits of its lines' SHA-256."""
    part, data = PARTS[name], _lines(path)
    if hashlib.md5(data, usedforsecurity=False).hexdigest() == part.md5:
        return f"{name}plus-{part.version}" if "-" not in name else f"{name.replace('-', 'plus-')}-{part.version}"
    return f"custom:{hashlib.sha256(data).hexdigest()[:8]}"


def select(copy: Path) -> Selection:
    """Pick the data's files out of a folder, or the one file. InputError where nothing of it is EvalPlus data, or a record is damaged."""
    paths = sorted(path for path in copy.glob("*.jsonl*") if path.is_file()) if copy.is_dir() else [copy]
    files: dict[str, Path] = {}
    for path in paths:
        name = _told(path)
        if name is None:
            continue
        if name in files and _lines(files[name]) != _lines(path):
            raise InputError(
                f"{str(files[name])!r} and {str(path)!r} both hold {name!r} and differ: leave one of them."
            )
        files[name] = path
    if not files:
        raise InputError(
            f"{str(copy)!r} holds no EvalPlus records: give a release file (HumanEvalPlus*.jsonl.gz, MbppPlus*.jsonl.gz) or "
            "a folder of them."
        )
    placed = {f"{name}.jsonl.gz" if _packed(path) else f"{name}.jsonl": path for name, path in files.items()}
    missing = [f"{name} ({part.file} {part.version})" for name, part in PARTS.items() if name not in files]
    wheel = copy / WHEEL
    if copy.is_dir() and wheel.is_file():
        placed[WHEEL] = wheel
    else:
        missing.append(f"official prompt texts ({WHEEL})")
    return Selection(placed, tuple(missing))


def installed(folder: Path, name: str) -> Path | None:
    """Where a part lies in the installed folder; None: it was not in the copy."""
    return next((path for suffix in (".jsonl.gz", ".jsonl") if (path := folder / f"{name}{suffix}").is_file()), None)


def fetch(folder: Path) -> Path:
    """Download all release files and the wheel, refuse any that is not the pinned one, and return their folder."""
    target = folder / "evalplus"
    target.mkdir()
    for part in PARTS.values():
        path = target / part.file
        _download(part.url, path)
        _require_pinned(part, path)
    wheel = from_package_index("evalplus==0.3.1")(folder)
    shutil.move(wheel, target / WHEEL)
    return target


def _require_pinned(part: Part, path: Path) -> None:
    data = _lines(path)
    found = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if found != part.md5 or (part.sha256 and hashlib.sha256(data).hexdigest() != part.sha256):
        raise InputError(
            f"The download of {part.file} {part.version} has MD5 {found}, not the pinned {part.md5}: it is refused. If you trust this "
            "copy, fetch it yourself and use 'harness data pull evalplus --from FOLDER'; scores will name it custom."
        )


def _download(url: str, path: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=DOWNLOAD_S) as answer, path.open("wb") as out:  # noqa: S310 - https, above
            shutil.copyfileobj(answer, out)
    except (OSError, urllib.error.URLError) as error:
        raise InfrastructureError(
            f"{url} could not be fetched ({error}): check the network, or fetch the file elsewhere and use "
            "'harness data pull evalplus --from FOLDER'."
        ) from error


def _packed(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


@lru_cache(maxsize=4)
def _unpacked(path: Path, mtime_ns: int) -> bytes:
    data = path.read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{str(path)!r} is damaged gzip ({error}): fetch it again.") from error


def _lines(path: Path) -> bytes:
    return _unpacked(path, path.stat().st_mtime_ns)


def _told(path: Path) -> str | None:
    """Which part a file is, by its records; None for a file of something else."""
    found: list[dict[str, Any]] = []
    for record in records(path):
        if not found and not _is_ours(record):
            return None
        _check(record, path)
        found.append(record)
    if not found:
        return None
    family = _family(found[0])
    strange = next((record["task_id"] for record in found if _family(record) != family), None)
    if strange is not None:
        raise InputError(f"{str(path)!r} mixes {found[0]['task_id']!r} and {strange!r}: one file holds one data set.")
    if len({record["task_id"] for record in found}) != len(found):
        raise InputError(f"{str(path)!r} holds a task id twice: each task has one record.")
    return _variant(family or "", found, _lines(path))


def _variant(family: str, found: list[dict[str, Any]], data: bytes) -> str:
    """The full file, Mini (which lacks the old checking code), or NoExtreme (whose large inputs are gone)."""
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    pinned = next((part.name for part in PARTS.values() if part.md5 == md5), None)
    if pinned:
        return pinned
    if family == "humaneval" and not any("test" in record for record in found):
        return "humaneval-mini"
    bounded = [record for record in found if record["task_id"] in EXTREMES]
    extreme = any(_largest(record["plus_input"]) > EXTREMES[record["task_id"]] for record in bounded)
    return family if extreme or not bounded else f"{family}-noextreme"


def _largest(value: Any) -> float:
    if isinstance(value, list | tuple):
        return max(map(_largest, cast("list[Any]", value)), default=0)
    return abs(value) if isinstance(value, int | float) else 0


def _is_ours(record: Any) -> bool:
    return isinstance(record, dict) and _family(cast("dict[str, Any]", record)) is not None and "base_input" in record


def _family(record: Mapping[str, Any]) -> str | None:
    text = str(record.get("task_id"))
    prefix, slash, number = text.partition("/")
    return {"HumanEval": "humaneval", "Mbpp": "mbpp"}.get(prefix) if slash and number.isdecimal() else None


def _check(record: Any, path: Path) -> None:
    if not isinstance(record, dict):
        raise InputError(f"{str(path)!r}: a record is a JSON object, not {type(record).__name__}.")
    fields = cast("dict[str, Any]", record)
    for key, kinds in REQUIRED.items():
        if not isinstance(fields.get(key), kinds):
            raise InputError(f"{str(path)!r}: record {fields.get('task_id')!r} has no usable {key!r}.")
    for key in ("base_input", "plus_input"):
        if any(not isinstance(arguments, list) for arguments in fields[key]):
            raise InputError(
                f"{str(path)!r}: {key!r} of {fields['task_id']!r} holds something other than argument lists."
            )


def _is_pinned(place: str, path: Path) -> bool:
    if place == WHEEL:
        return file_sha256(path) == WHEEL_SHA256
    return not version(path, place.split(".")[0]).startswith("custom:")


SOURCE = Source(
    version="humanevalplus-v0.1.10+mbppplus-v0.2.0",
    sha256="",
    tree_sha256="",
    fetch=fetch,
    select=select,
    pinned=_is_pinned,
)
