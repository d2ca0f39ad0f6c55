"""Writing tsquery: from the text that `textsearch` prints, and from the binary form, to items in Polish order."""

from __future__ import annotations

import re
import struct

import numpy as np

from tailrace.model import PgType
from tailrace.types.codec import format_error, parse_each, receive_each, syntax_error
from tailrace.types.text_search.tsvector import AND, NOT, OPERATOR, OR, PHRASE, PRIORITY, VALUE, Query
from tailrace.types.values import Mask, Texts, Values

TOKEN = re.compile(r"\s*(?:(?P<sign>[()!&|]|<->|<(?P<distance>\d+)>)|'(?P<quoted>(?:[^']|'')*)'(?::(?P<marks>[*ABCD]+))?"
                   r"|(?P<bare>[^\s'()!&|<:]+)(?::(?P<bare_marks>[*ABCD]+))?)\s*", re.S)  # fmt: skip


def _table() -> list[int]:
    entries = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entries = np.where(entries & 1, entries >> 1 ^ np.uint32(0xEDB88320), entries >> 1)
    return [int(entry) for entry in entries]


_CRC = _table()


def legacy_crc(word: bytes) -> int:
    """The checksum of a lexeme: the usual table of CRC-32, walked from the wrong end (`utils/pg_crc.h`), and so kept for ever."""
    crc = 0xFFFFFFFF
    for byte in word:
        crc = _CRC[(crc >> 24 ^ byte) & 0xFF] ^ crc << 8 & 0xFFFFFFFF
    return crc ^ 0xFFFFFFFF


def parse_tsqueries(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As tsqueryin, for the form that tsqueryout prints."""
    return parse_each(texts, valid, pg_type, lambda text: write_query(_Reader(text).read()))


class _Reader:
    """Operators by priority, of equal ones the left first. State: where it stands in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def read(self) -> Query | None:
        if not self.text.strip():
            return None
        query = self._binary(0)
        if self.at < len(self.text):
            raise syntax_error("tsquery", self.text)
        return query

    def _token(self) -> re.Match[str]:
        found = TOKEN.match(self.text, self.at)
        if found is None:
            raise syntax_error("tsquery", self.text)
        return found

    def _binary(self, outer: int) -> Query:
        left = self._operand()
        while self.at < len(self.text):
            found = self._token()
            sign = found["sign"] or ""
            operator = {"&": AND, "|": OR}.get(sign, PHRASE if sign.startswith("<") else 0)
            if not operator or PRIORITY[operator] <= outer:
                break
            self.at = found.end()
            distance = int(found["distance"] or 1) if operator == PHRASE else 0
            left = Query(operator, distance, left=left, right=self._binary(PRIORITY[operator]))
        return left

    def _operand(self) -> Query:
        found = self._token()
        self.at = found.end()
        if found["sign"] == "!":
            return Query(NOT, left=self._operand())
        if found["sign"] == "(":
            inner = self._binary(0)
            closing = self._token()
            self.at = closing.end()
            if closing["sign"] != ")":
                raise syntax_error("tsquery", self.text)
            return inner
        if found["sign"]:
            raise syntax_error("tsquery", self.text)
        word = found["bare"] if found["quoted"] is None else found["quoted"].replace("''", "'")
        marks = found["marks"] or found["bare_marks"] or ""
        weights = sum(bit for bit, letter in ((8, "A"), (4, "B"), (2, "C"), (1, "D")) if letter in marks)
        return Query(word=re.sub(r"\\(.)", r"\1", word, flags=re.S).encode(), weights=weights, prefix="*" in marks)


def write_query(query: Query | None) -> bytes:
    """The stored form. Lexemes lie in the order in which they are read, items the other way round."""
    words = bytearray()

    def items(node: Query) -> list[bytes]:
        if not node.operator:
            where = len(words) << 12 | len(node.word)
            words.extend(node.word + b"\0")
            return [struct.pack("<BBBxII", VALUE, node.weights, node.prefix, legacy_crc(node.word), where)]
        assert node.left is not None
        left = items(node.left)
        right = items(node.right) if node.right is not None else []
        head = struct.pack("<BBhI4x", OPERATOR, node.operator, node.distance, len(right) + 1)
        return [head, *right, *left]

    made = items(query) if query is not None else []
    return struct.pack("<i", len(made)) + b"".join(made) + bytes(words)


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
