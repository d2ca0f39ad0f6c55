"""tid, a row's place: u16 high and low half of the block, u16 item (`storage/block.h`). In Arrow a string of its text."""

from __future__ import annotations

import re
import struct

from tailrace.model import PgType
from tailrace.types.codec import format_each, parse_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def format_tids(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As tidout: (block,item)."""

    def text_of(payload: bytes) -> str:
        high, low, item = struct.unpack("<HHH", payload)
        return f"({high << 16 | low},{item})"

    return format_each(values, text_of)


def parse_tids(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As tidin."""

    def parse_one(text: str) -> bytes:
        pair = re.fullmatch(r"\s*\((\d+),(\d+)\)\s*", text)
        block, item = (int(pair[1]), int(pair[2])) if pair else (-1, -1)
        if not (0 <= block < 1 << 32 and 0 <= item < 1 << 16):
            raise syntax_error("tid", text)
        return struct.pack("<HHH", block >> 16, block & 0xFFFF, item)

    return parse_each(texts, valid, pg_type, parse_one)
