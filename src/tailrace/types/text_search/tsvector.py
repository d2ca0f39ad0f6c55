"""tsvector (`tsearch/ts_type.h`): i32 how many lexemes, a word for each (1 bit: has positions, 11 bits its length, 20 bits where it lies), then the
lexemes, each followed at an even place by u16 how many positions and the positions (2 bits weight, 14 bits number).
"""

from __future__ import annotations

import re
import struct

from tailrace.model import PgType
from tailrace.types.codec import format_each, parse_each, receive_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_string

WEIGHTS = "DCBA"
LEXEME = re.compile(r"\s*'((?:[^']|'')*)'(?::((?:\d+[ABCD]?,?)+))?|\s*([^\s:']+)(?::((?:\d+[ABCD]?,?)+))?", re.S)


def format_tsvectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As tsvectorout: 'cat':3 'fat':2A,11."""

    def text_of(payload: bytes) -> str:
        return " ".join(
            quote_lexeme(word)
            + (":" + ",".join(f"{p & 0x3FFF}{WEIGHTS[p >> 14] if p >> 14 else ''}" for p in places) if places else "")
            for word, places in _read_vector(payload)
        )

    return format_each(values, text_of)


def quote_lexeme(word: bytes) -> str:
    return "'" + as_string(word).replace("\\", "\\\\").replace("'", "''") + "'"


def _read_vector(payload: bytes) -> list[tuple[bytes, tuple[int, ...]]]:
    """Lexemes and their positions. Places count from behind the entries, whose number keeps them aligned."""
    (count,) = struct.unpack_from("<i", payload)
    base, found = 4 + 4 * count, []
    for entry in struct.unpack_from(f"<{count}I", payload, 4):
        start = base + (entry >> 12)
        stop = start + (entry >> 1 & 0x7FF)
        places: tuple[int, ...] = ()
        if entry & 1:
            at = stop + (stop - base) % 2
            places = struct.unpack_from(f"<{struct.unpack_from('<H', payload, at)[0]}H", payload, at + 2)
        found.append((payload[start:stop], places))
    return found


def parse_tsvectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As tsvectorin, for the form that tsvectorout prints."""

    def parse_one(text: str) -> bytes:
        at, found = 0, []
        while at < len(text.rstrip()):
            match = LEXEME.match(text, at)
            if match is None:
                raise syntax_error("tsvector", text)
            at = match.end()
            word = match[3] if match[1] is None else match[1].replace("''", "'")
            word = re.sub(r"\\(.)", r"\1", word, flags=re.S)
            spots = (match[2] or match[4] or "").strip(",").split(",")
            places = tuple(sorted((_place(spot) for spot in spots if spot), key=lambda place: place & 0x3FFF))
            found.append((word.encode(), places))
        return _write_vector(found)

    return parse_each(texts, valid, pg_type, parse_one)


def _place(text: str) -> int:
    weight = WEIGHTS.index(text[-1]) if text[-1] in WEIGHTS else 0
    return weight << 14 | min(int(text.rstrip(WEIGHTS)), 0x3FFF)


def _write_vector(lexemes: list[tuple[bytes, tuple[int, ...]]]) -> bytes:
    entries, body = [], bytearray()
    for word, places in sorted(lexemes):
        entries.append(len(body) << 12 | len(word) << 1 | bool(places))
        body += word
        if places:
            body += bytes(len(body) % 2) + struct.pack(f"<{len(places) + 1}H", len(places), *places)
    return struct.pack(f"<i{len(entries)}I", len(entries), *entries) + bytes(body)


def send_tsvectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """How many; each lexeme closed by a zero, u16 how many positions, the positions."""

    def form_of(payload: bytes) -> bytes:
        found = _read_vector(payload)
        parts = [word + b"\0" + struct.pack(f">{len(places) + 1}H", len(places), *places) for word, places in found]
        return struct.pack(">i", len(found)) + b"".join(parts)

    return format_each(values, form_of)


def receive_tsvectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    def read_one(sent: bytes) -> bytes:
        at, found = 4, []
        for _ in range(struct.unpack_from(">i", sent)[0]):
            stop = sent.index(b"\0", at)
            (count,) = struct.unpack_from(">H", sent, stop + 1)
            found.append((sent[at:stop], struct.unpack_from(f">{count}H", sent, stop + 3)))
            at = stop + 3 + 2 * count
        return _write_vector(found)

    return receive_each(texts, valid, pg_type, read_one)
