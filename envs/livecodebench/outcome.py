"""What came of one solution, for both graders."""

from typing import Any, NamedTuple

Code = bool | int
"""Upstream's sign for one test: True passed, False or -2 wrong, -3 time limit, -4 error. See the graders for their use."""


class Ran(NamedTuple):
    """One solution on its tests. `codes` ends at the first test that did not pass."""

    codes: tuple[Code, ...]
    error_code: int | None = None
    """Upstream's metadata: None if all passed, -5 where its runner itself failed."""
    error: str = ""
    """What went wrong, in one line."""
    got: Any = None
    """Output or result of the test that failed, where there is one."""
    passed_tests: int = 0
    failed_test: int | None = None
    """Index into the problem's tests."""
    seconds: float = 0.0
    """Wall time of all tests together."""

    @property
    def passed(self) -> bool:
        return all(code > 0 for code in self.codes)
