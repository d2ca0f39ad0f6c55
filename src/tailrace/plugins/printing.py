"""Lines as psql prints the rows of pg_logical_slot_get_changes: textual output as `text` prints, binary output as `bytea` does;
or as JSON; or as pg_recvlogical writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.memcpy import memcpy
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.types.encodings.conversion import check_utf8
from tailrace.types.values import Texts


@inner_kernel
def _put_lsn(out, to, lsn):  # type: ignore[no-untyped-def]
    """As PostgreSQL writes it; where it ends in `out`."""
    for half in range(2):
        word = (lsn >> 32) & 0xFFFFFFFF if half == 0 else lsn & 0xFFFFFFFF
        digits = 1
        while digits < 8 and word >> (4 * digits):
            digits += 1
        for i in range(digits - 1, -1, -1):
            nibble = (word >> (4 * i)) & 15
            out[to] = 48 + nibble if nibble < 10 else 55 + nibble
            to += 1
        if half == 0:
            out[to] = 47
            to += 1
    return to


@inner_kernel
def _put_number(out, to, number):  # type: ignore[no-untyped-def]
    """In decimal; where it ends in `out`."""
    digits = 1
    power = np.int64(10)
    while number >= power:
        power *= 10
        digits += 1
    for i in range(digits - 1, -1, -1):
        out[to + i] = 48 + number % 10
        number //= 10
    return to + digits


@kernel
def print_rows(lsn, xid, offsets, data):  # type: ignore[no-untyped-def]
    """`lsn<TAB>xid<TAB>data<LF>` for each row, as `psql -At -F '<TAB>'` prints them."""
    out = np.empty(len(data) + 32 * len(lsn), np.uint8)
    to = 0
    for row in range(len(lsn)):
        to = _put_lsn(out, to, lsn[row])
        out[to] = 9
        to = _put_number(out, to + 1, np.int64(xid[row]))
        out[to] = 9
        to += 1
        memcpy(out, to, data, offsets[row], offsets[row + 1] - offsets[row])
        to += offsets[row + 1] - offsets[row]
        out[to] = 10
        to += 1
    return out[:to]


def as_psql(lines: Lines, plugin: OutputPlugin) -> NDArray[np.uint8]:
    """As psql prints the rows of pg_logical_slot_get_changes."""
    texts = _shown(lines, plugin)
    rows: NDArray[np.uint8] = print_rows(lines.lsn, lines.xid, texts.offsets, texts.data)
    return rows


def as_json_rows(lines: Lines, plugin: OutputPlugin) -> NDArray[np.uint8]:
    """The same rows as JSON, an object a line. Bytes that are not ASCII stay as they are: UTF-8, unless the database says
    SQL_ASCII."""
    texts = _shown(lines, plugin)
    length = len(texts.data) + np.count_nonzero((texts.data == _QUOTE) | (texts.data == _BACKSLASH))
    length += 5 * np.count_nonzero(texts.data < _SPACE) + (sum(map(len, _JSON)) + _LSN_AND_XID) * len(lines)
    rows: NDArray[np.uint8] = _json_rows(lines.lsn, lines.xid, texts.offsets, texts.data, *_JSON[:3], np.empty(length, np.uint8))
    return rows


def as_lines(lines: Lines, plugin: OutputPlugin) -> NDArray[np.uint8]:
    """As pg_recvlogical writes them."""
    rows: NDArray[np.uint8] = with_newlines(lines.texts.offsets, lines.texts.data)
    return rows


RowPrinter = Callable[[Lines, OutputPlugin], NDArray[np.uint8]]
"""One of the three above."""

_PRINTED_AT_ONCE = 4 << 20


def few_at_a_time(lines: Lines) -> Iterator[Lines]:
    """The same lines in order, some MB of text in each: what prints them needs as much again."""
    texts = lines.texts
    cuts = np.searchsorted(texts.offsets, np.arange(_PRINTED_AT_ONCE, len(texts.data), _PRINTED_AT_ONCE)).tolist()
    for start, stop in pairwise(sorted({0, *cuts, len(lines)})):
        yield lines.part(start, stop)


def _shown(lines: Lines, plugin: OutputPlugin) -> Texts:
    return in_hex(lines.texts) if plugin.wants.binary_output else as_text(lines.texts, plugin)


def as_text(texts: Texts, plugin: OutputPlugin) -> Texts:
    """Textual output as a client is sent it. Raises UsageError, as the server does, for bytes that its encoding does not have."""
    shown = up_to_zero(texts)
    if plugin.context.is_sql_ascii and plugin.context.style.reads_utf8:
        check_utf8(shown)
    return shown


_JSON = tuple(np.frombuffer(word, np.uint8) for word in (b'{"lsn": "', b'", "xid": ', b', "data": "', b'"}\n'))
_LSN_AND_XID = 17 + 10
_QUOTE, _BACKSLASH, _SPACE = 34, 92, 32


@kernel
def _json_rows(lsn, xid, offsets, data, before_lsn, before_xid, before_data, out):  # type: ignore[no-untyped-def]
    to = 0
    for row in range(len(lsn)):
        memcpy(out, to, before_lsn, 0, len(before_lsn))
        to = _put_lsn(out, to + len(before_lsn), lsn[row])
        memcpy(out, to, before_xid, 0, len(before_xid))
        to = _put_number(out, to + len(before_xid), np.int64(xid[row]))
        memcpy(out, to, before_data, 0, len(before_data))
        to = _put_escaped(out, to + len(before_data), data, offsets[row], offsets[row + 1])
        out[to] = 34
        out[to + 1] = 125
        out[to + 2] = 10
        to += 3
    return out[:to]


@inner_kernel
def _put_escaped(out, to, data, start, stop):  # type: ignore[no-untyped-def]
    """The content of a JSON string; where it ends in `out`."""
    for i in range(start, stop):
        byte = np.int64(data[i])
        if byte < 32:
            nibble = byte & 15
            out[to] = 92
            out[to + 1] = 117
            out[to + 2] = 48
            out[to + 3] = 48
            out[to + 4] = 48 + (byte >> 4)
            out[to + 5] = 48 + nibble if nibble < 10 else 87 + nibble
            to += 6
            continue
        if byte in (34, 92):
            out[to] = 92
            to += 1
        out[to] = byte
        to += 1
    return to


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
    """Textual output as `text` prints: what pg_logical_slot_get_changes shows. A value of that type ends, on its way out, at its
    first zero byte (`textout`), which the content of a logical message may hold. A walsender sends all of it."""
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
