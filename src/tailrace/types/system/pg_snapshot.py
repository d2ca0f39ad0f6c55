"""pg_snapshot and txid_snapshot (`adt/xid8funcs.c`): u32 how many, u64 xmin, u64 xmax, u64 each xid. In Arrow a string of the text."""

from __future__ import annotations

import re
import struct

from tailrace.model import PgType
from tailrace.types.codec import format_each, format_error, parse_each, receive_each, syntax_error
from tailrace.types.codec.binary_forms import swap_bytes
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

XIDS = 4
"""Where they begin, behind how many are running."""


def format_snapshots(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As pg_snapshot_out: xmin:xmax:xid,xid."""

    def text_of(payload: bytes) -> str:
        xmin, xmax, *running = struct.unpack_from(f"<{(len(payload) - XIDS) // 8}Q", payload, XIDS)
        return f"{xmin}:{xmax}:{','.join(map(str, running))}"

    return format_each(values, text_of)


def parse_snapshots(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As pg_snapshot_in."""

    def parse_one(text: str) -> bytes:
        snapshot = re.fullmatch(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)", text)
        if snapshot is None:
            raise syntax_error(pg_type.name, text)
        xmin, xmax = int(snapshot[1]), int(snapshot[2])
        running = [int(word) for word in snapshot[3].split(",") if word]
        numbers = [xmin, xmax, *dict.fromkeys(running)]
        # An xid whose 32 lower bits are zero is none, in whatever epoch.
        ordered = xmin <= xmax and running == sorted(running) and all(xmin <= xid < xmax for xid in running)
        if not ordered or max(numbers) >> 64 or not all(number & 0xFFFFFFFF for number in numbers):
            raise syntax_error(pg_type.name, text)
        return struct.pack(f"<I{len(numbers)}Q", len(numbers) - 2, *numbers)

    return parse_each(texts, valid, pg_type, parse_one)


def send_snapshots(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As pg_snapshot_send: the same numbers, big-endian."""
    return format_each(values, _swapped)


def receive_snapshots(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As pg_snapshot_recv."""

    def read_one(sent: bytes) -> bytes:
        count = int.from_bytes(sent[:XIDS], "big")
        if len(sent) != XIDS + 8 * (2 + count):
            raise format_error(pg_type.name)
        return _swapped(sent)

    return receive_each(texts, valid, pg_type, read_one)


def _swapped(raw: bytes) -> bytes:
    return swap_bytes(raw[:XIDS], 4) + swap_bytes(raw[XIDS:], 8)
