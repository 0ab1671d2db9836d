"""When a returned value is the expected one: upstream's rules (`official`), and the right ones (`strict`). See spec 2.4.

Source: evalplus at 26d6d00, `unsafe_execute`, and its special oracles. What `official` reproduces of it, odd as it is:
- once a float was expected, the tolerance of 1e-6 stays for all later tests of the call, also for whole numbers;
- with a tolerance the exact type must be the same, so `numpy.float64` near a `float` fails; without one `==` decides, so 2 is 2.0;
- NaN never equals NaN;
- eight tasks compare sets, three ask only whether there is a result, `find_zero` only whether it is a root.

`strict` has a tolerance exactly where a float is expected, whatever number type it is met by, and takes NaN for NaN.
Known difference of both from upstream: values are compared outside the jail, so an object with an `__eq__` of its own counts as the
builtin it holds, or fails, and `find_zero` is checked on the coefficients that were sent, not on what the code made of them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from envs.evalplus.problems import Problem, TestSet
from envs.evalplus.references import References
from envs.sandbox import values
from envs.sandbox.results import CallResult, Status

RELATIVE = 1e-7
FLOAT_TOLERANCE = 1e-6
MAX_ROOT_BITS = 4096
_CANT_COMPARE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


class _Odd:
    """Stands for a result of a type that has no form outside the jail."""


class _Comparing(ABC):
    """What both graders share. One object judges one set of tests of one task."""

    def __init__(self, problem: Problem, tests: TestSet, references: References) -> None:
        self._also = _ALSO.get(problem.entry_point) if problem.category == "mbpp" else None
        self._comparison = problem.comparison
        self._any = problem.category == "mbpp" and problem.entry_point == "are_equivalent"
        self._atol = problem.atol
        self._problem = problem
        self._tests: TestSet = tests
        self._references = references

    def passes(self, index: int, result: CallResult) -> bool:
        """`result` is one that was not decoded."""
        if self._any:
            return result.status is Status.OK
        if self._comparison != "root" and self._same_bytes(index, result):
            return True
        out = self._value(result)
        try:
            return out is not values.Undecodable and not self._too_much(index, out) and self._holds(index, out)
        except _CANT_COMPARE:
            return False

    def _too_much(self, index: int, out: Any) -> bool:
        """An array that numpy would spread over the whole of what is expected."""
        return values.array_items(out) > 1 and values.spreads_too_far(out, self._references.value(index))

    @abstractmethod
    def _holds(self, index: int, out: Any) -> bool:
        """Whether a decoded result is the expected one, by this grader's rules."""

    def _same_bytes(self, index: int, result: CallResult) -> bool:
        """The same bytes are the same value, unless there is a NaN in it."""
        return result.status is Status.OK and self._references.same(index, result.body) and b"NaN" not in result.body

    def _value(self, result: CallResult) -> Any:
        if result.status is Status.UNDECODABLE and self._comparison == "something":
            return _Odd()
        if result.status is not Status.OK:
            return values.Undecodable
        try:
            return values.decode(result.body)
        except values.Undecodable:
            return values.Undecodable

    @cached_property
    def _inputs(self) -> Sequence[Sequence[Any]]:
        return self._problem.inputs(self._tests)

    def _special(self, index: int, out: Any, exp: Any, atol: float) -> Any:
        """Upstream's exact equality, with the tasks that have one of their own."""
        if self._comparison == "sets":
            return values.as_set(out) == set(exp)
        if self._comparison == "something":
            return out == exp if isinstance(out, bool) else (out is not None) == exp
        return out == exp or (self._also is not None and self._also(out, self._inputs[index], atol))


class Official(_Comparing):
    """Upstream's rules, in its order."""

    def _holds(self, index: int, out: Any) -> bool:
        if self._comparison == "root":
            return bool(abs(_upstream_polynomial(self._inputs[index][0], out)) <= self._atol)
        exp = self._references.value(index)
        if _holds_nan(exp):
            return False
        exact = self._special(index, out, exp, self._tolerance(index))
        atol = self._tolerance(index + 1)
        if exact or atol == 0:
            return bool(exact)
        return type(out) is type(exp) and _same_length(out, exp) and _all_close(out, exp, atol)

    def _tolerance(self, index: int) -> float:
        """The tolerance after `index` tests."""
        return self._atol or (FLOAT_TOLERANCE if index > self._first_floats else 0.0)

    @cached_property
    def _first_floats(self) -> float:
        """Index of the first test that expects floats."""
        return next((index for index in range(len(self._references)) if self._references[index].floats), math.inf)


class Strict(_Comparing):
    """Equality of values, with a tolerance where a float is expected."""

    def _holds(self, index: int, out: Any) -> bool:
        if self._comparison == "root":
            return _is_number(out) and bool(abs(_polynomial(self._inputs[index][0], out)) <= self._atol)
        exp = self._references.value(index)
        if self._comparison != "value":
            return bool(self._special(index, out, exp, self._atol))
        return equal(out, exp, self._atol) or (
            self._also is not None and bool(self._also(out, self._inputs[index], self._atol or FLOAT_TOLERANCE))
        )


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    if isinstance(x, int) and x.bit_length() > MAX_ROOT_BITS:
        return math.inf
    return sum(coefficient * x**power for power, coefficient in enumerate(coefficients))


def _upstream_polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """In floats, as upstream: whole numbers of numpy would wrap around, and could be chosen to end at 0."""
    return sum(coefficient * math.pow(x, power) for power, coefficient in enumerate(coefficients))


def _zero_too(out: Any, inputs: Sequence[Any], atol: float) -> Any:
    return out == 0


def _surface_too(out: Any, inputs: Sequence[Any], atol: float) -> Any:
    """A square pyramid's surface, rounded."""
    base, height = inputs
    return abs(out - round(base**2 + 2 * base * math.sqrt((base / 2) ** 2 + height**2))) <= atol


def _digits_too(out: Any, inputs: Sequence[Any], atol: float) -> Any:
    """The digits' differences with the shorter number padded by zeros."""
    one, other = map(str, inputs)
    width = max(len(one), len(other))
    return out == sum(abs(int(a) - int(b)) for a, b in zip(one.zfill(width), other.zfill(width), strict=True))


_ALSO: Mapping[str, Callable[[Any, Sequence[Any], float], Any]] = {
    "sum_div": _zero_too,
    "surface_Area": _surface_too,
    "digit_distance_nums": _digits_too,
}
"""Tasks with another answer that is right as well."""


def _holds_nan(value: Any) -> bool:
    """Whether there is a NaN in it: decoded ones are one object, which containers would take for equal."""
    if isinstance(value, dict):
        return any(map(_holds_nan, cast("dict[Any, Any]", value).values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_holds_nan, cast("Sequence[Any]", value)))
    return isinstance(value, float | complex) and value != value


def _same_length(out: Any, exp: Any) -> bool:
    return not isinstance(exp, list | tuple) or len(out) == len(cast("Sequence[Any]", exp))


def _all_close(out: Any, exp: Any, atol: float) -> bool:
    import numpy as np

    with np.errstate(all="ignore"):
        if math.prod(np.broadcast_shapes(np.shape(out), np.shape(exp))) > values.MAX_SPREAD:
            return False
        return bool(np.allclose(out, exp, rtol=RELATIVE, atol=atol))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def equal(out: Any, exp: Any, atol: float) -> bool:
    out, exp = _plain(out), _plain(exp)
    if isinstance(exp, float | complex):
        return _near(out, exp, atol)
    if isinstance(exp, list | tuple):
        return type(out) is type(exp) and _all_equal(out, cast("Sequence[Any]", exp), atol)
    if isinstance(exp, dict):
        return isinstance(out, dict) and _dicts_equal(cast("dict[Any, Any]", out), cast("dict[Any, Any]", exp), atol)
    return bool(out == exp) or (bool(atol) and isinstance(exp, int) and _near(out, exp, atol))


def _near(out: Any, exp: complex, atol: float) -> bool:
    if not isinstance(out, int | float | complex):
        return False
    if out == exp or (out != out and exp != exp):
        return True
    distance = abs(out - exp)
    return math.isfinite(abs(exp)) and distance <= max(atol, FLOAT_TOLERANCE) + RELATIVE * abs(exp)


def _all_equal(out: Sequence[Any], exp: Sequence[Any], atol: float) -> bool:
    return len(out) == len(exp) and all(equal(one, other, atol) for one, other in zip(out, exp, strict=True))


def _dicts_equal(out: dict[Any, Any], exp: dict[Any, Any], atol: float) -> bool:
    return out.keys() == exp.keys() and all(equal(out[key], value, atol) for key, value in exp.items())


def _plain(value: Any) -> Any:
    """A numpy number as the Python number it is."""
    return value.item() if getattr(value, "shape", None) == () else value
