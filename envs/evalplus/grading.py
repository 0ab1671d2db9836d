"""From a program to its verdict: the one grade function, for live episodes, stored trajectories and samples files.

A solution counts where both sets of tests pass, base and plus, as upstream's `plus` has it; `detail` has the two by themselves.
What `official` reproduces: `fail` and `timeout` as upstream tells them (a call over its limit is a `fail`, a process that ends without
a result or runs out of its whole time is a `timeout`), the guard, and the rules of `comparing.py`. `strict` has no guard: a set on which
the guarded solution raised or ended is run again without, and `timeout` means time.

Known differences of `official`: code that swallows upstream's alarm comes to the same `fail` here, 256 KiB is the longest source, and
what does not load for the base tests is not loaded again for the extra ones. Both sets are first run in one process, and where all of
both passes that is the verdict; the extra tests have a process of their own, as upstream, where it does not.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from envs import judging
from envs.base import GRADERS
from envs.code_episodes import HandedIn
from envs.evalplus import execution, references
from envs.evalplus.comparing import Official, Strict
from envs.evalplus.execution import Run
from envs.evalplus.problems import TEST_SETS, Problem, TestSet
from envs.evalplus.references import References
from envs.evalplus.sanitizing import largest_block, sanitized
from envs.sandbox.results import CallResult, Status
from trajectories.schema import Verdict

STRICT_VERSION = 1
"""Bump it when `strict` may give another verdict on the same input."""

PASS, FAIL, TIMEOUT = "pass", "fail", "timeout"


class Outcome(NamedTuple):
    """What became of one set of tests. `test` is the index of the first that did not pass, None where it was none of them."""

    status: str
    test: int | None = None
    why: str = ""
    for_good: bool = False
    """Whether it failed by a wrong value or by time, after nothing but values: then the guard has no part in it."""
    loading: bool = False
    """Whether it did not even load."""


def grader_id(grader: str, data_version: str) -> str:
    name = f"strict{STRICT_VERSION}" if grader == "strict" else grader
    return f"{name}@{data_version},{judging.python()}"


def verdicts(
    problem: Problem, solution: Any, data_version: str, graders: Sequence[str] = GRADERS
) -> dict[str, Verdict]:
    """The verdicts on a program's text. What is no text fails. SandboxError where the jail breaks: then there is no verdict."""
    outcomes = _outcomes(problem, solution, graders)
    return {grader: _verdict(outcomes[grader], grader_id(grader, data_version)) for grader in graders}


def of_handed_in(
    problem: Problem, handed_in: HandedIn, data_version: str, graders: Sequence[str] = GRADERS
) -> dict[str, Verdict]:
    """The verdicts on what a model handed in. Of a text, upstream's sanitiser takes the program; where `strict` fails that, and the
    block that it was cut from defines the entry point, it judges the block, and says so (`sanitize_loss`)."""
    if not handed_in.raw:
        return verdicts(problem, handed_in.text, data_version, graders)
    found = verdicts(problem, sanitized(handed_in.text, problem.entry_point), data_version, graders)
    if "strict" not in found or found["strict"].passed:
        return found
    block = largest_block(handed_in.text)
    if block == sanitized(handed_in.text, problem.entry_point) or problem.entry_point not in block:
        return found
    strict = verdicts(problem, block, data_version, ("strict",))["strict"]
    if not strict.passed:
        return found
    return found | {"strict": strict.model_copy(update={"detail": {**strict.detail, "sanitize_loss": True}})}


def expected(problem: Problem, tests: TestSet, index: int) -> Any:
    """The value that a test expects. Privileged: for episodes that are to show it."""
    return references.of(problem)[tests].value(index)


def _outcomes(problem: Problem, solution: Any, graders: Sequence[str]) -> dict[str, Mapping[TestSet, Outcome]]:
    if not isinstance(solution, str):
        failed = Outcome(FAIL, None, f"no text but {type(solution).__name__}")
        return {grader: dict.fromkeys(TEST_SETS, failed) for grader in graders}
    refs = references.of(problem)
    both = execution.run_both(problem, solution, refs, Official(problem, "base", refs["base"]).passes) or (None, None)
    pairs: dict[TestSet, dict[str, Outcome]] = {}
    for tests, guarded in zip(TEST_SETS, both, strict=True):
        unloaded = next((pair for pair in pairs.values() if all(outcome.loading for outcome in pair.values())), None)
        pairs[tests] = unloaded or _judged(problem, tests, solution, refs[tests], guarded, strict="strict" in graders)
    return {grader: {tests: pairs[tests][grader] for tests in TEST_SETS} for grader in graders}


def _verdict(outcomes: Mapping[TestSet, Outcome], grader: str) -> Verdict:
    passed = all(outcome.status == PASS for outcome in outcomes.values())
    failures = {f"{tests}_failure": _failure(outcome) for tests, outcome in outcomes.items() if outcome.status != PASS}
    return Verdict(
        grader=grader,
        passed=passed,
        score=1.0 if passed else 0.0,
        detail={**{tests: outcome.status for tests, outcome in outcomes.items()}, **failures},
    )


def _failure(outcome: Outcome) -> dict[str, Any]:
    return {"test": outcome.test, "why": outcome.why}


def _judged(
    problem: Problem, tests: TestSet, solution: str, refs: References, guarded: Run | None, *, strict: bool
) -> dict[str, Outcome]:
    """The outcome of one set of tests by `official`, and by `strict` where that is asked for. `guarded`: it has been run already."""
    official_rules, strict_rules = Official(problem, tests, refs), Strict(problem, tests, refs)
    if not len(refs):
        guarded = execution.run_nothing(problem, solution, guard=True)
        found = {"official": _of_nothing(guarded, official=True)}
        return found | (
            {"strict": _of_nothing(execution.run_nothing(problem, solution, guard=False), official=False)}
            if strict
            else {}
        )
    guarded = guarded or execution.run(problem, tests, solution, refs, official_rules.passes, guard=True)
    found = {"official": _outcome(guarded, refs, official_rules, official=True)}
    if strict:
        found["strict"] = _strict_outcome(problem, tests, solution, refs, strict_rules, guarded)
    return found


def _strict_outcome(
    problem: Problem, tests: TestSet, solution: str, refs: References, rules: Strict, guarded: Run
) -> Outcome:
    """By the guarded run where that says it all, else by one without the guard."""
    outcome = _outcome(guarded, refs, rules, official=False)
    if outcome.status == PASS or (outcome.for_good and not guarded.doubtful(outcome.test or 0)):
        return outcome
    return _outcome(
        execution.run(problem, tests, solution, refs, rules.passes, guard=False), refs, rules, official=False
    )


def _of_nothing(run: Run, *, official: bool) -> Outcome:
    failed = next((result for result in (run.load, *run.results) if result.status is not Status.OK), None)
    return Outcome(PASS) if failed is None else _of_failure(failed, None, official=official)


def _outcome(run: Run, refs: References, rules: Official | Strict, *, official: bool) -> Outcome:
    """Of the first test that does not pass, in order; of the load, or of the process' whole time."""
    if run.load.status is not Status.OK:
        failed = _of_failure(run.load, None, official=official, loading=True)
        return failed._replace(for_good=run.load.status is Status.TIME_LIMIT, loading=True)
    if run.settled:
        return Outcome(PASS)
    left = execution.process_s(refs) - run.load.wall_s
    values_only = True
    for index in range(len(refs)):
        result = run.results[index] if index < len(run.results) else None
        left -= result.wall_s if result else 0.0
        if left < 0 or result is None:
            return Outcome(TIMEOUT, index, "time limit of the whole", for_good=values_only and left < 0)
        if not rules.passes(index, result):
            if result.status is Status.OK:
                return Outcome(FAIL, index, "wrong result", values_only)
            failed = _of_failure(result, index, official=official)
            return failed._replace(for_good=values_only and result.status is Status.TIME_LIMIT)
        values_only = values_only and result.status is Status.OK
    return Outcome(PASS)


def _of_failure(result: CallResult, test: int | None, *, official: bool, loading: bool = False) -> Outcome:
    exited = result.text.startswith("SystemExit")
    why = result.raised[0] if result.raised else "SystemExit" if exited else result.status.value
    late = result.status is Status.TIME_LIMIT
    if official:
        in_call = late and not loading and result.text == "OverTime"
        vanished = result.status in _VANISHED and not result.raised and not exited
        return Outcome(TIMEOUT if vanished and not in_call else FAIL, test, why)
    return Outcome(TIMEOUT if late else FAIL, test, why)


_VANISHED = (Status.TIME_LIMIT, Status.CRASHED, Status.EXITED, Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT)
"""Ends of a process in which upstream finds no status written, which it calls a timeout."""
