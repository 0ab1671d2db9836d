"""How values travel between the tests and the oracle: JSON, with what JSON can't say wrapped in a tagged object.

Decoded calls hold tuples, bytes, complex numbers, infinities and keys that are no strings, and a checker tells them
apart by `type()`. Used on both sides, so standard library only.
"""

import json
import math
from typing import Any


def dumps(value: Any) -> str:
    return json.dumps(pack(value), allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes) -> Any:
    return unpack(json.loads(text))


def pack(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if abs(value) < 10**300 else {"$": "int", "v": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$": "float", "v": repr(value)}
    if kind is list:
        return [pack(item) for item in value]
    if kind is dict and "$" not in value and all(type(key) is str for key in value):
        return {key: pack(item) for key, item in value.items()}
    return _tagged(value)


def _tagged(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind is dict:
        return {"$": "dict", "v": [[pack(key), pack(item)] for key, item in value.items()]}
    if kind in (tuple, set):
        return {"$": kind.__name__, "v": [pack(item) for item in value]}
    if kind is bytes:
        return {"$": "bytes", "v": value.hex()}
    if kind is complex:
        return {"$": "complex", "v": repr(value)}
    return {"$": "other", "v": [kind.__name__, repr(value)]}


_UNTAG = {
    "int": lambda text: int(text, 16),
    "float": float,
    "dict": lambda pairs: {unpack(key): unpack(item) for key, item in pairs},
    "tuple": lambda items: tuple(unpack(item) for item in items),
    "set": lambda items: {unpack(item) for item in items},
    "bytes": bytes.fromhex,
    "complex": complex,
    "other": tuple,
}


def unpack(value: Any) -> Any:
    if type(value) is list:
        return [unpack(item) for item in value]
    if type(value) is not dict:
        return value
    if "$" in value:
        return _UNTAG[value["$"]](value["v"])
    return {key: unpack(item) for key, item in value.items()}
