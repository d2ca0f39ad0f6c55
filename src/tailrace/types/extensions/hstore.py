"""hstore (`hstore.h`): u32 how many pairs, two words a pair (30 bits where the text ends, a bit for a NULL value), then the texts."""

from __future__ import annotations

import re
import struct

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import characters_sent, format_each, parse_each, receive_each
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_string

COUNT, NEW_FORM = 0x0FFFFFFF, 0x80000000
"""Of the first word: how many pairs, and HS_FLAG_NEWVERSION."""
END, NULL_VALUE, FIRST = 0x3FFFFFFF, 0x40000000, 0x80000000
"""Of the word of a key or value: where its text ends, whether it is NULL, and whether it is the first of all."""
PAIR = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s",=]+)\s*=>\s*("(?:[^"\\]|\\.)*"|[^\s",]+)\s*(?:,|$)', re.S)

Pairs = list[tuple[bytes, bytes | None]]


def format_hstores(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As hstore_out: "a"=>"1", "b"=>NULL."""

    def text_of(payload: bytes) -> str:
        words = [(_in_quotes(key), "NULL" if value is None else _in_quotes(value)) for key, value in _read_pairs(payload)]
        return ", ".join(f"{key}=>{value}" for key, value in words)

    return format_each(values, text_of)


def _in_quotes(word: bytes) -> str:
    return '"' + as_string(word).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read_pairs(payload: bytes) -> Pairs:
    (count,) = struct.unpack_from("<I", payload)
    count &= COUNT
    entries = struct.unpack_from(f"<{2 * count}I", payload, 4)
    base, start = 4 + 8 * count, 0
    words: list[bytes | None] = []
    for entry in entries:
        words.append(None if entry & NULL_VALUE else payload[base + start : base + (entry & END)])
        start = entry & END
    return [(key or b"", value) for key, value in zip(words[::2], words[1::2], strict=True)]


def _write_pairs(pairs: Pairs) -> bytes:
    """By length of the key and then by its bytes; of equal keys the first stays."""
    unique = dict(reversed(pairs))
    body = bytearray()
    entries: list[int] = []
    for key in sorted(unique, key=lambda key: (len(key), key)):
        value = unique[key]
        body += key
        entries.append(len(body) | (0 if entries else FIRST))
        body += value or b""
        entries.append(len(body) | (NULL_VALUE if value is None else 0))
    return struct.pack(f"<I{len(entries)}I", len(unique) | NEW_FORM, *entries) + bytes(body)


def parse_hstores(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As hstore_in."""

    def parse_one(text: str) -> bytes:
        at, pairs = 0, []
        while at < len(text.rstrip()):
            pair = PAIR.match(text, at)
            if pair is None:
                raise UsageError(f'syntax error in hstore, near "{text[at : at + 20]}"', sqlstate="42601")
            key, value = pair.groups()
            pairs.append((_without_quotes(key), None if value.upper() == "NULL" else _without_quotes(value)))
            at = pair.end()
        return _write_pairs(pairs)

    return parse_each(texts, valid, pg_type, parse_one)


def _without_quotes(text: str) -> bytes:
    return re.sub(r"\\(.)", r"\1", text[1:-1] if text[0] == '"' else text, flags=re.S).encode()


def send_hstores(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As hstore_send: how many pairs; each key and value after its length, -1 for NULL. The length is the one in the database's encoding, whatever
    the client makes of that."""

    def form_of(payload: bytes) -> bytes:
        pairs = _read_pairs(payload)
        words = [word for pair in pairs for word in pair]
        told = iter(characters_sent([word for word in words if word is not None], style))
        sent = [struct.pack(">i", -1) if word is None else struct.pack(">i", len(word)) + next(told) for word in words]
        return struct.pack(">i", len(pairs)) + b"".join(sent)

    return format_each(values, form_of)


def receive_hstores(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As hstore_recv."""

    def read_one(sent: bytes) -> bytes:
        at, words = 4, []
        for _ in range(2 * struct.unpack_from(">i", sent)[0]):
            (size,) = struct.unpack_from(">i", sent, at)
            words.append(None if size < 0 else sent[at + 4 : at + 4 + size])
            at += 4 + max(size, 0)
        return _write_pairs([(key or b"", value) for key, value in zip(words[::2], words[1::2], strict=True)])

    return receive_each(texts, valid, pg_type, read_one)
