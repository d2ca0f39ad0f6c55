"""Rows of COPY in binary form: what a server gives is read, and what is none is one error."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from tailrace.errors import PeerError
from tailrace.wire.binary_copy import SIGNATURE, columns_of, rows_behind_header

ROWS: list[list[bytes | None]] = [[b"", b"one"], [None, b"x" * 300], [b"\xff\xff\xff\xff", None], [None, None]]


def _written(rows: list[list[bytes | None]]) -> bytes:
    out = b""
    for row in rows:
        out += struct.pack(">h", len(row))
        for value in row:
            out += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return out


def _read(data: bytes, columns: int) -> list[list[bytes | None]]:
    found = columns_of(np.frombuffer(data, np.uint8), columns)
    several = [
        [text if is_there else None for text, is_there in zip(texts.to_bytes(), valid.tolist(), strict=True)]
        for valid, texts in found
    ]
    return [list(row) for row in zip(*several, strict=True)]


@pytest.mark.parametrize("trailer", [b"", b"\xff\xff"])
def test_what_was_written(trailer: bytes) -> None:
    assert _read(_written(ROWS) + trailer, 2) == ROWS
    assert _read(trailer, 3) == []


def test_the_header() -> None:
    whole = SIGNATURE + struct.pack(">II", 0, 5) + b"extra"
    assert rows_behind_header(whole + _written(ROWS)) == len(whole)
    for other in (b"", SIGNATURE, b"PGCOPY\n\xff\r\n\x01" + bytes(8), b"1\t2\n"):
        with pytest.raises(PeerError, match="COPY file signature not recognized"):
            rows_behind_header(other)


def test_other_columns() -> None:
    with pytest.raises(PeerError, match="another number of columns"):
        _read(_written(ROWS), 3)


def test_cut_anywhere() -> None:
    whole, ends = _written(ROWS), {len(_written(ROWS[:count])) for count in range(len(ROWS) + 1)}
    for cut in range(len(whole)):
        if cut in ends:
            assert _read(whole[:cut], 2) == ROWS[: sorted(ends).index(cut)]
        else:
            with pytest.raises(PeerError, match="unexpected data in COPY"):
                _read(whole[:cut], 2)


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
