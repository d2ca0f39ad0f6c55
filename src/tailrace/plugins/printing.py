"""Lines as psql prints the rows of pg_logical_slot_get_changes: textual output as `text` prints, binary output as `bytea` does."""

from __future__ import annotations

import numpy as np

from tailrace.kernels import kernel
from tailrace.memcpy import memcpy
from tailrace.types.values import Texts


@kernel
def print_rows(lsn, xid, offsets, data):  # type: ignore[no-untyped-def]
    """`lsn<TAB>xid<TAB>data<LF>` for each row, as `psql -At -F '<TAB>'` prints them."""
    out = np.empty(len(data) + 32 * len(lsn), np.uint8)
    to = 0
    for row in range(len(lsn)):
        for half in range(2):
            word = (lsn[row] >> 32) & 0xFFFFFFFF if half == 0 else lsn[row] & 0xFFFFFFFF
            digits = 1
            while digits < 8 and word >> (4 * digits):
                digits += 1
            for i in range(digits - 1, -1, -1):
                nibble = (word >> (4 * i)) & 15
                out[to] = 48 + nibble if nibble < 10 else 55 + nibble
                to += 1
            out[to] = 47 if half == 0 else 9
            to += 1
        number = np.int64(xid[row])
        digits = 1
        power = np.int64(10)
        while number >= power:
            power *= 10
            digits += 1
        for i in range(digits - 1, -1, -1):
            out[to + i] = 48 + number % 10
            number //= 10
        to += digits
        out[to] = 9
        to += 1
        memcpy(out, to, data, offsets[row], offsets[row + 1] - offsets[row])
        to += offsets[row + 1] - offsets[row]
        out[to] = 10
        to += 1
    return out[:to]


@kernel
def with_newlines(offsets, data):  # type: ignore[no-untyped-def]
    """Each text and a line feed, as pg_recvlogical writes them."""
    out = np.empty(len(data) + len(offsets) - 1, np.uint8)
    to = 0
    for row in range(len(offsets) - 1):
        length = offsets[row + 1] - offsets[row]
        memcpy(out, to, data, offsets[row], length)
        out[to + length] = 10
        to += length + 1
    return out


def up_to_zero(texts: Texts) -> Texts:
    """Textual output as `text` prints: what pg_logical_slot_get_changes shows. A value of that type ends, on its way out, at its first zero byte
    (`textout`), which the content of a logical message may hold. A walsender sends all of it."""
    data, offsets = texts.data, texts.offsets
    if data.min(initial=255):  # nearly always
        return texts
    zeros = np.append(np.flatnonzero(data == 0), len(data))
    stops = np.minimum(zeros[np.searchsorted(zeros, offsets[:-1])], offsets[1:])
    edges = np.zeros(len(data) + 1, np.int8)
    np.add.at(edges, offsets[:-1], 1)
    np.add.at(edges, stops, -1)
    kept = np.cumsum(edges[:-1], dtype=np.int8) > 0
    return Texts(np.append(0, np.cumsum(stops - offsets[:-1])), data[kept])


def in_hex(texts: Texts) -> Texts:
    """Binary output as `bytea` prints: what pg_logical_slot_get_binary_changes shows."""
    sizes = np.diff(texts.offsets)
    offsets = np.zeros(len(texts.offsets), np.int64)
    np.cumsum(2 * sizes + 2, out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    write_hex(texts.data, texts.offsets, offsets, out)
    return Texts(offsets, out)


@kernel
def write_hex(data, offsets, to, out):  # type: ignore[no-untyped-def]
    """`\\x` and two digits a byte, for each text."""
    for row in range(len(to) - 1):
        at = to[row]
        out[at] = 92
        out[at + 1] = 120
        at += 2
        for i in range(offsets[row], offsets[row + 1]):
            byte = np.int64(data[i])
            for nibble in (byte >> 4, byte & 15):
                out[at] = 48 + nibble if nibble < 10 else 87 + nibble
                at += 1
