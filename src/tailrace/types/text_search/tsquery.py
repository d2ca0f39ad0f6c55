"""tsquery (`adt/tsquery.c`): 'fat' & ( 'rat' | !'cat':A ) <-> 'dog'.

It is stored (`tsearch/ts_type.h`) as i32 how many items, items of 12 bytes in Polish order (an operator, its right operand, its left operand), then
the lexemes, each closed by a zero.
An item is u8 VALUE, u8 weights, u8 whether it is a prefix, padding, u32 checksum of the lexeme, u32 its length (12 bits) and place (20); or
u8 OPERATOR, u8 which, i16 distance of a phrase, u32 how many items further its left operand is, padding.

Its binary form is how many items, then in stored order u8 kind; of a lexeme weights, prefix and the word; of an operator its number and, if it is a
phrase, the distance.
"""

from __future__ import annotations

import re
import struct

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.model import PgType
from tailrace.types.codec import characters_sent, format_each, format_error, parse_each, receive_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.text_search.tsvector import quote_lexeme
from tailrace.types.values import Mask, Texts, Values

VALUE, OPERATOR = 1, 2
NOT, AND, OR, PHRASE = 1, 2, 3, 4
PRIORITY = {OR: 1, AND: 2, PHRASE: 3, NOT: 4}
ITEMS = 4
"""Where the items begin."""
OPERAND_ITEM, OPERATOR_ITEM = struct.Struct("<BBBxII"), struct.Struct("<BBhI4x")
LENGTH, START_SHIFT = 0xFFF, 12


@dataclass(slots=True)
class TsQuery:
    """A node: a lexeme with its weights and whether it is a prefix, or an operator with one or two operands."""

    operator: int = 0
    distance: int = 0
    left: TsQuery | None = None
    right: TsQuery | None = None
    word: bytes = b""
    weights: int = 0
    prefix: bool = False


def read_query(payload: bytes) -> TsQuery | None:
    """The tree of a stored tsquery; None for one that is empty."""
    return _read_node(payload, 0) if count_items(payload) else None


def _read_node(payload: bytes, item: int) -> TsQuery:
    at = item_at(item)
    if payload[at] == VALUE:
        _, weights, prefix, _, _ = OPERAND_ITEM.unpack_from(payload, at)
        return TsQuery(word=lexeme_of(payload, at), weights=weights, prefix=bool(prefix))
    _, operator, distance, left = OPERATOR_ITEM.unpack_from(payload, at)
    if operator == NOT:
        return TsQuery(operator, left=_read_node(payload, item + 1))
    return TsQuery(operator, distance, left=_read_node(payload, item + left), right=_read_node(payload, item + 1))


def count_items(payload: bytes) -> int:
    return int(struct.unpack_from("<i", payload)[0])


def item_at(item: int) -> int:
    """Where the item of that number is."""
    return ITEMS + OPERAND_ITEM.size * item


def lexeme_of(payload: bytes, at: int) -> bytes:
    """The lexeme of the operand at `at`."""
    *_, where = OPERAND_ITEM.unpack_from(payload, at)
    start = item_at(count_items(payload)) + (where >> START_SHIFT)
    return payload[start : start + (where & LENGTH)]


def write_query(query: TsQuery | None) -> bytes:
    """The stored form. Lexemes lie in the order in which they are read, items the other way round."""
    words = bytearray()

    def items_of(node: TsQuery) -> list[bytes]:
        if not node.operator:
            where = len(words) << START_SHIFT | len(node.word)
            words.extend(node.word + b"\0")
            return [OPERAND_ITEM.pack(VALUE, node.weights, node.prefix, legacy_crc(node.word), where)]
        assert node.left is not None, "an operator has an operand"
        left = items_of(node.left)
        right = items_of(node.right) if node.right is not None else []
        return [OPERATOR_ITEM.pack(OPERATOR, node.operator, node.distance, len(right) + 1), *right, *left]

    items = items_of(query) if query is not None else []
    return struct.pack("<i", len(items)) + b"".join(items) + bytes(words)


def _crc_table() -> list[int]:
    entries = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entries = np.where(entries & 1, entries >> 1 ^ np.uint32(0xEDB88320), entries >> 1)
    return [int(entry) for entry in entries]


_CRC = _crc_table()


def legacy_crc(word: bytes) -> int:
    """The checksum of a lexeme: the usual table of CRC-32 with the shift of the other direction (COMP_LEGACY_CRC32 in `utils/pg_crc.h`)."""
    crc = 0xFFFFFFFF
    for byte in word:
        crc = _CRC[(crc >> 24 ^ byte) & 0xFF] ^ crc << 8 & 0xFFFFFFFF
    return crc ^ 0xFFFFFFFF


WEIGHTS = ((8, "A"), (4, "B"), (2, "C"), (1, "D"))


def format_tsqueries(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As tsqueryout: 'fat' & ( 'rat' | !'cat':A ) <-> 'dog'."""

    def text_of(payload: bytes) -> str:
        query = read_query(payload)
        return "" if query is None else format_query(query)

    return format_each(values, text_of)


def format_query(query: TsQuery) -> str:
    return _infix(query, 0, False)


def _infix(query: TsQuery, outer: int, right_of_phrase: bool) -> str:
    """In parentheses where it binds weaker than what is around it; a phrase right of a phrase always."""
    if not query.operator:
        marks = ("*" if query.prefix else "") + "".join(letter for bit, letter in WEIGHTS if query.weights & bit)
        return quote_lexeme(query.word) + (":" + marks if marks else "")
    assert query.left is not None, "an operator has an operand"
    priority = PRIORITY[query.operator]
    if query.operator == NOT:
        text = "!" + _infix(query.left, priority, False)
    else:
        assert query.right is not None, "an operator other than ! has two"
        phrase = query.operator == PHRASE
        sign = ("<->" if query.distance == 1 else f"<{query.distance}>") if phrase else "&" if query.operator == AND else "|"
        text = f"{_infix(query.left, priority, False)} {sign} {_infix(query.right, priority, phrase)}"
    return f"( {text} )" if priority < outer or (query.operator == PHRASE and right_of_phrase) else text


TOKEN = re.compile(r"\s*(?:(?P<sign>[()!&|]|<->|<(?P<distance>\d+)>)|'(?P<quoted>(?:[^']|'')*)'(?::(?P<marks>[*ABCD]+))?"
                   r"|(?P<bare>[^\s'()!&|<:]+)(?::(?P<bare_marks>[*ABCD]+))?)\s*", re.S)  # fmt: skip


def parse_tsqueries(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As tsqueryin, for the form that tsqueryout prints."""
    return parse_each(texts, valid, pg_type, lambda text: write_query(_QueryParser(text).read()))


class _QueryParser:
    """Reads a query: operators by priority, of equal ones the left first. State: where it stands in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def read(self) -> TsQuery | None:
        if not self.text.strip():
            return None
        query = self._binary(0)
        if self.at < len(self.text):
            raise syntax_error("tsquery", self.text)
        return query

    def _token(self) -> re.Match[str]:
        token = TOKEN.match(self.text, self.at)
        if token is None:
            raise syntax_error("tsquery", self.text)
        return token

    def _binary(self, outer: int) -> TsQuery:
        left = self._operand()
        while self.at < len(self.text):
            token = self._token()
            sign = token["sign"] or ""
            operator = {"&": AND, "|": OR}.get(sign, PHRASE if sign.startswith("<") else 0)
            if not operator or PRIORITY[operator] <= outer:
                break
            self.at = token.end()
            distance = int(token["distance"] or 1) if operator == PHRASE else 0
            left = TsQuery(operator, distance, left=left, right=self._binary(PRIORITY[operator]))
        return left

    def _operand(self) -> TsQuery:
        token = self._token()
        self.at = token.end()
        if token["sign"] == "!":
            return TsQuery(NOT, left=self._operand())
        if token["sign"] == "(":
            inner = self._binary(0)
            closing = self._token()
            self.at = closing.end()
            if closing["sign"] != ")":
                raise syntax_error("tsquery", self.text)
            return inner
        if token["sign"]:
            raise syntax_error("tsquery", self.text)
        word = token["bare"] if token["quoted"] is None else token["quoted"].replace("''", "'")
        marks = token["marks"] or token["bare_marks"] or ""
        weights = sum(bit for bit, letter in WEIGHTS if letter in marks)
        return TsQuery(word=re.sub(r"\\(.)", r"\1", word, flags=re.S).encode(), weights=weights, prefix="*" in marks)


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


def _read_sent(sent: bytes, at: int) -> tuple[TsQuery, int]:
    """The node that begins there, and where what is below it ends."""
    if sent[at] == VALUE:
        stop = sent.index(b"\0", at + 3)
        return TsQuery(word=sent[at + 3 : stop], weights=sent[at + 1], prefix=bool(sent[at + 2])), stop + 1
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
    return TsQuery(operator, distance, left=left, right=right), at
