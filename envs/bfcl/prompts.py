"""What a BFCL model is told: the official wording, read from the pulled wheel, or ours.

Nothing of upstream's wording stands in this project. `official_texts` reads the string constants out of two source
files of the wheel by their syntax tree: nothing of it is imported or run. `OURS` says the same in other words, for
episodes that need no wheel.
"""

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from trajectories.failures import InputError

PROMPT_CONSTANTS = Path("bfcl_eval/constants/default_prompts.py")
DOC_NOTES = Path("bfcl_eval/model_handler/utils.py")


class DocNotes(NamedTuple):
    """What is appended to a function's and its parameters' descriptions in one language. `{}` is filled in.

    The last four matter where values are passed as source text (Java and JavaScript) and are empty for Python.
    """

    language: str
    any_type: str = ""
    typed: str = ""
    items: str = ""
    entries: str = ""


class Texts(NamedTuple):
    """All wording that an episode adds to the data's own. `{}` is where the function docs go."""

    system: str
    reveal: str
    """The user message of a reveal turn where tools are passed natively."""
    reveal_docs: str
    """The same in prompt mode: the docs come along."""
    notes: Mapping[str, DocNotes]
    """By language: Python, Java, JavaScript."""
    float_note: str


OURS = Texts(
    system=(
        "You answer by calling functions. Read the user's request, pick the functions that serve it from the list below, and "
        "call them.\n"
        "When no function in the list fits the request, say so. When the request leaves out a value that a function needs, say "
        "which one is missing.\n"
        "An answer that calls functions is one line and nothing else, in this form:\n"
        "[first_function(name=value, other=value), second_function(name=value)]\n"
        "The results come back to you, and you may then call again. Go on until the request of the current turn is done. An "
        "answer without a call hands the turn back to the user.\n\n"
        "The functions, as a Python list:\n{}\n"
    ),
    reveal="There are further functions now. Please try again with them.",
    reveal_docs="{}\nThese are further functions. Please try again with them.",
    notes={
        "Python": DocNotes(" Pass the arguments as Python 3 values."),
        "Java": DocNotes(
            " Pass the arguments as Java 8 source text.",
            " Give any Java object, written as source text.",
            " Give a Java {} written as source text.",
            " Its elements have the type {}, written as they stand in source.",
        ),
        "JavaScript": DocNotes(
            " Pass the arguments as JavaScript source text.",
            " Give any JavaScript value, written as source text.",
            " Give a JavaScript {} written as source text.",
            " Its elements have the type {}, written as they stand in source.",
            " Its entries follow this schema, written as they stand in source: {}",
        ),
    },
    float_note=" A floating-point number.",
)


def system_prompt(texts: Texts, docs: Sequence[Mapping[str, Any]]) -> str:
    """The prompt mode's system message: the docs stand in it as Python prints a list of dicts."""
    return texts.system.replace("{}", repr(list(docs)))


def reveal_message(texts: Texts, docs: Sequence[Mapping[str, Any]]) -> str:
    """The prompt mode's user message that hands over the functions held out so far."""
    return texts.reveal_docs.replace("{}", repr(list(docs)))


def official_texts(data: Path) -> Texts:
    """The wording of the pulled wheel; InputError where its files are missing or have another shape."""
    return _read(data)


@cache
def _read(data: Path) -> Texts:
    constants = _string_constants(_parse(data / PROMPT_CONSTANTS))
    functions = {node.name: node for node in ast.walk(_parse(data / DOC_NOTES)) if isinstance(node, ast.FunctionDef)}
    try:
        java_hint, javascript_hint, python_hint = _templates(functions["_get_language_specific_hint"], ast.Return)
        notes = _templates(functions["func_doc_language_specific_pre_processing"], ast.AugAssign)
        (float_note,) = _templates(functions["_cast_to_openai_type"], ast.AugAssign)
        return Texts(
            constants["DEFAULT_SYSTEM_PROMPT"].replace("{functions}", "{}"),
            constants["DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC"],
            constants["DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING"].replace("{functions}", "{}"),
            {
                "Python": DocNotes(python_hint),
                "Java": DocNotes(java_hint, *notes[:3]),
                "JavaScript": DocNotes(javascript_hint, *notes[3:]),
            },
            float_note,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"The prompt texts in {str(data)!r} have a shape that this version can't read ({error!r}): "
            "pull the pinned data with 'harness data pull bfcl-v3', or play with '--texts ours'."
        ) from error


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(
            f"The official prompt texts can't be read from {str(path)!r} ({error}): "
            "pull the whole wheel with 'harness data pull bfcl-v3', or play with '--texts ours'."
        ) from error


def _string_constants(module: ast.Module) -> dict[str, str]:
    """Module-level names bound to strings, or to sums of strings and such names."""
    known: dict[str, str] = {}
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = _string_value(node.value, known)
            if value is not None:
                known[node.targets[0].id] = value
    return known


def _string_value(node: ast.expr, known: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _string_value(node.left, known), _string_value(node.right, known)
        return None if left is None or right is None else left + right
    return None


def _templates(function: ast.FunctionDef, kind: type[ast.Return] | type[ast.AugAssign]) -> list[str]:
    """The string values of a function's returns or `+=`, in source order; what an f-string fills in becomes `{}`."""
    nodes = sorted((node for node in ast.walk(function) if isinstance(node, kind)), key=lambda node: node.lineno)
    return [text for node in nodes if (text := _template(node.value)) is not None]


def _template(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None
