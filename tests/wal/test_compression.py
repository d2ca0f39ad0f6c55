"""What PostgreSQL compresses: LZ4 as Arrow does it, pglz by hand (recorded cases have more), and damage, which is never read past its end."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import CorruptWal
from tailrace.wal.compression import expanded, lz4, pglz

Expand = Callable[..., int]
PIECES = st.one_of(
    st.binary(max_size=40), st.builds(lambda piece, times: piece * times, st.binary(min_size=1, max_size=5), st.integers(1, 600))
)


def _expand(expand: Expand, stored: bytes, size: int) -> bytes | None:
    """Between others' bytes, which stay what they are; None for damage."""
    source = np.frombuffer(b"\xaa" * 3 + stored + b"\xaa" * 3, np.uint8).copy()
    room = np.full(size + 8, 0xBB, np.uint8)
    written = expand(source, 3, 3 + len(stored), room, 4, size)
    assert room[:4].tolist() == room[4 + size :].tolist() == [0xBB] * 4
    return room[4 : 4 + size].tobytes() if written == size else None


@settings(deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=8).map(b"".join).filter(bool))
def test_lz4_there_and_back(data: bytes) -> None:
    stored = pa.compress(data, codec="lz4_raw", asbytes=True)
    assert _expand(lz4, stored, len(data)) == data
    assert _expand(lz4, stored, len(data) + 1) is None
    assert _expand(lz4, stored[:-1], len(data)) is None


PGLZ = {
    # control byte, then eight items: literals, or where its bit is set a match of (length - 3 | offset >> 8 << 4, offset, length - 18)
    "literals": (b"\x00abcdefgh\x00i", b"abcdefghi"),
    "a match": (b"\x08abc" + b"\x00\x03", b"abcabc"),
    "that overlaps itself": (b"\x02a" + b"\x05\x01", b"a" * 9),
    "of the greatest short length": (b"\x02a" + b"\x0e\x01", b"a" * 18),
    "a long one": (b"\x02a" + b"\x0f\x01\x05", b"a" * 24),
    "from far behind": (b"\x00abcdefgh" * 40 + b"\x01" + b"\x10\x2c", (b"abcdefgh" * 40) + (b"abcdefgh" * 40)[20:23]),
    "in the last place of a group": (b"\x80abcdefg" + b"\x00\x07" + b"\x00z", b"abcdefgabcz"),
}  # fmt: skip


@pytest.mark.parametrize(("stored", "data"), PGLZ.values(), ids=PGLZ.keys())
def test_pglz(stored: bytes, data: bytes) -> None:
    assert _expand(pglz, stored, len(data)) == data


DAMAGED = {
    "before the beginning": b"\x02a\x00\x02",
    "no way back": b"\x02a\x00\x00",
    "half a match": b"\x02a\x00",
    "a long match without its length": b"\x02a\x0f\x01",
    "too little": b"\x00ab",
    "nothing": b"",
}


@pytest.mark.parametrize("stored", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_pglz(stored: bytes) -> None:
    assert _expand(pglz, stored, 20) is None


@pytest.mark.parametrize("expand", [lz4, pglz])
def test_noise_stays_within_its_room(expand: Expand) -> None:
    dice = random.Random(3)
    for _ in range(2000):
        _expand(expand, dice.randbytes(dice.randrange(40)), dice.randrange(200))


@pytest.mark.parametrize(
    ("method", "stored"), [(0, PGLZ["a long one"][0]), (1, pa.compress(b"a" * 24, codec="lz4_raw", asbytes=True))]
)
def test_a_value_inside_another(method: int, stored: bytes) -> None:
    """Behind its length word, a word with the size before, and the method in its two highest bits."""
    value = bytes(4) + (24 | method << 30).to_bytes(4, "little") + stored
    assert expanded(value) == b"a" * 24
    with pytest.raises(CorruptWal, match="compressed data inside a value is corrupted"):
        expanded(value[:-1])
