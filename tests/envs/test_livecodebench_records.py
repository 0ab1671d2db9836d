"""Records in LiveCodeBench's official form: what they hold, and what is refused."""

import base64
import json
import pickle
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from envs.livecodebench import lines, records
from envs.livecodebench.records import Test, decode_private, encode_private, problem_of, record_digest
from trajectories.failures import InputError

TESTS = (Test("1 2\n", "3\n"), Test("ü\n", "\x00\n"))


def packed(value: Any) -> str:
    return base64.b64encode(zlib.compress(value if isinstance(value, bytes) else pickle.dumps(value))).decode()


def record(**changes: Any) -> dict[str, Any]:
    row = {
        "question_id": "q1",
        "question_title": "t",
        "question_content": "Add.",
        "platform": "atcoder",
        "contest_id": "c",
        "contest_date": "2024-01-01T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps([{"input": "1\n", "output": "1\n", "testtype": "stdin"}]),
        "private_test_cases": encode_private(TESTS, "stdin"),
        "metadata": "{}",
    }
    return row | changes


def test_the_official_record_decodes_to_one_public_and_four_private_tests(shared_data: Path) -> None:
    path = shared_data / "livecodebench" / "official_record_1873_A.json"
    ((_, found),) = lines.records(path)
    problem = problem_of(found, str(path))
    assert (problem.id, problem.kind, problem.difficulty) == ("1873_A", "stdin", "easy")
    assert (len(problem.public), len(problem.private)) == (1, 4)
    assert problem.public[0].output == "YES\nYES\nYES\nNO\nNO\nYES\n"
    assert problem.private[0].input.startswith("1\n")
    assert all(set(test.output.split()) <= {"YES", "NO"} for test in problem.tests)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol_of_a_text_is_read(protocol: int) -> None:
    rows = json.dumps([{"input": "1 2\n", "output": "3\n"}, {"input": "ü\n", "output": "\x00\n"}])
    assert decode_private(packed(pickle.dumps(rows, protocol)), "here") == TESTS


def test_private_tests_may_be_plain_json_and_are_packed_as_they_were() -> None:
    rows = json.dumps([{"input": test.input, "output": test.output} for test in TESTS])
    assert decode_private(rows, "here") == decode_private(encode_private(TESTS, "call"), "here") == TESTS
    assert pickle.loads(zlib.decompress(base64.b64decode(encode_private(TESTS, "call"))))[0] == "["


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("this must never run",))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (packed(Evil()), "refused"),
        (packed(["[]"]), "refused"),
        (packed({"a": 1}), "refused"),
        (packed(7), "refused"),
        (packed(b"cos\nsystem\n(S'true'\ntR."), "refused"),
        (packed(pickle.dumps("[]")[:-3]), "damaged pickle"),
        (packed(b"\x80\x04\x96\xff\xff\xff\xff\xff\xff\xff\x00."), "pickle"),
        (packed(b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x00ab."), "damaged pickle"),
        (packed(b""), "pickle"),
        (packed(pickle.dumps("{")), "no JSON"),
        (packed(pickle.dumps('{"a": 1}')), "no list of tests"),
        (packed(pickle.dumps('[{"input": 1, "output": "x"}]')), "without a text"),
        ("no base 64!", "neither JSON nor packed tests"),
        (base64.b64encode(b"no zlib").decode(), "neither JSON nor packed tests"),
        (packed("[]")[:-8] + "AAAA", "neither JSON nor packed|cut off"),
        ("7", "no list of tests"),
    ],
)
def test_what_is_no_list_of_tests_is_refused_and_never_run(
    value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=said):
        decode_private(value, "the file, record 'q1'")
    assert capsys.readouterr().out == ""


def test_a_zlib_bomb_is_refused_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "UNPACKED_BYTES", 1 << 20)
    bomb = packed(b"0" * (1 << 26))
    assert len(bomb) < 1 << 18
    tracemalloc.start()
    with pytest.raises(InputError, match="more than"):
        decode_private(bomb, "here")
    assert tracemalloc.get_traced_memory()[1] < 1 << 23
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"question_id": 7}, "no text 'question_id'"),
        ({"question_id": ""}, "empty"),
        ({"question_content": None}, "no text 'question_content'"),
        ({"public_test_cases": "["}, "public_test_cases is no JSON"),
        ({"public_test_cases": "{}"}, "no list of tests"),
        ({"metadata": "no"}, "metadata is no JSON"),
        ({"metadata": '{"func_name": 3}'}, "no function name"),
        ({"starter_code": 3}, "'starter_code' is no text"),
    ],
)
def test_a_damaged_record_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        problem_of(record(**changes), "tasks.jsonl")


def test_a_record_has_defaults_for_what_only_contests_have() -> None:
    bare = {key: record()[key] for key in ("question_id", "question_content", "public_test_cases")}
    problem = problem_of(bare, "tasks.jsonl")
    assert (problem.difficulty, problem.platform, problem.private, problem.kind) == ("unrated", "", (), "stdin")


def test_the_digest_covers_the_tests_and_not_the_keys_that_nobody_reads() -> None:
    same = record_digest(record(extra=1))
    assert same == record_digest(record())
    changed = [{"private_test_cases": "[]"}, {"metadata": '{"func_name": "f"}'}, {"question_content": "Subtract."}]
    assert len({same, *(record_digest(record(**change)) for change in changed)}) == 4
