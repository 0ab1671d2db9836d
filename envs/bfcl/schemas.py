"""How a BFCL function doc becomes what the model sees: the notes added to it, and the tool of function calling.

Both follow upstream's pre-processing (spec A2): Java and JavaScript values are passed as source text, so their
parameters are declared as strings; the JSON schema of function calling knows fewer types than the docs; and a tool's
name may hold no dot. Known difference: a doc's `response` schema, which upstream hands to the endpoint as a key that
no tool schema has, is left out of the native tools (in prompt mode it stands in the doc as it does upstream).
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from envs.bfcl.prompts import DocNotes, Texts
from trajectories.schema import ToolSpec

JSON_TYPES: dict[str, str] = {
    "string": "string", "any": "string", "Any": "string", "String": "string", "char": "string",
    "integer": "integer", "byte": "integer", "short": "integer", "long": "integer", "Bigint": "integer",
    "number": "number", "float": "number", "double": "number",
    "boolean": "boolean", "bool": "boolean",
    "array": "array", "list": "array", "tuple": "array", "Array": "array", "ArrayList": "array", "Queue": "array", "Stack": "array",
    "dict": "object", "object": "object", "HashMap": "object", "Hashtable": "object",
}  # fmt: skip
"""The docs' types in JSON schema; any other is a string."""

_LIST_TYPES = {"Java": ("Array", "ArrayList"), "JavaScript": ("array",)}


def annotated(docs: Sequence[Mapping[str, Any]], language: str, texts: Texts) -> list[dict[str, Any]]:
    """Copies of the docs with the language's notes appended, and source-text parameters declared as strings."""
    notes = texts.notes[language]
    return [_annotate(deepcopy(dict(doc)), notes, language) for doc in docs]


def _annotate(doc: dict[str, Any], notes: DocNotes, language: str) -> dict[str, Any]:
    doc["description"] = doc.get("description", "") + notes.language
    if language != "Python":
        for parameter in doc["parameters"]["properties"].values():
            _as_source_text(parameter, notes, language)
    return doc


def _as_source_text(parameter: dict[str, Any], notes: DocNotes, language: str) -> None:
    declared = parameter.get("type", "any")
    note = notes.any_type if declared == "any" else notes.typed.replace("{}", declared)
    if declared in _LIST_TYPES[language] and "items" in parameter:
        note += notes.items.replace("{}", str(parameter.pop("items").get("type", "any")))
    if language == "JavaScript" and declared == "dict" and "properties" in parameter:
        note += notes.entries.replace("{}", json.dumps(parameter.pop("properties")))
    parameter["description"] = parameter.get("description", "") + note
    parameter["type"] = "string"


def tool_name(name: str) -> str:
    """A doc's name as a native tool's: endpoints allow no dots."""
    return name.replace(".", "_")


def native_tool(doc: Mapping[str, Any], texts: Texts) -> ToolSpec:
    """An annotated doc as the tool of function calling."""
    parameters = deepcopy(dict(doc["parameters"]))
    parameters["type"] = "object"
    for schema in parameters.get("properties", {}).values():
        _to_json_schema(schema, texts)
    return ToolSpec(name=tool_name(doc["name"]), description=doc["description"], parameters=parameters)


def _to_json_schema(schema: dict[str, Any], texts: Texts) -> None:
    declared = schema.get("type", "string")
    if declared == "float":
        schema["format"] = "float"
        schema["description"] = schema.get("description", "") + texts.float_note
    schema["type"] = JSON_TYPES.get(declared, "string")
    if schema["type"] not in ("array", "object"):
        return
    if "properties" in schema:
        for inner in schema["properties"].values():
            _to_json_schema(inner, texts)
    elif "items" in schema:
        _items_to_json_schema(schema["items"], texts)


def _items_to_json_schema(items: dict[str, Any], texts: Texts, depth: int = 0) -> None:
    """Upstream goes two lists deep, adds no note to an element, and converts the entries of a list of dicts."""
    items["type"] = JSON_TYPES.get(items.get("type", "string"), "string")
    if depth == 0 and items["type"] == "array" and "items" in items:
        _items_to_json_schema(items["items"], texts, depth + 1)
    elif depth == 0 and items["type"] == "object" and "properties" in items:
        for inner in items["properties"].values():
            _to_json_schema(inner, texts)
