"""Decoding distrusts every byte."""

import json
import time

import pytest

from envs.sandbox import supervisor, values

BOMBS = {
    "not json": b"\xff\xfe",
    "cut off": b"[1, 2",
    "unknown tag": b'{"x": 1}',
    "two tags": b'{"t": [], "s": []}',
    "tuple of a number": b'{"t": 1}',
    "unhashable item": b'{"s": [[1]]}',
    "odd dict": b'{"d": [1]}',
    "deep list": b"[" * 100_000 + b"]" * 100_000,
    "deep tuple": b'{"t":[' * 900 + b"]}" * 900,
    "three hundred lists": b"[" * 300 + b"]" * 300,
    "long int in decimals": b"1" * 1_000_000,
    "hex that is none": b'{"i": "0xz"}',
    "hex in words": b'{"i": "12"}',
    "bad base 64": b'{"b": "!!"}',
    "array of objects": b'{"n": ["O", [1], "AAAAAAAAAAA="]}',
    "array larger than its bytes": b'{"n": ["<f8", [1000000000000], "AAAAAAAAAAA="]}',
    "array of negative size": b'{"n": ["<f8", [-1, -1], "AAAAAAAAAAA="]}',
    "array of empty items": b'{"n": ["<U0", [1000000000000], ""]}',
    "structured array": b'{"n": ["i4,i4", [1], "AAAAAAAAAAA="]}',
    "type that is a program": b'{"n": ["(((", [1], "AAAAAAAAAAA="]}',
    "type of dates": b'{"n": ["<M8[s]", [1], "AAAAAAAAAAA="]}',
    "scalar with a shape": b'{"g": ["<f8", [1], "AAAAAAAAAAA="]}',
    "fraction over zero": b'{"q": [1, 0]}',
    "fraction of long ints": b'{"q": [{"i": "0x' + b"f" * 500_000 + b'"}, {"i": "0x' + b"d" * 500_000 + b'"}]}',
    "decimal that is none": b'{"m": "one"}',
    "range of step zero": b'{"r": [0, 1, 0]}',
    "complex of text": b'{"c": ["1", 2]}',
    "equal hashes": json.dumps({"s": [n * (2**61 - 1) for n in range(1, 20_000)]}).encode(),
    "colliding keys": json.dumps({"s": [n << 40 for n in range(60_000)]}).encode(),
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_undecodable_and_soon_found(body: bytes) -> None:
    started = time.process_time()
    with pytest.raises(values.Undecodable):
        values.decode(body)
    assert time.process_time() - started < 1


def test_an_input_that_is_no_data_is_refused() -> None:
    with pytest.raises(values.Unsendable, match="builtin data"):
        values.encode_call("call", "f", [object()], {})


def test_what_the_jail_packs_is_what_the_host_decodes() -> None:
    value = {"a": [(1, {2}), frozenset({b"x"}), 1j, 10**5000, None], (1,): {"b": [True, 2.5]}}
    kind, body = supervisor.encode(value)
    assert (kind, values.decode(body)) == (b"V", value)


@pytest.mark.parametrize("make", [object, lambda: (n for n in ()), lambda: int, lambda: print, lambda: map(str, [])])
def test_a_type_without_a_form_is_named(make: object) -> None:
    kind, body = supervisor.encode(make())  # type: ignore[operator]
    assert kind == b"U"
    assert b"." in body


def test_a_value_within_itself_has_no_form() -> None:
    value: list[object] = []
    value.append(value)
    assert supervisor.encode(value)[0] == b"U"
