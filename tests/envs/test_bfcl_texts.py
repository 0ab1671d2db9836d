"""BFCL's prompts and tools. That they equal upstream's is shown by `tests/parity/test_episodes.py`."""

from pathlib import Path
from typing import Any

import pytest

from envs import data
from envs.bfcl import prompts, schemas
from trajectories.failures import InputError


def doc(**properties: Any) -> dict[str, Any]:
    return {
        "name": "a.b",
        "description": "Does it.",
        "parameters": {"type": "dict", "properties": properties, "required": []},
    }


def test_official_texts_are_read_from_the_wheel_and_ours_are_other_words(bfcl_data: Path) -> None:
    pulled = data.current("bfcl-v3")
    assert pulled is not None
    official = prompts.official_texts(pulled.path)
    for field, text in official._asdict().items():
        if isinstance(text, str):
            assert text
            assert text.count("{}") == getattr(prompts.OURS, field).count("{}"), field
            assert text != getattr(prompts.OURS, field)
    assert set(official.notes) == {"Python", "Java", "JavaScript"} == set(prompts.OURS.notes)
    for language, notes in official.notes.items():
        counts = [text.count("{}") for text in notes]
        assert counts == [text.count("{}") for text in prompts.OURS.notes[language]], language


@pytest.mark.parametrize("damage", ["missing", "no python", "other names"])
def test_texts_of_another_shape_are_refused_with_the_way_out(tmp_path: Path, damage: str) -> None:
    contents = {"no python": "def (", "other names": "PROMPT = 'x'"}
    if damage != "missing":
        for name in (prompts.PROMPT_CONSTANTS, prompts.DOC_NOTES):
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_text(contents[damage])
    with pytest.raises(InputError, match="--texts ours"):
        prompts.official_texts(tmp_path)


def test_documents_of_the_data_are_never_changed() -> None:
    original = doc(x={"type": "ArrayList", "description": "d", "items": {"type": "float"}})
    before = repr(original)
    (annotated,) = schemas.annotated([original], "Java", prompts.OURS)
    schemas.native_tool(annotated, prompts.OURS)
    assert repr(original) == before


def test_java_parameters_are_strings_that_say_what_they_hold() -> None:
    (annotated,) = schemas.annotated(
        [doc(x={"type": "ArrayList", "description": "Ids.", "items": {"type": "long"}}, y={"type": "any"})],
        "Java",
        prompts.OURS,
    )
    x, y = annotated["parameters"]["properties"].values()
    assert (x["type"], y["type"]) == ("string", "string")
    assert "items" not in x
    assert "ArrayList" in x["description"]
    assert "long" in x["description"]


def test_native_tools_know_json_types_alone() -> None:
    tool = schemas.native_tool(
        doc(
            a={"type": "float", "description": "f"},
            b={"type": "tuple", "description": "t", "items": {"type": "dict", "properties": {"k": {"type": "float"}}}},
            c={"type": "any", "description": "a"},
            d={"type": "HashMap", "description": "h", "properties": {"k": {"type": "Strange"}}},
            e={"description": "untyped"},
            f={"type": "array", "description": "l", "items": {"type": "array", "items": {"type": "double"}}},
        ),
        prompts.OURS,
    )
    a, b, c, d, e, f = tool.parameters["properties"].values()  # type: ignore[union-attr]
    assert tool.name == "a_b"
    assert tool.parameters["type"] == "object"
    assert (a["type"], a["format"], a["description"]) == ("number", "float", "f" + prompts.OURS.float_note)
    assert (b["type"], b["items"]["type"], b["items"]["properties"]["k"]["type"]) == ("array", "object", "number")
    assert (c["type"], d["type"], d["properties"]["k"]["type"], e["type"]) == ("string", "object", "string", "string")
    assert (f["items"]["type"], f["items"]["items"]["type"]) == ("array", "number")
