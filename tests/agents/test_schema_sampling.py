"""Random arguments keep to their schema."""

from random import Random
from typing import Any

import pytest

from agents.schema_sampling import sample


def draw(schema: dict[str, Any], n: int = 200) -> list[Any]:
    return [sample(schema, Random(seed)) for seed in range(n)]


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"type": "string"}, lambda v: isinstance(v, str)),
        ({"type": "string", "minLength": 4, "maxLength": 6}, lambda v: 4 <= len(v) <= 6),
        ({"type": "integer"}, lambda v: type(v) is int),
        ({"type": "integer", "minimum": 3, "maximum": 5}, lambda v: 3 <= v <= 5),
        ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}, lambda v: v == 4),
        ({"type": "integer", "minimum": 10, "multipleOf": 7}, lambda v: v >= 10 and v % 7 == 0),
        ({"type": "integer", "maximum": -2}, lambda v: v <= -2),
        ({"type": "number"}, lambda v: isinstance(v, float)),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.001}, lambda v: 0 < v < 0.001),
        ({"type": "float"}, lambda v: isinstance(v, float)),
        ({"type": "boolean"}, lambda v: isinstance(v, bool)),
        ({"type": "null"}, lambda v: v is None),
        ({"type": ["integer", "null"]}, lambda v: v is None or isinstance(v, int)),
        ({"enum": ["a", 1, None]}, lambda v: v in ("a", 1, None)),
        ({"const": {"a": 1}}, lambda v: v == {"a": 1}),
        ({"type": "any"}, lambda v: isinstance(v, str)),
        ({"type": "array", "items": {"type": "boolean"}}, lambda v: v and all(isinstance(x, bool) for x in v)),
        ({"type": "array", "minItems": 5, "maxItems": 5}, lambda v: len(v) == 5),
        ({"type": "tuple", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": False}, lambda v: len(v) == 2 and isinstance(v[1], bool)),
        ({"type": "dict", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]}, lambda v: set(v) == {"a", "b"}),
        ({"properties": {"a": {"type": "integer"}}}, lambda v: v == {} or isinstance(v["a"], int)),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, lambda v: isinstance(v, int)),
        ({"allOf": [{"type": "object", "required": ["a"]}, {"required": ["b"]}]}, lambda v: set(v) == {"a", "b"}),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}}, lambda v: isinstance(v, int)),
        ({"items": {"type": "integer"}}, lambda v: all(isinstance(x, int) for x in v)),
    ],
)  # fmt: skip
def test_a_sample_fits_its_schema(schema: dict[str, Any], fits: Any) -> None:
    assert all(fits(value) for value in draw(schema))


def test_alternatives_and_optional_parts_all_come_up() -> None:
    assert {type(v) for v in draw({"oneOf": [{"type": "integer"}, {"type": "string"}]})} == {int, str}
    assert {len(v) for v in draw({"type": "object", "properties": {"a": {}, "b": {}}})} == {0, 1, 2}


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "kids": {"type": "array", "items": {"$ref": "#"}}}}
    assert all(isinstance(value, dict) for value in draw(tree))


def test_the_same_seed_gives_the_same_value() -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in "abcdef"}}
    assert draw(schema) == draw(schema)
