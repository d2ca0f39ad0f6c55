"""tid, a row's place: u16 high and low half of the block, u16 item (`storage/block.h`). In Arrow a string of its text."""

from __future__ import annotations

import re
import struct

from tailrace.model import PgType
from tailrace.types.codec import format_each, parse_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def format_tids(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """(block,item); the block's halves are stored high one first (`storage/block.h`)."""

    def text_of(payload: bytes) -> str:
        high, low, item = struct.unpack("<HHH", payload)
        return f"({high << 16 | low},{item})"

    return format_each(values, text_of)


def parse_tids(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    def parse_one(text: str) -> bytes:
        found = re.fullmatch(r"\s*\((\d+),(\d+)\)\s*", text)
        if found is None or int(found[1]) >> 32 or int(found[2]) >> 16:
            raise syntax_error("tid", text)
        return struct.pack("<HHH", int(found[1]) >> 16, int(found[1]) & 0xFFFF, int(found[2]))

    return parse_each(texts, valid, pg_type, parse_one)
