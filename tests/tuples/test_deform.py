"""Tuples by hand, and where their attributes are said to lie."""

from __future__ import annotations

import numpy as np
import pytest

from tailrace.tuples.deform import AttributesRoom, deform, first_misfit
from tailrace.tuples.errors import CorruptTuple
from tailrace.tuples.varlena import EXTERNAL, LZ4, MISSING, NULL, PGLZ, PLAIN

INT, TEXT, CSTRING = (4, 4), (-1, 4), (-2, 1)
"""attlen and attalign."""
HEADER = 5


def _tuple(data: bytes, attributes: int, nulls: tuple[int, ...] = ()) -> bytes:
    """xl_heap_header, the bitmap if there are NULLs, padding and data; t_hoff counts from 23 bytes before the bitmap."""
    bitmap = bytearray()
    if nulls:
        bitmap = bytearray((attributes + 7) // 8)
        for i in range(attributes):
            bitmap[i // 8] |= (i not in nulls) << i % 8
    hoff = (23 + len(bitmap) + 7) // 8 * 8
    head = attributes.to_bytes(2, "little") + bool(nulls).to_bytes(2, "little") + bytes([hoff])
    return head + bitmap.ljust(hoff - 23, b"\0") + data


def _word(number: int) -> bytes:
    return number.to_bytes(4, "little")


SHORT = bytes([3 << 1 | 1]) + b"ab"
LONG = _word((4 + 3) << 2) + b"abc"
BY_PGLZ = _word((8 + 3) << 2 | 2) + _word(100) + b"abc"
BY_LZ4 = _word((8 + 3) << 2 | 2) + _word(1 << 30 | 100) + b"abc"
ON_DISK = bytes([1, 18]) + bytes(16)
ONE = _word(1)

WELL = [
    ("an integer", [INT], ONE, [(PLAIN, 0, 4)]),
    ("a short text", [TEXT], SHORT, [(PLAIN, 1, 2)]),
    ("a long text", [TEXT], LONG, [(PLAIN, 4, 3)]),
    ("compressed by pglz", [TEXT], BY_PGLZ, [(PGLZ, 8, 3)]),
    ("compressed by LZ4", [TEXT], BY_LZ4, [(LZ4, 8, 3)]),
    ("elsewhere", [TEXT], ON_DISK, [(EXTERNAL, 2, 16)]),
    ("an integer behind padding", [TEXT, INT], SHORT + b"\0" + ONE, [(PLAIN, 1, 2), (PLAIN, 4, 4)]),
    ("a short text is not padded", [INT, TEXT, TEXT], ONE + SHORT + SHORT, [(PLAIN, 0, 4), (PLAIN, 5, 2), (PLAIN, 8, 2)]),
    ("a long one is", [TEXT, TEXT], SHORT + b"\0" + LONG, [(PLAIN, 1, 2), (PLAIN, 8, 3)]),
    ("what lies elsewhere is not", [TEXT, TEXT], SHORT + ON_DISK, [(PLAIN, 1, 2), (EXTERNAL, 5, 16)]),
    ("a cstring", [CSTRING, INT], b"abc\0" + ONE, [(PLAIN, 0, 3), (PLAIN, 4, 4)]),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "data", "expected"), [case[1:] for case in WELL], ids=[case[0] for case in WELL])
@pytest.mark.parametrize("before", [0, 3])
def test_where_attributes_lie(columns, data: bytes, expected, before: int) -> None:
    """Whatever stands before the tuple."""
    stored = _tuple(data, len(columns))
    buf = np.frombuffer(bytes(before) + stored, np.uint8).copy()
    attributes = deform(buf, np.array([before]), np.array([len(stored)]), *_layout(columns))
    begin = before + len(stored) - len(data)
    told = [
        (int(attributes.form[i, 0]), int(attributes.at[i, 0]) - begin, int(attributes.size[i, 0])) for i in range(len(columns))
    ]
    assert told == expected


def test_nulls_columns_added_later_and_no_tuple() -> None:
    columns = [INT, TEXT, INT, INT]
    stored = _tuple(ONE + ONE, 3, nulls=(1,))
    buf = np.frombuffer(stored, np.uint8).copy()
    attributes = deform(buf, np.array([0, -1]), np.array([len(stored), 0]), *_layout(columns))
    assert attributes.form.tolist() == [[PLAIN, NULL], [NULL, NULL], [PLAIN, NULL], [MISSING, NULL]]
    assert attributes.at[:, 0].tolist() == [len(stored) - 8, 0, len(stored) - 4, 0]
    assert [part.shape for part in attributes.of(2)] == [(2,)] * 3


def test_room_that_had_others() -> None:
    """What is stored lies where it does without a room, and of those before nothing counts."""
    room, whole, sparse = AttributesRoom(), _tuple(ONE * 3, 3), _tuple(ONE, 2, nulls=(0,))
    layout = _layout([INT, INT, INT])
    for stored, rows in ((whole, 4), (sparse, 3), (whole, 1), (sparse, 5)):
        given = np.frombuffer(stored, np.uint8).copy(), np.zeros(rows, np.int64), np.full(rows, len(stored), np.int64)
        found, expected = deform(*given, *layout, room), deform(*given, *layout)
        assert found.form.tolist() == expected.form.tolist()
        is_stored = expected.form == PLAIN
        assert found.at[is_stored].tolist() == expected.at[is_stored].tolist()
        assert found.size[is_stored].tolist() == expected.size[is_stored].tolist()


BADLY = [
    ("no whole header", [INT], b"\1\0\0\0"),
    ("data begin behind the end", [INT], b"\1\0\0\0\x30"),
    ("a bitmap longer than its place", [INT], (9).to_bytes(2, "little") + b"\1\0\x18" + bytes(1)),
    ("an integer cut", [INT], _tuple(ONE[:3], 1)),
    ("no text", [TEXT], _tuple(b"", 1)),
    ("nothing but padding", [INT, TEXT], _tuple(ONE + b"\0", 2)),
    ("a short text cut", [TEXT], _tuple(SHORT[:2], 1)),
    ("a length word cut", [TEXT], _tuple(LONG[:3], 1)),
    ("a length of less than the word", [TEXT], _tuple(_word(3 << 2), 1)),
    ("less than a compressed one's header", [TEXT], _tuple(_word(7 << 2 | 2) + bytes(4), 1)),
    ("elsewhere, cut", [TEXT], _tuple(ON_DISK[:17], 1)),
    ("elsewhere, but not on disk", [TEXT], _tuple(bytes([1, 1]) + bytes(16), 1)),
    ("a cstring without an end", [CSTRING], _tuple(b"abc", 1)),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "stored"), [case[1:] for case in BADLY], ids=[case[0] for case in BADLY])
def test_what_does_not_fit_is_told(columns, stored: bytes) -> None:
    well = _tuple(b"".join({INT: ONE, TEXT: SHORT + b"\0", CSTRING: b"\0"}[column] for column in columns), len(columns))
    buf = np.frombuffer(well + stored + bytes(40), np.uint8).copy()
    at, length = np.array([0, len(well)]), np.array([len(well), len(stored)])
    lengths, aligns = _layout(columns)
    assert first_misfit(buf, at, length, lengths.tolist(), aligns.tolist()) == 1
    with pytest.raises(CorruptTuple, match="tuple does not have the layout of its relation") as caught:
        deform(buf, at, length, lengths, aligns)
    assert caught.value.row == 1


def _layout(columns) -> tuple[np.ndarray, np.ndarray]:
    lengths, aligns = np.array(columns, np.int64).T.copy()
    return lengths, aligns
