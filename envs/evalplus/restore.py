"""MBPP+ inputs with the types that JSON lost, by task number (spec 2.1). HumanEval+ loses none.

Source: evalplus at 26d6d00, `mbpp_deserialize_inputs`. Tasks that v0.2.0 no longer has are in it all the same: older files are
read too.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Change = Callable[[Any], Any]


def _items(change: Change) -> Change:
    return lambda values: [change(value) for value in values]


def _tuple_of(change: Change) -> Change:
    return lambda values: tuple(change(value) for value in values)


def _at(**changes: Change) -> Change:
    """Changes of single arguments, by position: `a0`, `a1`."""
    return lambda arguments: [changes.get(f"a{index}", _same)(value) for index, value in enumerate(arguments)]


def _same(value: Any) -> Any:
    return value


def _tuple_if_list(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _deep(value: Any) -> Any:
    return tuple(map(_deep, value)) if isinstance(value, list) else value


def _dict_of_tuples(value: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: tuple(item) for key, item in value.items()}


def _set_or_dict(value: Any) -> Any:
    return set(value) if value else {}


_TABLE: tuple[tuple[Iterable[int], Change], ...] = (
    ((2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809), _items(tuple)),
    ((63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780), _items(_items(tuple))),
    ((75, 413, 444, 753), _at(a0=_items(tuple))),
    ((106, 750), _at(a1=tuple)),
    ((115,), _at(a0=_items(_set_or_dict))),
    ((124,), _at(a0=float, a1=complex)),
    ((250, 405, 446, 617, 720, 763, 808, 307), _at(a0=tuple)),
    ((259, 401, 445), _items(_tuple_of(tuple))),
    ((278,), _at(a0=_tuple_of(_tuple_if_list))),
    ((722,), _at(a0=_dict_of_tuples)),
    ((252,), _at(a0=complex)),
    ((580, 615, 791), _items(_deep)),
)  # fmt: skip
CHANGES: Mapping[str, Change] = {f"Mbpp/{number}": change for numbers, change in _TABLE for number in numbers}


def restored(task_id: str, inputs: Iterable[Any]) -> list[list[Any]]:
    """The argument lists of one task. ValueError or TypeError where they haven't the shape that the task's have."""
    change = CHANGES.get(task_id, _same)
    return [list(change(arguments)) for arguments in inputs]
