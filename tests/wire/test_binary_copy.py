"""Rows of COPY in binary form, as messages bring them: what a server gives is read, and what is none is one error."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from tailrace.errors import PeerError
from tailrace.wire.binary_copy import SIGNATURE, CopiedFields, header_size

ROWS: list[list[bytes | None]] = [[b"", b"one"], [None, b"x" * 300], [b"\xff\xff\xff\xff", None], [None, None]]
TRAILER = b"\xff\xff"


def _row(row: list[bytes | None]) -> bytes:
    return struct.pack(">h", len(row)) + b"".join(
        struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in row
    )


def _message(data: bytes) -> bytes:
    return b"d" + struct.pack(">i", len(data) + 4) + data


def _written(rows: list[list[bytes | None]]) -> bytes:
    return b"".join(map(_message, map(_row, rows)))


def _fields(data: bytes, columns: int, header: int = 0) -> CopiedFields:
    return CopiedFields.of(np.frombuffer(data, np.uint8), columns, header=header)


def _read(data: bytes, columns: int, header: int = 0) -> list[list[bytes | None]]:
    found = _fields(data, columns, header)
    several = []
    for column in range(columns):
        valid, texts = found.texts(column)
        several.append([text if is_there else None for text, is_there in zip(texts.to_bytes(), valid.tolist(), strict=True)])
    return [list(row) for row in zip(*several, strict=True)]


@pytest.mark.parametrize("trailer", [b"", _message(TRAILER), _message(TRAILER) + b"c\0\0\0\4Z\0\0\0\5I"])
def test_what_was_written(trailer: bytes) -> None:
    assert _read(_written(ROWS) + trailer, 2) == ROWS
    assert _read(trailer, 3) == []


def test_the_header() -> None:
    whole = SIGNATURE + struct.pack(">II", 0, 5) + b"extra"
    assert header_size(whole + _row(ROWS[0])) == len(whole)
    assert _read(_message(whole + _row(ROWS[0])) + _written(ROWS[1:]), 2, len(whole)) == ROWS
    for other in (b"", SIGNATURE, b"PGCOPY\n\xff\r\n\x01" + bytes(8), b"1\t2\n"):
        with pytest.raises(PeerError, match="COPY file signature not recognized"):
            header_size(other)


def test_numbers() -> None:
    rows: list[list[bytes | None]] = [[struct.pack(">q", number)] for number in (1, -1, 1 << 40)]
    found = _fields(_written([*rows, [None]]), 1).numbers(0, 8)
    assert found is not None
    assert found.as_dtype("<i8").tolist() == [1, -1, 1 << 40, 0]
    assert found.valid.tolist() == [True, True, True, False]
    assert _fields(_written([*rows, [b"1234"]]), 1).numbers(0, 8) is None


def test_some_rows() -> None:
    found = _fields(_written(ROWS), 2).take(np.array([2, 0]))
    assert found.texts(0)[1].to_bytes() == [b"\xff\xff\xff\xff", b""]
    assert found.texts(1)[0].tolist() == [False, True]


def test_other_columns() -> None:
    with pytest.raises(PeerError, match="another number of columns"):
        _read(_written(ROWS), 3)


def test_cut_anywhere() -> None:
    """What is whole is read, and the rest stays."""
    whole, ends = _written(ROWS), [len(_written(ROWS[:count])) for count in range(len(ROWS) + 1)]
    for cut in range(len(whole)):
        count = sum(end <= cut for end in ends) - 1
        assert _read(whole[:cut], 2) == ROWS[:count]
        assert _fields(whole[:cut], 2).used == ends[count]


def test_cut_within_a_message() -> None:
    row = _row(ROWS[1])
    for cut in range(len(row)):
        with pytest.raises(PeerError, match="unexpected data in COPY"):
            _read(_message(row[:cut]), 2)


def test_bytes_drawn() -> None:
    """Rows, or one error, and nothing is read beyond the end."""
    dice, errors = random.Random(1), 0
    whole = _written(ROWS)
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            _read(bytes(data), 2)
        except PeerError:
            errors += 1
    assert 100 < errors < 2000
