"""tsvector (`tsearch/ts_type.h`): i32 how many lexemes, a word for each (1 bit: has positions, 11 bits its length, 20 bits where it lies), then the
lexemes, each followed at an even place by u16 how many positions and the positions (2 bits weight, 14 bits number).
"""

from __future__ import annotations

import re
import struct

from tailrace.model import PgType
from tailrace.types.codec import characters_sent, format_each, parse_each, receive_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_string

WEIGHTS = "DCBA"
HAS_POSITIONS, LENGTH_SHIFT, LENGTH, START_SHIFT = 1, 1, 0x7FF, 12
"""Of the word of a lexeme."""
POSITION, WEIGHT_SHIFT = 0x3FFF, 14
"""Of the word of a position."""
LEXEME = re.compile(r"\s*'((?:[^']|'')*)'(?::((?:\d+[ABCD]?,?)+))?|\s*([^\s:']+)(?::((?:\d+[ABCD]?,?)+))?", re.S)

Lexeme = tuple[bytes, tuple[int, ...]]
"""A word, and its positions with their weights."""


def format_tsvectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As tsvectorout: 'cat':3 'fat':2A,11."""
    return format_each(values, lambda payload: " ".join(_print_lexeme(*lexeme) for lexeme in read_lexemes(payload)))


def _print_lexeme(word: bytes, positions: tuple[int, ...]) -> str:
    printed = [
        f"{position & POSITION}{WEIGHTS[weight] if (weight := position >> WEIGHT_SHIFT) else ''}" for position in positions
    ]
    return quote_lexeme(word) + (":" + ",".join(printed) if printed else "")


def quote_lexeme(word: bytes) -> str:
    return "'" + as_string(word).replace("\\", "\\\\").replace("'", "''") + "'"


def read_lexemes(payload: bytes) -> list[Lexeme]:
    """The lexemes of a stored value. Their places count from behind their words, whose number keeps them aligned."""
    (count,) = struct.unpack_from("<i", payload)
    base, lexemes = 4 + 4 * count, []
    for entry in struct.unpack_from(f"<{count}I", payload, 4):
        start = base + (entry >> START_SHIFT)
        stop = start + (entry >> LENGTH_SHIFT & LENGTH)
        positions: tuple[int, ...] = ()
        if entry & HAS_POSITIONS:
            at = stop + (stop - base) % 2
            positions = struct.unpack_from(f"<{struct.unpack_from('<H', payload, at)[0]}H", payload, at + 2)
        lexemes.append((payload[start:stop], positions))
    return lexemes


def write_lexemes(lexemes: list[Lexeme]) -> bytes:
    entries, body = [], bytearray()
    for word, positions in sorted(lexemes):
        entries.append(len(body) << START_SHIFT | len(word) << LENGTH_SHIFT | (HAS_POSITIONS if positions else 0))
        body += word
        if positions:
            body += bytes(len(body) % 2) + struct.pack(f"<{len(positions) + 1}H", len(positions), *positions)
    return struct.pack(f"<i{len(entries)}I", len(entries), *entries) + bytes(body)


def parse_tsvectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As tsvectorin, for the form that tsvectorout prints."""

    def parse_one(text: str) -> bytes:
        at, lexemes = 0, []
        while at < len(text.rstrip()):
            match = LEXEME.match(text, at)
            if match is None:
                raise syntax_error("tsvector", text)
            at = match.end()
            word = match[3] if match[1] is None else match[1].replace("''", "'")
            word = re.sub(r"\\(.)", r"\1", word, flags=re.S)
            printed = (match[2] or match[4] or "").strip(",").split(",")
            positions = sorted((_position(each) for each in printed if each), key=lambda position: position & POSITION)
            lexemes.append((word.encode(), tuple(positions)))
        return write_lexemes(lexemes)

    return parse_each(texts, valid, pg_type, parse_one)


def _position(text: str) -> int:
    weight = WEIGHTS.index(text[-1]) if text[-1] in WEIGHTS else 0
    return weight << WEIGHT_SHIFT | min(int(text.rstrip(WEIGHTS)), POSITION)


def send_tsvectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As tsvectorsend: how many; each lexeme closed by a zero, u16 how many positions, the positions."""

    def form_of(payload: bytes) -> bytes:
        lexemes = read_lexemes(payload)
        words = characters_sent([word for word, _ in lexemes], style)
        parts = [
            word + b"\0" + struct.pack(f">{len(positions) + 1}H", len(positions), *positions)
            for word, (_, positions) in zip(words, lexemes, strict=True)
        ]
        return struct.pack(">i", len(lexemes)) + b"".join(parts)

    return format_each(values, form_of)


def receive_tsvectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As tsvectorrecv."""

    def read_one(sent: bytes) -> bytes:
        at, lexemes = 4, []
        for _ in range(struct.unpack_from(">i", sent)[0]):
            stop = sent.index(b"\0", at)
            (count,) = struct.unpack_from(">H", sent, stop + 1)
            lexemes.append((sent[at:stop], struct.unpack_from(f">{count}H", sent, stop + 3)))
            at = stop + 3 + 2 * count
        return write_lexemes(lexemes)

    return receive_each(texts, valid, pg_type, read_one)
