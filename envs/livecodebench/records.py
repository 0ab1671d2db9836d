"""Records in LiveCodeBench's official form, and the tests inside them, which nobody has to trust.

One record is one JSON object with string values (a part): {"question_id": "1873_A", "platform": "codeforces", "contest_date":
"2023-08-21T00:00:00", "starter_code": "", "difficulty": "easy", "public_test_cases": "[{\"input\": \"6\\nabc...\", \"output\":
\"YES...\", \"testtype\": \"stdin\"}]", "private_test_cases": "eJxrYJ...", "metadata": "{}"}. Private tests are JSON, or base64 of
zlib of a pickle of that JSON text. The pickle is read as data: only the operations that build one text are known here.
"""

import base64
import binascii
import hashlib
import json
import pickletools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from trajectories.failures import InputError
from trajectories.schema import digest

UNPACKED_BYTES = 256 * 2**20
"""Private tests of one record that unpack to more are refused."""

FIELDS = ("question_id", "question_content", "public_test_cases")
"""What a record has to have; the others have defaults."""

DIFFICULTIES = ("easy", "medium", "hard")
UNRATED = "unrated"
"""The difficulty of a record that has none."""

_TEXT_OPERATIONS = frozenset({"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"})
_SILENT_OPERATIONS = frozenset({"PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"})


class Test(NamedTuple):
    """One test: the whole standard input and output, or one JSON argument a line and the JSON result."""

    __test__ = False

    input: str
    output: str


@dataclass(frozen=True, eq=False)
class Problem:
    """One problem with its tests. `tests` are the public ones, then the private ones: all of them count."""

    id: str
    title: str
    content: str
    platform: str
    contest_id: str
    contest_date: str
    """ISO 8601, as upstream writes it; a day without a time is midnight."""
    starter_code: str
    difficulty: str
    function: str | None
    """The function or method that is called; None: a program on standard input and output."""
    public: tuple[Test, ...]
    private: tuple[Test, ...]

    @property
    def tests(self) -> tuple[Test, ...]:
        return self.public + self.private

    @property
    def kind(self) -> Literal["call", "stdin"]:
        return "stdin" if self.function is None else "call"


def problem_of(record: Mapping[str, Any], where: str) -> Problem:
    """The problem that a record describes. InputError says in which record of `where` what is wrong."""
    place = f"{where}, record {record.get('question_id')!r}"
    check_fields(record, where)
    return Problem(
        id=record["question_id"],
        title=_text(record, "question_title", place),
        content=record["question_content"],
        platform=_text(record, "platform", place),
        contest_id=_text(record, "contest_id", place),
        contest_date=_text(record, "contest_date", place),
        starter_code=_text(record, "starter_code", place),
        difficulty=_text(record, "difficulty", place) or UNRATED,
        function=_function(record, place),
        public=_tests(_json(record["public_test_cases"], f"{place}: public_test_cases"), f"{place}: public_test_cases"),
        private=decode_private(record.get("private_test_cases", "[]"), place),
    )


def check_fields(record: Mapping[str, Any], where: str) -> None:
    """InputError unless the fields that tell a record are there, and are text."""
    for name in FIELDS:
        value = record.get(name)
        if not isinstance(value, str) and not (name == "public_test_cases" and isinstance(value, list)):
            raise InputError(f"{where}: the record {record.get('question_id')!r} has no text {name!r}.")
    if not record["question_id"]:
        raise InputError(f"{where}: a record has an empty 'question_id'.")


def record_digest(record: Mapping[str, Any]) -> str:
    """Over all of a record that an episode or a grade depends on."""
    names = (*FIELDS, "question_title", "platform", "contest_date", "difficulty", "starter_code", "metadata")
    private = record.get("private_test_cases", "")
    text = private if isinstance(private, str) else json.dumps(private)
    return digest([record.get(name) for name in names] + [hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()])


def decode_private(value: Any, where: str) -> tuple[Test, ...]:
    """The private tests of one record. InputError where they are damaged, too large, or hold anything but text."""
    place = f"{where}: private_test_cases"
    if not isinstance(value, str):
        return _tests(value, place)
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = _json(_packed_text(value, place), place)
    return _tests(found, place)


def encode_private(tests: tuple[Test, ...], kind: Literal["call", "stdin"]) -> str:
    """Tests as upstream packs them; `decode_private` reads them back."""
    text = json.dumps(test_rows(tests, kind)).encode()
    pickled = b"\x80\x04" + b"\x8d" + len(text).to_bytes(8, "little") + text + b"\x94."
    return base64.b64encode(zlib.compress(pickled)).decode()


def test_rows(tests: tuple[Test, ...], kind: Literal["call", "stdin"]) -> list[dict[str, str]]:
    """Tests as they stand in a record."""
    testtype = "functional" if kind == "call" else "stdin"
    return [{"input": test.input, "output": test.output, "testtype": testtype} for test in tests]


def _packed_text(value: str, place: str) -> str:
    try:
        packed = base64.b64decode(value, validate=True)
        unpacker = zlib.decompressobj()
        pickled = unpacker.decompress(packed, UNPACKED_BYTES)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise InputError(f"{place} is neither JSON nor packed tests ({error}).") from error
    if unpacker.unconsumed_tail or not unpacker.eof:
        problem = f"more than {UNPACKED_BYTES} bytes" if unpacker.unconsumed_tail else "cut off"
        raise InputError(f"{place} is {problem} when unpacked: it is refused.")
    return _pickled_text(pickled, place)


def _pickled_text(pickled: bytes, place: str) -> str:
    """The one text that a pickle holds. Nothing is called and nothing is built but that text."""
    texts: list[str] = []
    try:
        for operation, argument, _ in pickletools.genops(pickled):
            if operation.name in _TEXT_OPERATIONS and not texts:
                texts.append(cast("str", argument))
            elif operation.name == "STOP" and texts:
                return texts[0]
            elif operation.name not in _SILENT_OPERATIONS:
                raise InputError(f"{place} is a pickle with {operation.name}, not of one text: it is refused.")
    except InputError:
        raise
    except (ValueError, EOFError, OverflowError, MemoryError) as error:
        raise InputError(f"{place} is a damaged pickle ({str(error)[:100]}).") from error
    raise InputError(f"{place} is a pickle without a text: it is refused.")


def _json(text: Any, place: str) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is no JSON ({str(error)[:100]}).") from error


def _tests(rows: Any, place: str) -> tuple[Test, ...]:
    if not isinstance(rows, list):
        raise InputError(f"{place} is no list of tests.")
    return tuple(_test(row, place) for row in cast("list[Any]", rows))


def _test(row: Any, place: str) -> Test:
    fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    given, expected = fields.get("input"), fields.get("output")
    if not isinstance(given, str) or not isinstance(expected, str):
        raise InputError(f"{place} holds a test without a text 'input' and 'output'.")
    return Test(given, expected)


def _function(record: Mapping[str, Any], place: str) -> str | None:
    metadata = _json(record.get("metadata") or "{}", f"{place}: metadata")
    name = cast("dict[str, Any]", metadata).get("func_name") if isinstance(metadata, dict) else metadata
    if name is not None and not isinstance(name, str):
        raise InputError(f"{place}: metadata holds no function name.")
    return name


def _text(record: Mapping[str, Any], name: str, place: str) -> str:
    value = record.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{place}: {name!r} is no text.")
    return value
