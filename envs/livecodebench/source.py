"""Which files make LiveCodeBench's data, and any set of code tasks in its record form.

Source: the Hugging Face data set livecodebench/code_generation_lite, whose six shards of JSON lines make the releases (4.5 GB in all; its
loading script is not used). Nobody publishes digests of them to pin, so a download is checked against those that the hub keeps, and
scores name the data by its own digest. A copy is told by its records: `question_id`, `public_test_cases` and so on.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from envs import data
from envs.data import Selection, Source
from envs.livecodebench import hub, lines
from envs.livecodebench.records import check_fields, problem_of
from envs.livecodebench.releases import selection
from trajectories.failures import InputError

REPOSITORY = "livecodebench/code_generation_lite"
SHARDS = ("test.jsonl", "test2.jsonl", "test3.jsonl", "test4.jsonl", "test5.jsonl", "test6.jsonl")
HUB_RECORD = "hub.json"
CHECKED_WHOLE_BYTES = 64 * 2**20
"""A file up to this size has all its tests decoded when it is pulled; of a larger one each record's fields are checked."""

Check = Callable[[Mapping[str, Any], str], object]


def select(copy: Path) -> Selection:
    """All files of a copy that hold records. InputError where there is none, or one of them is damaged."""
    files = {path.name: path for path in files_with(copy, ("public_test_cases",), _checker)}
    if not files:
        raise InputError(
            f"{str(copy)!r} holds no LiveCodeBench records: give the shards test.jsonl to test6.jsonl of {REPOSITORY}, a "
            "folder with them, or any file of records in that form."
        )
    told = copy / HUB_RECORD
    return Selection(files | ({HUB_RECORD: told} if copy.is_dir() and told.is_file() else {}), ())


def files_with(copy: Path, keys: Sequence[str], checker: Callable[[Path], Check]) -> list[Path]:
    """The files of a copy whose first record has these keys; all their records are checked."""
    paths = [copy] if copy.is_file() else sorted(path for path in copy.iterdir() if path.is_file())
    found = [path for path in paths if _begins_with(path, keys, alone=copy.is_file())]
    for path in found:
        check = checker(path)
        for _, record in lines.records(path):
            check(record, repr(str(path)))
    return found


def _begins_with(path: Path, keys: Sequence[str], *, alone: bool) -> bool:
    try:
        first = next(islice(lines.records(path), 1), None)
    except InputError:
        if alone:
            raise
        return False
    return first is not None and all(key in first[1] for key in keys)


def _checker(path: Path) -> Check:
    return problem_of if path.stat().st_size <= CHECKED_WHOLE_BYTES else check_fields


def _fetch(folder: Path, release: str = "release_latest") -> Path:
    chosen = selection(release)
    if chosen is None or chosen.size is None:
        raise InputError(f"There is no release {release!r}: release_v1 to release_v6, or shards such as v6 or v4_v6.")
    snap = hub.snapshot(REPOSITORY)
    hub.fetch(snap, SHARDS[chosen.first - 1 : chosen.last], folder)
    told = {"repository": REPOSITORY, "commit": snap.commit}
    (folder / HUB_RECORD).write_text(json.dumps(told), "utf-8")
    return folder


def _of_release(name: str) -> Source:
    """The shards that are downloaded: `v5` is read as the release, as upstream's own option is."""
    return _source(partial(_fetch, release=_release(name)))


def _release(name: str) -> str:
    return f"release_{name}" if name in ("v1", "v2", "v3", "v4", "v5", "v6", "latest") else name


def _source(fetch: Callable[[Path], Path]) -> Source:
    return Source("code_generation_lite", "", "", fetch, select, _nothing_is_pinned, {"release": _of_release})


def _nothing_is_pinned(place: str, path: Path) -> bool:
    return False


SOURCE = _source(_fetch)


def _select_split(copy: Path, split: str = "train") -> Selection:
    """The records of a copy as one split, beside the other splits that are pulled already."""
    if not split.isidentifier() or split == "sample":
        raise InputError(f"A split needs a plain name other than 'sample', and {split!r} is none: use --split train.")
    found = {f"{split}/{place}": path for place, path in select(copy).files.items() if place != HUB_RECORD}
    kept = {place: path for place, path in _installed() if place.split("/")[0] != split}
    _refuse_shared_ids(found, kept)
    return Selection(kept | found, ())


def _refuse_shared_ids(found: Mapping[str, Path], kept: Mapping[str, Path]) -> None:
    """An id names one task of one split; and a task that is in two splits is trained on and tested with."""
    there = {key: place for place, path in kept.items() for key in _ids(path)}
    for path in found.values():
        for key in _ids(path):
            if key in there:
                raise InputError(
                    f"{str(path)!r} holds {key!r}, which is in the split {there[key].split('/')[0]!r} already."
                )


def _ids(path: Path) -> Iterator[str]:
    return (record["question_id"] for _, record in lines.records(path))


def _installed() -> Iterator[tuple[str, Path]]:
    pulled = data.current("code-tasks")
    if pulled is not None:
        for path in sorted(pulled.path.glob("*/*")):
            yield path.relative_to(pulled.path).as_posix(), path


def _no_download(folder: Path) -> Path:
    raise InputError("Code tasks are your own records: run 'harness data pull code-tasks --from FILE --split train'.")


def _code_tasks(select_files: Callable[[Path], Selection]) -> Source:
    return Source("own", "", "", _no_download, select_files, _nothing_is_pinned, {"split": _of_split}, by_tree=True)


def _of_split(name: str) -> Source:
    return _code_tasks(partial(_select_split, split=name))


CODE_TASKS = _code_tasks(_select_split)
