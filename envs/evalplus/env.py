"""EvalPlus' episodes: see `envs/code_episodes.py`. The answer's code is what upstream's sanitiser leaves of it."""

from collections.abc import Sequence

from envs import judging
from envs.base import EnvSettings
from envs.code_episodes import CodeEnv, HandedIn, Hint, PublicTest
from envs.evalplus import execution, grading, prompts, public_tests, settings
from envs.evalplus.problems import TEST_SETS, find, task_of
from envs.evalplus.sanitizing import sanitized
from envs.sandbox.results import Status
from envs.sandbox.worker import Code
from trajectories.schema import Message, Task, Verdict


class EvalPlusEnv(CodeEnv):
    """One episode of one EvalPlus task."""

    def __init__(self, task: str | None = None, settings: EnvSettings | None = None) -> None:
        self._asked = settings or EnvSettings()
        super().__init__(task, self._asked)

    def _load(self, task_id: str) -> Task:
        self._problem, split, self._version = find(task_id)
        self.settings = settings.resolve(self._asked, split)
        return task_of(self._problem, split)

    def _question(self) -> tuple[Message, ...]:
        return prompts.question(self._problem.prompt, settings.instruction(self.settings))

    def _extracted(self, text: str) -> str:
        return sanitized(text, self._problem.entry_point)

    def _grade(self, handed_in: HandedIn) -> dict[str, Verdict]:
        return grading.of_handed_in(self._problem, handed_in, self._version)

    def _public_tests(self, code: str) -> Sequence[PublicTest]:
        return public_tests.run(self._problem, code)

    def _hint(self, code: str) -> Hint | None:
        detail = self.verdicts()["official"].detail
        for tests in TEST_SETS:
            failure = detail.get(f"{tests}_failure")
            if isinstance(failure, dict) and isinstance(failure["test"], int):
                return self._shown(tests, failure["test"], code)
        return None

    def _shown(self, tests: execution.TestSet, index: int, code: str) -> Hint:
        """One hidden test, and what the code makes of it."""
        arguments = self._problem.inputs(tests)[index]
        with judging.lease() as worker:
            called = worker.call_all(Code(code), [self._problem.requests[tests][index]], public_tests.LIMITS)
        result = called.results[0] if called.load.status is Status.OK else called.load
        got = repr(result.value) if result.status is Status.OK else result.text or result.status.value
        expected = repr(grading.expected(self._problem, tests, index))
        return Hint(", ".join(map(repr, arguments)), expected, got)

    def _reference_code(self) -> str:
        return self._problem.reference
