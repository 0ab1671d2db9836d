"""What of BFCL v4's result files is v3's, and how its multi-turn files are told: those are other tasks under the same ids.

v4 renamed three categories and kept their tasks. Of its multi-turn tasks 107-109 of 200 questions and 67-70 of 200 ground
truths a file differ, and so do the simulators. A file shows its version by its name, by ids that v3 lacks, or by the user
messages in its rows' logs; one that shows none of these can't be told apart.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from trajectories.failures import InputError

RENAMED = {"simple_python": "simple", "simple_java": "java", "simple_javascript": "javascript"}
"""v4 category -> v3's."""

_ONLY_V4 = (*RENAMED, "memory", "web_search", "format_sensitivity")
_TOLERATED = 0.1
"""Share of rows with other user messages: v3's own wheels differ in 4 of 200 questions, v4 in more than half."""


def v3_id(task_id: str) -> str:
    """A task id under v3's category names."""
    category, _, number = task_id.rpartition("_")
    return f"{RENAMED[category]}_{number}" if category in RENAMED else task_id


class MultiTurnVersion:
    """Watches the rows of one file, and refuses it at its end if its multi-turn rows are v4's.

    `questions` are the turns of this data's multi-turn tasks, by id.
    """

    def __init__(self, path: Path, questions: Mapping[str, list[Any]]) -> None:
        self._path = path
        self._questions = questions
        self._v4_ids = path.name.lower().startswith("bfcl_v4")
        self._rows = self._logged = self._strange = 0

    def watch(self, task_id: str, row: Mapping[str, Any]) -> None:
        """Take note of one row."""
        self._v4_ids = self._v4_ids or task_id.startswith(_ONLY_V4)
        if not task_id.startswith("multi_turn"):
            return
        self._rows += 1
        said = _user_texts(row.get("inference_log"))
        if said and task_id in self._questions:
            self._logged += 1
            asked = _texts(message for turn in self._questions[task_id] for message in turn)
            # A reveal turn's message is in no question: one more than the data has is no evidence.
            self._strange += len(said - asked) > sum(not turn for turn in self._questions[task_id])

    def check(self) -> None:
        """InputError if the file holds multi-turn results of v4."""
        other_questions = self._strange > _TOLERATED * self._logged
        if self._rows and (self._v4_ids or other_questions):
            why = f" ({self._strange} of {self._logged} logs have other user messages)" if other_questions else ""
            raise InputError(
                f"{str(self._path)!r} holds multi-turn results of BFCL v4{why}: other tasks than v3's under the same "
                "ids, so they can't be graded here; v4's own checker can."
            )


def _user_texts(log: Any) -> set[str]:
    """The user messages that began the turns, by a row's log in upstream's format."""
    entries = cast("list[Any]", log) if isinstance(log, list) else []
    queries = [cast("dict[str, Any]", entry).get("begin_of_turn_query") for entry in entries if isinstance(entry, dict)]
    return _texts(message for query in queries if isinstance(query, list) for message in cast("list[Any]", query))


def _texts(messages: Any) -> set[str]:
    """The texts of user messages; a content may be a list of text blocks."""
    found: set[str] = set()
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            blocks = cast("list[Any]", content) if isinstance(content, list) else [{"text": content}]
            found.add("".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict)))
    return found
