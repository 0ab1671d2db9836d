"""The imports that upstream runs before every solution (spec 1.5): in this order, since later names hide earlier ones."""

_STARRED = (
    "string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics", "itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing",
)  # fmt: skip
_PLAIN = _STARRED[:-2]

PRELUDE = "".join(
    [
        *(f"from {name} import *\n" for name in _STARRED),
        *(f"import {name}\n" for name in _PLAIN),
        "sys.setrecursionlimit(50000)\n",
    ]
)
"""`pow` is the builtin one, `datetime` the module, `open` the real one."""

INT_DIGITS = 50_000
"""Longest int that may be converted to or from text, in digits."""
