"""Stored bytes that no value of their type has: text, or an error that says so, and nothing else. With NUMBA_BOUNDSCHECK=1 no kernel reads or writes
beyond its arrays."""

from __future__ import annotations

import random
import struct

import pytest
from types_vectors import NAMED, names, pg_type, rows

from tailrace.errors import CorruptWal, TailraceError
from tailrace.types.codec import ArrowStyle, format_binary, format_values, has_binary, to_arrow
from tailrace.types.values import Values

SEED = 20
TRIALS = 6
"""Of each type, in `make test`."""


def _damaged(stored: bytes, dice: random.Random, *, fixed: bool) -> bytes:
    """Flipped, written over, and unless its length is fixed cut off or longer."""
    ways = ["flip", "flip", "scrawl"] if fixed else ["flip", "flip", "flip", "scrawl", "cut", "longer"]
    way = dice.choice(ways)
    if way == "cut":
        return stored[: dice.randrange(len(stored) + 1)]
    if way == "longer" or not stored:
        return stored if fixed else stored + dice.randbytes(dice.randrange(1, 9))
    changed = bytearray(stored)
    at = dice.randrange(len(stored))
    if way == "flip":
        changed[at] ^= 1 << dice.randrange(8)
    else:
        noise = dice.randbytes(dice.choice((2, 4, 8)))[: len(stored) - at]
        changed[at : at + len(noise)] = noise
    return bytes(changed)


def _read(name: str, values: Values) -> list[str]:
    """What came of reading the column in every way."""
    kind, outcomes = pg_type(name), []
    ways = [lambda: format_values(values, kind, NAMED), lambda: to_arrow(values, kind, -1, ArrowStyle(text=NAMED))]
    if has_binary(kind):
        ways.append(lambda: format_binary(values, kind, NAMED))
    for way in ways:
        try:
            way()
            outcomes.append("read")
        except TailraceError as error:
            outcomes.append(error.message)
    return outcomes


def _try(name: str, trials: int, dice: random.Random) -> None:
    kind, (_, stored) = pg_type(name), rows(name)
    for _ in range(trials):
        some = [dice.choice(stored) for _ in range(3)]
        which = dice.randrange(3)
        some[which] = _damaged(some[which], dice, fixed=kind.length > 0)
        _read(name, Values.of_payloads([None, *some, None], kind.length))


@pytest.mark.parametrize("name", names())
def test_damaged_bytes_are_text_or_an_error(name: str) -> None:
    _try(name, TRIALS, random.Random(f"{SEED} {name}"))


@pytest.mark.marathon
@pytest.mark.parametrize("name", names())
def test_much_damage_is_text_or_an_error(name: str) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    _try(name, 2000, random.Random(seed))


def _numeric(head: int, *words: int) -> bytes:
    return struct.pack(f"<{len(words) + 1}H", head, *words)


def _array(dimensions: int, data_offset: int, element: int, *words: int, data: bytes = b"") -> bytes:
    return struct.pack(f"<iiI{len(words)}i", dimensions, data_offset, element, *words) + data


def _jsonb(header: int, *entries: int, data: bytes = b"") -> bytes:
    return struct.pack(f"<{len(entries) + 1}I", header, *entries) + data


OBJECT, ARRAY, SCALAR, HAS_OFFSET = 0x20000000, 0x40000000, 0x10000000, 0x80000000
STRING, NUMERIC, CONTAINER = 0, 0x10000000, 0x50000000
DAMAGED = {
    "numeric": {
        "no header": b"",
        "half a header": b"\0",
        "a long header cut off": _numeric(0x0002),
        "half a digit": _numeric(0x8000, 1) + b"\1",
    },
    "int4[]": {
        "no header": b"",
        "no bounds": _array(1, 0, 23),
        "seven dimensions": _array(7, 0, 23, *([1] * 14), data=bytes(4)),
        "a negative number of dimensions": _array(-1, 0, 23),
        "a negative length": _array(1, 0, 23, -1, 1),
        "more elements than there are": _array(1, 0, 23, 3, 1, data=bytes(8)),
        "so many that their number overflows": _array(6, 0, 23, *([2**31 - 1] * 6), *([1] * 6), data=bytes(64)),
        "data before the bitmap": _array(1, 8, 23, 1, 1, data=bytes(4)),
        "data behind the end": _array(1, 80, 23, 1, 1, data=bytes(4)),
    },
    "text[]": {
        "an element that runs on": _array(1, 0, 25, 1, 1, data=bytes([0xFE | 1])),
        "a long one": _array(1, 0, 25, 1, 1, data=struct.pack("<I", 2**32 - 4)),
        "a long one without its header": _array(1, 0, 25, 1, 1, data=b"\4\0"),
        "a long one shorter than its header": _array(1, 0, 25, 1, 1, data=bytes(8)),
        "no element": _array(1, 0, 25, 1, 1),
    },
    "jsonb": {
        "no header": b"",
        "neither object nor array": _jsonb(1),
        "entries that are not there": _jsonb(ARRAY | 2, STRING),
        "pairs that are not there": _jsonb(OBJECT | 1, STRING),
        "a string that runs on": _jsonb(ARRAY | 1, STRING | 9, data=b"12345678"),
        "a key that runs on": _jsonb(OBJECT | 1, STRING | 2**28 - 1, STRING, data=b"k"),
        "a child that ends before it begins": _jsonb(ARRAY | 2, STRING | 4, STRING | HAS_OFFSET | 2, data=b"1234"),
        "a number of no digits": _jsonb(ARRAY | SCALAR | 1, NUMERIC | 4, data=struct.pack("<I", 4 << 2)),
        "a number that runs on": _jsonb(ARRAY | SCALAR | 1, NUMERIC | 8, data=struct.pack("<I", 64 << 2) + bytes(4)),
        "a container without a header": _jsonb(ARRAY | 1, CONTAINER | 2, data=b"12"),
        "a container with entries behind its end": _jsonb(ARRAY | 1, CONTAINER | 4, data=struct.pack("<I", ARRAY | 1)),
        "a child of no kind": _jsonb(ARRAY | 1, 0x60000000),
    },
    "varbit": {
        "no number": b"\1\0",
        "more bits than there are": struct.pack("<i", 9) + b"\xff",
        "a negative number": struct.pack("<i", -8) + b"\xff",
    },
    "name": {"no end": b"x" * 64},
    "tsvector": {"more lexemes than there are": struct.pack("<iI", 2, 0), "a negative number": struct.pack("<i", -1)},
    "int4range": {"nothing": b"", "a bound that is not there": struct.pack("<I", 3904) + b"\2"},
    "path": {"half a point": struct.pack("<ii4xd", 1, 1, 1.0)},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "stored"),
    [pytest.param(name, stored, id=f"{name}: {what}") for name, cases in DAMAGED.items() for what, stored in cases.items()],
)
def test_a_value_that_is_none(name: str, stored: bytes) -> None:
    """Between others, whose bytes it must not take for its own."""
    kind, (_, sound) = pg_type(name), rows(name)
    values = Values.of_payloads([sound[0], stored, sound[-1]], kind.length)
    with pytest.raises(CorruptWal, match=r"is none|compressed") as caught:
        format_values(values, kind, NAMED)
    assert caught.value.sqlstate == "XX001"


@pytest.mark.parametrize("stored", DAMAGED["numeric"].values(), ids=DAMAGED["numeric"])
def test_a_numeric_that_is_none_is_neither_sent_nor_compared(stored: bytes) -> None:
    values = Values.of_payloads([stored], -1)
    for way in (
        lambda: format_binary(values, pg_type("numeric")),
        lambda: to_arrow(values, pg_type("numeric"), (5 << 16 | 2) + 4),
    ):
        with pytest.raises(CorruptWal, match='of type "numeric" that is none'):
            way()
