"""tsquery in binary form: how many items, then in stored order u8 kind; of a lexeme weights, prefix and the word; of an operator its number and,
if it is a phrase, the distance.
"""

from __future__ import annotations

import struct

from tailrace.model import PgType
from tailrace.types.codec import format_each, format_error, receive_each
from tailrace.types.style import TextStyle
from tailrace.types.text_search.tsquery.stored import ITEM, NOT, OPERATOR, PHRASE, PRIORITY, VALUE, Query, write_query
from tailrace.types.values import Mask, Texts, Values


def send_tsqueries(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """How many items, then in stored order u8 kind; of a lexeme weights, prefix and the word; of an operator which, and the distance."""

    def form_of(payload: bytes) -> bytes:
        (count,) = struct.unpack_from("<i", payload)
        parts = [struct.pack(">i", count)]
        for item in range(count):
            at = 4 + ITEM * item
            if payload[at] == VALUE:
                (where,) = struct.unpack_from("<I", payload, at + 8)
                start = 4 + ITEM * count + (where >> 12)
                parts.append(payload[at : at + 3] + payload[start : start + (where & 0xFFF)] + b"\0")
            else:
                parts.append(payload[at : at + 2] + (payload[at + 3 : at + 1 : -1] if payload[at + 1] == PHRASE else b""))
        return b"".join(parts)

    return format_each(values, form_of)


def receive_tsqueries(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As tsqueryrecv."""

    def read_one(sent: bytes) -> bytes:
        (count,) = struct.unpack_from(">i", sent)
        query, at = _read_sent(sent, 4) if count else (None, 4)
        if at != len(sent):
            raise format_error("tsquery")
        return write_query(query)

    return receive_each(texts, valid, pg_type, read_one)


def _read_sent(sent: bytes, at: int) -> tuple[Query, int]:
    if sent[at] == VALUE:
        stop = sent.index(b"\0", at + 3)
        return Query(word=sent[at + 3 : stop], weights=sent[at + 1], prefix=bool(sent[at + 2])), stop + 1
    operator, distance = sent[at + 1], 0
    if sent[at] != OPERATOR or operator not in PRIORITY:
        raise format_error("tsquery")
    at += 2
    if operator == PHRASE:
        (distance,) = struct.unpack_from(">H", sent, at)
        at += 2
    right = None
    if operator != NOT:
        right, at = _read_sent(sent, at)
    left, at = _read_sent(sent, at)
    return Query(operator, distance, left=left, right=right), at
