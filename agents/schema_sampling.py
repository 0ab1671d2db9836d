"""Random JSON values that fit a JSON schema: how `scripted:random` fills in arguments.

Covers what tool schemas use: types (also BFCL's `dict`, `float`, `tuple`, `any`), enum, const, anyOf/oneOf, allOf, local
`$ref`, bounds of numbers, lengths of strings and arrays, tuples by `prefixItems`, required and optional properties.
Not covered, so the value may miss it: `pattern`, `format`, `not`, `uniqueItems`, `if`, and `multipleOf` of fractions.
"""

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, cast

Schema = Mapping[str, Any]

WORDS = ("alpha", "beta", "gamma", "delta", "Paris", "report.txt", "42", "2024-01-31", "a b", "")
SPAN = 100
MAX_DEPTH = 6
"""Beyond it optional parts are left out, so that a schema which refers to itself comes to an end."""


def sample(schema: Schema, rng: Random) -> Any:
    """One value that the schema allows. An empty schema allows anything: it gives a word."""
    return _Sampler(schema, rng).value(schema, 0)


class _Sampler:
    def __init__(self, root: Schema, rng: Random) -> None:
        self.root = root
        self.rng = rng
        self.makers: dict[str, Callable[[Schema, int], Any]] = {
            "string": self._string,
            "integer": self._integer,
            "number": self._number,
            "boolean": lambda schema, depth: rng.random() < 0.5,
            "null": lambda schema, depth: None,
            "array": self._array,
            "object": self._object,
        }

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return self._string({}, depth)
        schema = self._resolve(cast("Schema", schema), depth)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self.rng.choice(list(schema["enum"]))
        return self.makers[self._kind(schema)](schema, depth)

    def _resolve(self, schema: Schema, depth: int) -> Schema:
        """The schema with `$ref`, `allOf` and one alternative of `anyOf` or `oneOf` merged into it."""
        merged = dict(schema)
        for _ in range(16):
            parts: list[Any] = [self._target(merged.pop("$ref"))] if "$ref" in merged else []
            parts.extend(merged.pop("allOf", ()))
            choices = [merged.pop(key) for key in ("anyOf", "oneOf") if merged.get(key)]
            parts.extend(options[-1] if depth > MAX_DEPTH else self.rng.choice(options) for options in choices)
            if not parts:
                break
            merged = _merge(merged, parts)
        return merged

    def _target(self, reference: Any) -> Any:
        node: Any = self.root
        for part in str(reference).removeprefix("#").strip("/").split("/"):
            node = node.get(part.replace("~1", "/").replace("~0", "~"), {}) if isinstance(node, Mapping) else {}
        return node

    def _kind(self, schema: Schema) -> str:
        named = schema.get("type")
        if isinstance(named, list) and named:
            named = self.rng.choice(cast("list[Any]", named))
        aliases = {"dict": "object", "float": "number", "double": "number", "tuple": "array", "list": "array"}
        named = aliases.get(str(named), str(named))
        if named in self.makers:
            return named
        if "properties" in schema:
            return "object"
        return "array" if "items" in schema or "prefixItems" in schema else "string"

    def _string(self, schema: Schema, depth: int) -> str:
        text = self.rng.choice(WORDS)
        low, high = schema.get("minLength", 0), schema.get("maxLength")
        return text.ljust(int(low), "x")[: None if high is None else int(high)]

    def _bounds(self, schema: Schema) -> tuple[float, float]:
        low = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
        high = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
        if math.isinf(low):
            low = 0.0 if math.isinf(high) else high - SPAN
        return float(low), float(low + SPAN if math.isinf(high) else high)

    def _integer(self, schema: Schema, depth: int) -> int:
        low, high = self._bounds(schema)
        first, last = math.ceil(low), math.floor(high)
        first += schema.get("exclusiveMinimum") == first
        last -= schema.get("exclusiveMaximum") == last
        step = int(schema.get("multipleOf", 1)) or 1
        first, last = -(-first // step), last // step
        return self.rng.randint(first, max(first, last)) * step

    def _number(self, schema: Schema, depth: int) -> float:
        if float(schema.get("multipleOf", 0.5)).is_integer():
            return float(self._integer(schema, depth))
        low, high = self._bounds(schema)
        # Well inside, so that exclusive bounds hold; rounded where that stays inside, for short texts.
        drawn = low + (high - low) * self.rng.uniform(0.01, 0.99)
        return round(drawn, 2) if low < round(drawn, 2) < high else drawn

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        fixed = [self.value(item, depth + 1) for item in schema.get("prefixItems", ())]
        low = int(schema.get("minItems", 0 if depth > MAX_DEPTH else 1))
        high = int(schema.get("maxItems", max(low, 3)))
        length = max(len(fixed), self.rng.randint(low, max(low, high)) if depth <= MAX_DEPTH else low)
        if schema.get("items") is False:
            return fixed
        return fixed + [self.value(schema.get("items", {}), depth + 1) for _ in range(length - len(fixed))]

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        required = [str(name) for name in schema.get("required", ())]
        properties: Mapping[str, Any] = schema.get("properties", {})
        extra = [name for name in properties if name not in required and self.rng.random() < 0.5]
        chosen = required if depth > MAX_DEPTH else [*required, *extra]
        return {name: self.value(properties.get(name, {}), depth + 1) for name in chosen}


def _merge(base: dict[str, Any], parts: list[Any]) -> dict[str, Any]:
    """Later keys win, but `properties` and `required` add up."""
    merged: dict[str, Any] = dict(base)
    for part in parts:
        for key, value in dict(part if isinstance(part, Mapping) else {}).items():
            if key == "properties":
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required":
                merged[key] = list(dict.fromkeys([*merged.get(key, ()), *value]))
            else:
                merged[key] = value
    return merged
