"""`harness grade` and `harness rescore`: verdicts on finished outputs, without a model and without a network."""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from envs import registry
from envs.base import GRADERS, Benchmark, Prediction, unknown_name
from trajectories.failures import InputError
from trajectories.schema import Trajectory, Verdict

_NAMED = 10
"""How many of the skipped ids a message names."""


class Graded(NamedTuple):
    """What `grade` did. `skipped` are ids that the data lacks; `absent` counts tasks that the file lacks.

    `by_category` has (passed, rows); `renamed` counts rows that name their task as another version does, `example` one of
    them; `repeated` rows are of a task that has one already.
    """

    rows: int
    passed: int
    skipped: tuple[str, ...]
    absent: int
    by_category: Mapping[str, tuple[int, int]]
    repeated: int
    renamed: int
    example: str

    def sentences(self) -> Iterator[str]:
        """For standard error."""
        yield f"{self.passed} of {self.rows} solutions passed ({self.passed / self.rows:.2%})."
        if len(self.by_category) > 1:
            counts = (f"{name} {passed} of {rows}" for name, (passed, rows) in self.by_category.items())
            yield f"By category: {', '.join(counts)}."
        if self.repeated:
            rows = "1 row repeats" if self.repeated == 1 else f"{self.repeated} rows repeat"
            yield f"{rows} a task id: graded as further attempts."
        if self.renamed:
            rows = "1 row names its task" if self.renamed == 1 else f"{self.renamed} rows name their tasks"
            yield f"{rows} as another version of the benchmark does ({self.example}): graded by the data that is here."
        if self.skipped:
            names = ", ".join(self.skipped[:_NAMED]) + (", ..." if len(self.skipped) > _NAMED else "")
            yield f"{len(self.skipped)} rows skipped, whose tasks the data lacks: {names}."
        if self.absent:
            yield f"{self.absent} tasks of the data are not in the file."


def grade(name: str, path: Path, out: TextIO, *, grader: str = "official", options: Mapping[str, str]) -> Graded:
    """Grade a predictions file: one JSON row for each solution, in the file's order (design 10).

    `options` are the benchmark's own flags that were given (category, language, dots). The same input gives the same bytes, which
    are ASCII. InputError where the file can't be read, a flag does not fit, or no id of the file is known; nothing is written then.
    """
    benchmark = registry.load(name)
    if grader not in GRADERS:
        raise unknown_name("grader", grader, GRADERS)
    language = options.get("language")
    if language is not None and language not in benchmark.languages:
        raise unknown_name(f"language of {name}:", language, benchmark.languages)
    _require_data(benchmark)
    predictions = list(benchmark.read_predictions(path, options))
    ids = {task_id for task_id in {each.task_id for each in predictions} if benchmark.known(task_id)}
    known = [prediction for prediction in predictions if prediction.task_id in ids]
    skipped = tuple(_written(prediction) for prediction in predictions if prediction.task_id not in ids)
    if not known:
        raise _none_known(benchmark, path, skipped)
    verdicts = list(_write_rows(benchmark, known, grader, out))
    renamed = [each for each in known if _written(each) != each.task_id]
    return Graded(
        rows=len(known),
        passed=sum(verdicts),
        skipped=skipped,
        absent=_absent(benchmark, known, options),
        by_category=_by_category(benchmark, known, verdicts),
        repeated=len(known) - len(ids),
        renamed=len(renamed),
        example=f"{_written(renamed[0])!r} is {renamed[0].task_id!r} here" if renamed else "",
    )


def _by_category(
    benchmark: Benchmark, graded: Sequence[Prediction], verdicts: Sequence[bool]
) -> dict[str, tuple[int, int]]:
    splits = [benchmark.tasks(split) for split in benchmark.splits if benchmark.unavailable(split) is None]
    categories = {task.id: task.category for tasks in splits for task in tasks}
    passed, rows = Counter[str](), Counter[str]()
    for prediction, verdict in zip(graded, verdicts, strict=True):
        category = categories[prediction.task_id]
        rows[category] += 1
        passed[category] += verdict
    return {name: (passed[name], count) for name, count in rows.items()}


def grade_to(path: Path, name: str, predictions: Path, *, grader: str, options: Mapping[str, str]) -> Graded:
    """`grade` into a file that appears complete or not at all."""
    try:
        descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"{str(path)!r} can't be written: {error.strerror}.") from error
    try:
        with open(descriptor, "w", encoding="ascii", newline="\n") as out:  # noqa: PTH123 - of a descriptor
            graded = grade(name, predictions, out, grader=grader, options=options)
        Path(scratch).chmod(0o666 & ~_umask())
        Path(scratch).replace(path)
    except OSError as error:
        raise InputError(f"{str(path)!r} can't be written: {error.strerror}.") from error
    finally:
        Path(scratch).unlink(missing_ok=True)
    return graded


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _require_data(benchmark: Benchmark) -> None:
    reasons = [benchmark.unavailable(split) for split in benchmark.splits]
    if all(reasons):
        raise InputError(str(reasons[0]))


def _written(prediction: Prediction) -> str:
    return prediction.written_id or prediction.task_id


def _write_rows(benchmark: Benchmark, predictions: list[Prediction], grader: str, out: TextIO) -> Iterator[bool]:
    """Write each row, and say whether it passed."""
    for prediction, row in zip(predictions, benchmark.grade(predictions, grader), strict=True):
        fields = {
            "task_id": _written(prediction),
            "attempt": row.attempt,
            "passed": row.verdict.passed,
            "score": row.verdict.score,
            "grader": row.verdict.grader,
            "detail": row.verdict.detail,
        }
        out.write(json.dumps(fields) + "\n")
        yield row.verdict.passed


def _none_known(benchmark: Benchmark, path: Path, skipped: tuple[str, ...]) -> InputError:
    if not skipped:
        return InputError(f"{str(path)!r} has no row of the category that was asked for.")
    lacking = next((reason for split in benchmark.splits if (reason := benchmark.unavailable(split))), "")
    return InputError(
        f"None of the {len(skipped)} rows of {str(path)!r} is of a task that {benchmark.name} has here "
        f"(the first is {skipped[0]!r}). {lacking}".rstrip()
    )


def _absent(benchmark: Benchmark, graded: Iterable[Prediction], options: Mapping[str, str]) -> int:
    """Tasks without a row, in the splits (and the category or language) that the file is about."""
    ids = {prediction.task_id for prediction in graded}
    splits = [benchmark.tasks(split) for split in benchmark.splits if benchmark.unavailable(split) is None]
    about = [task for tasks in splits if any(task.id in ids for task in tasks) for task in tasks]
    wanted = [task for task in about if options.get("category", task.category) == task.category]
    return sum(1 for task in wanted if options.get("language", task.language) == task.language and task.id not in ids)


class Rescored(NamedTuple):
    """What `rescore` did: `graded` trajectories were graded again, and the verdicts of `changed` ids are others now.

    `rewritten` counts trajectories whose verdict stays while its details or its grader's version changed; `failed` have no
    verdict, since their episode broke.
    """

    graded: int
    changed: tuple[str, ...]
    rewritten: int
    failed: int

    def sentences(self) -> Iterator[str]:
        """For standard error."""
        yield f"{self.graded} trajectories graded again: {len(self.changed)} verdicts changed."
        if self.changed:
            yield f"Changed: {', '.join(self.changed[:_NAMED])}{', ...' if len(self.changed) > _NAMED else ''}."
        if self.rewritten:
            yield f"{self.rewritten} more have other details or another grader version, and the same verdict."
        if self.failed:
            yield f"{self.failed} trajectories have no verdict, since their episode failed; they stay as they are."


def rescore(path: Path, grader: str | None = None) -> Rescored:
    """Grade the stored trajectories of a run again, by today's code, and keep the new verdicts.

    `grader` None: all. Nothing else of a trajectory changes. InputError where the data here is not what was played.
    """
    if grader is not None and grader not in GRADERS:
        raise unknown_name("grader", grader, GRADERS)
    from harness.run_dir import RunDir  # `grade` needs no store

    run = RunDir.open(path)
    if not run.has_store:
        return Rescored(0, (), 0, 0)
    with run.lock(), run.store(writable=True) as store:
        regrader, new = _Regrader(), dict[str, dict[str, Verdict]]()
        changed: list[str] = []
        graded = failed = 0
        for trajectory in store.iterate():
            if not trajectory.verdicts:
                failed += 1
                continue
            found = regrader.verdicts(trajectory)
            verdicts = trajectory.verdicts | (found if grader is None else {grader: found[grader]})
            graded += 1
            if verdicts != trajectory.verdicts:
                new[trajectory.id] = verdicts
            if _scores(verdicts) != _scores(trajectory.verdicts):
                changed.append(trajectory.id)
        for trajectory_id, verdicts in new.items():
            store.amend_verdicts(trajectory_id, verdicts)
    return Rescored(graded, tuple(changed), len(new) - len(changed), failed)


class _Regrader:
    """Grades stored trajectories after checking that each task is here what it was when it was played."""

    def __init__(self) -> None:
        self._benchmarks: dict[str, Benchmark] = {}
        self._digests: dict[tuple[str, str], dict[str, str]] = {}

    def verdicts(self, trajectory: Trajectory) -> dict[str, Verdict]:
        name = trajectory.task.benchmark
        if name not in self._benchmarks:
            self._benchmarks[name] = registry.load(name)
        self._check_data(self._benchmarks[name], trajectory)
        return self._benchmarks[name].verdicts(trajectory)

    def _check_data(self, benchmark: Benchmark, trajectory: Trajectory) -> None:
        task = trajectory.task
        place = benchmark.name, task.split
        if place not in self._digests:
            reason = benchmark.unavailable(task.split)
            if reason:
                raise InputError(f"{task.id!r} can't be graded again. {reason}")
            self._digests[place] = {task.id: task.digest for task in benchmark.tasks(task.split)}
        here, found = benchmark.data_version(task.split), self._digests[place].get(task.id)
        if found is None:
            lacks = " ".join(benchmark.missing(task.split))
            raise InputError(f"{task.id!r} can't be graded again: {here} lacks it here. {lacks}".rstrip())
        if found != task.digest:
            raise InputError(
                f"{task.id!r} was played on {trajectory.data or 'other data'}, and is another task in {here}: "
                f"pull the former again by 'harness data pull {benchmark.name}', then rescore."
            )


def _scores(verdicts: Mapping[str, Verdict]) -> dict[str, tuple[bool, float]]:
    return {name: (verdict.passed, verdict.score) for name, verdict in verdicts.items()}
