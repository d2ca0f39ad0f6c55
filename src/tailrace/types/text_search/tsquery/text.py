"""tsquery as text: 'fat' & ( 'rat' | !'cat':A ) <-> 'dog'."""

from __future__ import annotations

import re

from tailrace.model import PgType
from tailrace.types.codec import format_each, parse_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.text_search.tsquery.stored import AND, NOT, OR, PHRASE, PRIORITY, Query, read_query, write_query
from tailrace.types.text_search.tsvector import quote_lexeme
from tailrace.types.values import Mask, Texts, Values

WEIGHTS = ((8, "A"), (4, "B"), (2, "C"), (1, "D"))


def format_tsqueries(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As tsqueryout: 'fat' & ( 'rat' | !'cat':A ) <-> 'dog'."""

    def text_of(payload: bytes) -> str:
        query = read_query(payload)
        return "" if query is None else _infix(query, 0, False)

    return format_each(values, text_of)


def _infix(query: Query, outer: int, right_of_phrase: bool) -> str:
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
    return parse_each(texts, valid, pg_type, lambda text: write_query(_Reader(text).read()))


class _Reader:
    """Reads a query: operators by priority, of equal ones the left first. State: where it stands in the text."""

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
        token = TOKEN.match(self.text, self.at)
        if token is None:
            raise syntax_error("tsquery", self.text)
        return token

    def _binary(self, outer: int) -> Query:
        left = self._operand()
        while self.at < len(self.text):
            token = self._token()
            sign = token["sign"] or ""
            operator = {"&": AND, "|": OR}.get(sign, PHRASE if sign.startswith("<") else 0)
            if not operator or PRIORITY[operator] <= outer:
                break
            self.at = token.end()
            distance = int(token["distance"] or 1) if operator == PHRASE else 0
            left = Query(operator, distance, left=left, right=self._binary(PRIORITY[operator]))
        return left

    def _operand(self) -> Query:
        token = self._token()
        self.at = token.end()
        if token["sign"] == "!":
            return Query(NOT, left=self._operand())
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
        return Query(word=re.sub(r"\\(.)", r"\1", word, flags=re.S).encode(), weights=weights, prefix="*" in marks)
