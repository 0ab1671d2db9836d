"""BFCL's single-turn decoders and checkers beside the wheel's own: no verdict and no error type may differ.

Right answers in every shape, then seeded broken ones. HARNESS_MUTANTS sizes the latter (outputs a test).
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import mutate
import outputs
import pytest
import wire
from oracle import Oracle, crashed
from outputs import Choice

from envs.bfcl.checker import CRASH, check_calls, check_relevance
from envs.bfcl.dataset import Row, load
from envs.bfcl.decode import DecodeError, decode_ast, decode_execute, native_ast, native_execute
from envs.bfcl.java import read_java
from envs.bfcl.javascript import read_javascript

MUTANTS = int(os.environ.get("HARNESS_MUTANTS", "8000"))
SEED = int(os.environ.get("HARNESS_SEED", "0"))
RELEVANCE = ("irrelevance", "live_irrelevance", "live_relevance")


@pytest.fixture(scope="module")
def rows(bfcl_data: object) -> list[Row]:
    return list(outputs.rows(load("test")))


def attempt(decode: Callable[..., Any], *arguments: Any) -> Any:
    """What a decoder gives, or the oracle's mark of a failure."""
    try:
        return decode(*arguments)
    except DecodeError as error:
        return {"crash": str(error)}


def verdict(row: Row, decoded: Any, model: str = "plain") -> list[Any]:
    """Our official verdict as the oracle writes it."""
    outcome = check_calls(
        row.functions, decoded, row.ground_truth, row.language, row.category, underscore_to_dot=model == "u2d"
    )
    return [outcome.valid, outcome.error_type]


def graded(row: Row, decoded: Any, model: str = "plain") -> list[Any]:
    """Our verdict of a whole output: what `harness grade` makes of a decoding failure, too."""
    return [False, "ast_decoder:decoder_failed"] if crashed(decoded) else verdict(row, decoded, model)


def same(ours: Any, upstream: Any) -> bool:
    """Equal with types, or refused by both."""
    if crashed(upstream):
        return crashed(ours) or ours == [False, CRASH]
    return wire.dumps(ours) == wire.dumps(upstream)


def differences(asked: Sequence[Any], ours: Iterable[Any], upstream: Iterable[Any]) -> list[Any]:
    return [case for case in zip(asked, ours, upstream, strict=True) if not same(case[1], case[2])]


def by_category(rows: Sequence[Row], verdicts: Sequence[list[Any]]) -> dict[str, int]:
    return dict(Counter(row.category for row, (valid, _) in zip(rows, verdicts, strict=True) if valid))


FIRST_ALTERNATIVES = {
    "simple": 399,  # 400 by the docs' own names: simple_363's answer names another function
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 198,
    "java": 97,
    "javascript": 49,  # 50 by the docs' own names: javascript_41
    "live_simple": 256,
    "live_multiple": 1050,
    "live_parallel": 15,
    "live_parallel_multiple": 24,
}
WITHOUT_OPTIONAL = FIRST_ALTERNATIVES | {"simple": 397, "parallel": 199, "live_multiple": 1042, "live_parallel": 16}
BY_DOC_NAMES = FIRST_ALTERNATIVES | {"simple": 400, "javascript": 50}
QUOTED_ITEMS = FIRST_ALTERNATIVES | {"java": 89}  # upstream keeps the quotes of `new String[]{"a"}`


@pytest.mark.parametrize(
    ("choice", "passing"),
    [
        (Choice(), FIRST_ALTERNATIVES),
        (Choice(last=True), FIRST_ALTERNATIVES),
        (Choice(optional=False), WITHOUT_OPTIONAL),
        (Choice(last=True, optional=False), WITHOUT_OPTIONAL),
        (Choice(doc_names=True), BY_DOC_NAMES),
        (Choice(bare_items=False), QUOTED_ITEMS),
    ],
    ids=lambda value: "-".join(name for name, on in value._asdict().items() if on) if isinstance(value, Choice) else "",
)
def test_ground_truths_pass_as_often_as_upstream_says(
    rows: list[Row], oracle: Oracle, choice: Choice, passing: dict[str, int]
) -> None:
    answers = [outputs.calls(row, choice) for row in rows]
    ours = [verdict(row, answer) for row, answer in zip(rows, answers, strict=True)]
    upstream = oracle.ask("ast_check", _items(rows, decoded=answers))
    assert differences(_cases(rows, answers), ours, upstream) == []
    assert by_category(rows, ours) == passing


# The text form loses what the decoders lose: bodies of anonymous HashMaps, texts without quotes that are no Java.
AS_TEXT = FIRST_ALTERNATIVES | {"java": 93, "javascript": 48}


@pytest.mark.parametrize("choice", outputs.CHOICES, ids=str)
def test_ground_truths_as_text_are_decoded_and_graded_alike(rows: list[Row], oracle: Oracle, choice: Choice) -> None:
    texts = [outputs.text(row, outputs.calls(row, choice)) for row in rows]
    decoded = [attempt(decode_ast, text, row.language) for row, text in zip(rows, texts, strict=True)]
    languages = [row.language for row in rows]
    upstream = oracle.ask("decode_ast", [{"text": t, "language": n} for t, n in zip(texts, languages, strict=True)])
    assert differences(texts, decoded, upstream) == []
    ours = [graded(row, calls) for row, calls in zip(rows, decoded, strict=True)]
    assert differences(_cases(rows, texts), ours, oracle.ask("grade_ast", _items(rows, result=texts))) == []
    if choice == Choice():
        assert by_category(rows, ours) == AS_TEXT


@pytest.mark.parametrize("model", ["plain", "u2d"])
def test_ground_truths_as_native_calls_are_graded_alike(rows: list[Row], oracle: Oracle, model: str) -> None:
    def native(row: Row) -> list[dict[str, str]]:
        calls = outputs.calls(row, Choice(doc_names=True))
        return [
            {name.replace(".", "_") if model == "u2d" else name: json.dumps(given)}
            for call in calls
            for name, given in call.items()
        ]

    results = [native(row) for row in rows]
    ours = [graded(row, attempt(native_ast, result), model) for row, result in zip(rows, results, strict=True)]
    upstream = oracle.ask(
        "grade_ast", _items(rows, result=results, native=[True] * len(rows), model=[model] * len(rows))
    )
    assert differences(_cases(rows, results), ours, upstream) == []
    assert by_category(rows, ours) == BY_DOC_NAMES


@pytest.mark.study
def test_broken_calls_are_judged_alike(rows: list[Row], oracle: Oracle) -> None:
    rng = random.Random(SEED)
    picked = _picked(rng, rows)
    models = [rng.choice(["plain", "u2d"]) for _ in picked]
    broken = [mutate.broken_calls(rng, outputs.calls(row, rng.choice(outputs.CHOICES))) for row in picked]
    decoded = [calls for _, calls in broken]
    # The runner's form check comes first, and only what passes it reaches upstream's checker.
    items = _items(picked, decoded=decoded, model=models)
    ours = [verdict(row, calls, model) for row, calls, model in zip(picked, decoded, models, strict=True)]
    upstream = oracle.ask("check_decoded", items)
    assert differences(_cases(picked, broken), ours, upstream) == []
    _print_mix("broken calls", [name for name, _ in broken], ours, upstream)


@pytest.mark.study
def test_odd_values_of_every_declared_type_are_judged_alike(rows: list[Row], oracle: Oracle) -> None:
    rng = random.Random(SEED + 1)
    picked = _picked(rng, rows)
    decoded = [_with_odd_values(rng, row) for row in picked]
    ours = [verdict(row, calls) for row, calls in zip(picked, decoded, strict=True)]
    upstream = oracle.ask("check_decoded", _items(picked, decoded=decoded))
    assert differences(_cases(picked, decoded), ours, upstream) == []
    _print_mix("odd values", [row.category for row in picked], ours, upstream)


@pytest.mark.study
def test_made_up_tasks_are_judged_alike(oracle: Oracle) -> None:
    """Docs and answers as the data might have them, contradictions included: what upstream crashes on is pinned here."""
    rng = random.Random(SEED + 6)
    tasks = [mutate.made_up_task(rng) for _ in range(MUTANTS)]
    outcomes = [
        check_calls(
            task["functions"],
            task["decoded"],
            task["answer"],
            task["language"],
            task["category"],
            underscore_to_dot=False,
        )
        for task in tasks
    ]
    ours = [[outcome.valid, outcome.error_type] for outcome in outcomes]
    upstream = oracle.ask("ast_check", tasks)
    assert differences(tasks, ours, upstream) == []
    _print_mix("made-up tasks", [task["category"] for task in tasks], ours, upstream)


@pytest.mark.study
def test_broken_texts_are_decoded_and_graded_alike(rows: list[Row], oracle: Oracle) -> None:
    rng = random.Random(SEED + 2)
    picked = _picked(rng, rows)
    broken = [
        mutate.broken_text(rng, outputs.text(row, outputs.calls(row, rng.choice(outputs.CHOICES)))) for row in picked
    ]
    texts = [text for _, text in broken]
    decoded = [attempt(decode_ast, text, row.language) for row, text in zip(picked, texts, strict=True)]
    items = [{"text": text, "language": row.language} for row, text in zip(picked, texts, strict=True)]
    upstream = oracle.ask("decode_ast", items)
    assert differences(broken, decoded, upstream) == []
    ours = [graded(row, calls) for row, calls in zip(picked, decoded, strict=True)]
    verdicts = oracle.ask("grade_ast", _items(picked, result=texts))
    assert differences(_cases(picked, broken), ours, verdicts) == []
    _print_mix("broken texts", [name for name, _ in broken], ours, verdicts)
    assert (
        differences(
            texts,
            [attempt(decode_execute, text) for text in texts],
            oracle.ask("decode_execute", [{"text": t} for t in texts]),
        )
        == []
    )


@pytest.mark.study
def test_broken_native_calls_are_decoded_and_graded_alike(rows: list[Row], oracle: Oracle) -> None:
    rng = random.Random(SEED + 3)
    picked = _picked(rng, rows)[: MUTANTS // 2]
    results = [_broken_native(rng, row) for row in picked]
    models = [rng.choice(["plain", "u2d"]) for _ in picked]
    ours = [
        graded(row, attempt(native_ast, result), model)
        for row, result, model in zip(picked, results, models, strict=True)
    ]
    upstream = oracle.ask("grade_ast", _items(picked, result=results, native=[True] * len(picked), model=models))
    assert differences(_cases(picked, results), ours, upstream) == []
    assert (
        differences(
            results,
            [attempt(native_execute, result) for result in results],
            oracle.ask("native_execute", [{"calls": result} for result in results]),
        )
        == []
    )


@pytest.mark.study
@pytest.mark.parametrize("language", ["Java", "JavaScript"])
def test_source_text_is_read_alike(oracle: Oracle, language: str) -> None:
    rng = random.Random(SEED + 4)
    kinds = {
        "Java": (
            "Array",
            "ArrayList",
            "HashMap",
            "integer",
            "long",
            "float",
            "double",
            "boolean",
            "char",
            "String",
            "any",
        ),
        "JavaScript": ("array", "dict", "integer", "float", "Bigint", "Boolean", "String", "any"),
    }[language]
    make, read, op = {
        "Java": (mutate.java_text, read_java, "java_value"),
        "JavaScript": (mutate.javascript_text, read_javascript, "javascript_value"),
    }[language]

    def item() -> dict[str, Any]:
        kind = rng.choice(kinds[:3] if rng.random() < 0.8 else kinds)
        nested = kind in ("Array", "ArrayList", "array") and rng.random() < 0.8
        return {"text": make(rng), "kind": kind, "item_kind": rng.choice(kinds) if nested else None}

    items = [item() for _ in range(MUTANTS)]
    ours = [_read(read, **item) for item in items]
    assert differences(items, ours, oracle.ask(op, items)) == []
    texts = sum(isinstance(value, str) for value in ours)
    assert texts < 0.9 * len(items), "most texts are no collections: the generator tests nothing"


def _read(read: Callable[..., Any], text: str, kind: str, item_kind: str | None) -> Any:
    try:
        return read(text, kind, item_kind)
    except (ValueError, KeyError) as error:
        return {"crash": str(error)}


@pytest.mark.study
def test_relevance_is_judged_alike(rows: list[Row], oracle: Oracle) -> None:
    rng = random.Random(SEED + 5)
    python = [row for row in rows if row.language == "Python"]
    picked = [rng.choice(python) for _ in range(MUTANTS // 2)]
    texts = [mutate.broken_text(rng, outputs.text(row, outputs.calls(row)))[1] for row in picked]
    items = [{"category": rng.choice(RELEVANCE), "result": text} for text in texts]
    outcomes = [check_relevance(_decoded_or_error(item["result"]), item["category"]) for item in items]
    ours = [[outcome.valid, outcome.error_type] for outcome in outcomes]
    assert differences(items, ours, oracle.ask("relevance", items)) == []


def _decoded_or_error(text: str) -> Any:
    try:
        return decode_ast(text)
    except DecodeError as error:
        return error


def _picked(rng: random.Random, rows: list[Row]) -> list[Row]:
    """Rows to break: categories equally often, so that the small ones are tried as hard as the large."""
    groups = [[row for row in rows if row.category == category] for category in outputs.CATEGORIES]
    return [rng.choice(rng.choice(groups)) for _ in range(MUTANTS)]


def _items(rows: Sequence[Row], **columns: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {"id": row.id} | {name: column[index] for name, column in columns.items()} for index, row in enumerate(rows)
    ]


def _cases(rows: Sequence[Row], outputs: Sequence[Any]) -> list[Any]:
    return [(row.id, output) for row, output in zip(rows, outputs, strict=True)]


def _with_odd_values(rng: random.Random, row: Row) -> list[dict[str, dict[str, Any]]]:
    """A right answer in which one or all arguments are odd values of their declared types."""
    calls = outputs.calls(row, rng.choice(outputs.CHOICES))
    index = rng.randrange(len(calls))
    ((name, given),) = calls[index].items()
    allowed = next(iter(row.ground_truth[index].values()))
    doc = next((doc for doc in row.functions if doc["name"] == name), row.functions[0])
    properties = doc["parameters"]["properties"]
    known = [parameter for parameter in allowed if parameter in properties]
    for parameter in known if rng.random() < 0.2 else [rng.choice(known)] if known else []:
        given[parameter] = _odd_argument(rng, row, properties[parameter], allowed[parameter])
    return calls


def _odd_argument(rng: random.Random, row: Row, declaration: dict[str, Any], allowed: Any) -> Any:
    if row.language == "Python":
        return mutate.odd_value(rng, declaration["type"], allowed)
    if rng.random() < 0.1:
        return mutate.odd_value(rng, "any")
    text, source = (mutate.java_text, outputs.java_source) if row.language == "Java" else (mutate.javascript_text, None)
    if rng.random() < 0.5 or not isinstance(allowed, list) or not allowed:
        return text(rng)
    value = mutate.near(rng, rng.choice(allowed))
    item = declaration.get("items", {}).get("type")
    if source is None:
        return outputs.javascript_source(value)
    return source(value, declaration["type"], item, bare_items=rng.random() < 0.5)


def _broken_native(rng: random.Random, row: Row) -> Any:
    calls = outputs.calls(row, rng.choice(outputs.CHOICES))
    if rng.random() < 0.1:
        return rng.choice(
            ["", "I can't.", {}, [], [{}], ["f"], [[]], [{"type": "text", "text": "no"}], [{"f": ""}], [None]]
        )
    _, changed = mutate.broken_calls(rng, calls)
    if isinstance(changed, tuple):
        changed = list(changed)
    if not isinstance(changed, list):
        return changed
    results = [_native_call(rng, call) for call in changed]
    return results[0] if len(results) == 1 and rng.random() < 0.05 else results


def _native_call(rng: random.Random, call: Any) -> Any:
    if not isinstance(call, dict):
        return str(call)
    return {
        str(name).replace(".", "_" if rng.random() < 0.5 else "."): _broken_json(rng, arguments)
        for name, arguments in call.items()
    }


def _broken_json(rng: random.Random, arguments: Any) -> str:
    text = json.dumps(arguments, default=str, skipkeys=True, ensure_ascii=rng.random() < 0.5)
    return mutate.edited(rng, text) if rng.random() < 0.3 else text


def _print_mix(title: str, kinds: list[str], ours: list[Any], upstream: list[Any]) -> None:
    valid = sum(1 for outcome in ours if outcome[0])
    crashes = Counter(answer["crash"].split(":")[0] for answer in upstream if crashed(answer))
    types = Counter(outcome[1] for outcome in ours)
    print(f"\n{title}: {len(ours)} outputs of {len(set(kinds))} kinds, {valid} valid, crashes {dict(crashes)}\n{types}")


EVALUATED = {
    "[f(a=len('abc') + 1)]": 4,
    "[f(a=f'{1}' + 'a')]": "1a",
    "[f(a=(1 < 2) + 1)]": 2,
    "[f(a=[1, 2][0] + 1)]": 2,
    "[f(a='a'.upper() + 'b')]": "Ab",
    "[f(a=1 + (2 if True else 3))]": 3,
}


def test_the_only_python_answers_that_upstream_alone_reads_have_code_under_an_operator(oracle: Oracle) -> None:
    upstream = oracle.ask("decode_ast", [{"text": text} for text in EVALUATED])
    assert upstream == [[{"f": {"a": value}}] for value in EVALUATED.values()]
    assert all(crashed(attempt(decode_ast, text)) for text in EVALUATED)


CRASHES: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("an integer beyond any float", {"type": "float"}, [1.0], 10**400),
    ("an unknown type", {"type": "number"}, [1], 1),
    ("no declared type", {}, [1], 1),
    ("no type of items", {"type": "array"}, [[1]], [1]),
    ("an unknown type of items", {"type": "array", "items": {"type": "number"}}, [[1]], [1]),
    ("a list beside a number", {"type": "array", "items": {"type": "string"}}, [["a"], 5], ["a"]),
    ("a list beside a dict", {"type": "array", "items": {"type": "string"}}, [["a"], {"k": "v"}], ["a"]),
    ("a dict against a list", {"type": "dict"}, [{"k": ["v"]}, ["x"]], {"k": "w"}),
    ("a dict whose key allows a number", {"type": "dict"}, [{"k": 1}], {"k": 1}),
    ("a dict for one text", {"type": "dict"}, "name", {}),
    ("numbers where dicts are expected", {"type": "array", "items": {"type": "dict"}}, ["", [{"k": ["v"]}]], [1]),
]


@pytest.mark.parametrize(
    ("declaration", "allowed", "value"), [case[1:] for case in CRASHES], ids=[case[0] for case in CRASHES]
)
def test_where_upstreams_checker_raises_ours_says_so(
    oracle: Oracle, declaration: dict[str, Any], allowed: Any, value: Any
) -> None:
    functions = [{"name": "f", "parameters": {"properties": {"a": declaration}, "required": []}}]
    decoded, answer = [{"f": {"a": value}}], [{"f": {"a": allowed}}]
    item = {"functions": functions, "decoded": decoded, "answer": answer, "language": "Python", "category": "simple"}
    assert crashed(oracle.ask("ast_check", [item])[0])
    outcome = check_calls(functions, decoded, answer, "Python", "simple", underscore_to_dot=False)
    assert (outcome.valid, outcome.error_type) == (False, CRASH)


UNREADABLE_SOURCE = [
    ("integer", "9" * 5000, "Java"),
    ("long", "9" * 5000 + "L", "Java"),
    ("Set", "new HashSet<>()", "Java"),
    ("integer", "9" * 5000, "JavaScript"),
    ("Bigint", "9n\n", "JavaScript"),
]


@pytest.mark.parametrize(("kind", "text", "language"), UNREADABLE_SOURCE)
def test_where_upstreams_converters_raise_ours_says_so(oracle: Oracle, kind: str, text: str, language: str) -> None:
    functions = [{"name": "f", "parameters": {"properties": {"a": {"type": kind}}, "required": []}}]
    decoded, answer = [{"f": {"a": text}}], [{"f": {"a": ["x"]}}]
    item = {"functions": functions, "decoded": decoded, "answer": answer, "language": language, "category": "simple"}
    assert crashed(oracle.ask("ast_check", [item])[0])
    outcome = check_calls(functions, decoded, answer, language, "simple", underscore_to_dot=False)
    assert (outcome.valid, outcome.error_type) == (False, CRASH)


FOUND_BY_MUTATION = [
    ("[f`(a=1)]", "JavaScript"),  # a backtick is part of a name for the pinned grammar, an error for newer ones
    ("[f(a={nm: 'x`'})]", "JavaScript"),
    ('[b(x="\u00e9", y=1)]', "Java"),
]


@pytest.mark.parametrize(("text", "language"), FOUND_BY_MUTATION)
def test_differences_that_were_found_stay_mended(oracle: Oracle, text: str, language: str) -> None:
    assert same(
        attempt(decode_ast, text, language), oracle.ask("decode_ast", [{"text": text, "language": language}])[0]
    )
