"""Right answers to BFCL's single-turn tasks, made of the ground truths: as decoded calls, and as a model's text.

Java and JavaScript values are source text in both, as those models must answer.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from envs.bfcl.dataset import Dataset, Row

LEFT_OUT = object()
CATEGORIES = (
    "simple",
    "multiple",
    "parallel",
    "parallel_multiple",
    "java",
    "javascript",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)


class Choice(NamedTuple):
    """How an answer is made of allowed values."""

    last: bool = False
    """The last allowed value instead of the first, `""` aside."""
    optional: bool = True
    """Whether parameters that may be left out are given."""
    doc_names: bool = False
    """Names of the function docs where the answer's own name isn't among them (simple_363, javascript_41)."""
    bare_items: bool = True
    """Java texts in an Array stand without quotes: upstream keeps the quotes of `new String[]{"a"}` and then rejects it."""


FIRST = Choice()
CHOICES = tuple(Choice(last, optional) for last in (False, True) for optional in (True, False))


def rows(dataset: Dataset) -> Iterator[Row]:
    """All rows that have a single-turn answer."""
    return (row for row in dataset.rows.values() if row.category in CATEGORIES)


def calls(row: Row, choice: Choice = FIRST) -> list[dict[str, dict[str, Any]]]:
    """One right answer as decoded calls (a few rows have none that is right)."""
    return [_call(row, expected, choice) for expected in row.ground_truth or ()]


def text(row: Row, decoded: list[dict[str, dict[str, Any]]]) -> str:
    """Decoded calls as a model in prompt mode writes them."""
    return f"[{', '.join(_call_text(row, call) for call in decoded)}]"


def _call(row: Row, expected: dict[str, Any], choice: Choice) -> dict[str, dict[str, Any]]:
    ((name, allowed),) = expected.items()
    doc = next((doc for doc in row.functions if doc["name"] == name), row.functions[0])
    values = {parameter: _choose(options, choice) for parameter, options in allowed.items()}
    given = {
        parameter: value if row.language == "Python" else source(value, doc, parameter, row.language, choice)
        for parameter, value in values.items()
        if value is not LEFT_OUT
    }
    return {doc["name"] if choice.doc_names else name: given}


def _choose(options: Any, choice: Choice) -> Any:
    """One of the allowed values, or LEFT_OUT."""
    if not isinstance(options, list):
        return _inner(options, choice)
    if "" in options and not choice.optional:
        return LEFT_OUT
    given = [option for option in options if option != ""]
    return _inner(given[-1 if choice.last else 0], choice) if given else LEFT_OUT


def _inner(value: Any, choice: Choice) -> Any:
    """Dicts have lists of allowed values inside."""
    if isinstance(value, dict):
        chosen = {key: _choose(options, choice) for key, options in value.items()}
        return {key: item for key, item in chosen.items() if item is not LEFT_OUT}
    if isinstance(value, list):
        return [_inner(item, choice) for item in value]
    return value


def _call_text(row: Row, call: dict[str, dict[str, Any]]) -> str:
    ((name, given),) = call.items()
    if row.language == "Python":
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"
    return f"{name}({', '.join(f'{key}={_argument(row, key, value)}' for key, value in given.items())})"


def _argument(row: Row, parameter: str, value: str) -> str:
    """A Java or JavaScript argument: texts get the quotes that the decoder takes off again."""
    declared = row.functions[0]["parameters"]["properties"].get(parameter, {"type": "any"})["type"]
    return value if declared != "String" and _SOURCE.match(value) else f'"{value}"'


_SOURCE = re.compile(r"[\w.$-]+$|new |[\[{(]|[\w.]+\(")
"""What can stand in source as it is: a name, a number, a collection or a call."""


def source(value: Any, doc: dict[str, Any], parameter: str, language: str, choice: Choice = FIRST) -> str:
    """A value as source text of its declared type."""
    declaration = doc["parameters"]["properties"].get(parameter, {"type": "any"})
    item = declaration.get("items", {}).get("type")
    if language == "Java":
        return java_source(value, declaration["type"], item, bare_items=choice.bare_items)
    return javascript_source(value)


def java_source(value: Any, kind: str, item: str | None = None, *, bare_items: bool = True) -> str:
    if isinstance(value, list) and kind == "ArrayList":
        return f"new ArrayList<>(Arrays.asList({', '.join(_java_literal(part, item) for part in value)}))"
    if isinstance(value, list):
        bare = kind == "Array" and bare_items
        parts = [str(part) if bare and isinstance(part, str) else _java_literal(part, item) for part in value]
        return f"new {item or 'Object'}[]{{{', '.join(parts)}}}"
    if isinstance(value, dict):
        puts = " ".join(f'put("{key}", {_java_literal(part, None)});' for key, part in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    return value if isinstance(value, str) else _java_literal(value, kind)


def _java_literal(value: Any, kind: str | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value}{'L' if kind == 'long' else 'f' if kind == 'float' else ''}"


def javascript_source(value: Any) -> str:
    return value if isinstance(value, str) else _javascript_literal(value)


def _javascript_literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_javascript_literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_javascript_literal(part)}' for key, part in value.items())}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
