"""Values inside another value, one after another: the bounds of a range, the fields of a composite; and how their texts are quoted there.

Positions count from the 4-byte length word that our payloads lack, so payload byte 0 is position 4.
"""

from __future__ import annotations

import struct

from tailrace.errors import UnsupportedWal
from tailrace.wal.compression import expanded

WORD = 4
"""Width of the length word in front of the payload."""


def read_value(payload: bytes, at: int, length: int, align: int) -> tuple[bytes, int]:
    """The value at position `at` or at the next aligned one, and the position after it (`access/tupmacs.h`).

    A row that becomes a value takes its fields as they lie in it, compressed ones included; only what lies elsewhere is fetched
    (`toast_flatten_tuple_to_datum`).
    """
    if length > 0:
        at += -at % align
        return payload[at - WORD : at - WORD + length], at + length
    if length < -1:
        raise UnsupportedWal("cannot decode a C string inside another value")
    if payload[at - WORD] == 0:
        at += -at % align
    head = payload[at - WORD]
    if head & 1:
        size = head >> 1
        if size == 0:
            raise UnsupportedWal("cannot decode an out-of-line value inside another value")
        return payload[at - WORD + 1 : at - WORD + size], at + size
    size = struct.unpack_from("<I", payload, at - WORD)[0] >> 2
    if head & 2:
        return expanded(payload[at - WORD : at - WORD + size]), at + size
    return payload[at : at - WORD + size], at + size


def write_value(body: bytearray, value: bytes, length: int, align: int) -> None:
    """Append a value to a payload; a short varlena gets the 1-byte header that needs no alignment."""
    if length < 0 and len(value) + 1 <= 0x7F:
        body.append((len(value) + 1) << 1 | 1)
    else:
        body += bytes(-(len(body) + WORD) % align)
        if length < 0:
            body += struct.pack("<I", len(value) + WORD << 2)
    body += value


def quoted(text: str, special: str) -> str:
    """As ranges and composites quote: where empty, or holding `special` or a space; quotes and backslashes are doubled."""
    if text and not any(letter in special or letter in '"\\ \t\n\v\f\r' for letter in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def read_quoted(text: str, at: int, stops: str) -> tuple[str | None, int]:
    """The reverse, up to one of `stops`; None where nothing stands at all."""
    pieces: list[str] = []
    inside = seen = False
    while at < len(text) and (inside or text[at] not in stops):
        letter = text[at]
        seen = True
        if letter == "\\" and at + 1 < len(text):
            at += 1
            pieces.append(text[at])
        elif letter == '"':
            if inside and text[at + 1 : at + 2] == '"':
                at += 1
                pieces.append('"')
            else:
                inside = not inside
        else:
            pieces.append(letter)
        at += 1
    return ("".join(pieces) if seen else None), at
