"""What LiveCodeBench does with texts: extraction, comparison, prompts, predictions files, score table. No code is run here."""

import json
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envs.base import TaskScore
from envs.livecodebench import aggregate, extraction, literal, output_prediction, prompts, repair
from envs.livecodebench import execution as code_execution
from envs.livecodebench.aggregate import About, pass_at_k
from envs.livecodebench.compare import official_equality, plain_number, same_output, strict_equality
from envs.livecodebench.errata import ERRATA
from envs.livecodebench.outcome import Ran
from envs.livecodebench.predictions import read
from envs.livecodebench.prelude import PRELUDE
from envs.livecodebench.records import Problem, Test
from trajectories.failures import InputError
from trajectories.schema import Task


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nA\n```", "A"),
        ("```\nA\n```\nthen\n```py\nB\nC\n```\nbye", "B\nC"),
        ("no fence", ""),
        ("```python\nA", ""),
        ("```python\nA\n```\nprose\n```python\nB", "prose"),
        ("```python\nA\n```\nsay ``` here", ""),
        ("x ```python\nA\n  ``` y", "A"),
        ("````\nA\n````", "A"),
    ],
)
def test_the_official_rule_takes_what_is_between_the_last_two_fence_lines(text: str, code: str) -> None:
    assert extraction.official(text) == code


def test_other_rules_find_other_code_in_the_same_answer() -> None:
    text = "```python\nA\n```\nand\n```\nB\n```\nlast ``` mention"
    found = {name: rule(text) for name, rule in extraction.RULES.items()}
    assert found == {
        "official": "", "tagged": "", "whole": text, "first_block": "A", "last_block": "B\n",
    }  # fmt: skip
    assert extraction.tagged("[PYTHON]\nA\n[/PYTHON]") == "A"
    assert extraction.tagged("[PYTHON]\n```\nA\n```") == "A"
    assert extraction.first_block(" print(1)\n") == "print(1)"
    assert extraction.last_block("text\n```python\nA\n") == "A\n"


@pytest.mark.parametrize(
    ("got", "expected", "official", "strict"),
    [
        ("3\n", "3", True, True), (" 3 \n\n", "3\n", True, True), ("3.0", "3", True, True), ("1 2.50", "1.0 2.5", True, True),
        ("1e3", "1000", True, True), ("0.3333333", "0.33333333", False, False), ("a", "A", False, False),
        ("1\n2", "1 2", False, False), ("3\n\n4", "3\n4", False, False), ("1_0", "10", True, False),
        ("٣", "3", True, False), ("+0_6", "6", True, False), ("nan", "nan", True, True), ("NaN", "nan", False, False),
        ("a  b", "a b", False, False), ("1  2", "1 2", True, True), ("", "", True, True), ("x", "", False, False),
        ("-0", "0", True, True), ("1e99999999999999999999", "1", False, False),
    ],
)  # fmt: skip
def test_outputs_are_the_same_line_by_line_and_number_by_number(
    got: str, expected: str, official: bool, strict: bool
) -> None:
    assert same_output(got, expected) is official
    assert same_output(got, expected, plain_number) is strict


@pytest.mark.parametrize(
    ("got", "expected", "codes", "strict"),
    [
        (3, 3, [True], True), (3.0, 3, [True], True), (True, 1, [True], True), ((1, 2), [1, 2], [True], True),
        ([(1, 2)], [[1, 2]], [False], False), ([1], [1, 2], [False], False), ("a", "a", [True], True), (None, None, [True], True),
        (np.int64(3), 3, [True], True), (np.array([1]), [1], [True], True), (np.array([1, 2]), [1, 2], [True, -4], True),
        (np.array([1, 2]), [2, 2], [False, -4], False), (np.array([1, 2]), [1, 2, 3], [-4], False), (np.array([]), [], [-4], True),
        (math.nan, math.nan, [False], False), ({1}, [1], [False], False), (np.array(["a"]), "a", [True], False),
    ],
)  # fmt: skip
def test_results_are_equal_as_upstream_has_it_and_as_json_has_it(
    got: Any, expected: Any, codes: list[Any], strict: bool
) -> None:
    assert official_equality(got, expected) == codes
    assert strict_equality(got, expected) is strict


def test_the_prelude_runs_in_upstreams_order() -> None:
    names: dict[str, Any] = {}
    limit = sys.getrecursionlimit()
    try:
        exec(PRELUDE, names)
        assert sys.getrecursionlimit() == 50_000
    finally:
        sys.setrecursionlimit(limit)
    assert names["pow"] is pow
    assert names["open"] is open
    assert names["datetime"].__name__ == "datetime"
    assert names["copy"].__name__ == "copy"
    assert names["List"].__origin__ is list


def problem(starter: str = "", function: str | None = None) -> Problem:
    tests = (Test("1\n", "2\n"), Test("5\n", "6\n"))
    return Problem("q", "T", "Add one.", "atcoder", "c", "", starter, "easy", function, tests[:1], tests[1:])


def test_every_style_asks_the_question_and_never_shows_a_private_test() -> None:
    for style in prompts.STYLES.values():
        for asked in (problem(), problem("class Solution:\n    def f(self): ", "f")):
            text = "\n".join(message.content for message in style.messages(asked))
            assert "Add one." in text
            assert asked.starter_code in text
            assert asked.starter_code or "standard input" in text or "Two whole numbers" in text
            assert "6" not in text
    assert [message.role for message in prompts.chat(problem())] == ["system", "user"]
    assert "main()" in prompts.main_function(problem())[0].content
    assert "main()" not in prompts.main_function(problem("def f(): ", "f"))[0].content


@pytest.mark.parametrize(
    ("ran", "told", "untold"),
    [
        (Ran((True, -2), -2, "", "7\n", 1, 1), ["is wrong", "Input: 5", "Your output: 7", "Expected: 6"], ["Error"]),
        (Ran((True, -3), -3, "TimeoutException", None, 1, 1), ["out of time", "Expected: 6"], ["Your output"]),
        (Ran((-4,), -4, "SyntaxError: no"), ["failed to run: SyntaxError"], ["Input"]),
        (Ran((-2,), -5, "exit status 0", failed_test=0), ["failed to run: exit status 0"], ["Input"]),
        (Ran((True, False), -2, "", 10**5000, 1, 1), ["very many digits"], []),
        (Ran((True, -2), -2, "", "x" * 1000, 1, 1), ["...(truncated) ..."], ["x" * 200]),
    ],
)
def test_a_repair_request_tells_the_failure(ran: Ran, told: list[str], untold: list[str]) -> None:
    text = repair.message(problem(), "CODE", ran)
    assert all(part in text for part in ["CODE", "Add one.", *told])
    assert not any(part in text for part in untold)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2]", [1, 2]), ("[1] * 3", [1, 1, 1]), ("-5", -5), ("'a' + 'b'", "ab"), ("{1: (2,)}", {1: (2,)}), ("{1, 2}", {1, 2}),
        ("True", True), ("2 * -3.5", -7.0), ("None", None), ("not True", False), ("[0] * 2 + [1]", [0, 0, 1]),
    ],
)  # fmt: skip
def test_literals_and_what_is_built_of_them_have_values(text: str, value: Any) -> None:
    assert literal.value_of(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "x", "[x for x in [1]]", "2 ** 9", "[0] * 10 ** 9", "[0] * 1000000000", "'a' * 9999999",
        "(" * 500, "1 +", "\x00", "9" * 200_000, "[[1]] + 1", "{[1]: 2}", "{**{}}", "-" * 5000 + "1", "a == b", "f'{1}'",
    ],
)  # fmt: skip
def test_all_else_has_no_value_and_is_never_run(text: str) -> None:
    with pytest.raises(literal.NoValue):
        literal.value_of(text)


ASKED = output_prediction.Question("q_0", "Sum.", "def f(a): ", "f", "[1, 2]", "[3, null]")


@pytest.mark.parametrize(
    ("said", "official", "strict"),
    [
        ("assert f([1, 2]) == [3, None]", True, True),
        ("Well.\nassert f([1, 2]) == [4]\nassert f([1, 2]) == [3, None]\nDone.", True, True),
        ("```python\n# the sum\nassert f([1, 2]) == [3, None]\n```", True, True),
        ("```\n[3, None]\n```", True, True),
        ("assert f([1, 2]) == (3, None)", False, True),
        ("assert f([1, 2]) == [3]", False, False),
        ("assert f([1, 2]) != [3, None]", False, False),
        ("assert f([1, 2])", False, False),
        ("assert f([1, 2]) == [3, null]", False, False),
        ("assert f([1, 2]) == __import__('os').system('true')", False, False),
        ("The answer is [3, None].", False, False),
        ("", False, False),
    ],
)
def test_a_predicted_output_is_read_from_the_last_assertion(said: str, official: bool, strict: bool) -> None:
    answer = output_prediction.extract(said)
    assert output_prediction.passes(ASKED, answer, "official")[0] is official
    assert output_prediction.passes(ASKED, answer, "strict")[0] is strict


@pytest.mark.parametrize(
    ("text", "reasoned", "answer"),
    [
        ("[ANSWER]\nassert f(1) == 2\n[/ANSWER]", False, "2"),
        ("2 [/ANSWER] more", False, "2"),
        ("f(1) == 2\nmore", False, "2"),
        ("2\nmore", False, "2"),
        ("thought 1 == 1 [ANSWER]\nf(1) == [2, 3]\n[/ANSWER]", True, "[2, 3]"),
        ("f('==') == 2", False, "')"),
    ],
)
def test_an_execution_answer_is_cut_as_upstream_cuts_it(text: str, reasoned: bool, answer: str) -> None:
    assert code_execution.extract(text, reasoned) == answer


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_an_official_file_gives_one_prediction_for_each_code(tmp_path: Path) -> None:
    rows = [
        {
            "question_id": "b",
            "code_list": ["B1", None, 7, "B2"],
            "output_list": ["```\nno\n```"],
            "graded_list": [True],
        },
        {"question_id": "a", "output_list": ["```python\nA\n```", "no code"]},
        {"question_id": "b", "code_list": ["B3"], "pass@1": math.nan},
        {"question_id": "c", "code_list": []},
    ]
    found = [(p.task_id, p.attempt, p.output.text) for p in read(write(tmp_path / "p.json", rows), {}, {})]
    assert found == [
        ("b", 0, "B1"), ("b", 1, ""), ("b", 2, ""), ("b", 3, "B2"), ("a", 0, "A"), ("a", 1, ""), ("b", 4, "B3"),
    ]  # fmt: skip


def test_rows_of_our_own_hold_an_answer_or_code(tmp_path: Path) -> None:
    lines = [
        {"task_id": "a", "output": "Here:\n```python\nA\n```"},
        {"task_id": "a", "code": "A2", "attempt": 9, "unknown": 1},
        {"task_id": "a", "output": None},
        {"question_id": 12, "code": "N\ud800"},
    ]
    path = write(tmp_path / "p.jsonl", "\n".join(map(json.dumps, lines)))
    found = [(p.task_id, p.attempt, p.output.text) for p in read(path, {}, {})]
    assert found == [("a", 0, "A"), ("a", 9, "A2"), ("a", 10, ""), ("12", 0, "N\ud800")]


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("", {}, "no rows"),
        ("[]", {}, "no rows"),
        ("nonsense", {}, "no JSON"),
        ([1], {}, "no JSON object"),
        ([{"id": "a", "code": "x"}], {}, "names no task"),
        ([{"question_id": "a", "answer": "x"}], {}, "none of code_list"),
        ([{"question_id": "a", "code": "x"}], {"category": "eazy"}, "Did you mean 'easy'"),
    ],
)
def test_a_file_that_is_no_predictions_file_is_refused(
    content: Any, options: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        list(read(write(tmp_path / "p.json", content), options, {"a": "easy"}))


def test_a_category_keeps_its_own(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", [{"question_id": key, "code_list": ["x", "y"]} for key in "abz"])
    found = read(path, {"category": "hard"}, {"a": "easy", "b": "hard"})
    assert [(one.task_id, one.attempt) for one in found] == [("b", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("attempts", "passed", "k"), [(1, 0, 1), (1, 1, 1), (10, 3, 1), (10, 3, 5), (10, 8, 5), (200, 7, 100)]
)
def test_pass_at_k_is_the_chance_that_one_of_k_drawn_passes(attempts: int, passed: int, k: int) -> None:
    exact = 1 - Decimal(math.comb(attempts - passed, k)) / Decimal(math.comb(attempts, k))
    assert pass_at_k(attempts, passed, k) == pytest.approx(float(exact), abs=1e-12)


def score(key: str, attempt: int, value: float | None) -> TaskScore:
    task = Task(benchmark="livecodebench", id=key, category="easy", split="test", cluster=key, digest="0")
    return TaskScore(task, attempt, value)


def test_the_table_has_pass_at_k_and_its_breakdowns() -> None:
    about = {
        "a": About("easy", "leetcode", "2024-01-10T00:00:00"),
        "b": About("hard", "atcoder", "2024-08-31T00:00:00"),
        "abc311_c": About("hard", "atcoder", "2024-09-30T00:00:00"),
        "never run": About("medium", "atcoder", "2024-01-01T00:00:00"),
    }
    passing = {"a": [1, 1, 0, 0, 0], "b": [0] * 5, "abc311_c": [0, 0, 0, 0, 1]}
    scores = [
        score(key, number, float(value)) for key, values in passing.items() for number, value in enumerate(values)
    ]
    table = {row.name: row for row in aggregate.table(scores, about)}
    assert next(iter(table)) == "pass@1"
    assert table["pass@1"] == ("pass@1", pytest.approx(0.2), 3, 3)
    assert table["pass@5"].value == pytest.approx(2 / 3)
    assert "pass@10" not in table
    assert table["pass@1 without errata"] == ("pass@1 without errata", pytest.approx(0.2), 2, 2)
    assert "abc311_c" in ERRATA
    assert (table["easy"].value, table["hard"].value) == (pytest.approx(0.4), pytest.approx(0.1))
    assert table["hard pass@5"].value == pytest.approx(0.5)
    assert table["atcoder"].value == pytest.approx(0.1)
    assert (table["2024-Q1"].n, table["2024-Q3"].n) == (1, 2)
    assert "medium" not in table


def test_what_has_no_verdict_is_counted_and_not_scored() -> None:
    about = {"a": About("easy", "", ""), "b": About("easy", "", "")}
    table = {row.name: row for row in aggregate.table([score("a", 0, 1.0), score("b", 0, None)], about)}
    assert table["pass@1"] == ("pass@1", 1.0, 2, 1)
    nothing = {row.name: row for row in aggregate.table([], about)}
    assert nothing["pass@1"] == ("pass@1", None, 2, 0)
