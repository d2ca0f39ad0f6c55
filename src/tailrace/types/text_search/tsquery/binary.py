"""tsquery in binary form: how many items, then in stored order u8 kind; of a lexeme weights, prefix and the word; of an operator its number and,
if it is a phrase, the distance.
"""

from __future__ import annotations

import struct

from tailrace.model import PgType
from tailrace.types.codec import characters_sent, format_each, format_error, receive_each
from tailrace.types.style import TextStyle
from tailrace.types.text_search.tsquery.stored import (
    ITEMS,
    NOT,
    OPERAND_ITEM,
    OPERATOR,
    OPERATOR_ITEM,
    PHRASE,
    PRIORITY,
    VALUE,
    Query,
    count_items,
    item_at,
    lexeme_of,
    write_query,
)
from tailrace.types.values import Mask, Texts, Values


def send_tsqueries(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As tsquerysend."""
    return format_each(values, lambda payload: _sent(payload, style))


def _sent(payload: bytes, style: TextStyle) -> bytes:
    count = count_items(payload)
    parts = [struct.pack(">i", count)]
    for item in range(count):
        at = item_at(item)
        if payload[at] == VALUE:
            kind, weights, prefix, _, _ = OPERAND_ITEM.unpack_from(payload, at)
            parts.append(bytes((kind, weights, prefix)) + characters_sent([lexeme_of(payload, at)], style)[0] + b"\0")
        else:
            kind, operator, distance, _ = OPERATOR_ITEM.unpack_from(payload, at)
            parts.append(bytes((kind, operator)) + (struct.pack(">h", distance) if operator == PHRASE else b""))
    return b"".join(parts)


def receive_tsqueries(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As tsqueryrecv."""

    def read_one(sent: bytes) -> bytes:
        (count,) = struct.unpack_from(">i", sent)
        query, at = _read_sent(sent, ITEMS) if count else (None, ITEMS)
        if at != len(sent):
            raise format_error("tsquery")
        return write_query(query)

    return receive_each(texts, valid, pg_type, read_one)


def _read_sent(sent: bytes, at: int) -> tuple[Query, int]:
    """The node that begins there, and where what is below it ends."""
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
