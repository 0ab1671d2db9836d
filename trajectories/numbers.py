"""Token ids, log-probs and their like as bytes that compress well, exact to the last bit.

Values are split into planes (all low halves, then all high halves; all first bytes, then all second ones): the high
planes hardly vary, and zstd makes almost nothing of them.
"""

from array import array
from collections.abc import Sequence

import numpy as np
from pydantic_core import from_json, to_json

_IDS, _ANY_INTS = b"\x00", b"\x01"
_SINGLE, _DOUBLE = b"\x04", b"\x08"


def pack_ints(values: Sequence[int]) -> bytes:
    """Integers below 2**32 take 4 bytes each before compression; any others are kept as JSON text."""
    if not values:
        return b""
    try:
        halves = np.frombuffer(array("I", values), dtype="<u2").reshape(-1, 2)
    except OverflowError:
        return _ANY_INTS + to_json(list(values))
    return _IDS + halves.T.tobytes()


def unpack_ints(packed: bytes) -> list[int]:
    """What `pack_ints` was given. ValueError for bytes that it can't have written."""
    kind, body = packed[:1], packed[1:]
    if not packed:
        return []
    if kind == _ANY_INTS:
        return from_json(body)
    if kind != _IDS:
        raise ValueError(f"Unknown integer packing {kind!r}.")
    return np.frombuffer(body, dtype="<u2").reshape(2, -1).T.copy().view("<u4").ravel().tolist()


def pack_floats(values: Sequence[float]) -> bytes:
    """Four bytes each where float32 holds every value exactly, as log-probs of a local model do, else eight."""
    if not values:
        return b""
    double = np.array(values, dtype="<f8")
    with np.errstate(over="ignore", invalid="ignore"):
        single = double.astype("<f4")
    if single.astype("<f8").tobytes() == double.tobytes():
        return _SINGLE + single.view(np.uint8).reshape(-1, 4).T.tobytes()
    return _DOUBLE + double.view(np.uint8).reshape(-1, 8).T.tobytes()


def unpack_floats(packed: bytes) -> list[float]:
    """What `pack_floats` was given, NaN's bits included. ValueError for bytes that it can't have written."""
    if not packed:
        return []
    kind, body = packed[:1], packed[1:]
    if kind not in (_SINGLE, _DOUBLE):
        raise ValueError(f"Unknown float packing {kind!r}.")
    planes = np.frombuffer(body, dtype=np.uint8).reshape(kind[0], -1)
    return planes.T.copy().view(f"<f{kind[0]}").ravel().astype("<f8").tolist()
