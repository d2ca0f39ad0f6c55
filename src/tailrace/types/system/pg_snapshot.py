"""pg_snapshot and txid_snapshot (`adt/xid8funcs.c`): u32 how many, u64 xmin, u64 xmax, u64 each xid. In Arrow a string of the text."""

from __future__ import annotations

import re
import struct

from tailrace.model import PgType
from tailrace.types.binary_forms import swap_bytes
from tailrace.types.codec import format_each, format_error, parse_each, receive_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def format_snapshots(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As pg_snapshot_out: xmin:xmax:xid,xid."""

    def text_of(payload: bytes) -> str:
        xmin, xmax, *running = struct.unpack_from(f"<{(len(payload) - 4) // 8}Q", payload, 4)
        return f"{xmin}:{xmax}:{','.join(map(str, running))}"

    return format_each(values, text_of)


def parse_snapshots(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As pg_snapshot_in."""

    def parse_one(text: str) -> bytes:
        found = re.fullmatch(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)", text)
        if found is None:
            raise syntax_error(pg_type.name, text)
        running = [int(word) for word in found[3].split(",") if word]
        numbers = [int(found[1]), int(found[2]), *dict.fromkeys(running)]
        # An xid whose 32 lower bits are zero is none, in whatever epoch.
        ordered = (
            numbers[0] <= numbers[1] and running == sorted(running) and all(numbers[0] <= xid < numbers[1] for xid in running)
        )
        if not ordered or max(numbers) >> 64 or not all(number & 0xFFFFFFFF for number in numbers):
            raise syntax_error(pg_type.name, text)
        return struct.pack(f"<I{len(numbers)}Q", len(numbers) - 2, *numbers)

    return parse_each(texts, valid, pg_type, parse_one)


def send_snapshots(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    return format_each(values, lambda payload: payload[3::-1] + swap_bytes(payload[4:], 8))


def receive_snapshots(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    def read_one(sent: bytes) -> bytes:
        if len(sent) != 20 + 8 * int.from_bytes(sent[:4], "big"):
            raise format_error(pg_type.name)
        return sent[3::-1] + swap_bytes(sent[4:], 8)

    return receive_each(texts, valid, pg_type, read_one)
