"""LiveCodeBench's episodes: one question and one answer, or one of the forms of `code_episodes.py`, or self-repair.

Profiles: those of `code_episodes.py` (`single`, which `default` means, and the `tools` ones); the other styles of prompt and extraction in
`prompts.py` (`one_message`, `main`, `stripped`, `base`, `first_block`, `last_block`, `tagged`); and `selfrepair`, in which an answer that fails
is shown back with a failing test and may be given once more: its verdict says `leaks_hidden`.

Known differences: upstream's self-repair is a second run over stored answers, each question a conversation of its own; here it is the second
step of the episode. What passes at once is not asked for again, as there.
"""

from collections.abc import Sequence
from dataclasses import replace

from envs import judging
from envs.base import GRADERS, Answer, EnvSettings
from envs.code_episodes import CodeEnv, HandedIn, Hint, PublicTest, handed_in, marked
from envs.livecodebench import extraction, grading, reference, repair, strict, tasks
from envs.livecodebench.outcome import Ran
from envs.livecodebench.prompts import STYLES, Style
from envs.livecodebench.records import Problem, Test
from trajectories.schema import Action, Message, Step, Task, Verdict


class LiveCodeBenchEnv(CodeEnv):
    """One episode of one problem; see the module."""

    benchmark = "livecodebench"

    def __init__(self, task: str | None = None, settings: EnvSettings | None = None) -> None:
        super().__init__(task, tasks.resolve(self.benchmark, settings or EnvSettings()))

    def _load(self, task_id: str) -> Task:
        self._row, split, self._data_version = tasks.find(self.benchmark, task_id)
        self._rans: dict[tuple[str, str], Ran] = {}
        return tasks.task_of(self.benchmark, self._row, split)

    @property
    def _problem(self) -> Problem:
        return self._row.problem()

    @property
    def _style(self) -> Style:
        return STYLES.get(self.settings.profile, STYLES["default"])

    def _answer(self, action: Action) -> Answer:
        answer = super()._answer(action)
        if self.settings.profile != tasks.REPAIR or self._steps:
            return answer
        code = self._extracted(action.content)
        ran = self._ran_by("official", code)
        if ran.passed:
            return answer
        return answer._replace(
            messages=(Message(role="user", content=repair.message(self._problem, code, ran)),), ended=False
        )

    def reference_actions(self) -> tuple[Action, ...]:
        if self._style.extraction == "whole":
            return (Action(content=self._reference_code()),)
        return super().reference_actions()

    def regrade(self, steps: Sequence[Step]) -> dict[str, Verdict]:
        """The verdicts on a stored episode of this task and these settings, by what was handed in."""
        profile = self.settings.profile
        found = self._grade(handed_in(steps, profile))
        return {grader: marked(verdict, profile) for grader, verdict in found.items()}

    def _question(self) -> tuple[Message, ...]:
        return self._style.messages(self._problem)

    def _extracted(self, text: str) -> str:
        return extraction.RULES[self._style.extraction](text)

    def _grade(self, handed_in: HandedIn) -> dict[str, Verdict]:
        code = self._extracted(handed_in.text) if handed_in.raw else handed_in.text
        return {grader: self._verdict(grader, code) for grader in GRADERS}

    def _verdict(self, grader: str, code: str) -> Verdict:
        verdict = grading.verdict(self._problem, self._ran_by(grader, code), grader, self._data_version)
        if self.settings.profile != tasks.REPAIR:
            return verdict
        return verdict.model_copy(update={"detail": {**verdict.detail, "leaks_hidden": True}})

    def _ran_by(self, grader: str, code: str) -> Ran:
        if (grader, code) not in self._rans:
            self._rans[grader, code] = grading.run(self._problem, code, grader)
        return self._rans[grader, code]

    def _public_tests(self, code: str) -> Sequence[PublicTest]:
        with judging.lease() as worker:
            return [
                _told(test, strict.grade(worker, replace(self._problem, public=(test,), private=()), code))
                for test in self._problem.public
            ]

    def _hint(self, code: str) -> Hint | None:
        ran = self._ran_by("official", code)
        if ran.failed_test is None:
            return None
        test = self._problem.tests[ran.failed_test]
        return Hint(test.input, test.output, grading.steady(ran.error) if ran.got is None else repair.shown(ran.got))

    def _reference_code(self) -> str:
        return self._row.reference_solution() or reference.knows_the_tests(self._problem)


class CodeTasksEnv(LiveCodeBenchEnv):
    """One episode of one code task."""

    benchmark = "code-tasks"


def _told(test: Test, ran: Ran) -> PublicTest:
    error = "" if ran.passed or ran.error_code == -2 else grading.steady(ran.error)
    got = test.output if ran.passed else "" if ran.got is None else repair.shown(ran.got)
    return PublicTest(ran.passed, test.input, test.output, got, error)
