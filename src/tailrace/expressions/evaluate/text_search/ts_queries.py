"""Texts as tsqueries (`adt/tsquery.c`, parse_tsquery; `tsearch/to_tsany.c`, pushval_morph; `adt/tsquery_cleanup.c`), by the configuration `simple`.

What a query finds nothing in, such as a tag, is a stop word: it goes, and the phrase around it becomes as much longer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter
from tailrace.expressions.evaluate.text_search.ts_documents import SimpleConfiguration, of_configuration
from tailrace.types.text_search.tsquery import AND, NOT, OR, PHRASE, PRIORITY, TsQuery, write_query

_STOP = TsQuery(word=b"\0")
_OPERATORS = "!&|()<"
_WEIGHTS = {"a": 8, "b": 4, "c": 2, "d": 1}
_FARTHEST = 16384
_PHRASE = re.compile(r"<(-|[0-9]+)(>?)")


class _Token(NamedTuple):
    """A word, or an operator with its distance; `(` and `)`; `end`."""

    kind: str
    word: str = ""
    weights: int = 0
    prefix: bool = False
    operator: int = 0
    distance: int = 0


_END, _OPEN, _CLOSE = _Token("end"), _Token("("), _Token(")")


class _QueryReader:
    """TSQueryParserState. Words that are found in one operand are joined by `joined_by`."""

    def __init__(self, simple: SimpleConfiguration, text: str, joined_by: int) -> None:
        self.simple, self.text, self.joined_by = simple, simple.checked(text), joined_by
        self.at, self.depth, self.wants, self.values = 0, 0, "first operand", list[TsQuery]()

    def read(self, next_token: Callable[[_QueryReader], _Token]) -> bytes:
        self.expression(next_token)
        query = self.values[-1] if self.values else None
        return write_query(None if query is None else _without_stops(query)[0])

    def expression(self, next_token: Callable[[_QueryReader], _Token]) -> None:
        """makepol."""
        stack: list[tuple[int, int]] = []
        while (token := next_token(self)).kind != "end":
            if token.kind == "word":
                self.operand(token)
            elif token.kind == "operator":
                self.reduce(stack, token.operator)
                stack.append((token.operator, token.distance))
            elif token.kind == "(":
                self.expression(next_token)
            else:
                break
        self.reduce(stack, OR)

    def reduce(self, stack: list[tuple[int, int]], operator: int) -> None:
        """cleanOpStack: NOT alone binds to what is right of it."""
        while stack:
            mine, other = PRIORITY[operator], PRIORITY[stack[-1][0]]
            if mine > other or (operator == NOT and mine == other):
                break
            self.join(*stack.pop())

    def join(self, operator: int, distance: int) -> None:
        right = self.values.pop()
        if operator == NOT:
            self.values.append(TsQuery(NOT, left=right))
        else:
            self.values.append(TsQuery(operator, distance, left=self.values.pop(), right=right))

    def operand(self, token: _Token) -> None:
        """pushval_morph."""
        words = list(self.simple.words(token.word))
        for number, word in enumerate(words):
            self.values.append(TsQuery(word=word.encode("utf-8", "surrogateescape"), weights=token.weights, prefix=token.prefix))
            if number:
                self.join(self.joined_by, 1 if self.joined_by == PHRASE else 0)
        if not words:
            self.values.append(_STOP)

    def is_space(self, at: int) -> bool:
        return at < len(self.text) and self.simple.classes.has("space", self.text[at])

    def starts(self, letters: str) -> bool:
        return self.at < len(self.text) and self.text[self.at] in letters

    def syntax_error(self, what: str = "syntax error in tsquery") -> Exception:
        return evaluation_error(f'{what}: "{self.text}"', "42601")

    # -- words -----------------------------------------------------------------------------------------------------------------

    def word(self, of_web: bool) -> str | None:
        """gettoken_tsvector; None where there is nothing more."""
        while self.is_space(self.at):
            self.at += 1
        if self.at >= len(self.text):
            return None
        if not of_web and self.starts("'"):
            return self.quoted()
        if self.starts(_OPERATORS + ('"' if of_web else "")):
            raise self.syntax_error()
        out: list[str] = []
        while self.at < len(self.text) and not self.is_space(self.at):
            if self.starts(_OPERATORS + ('"' if of_web else "")) or (out and self.starts(":")):
                break
            out.append(self.escaped() if not of_web and self.starts("\\") else self.text[self.at])
            self.at += 1
        return "".join(out)

    def quoted(self) -> str:
        out: list[str] = []
        self.at += 1
        while not self.starts("'") or self.text[self.at + 1 : self.at + 2] == "'":
            if self.at >= len(self.text):
                raise self.syntax_error()
            self.at += self.starts("'")
            out.append(self.escaped() if self.starts("\\") else self.text[self.at])
            self.at += 1
        self.at += 1
        if not out:
            raise self.syntax_error()
        return "".join(out)

    def escaped(self) -> str:
        """The character behind a backslash."""
        self.at += 1
        if self.at >= len(self.text):
            raise self.syntax_error("there is no escaped character")
        return self.text[self.at]

    def modifiers(self) -> tuple[int, bool]:
        """get_modifiers: weights, and whether it is a prefix."""
        weights, prefix = 0, False
        if self.starts(":"):
            self.at += 1
            while self.starts("abcdABCD*"):
                letter = self.text[self.at].lower()
                weights, prefix = weights | _WEIGHTS.get(letter, 0), prefix or letter == "*"
                self.at += 1
        return weights, prefix

    def phrase_distance(self) -> int | None:
        """parse_phrase_operator; None where there is no such operator."""
        found = _PHRASE.match(self.text, self.at)
        if found is None:
            return None
        distance = 1 if found[1] == "-" else int(found[1])
        if distance > _FARTHEST:
            raise invalid_parameter(
                f"distance in phrase operator must be an integer value between zero and {_FARTHEST} inclusive"
            )
        if not found[2] or found.end() == len(self.text):
            return None
        self.at = found.end()
        return distance


def _operator(reader: _QueryReader, operator: int, width: int = 1, distance: int = 0) -> _Token:
    reader.at += width
    reader.wants = "operand"
    return _Token("operator", operator=operator, distance=distance)


def _standard(reader: _QueryReader) -> _Token:
    """gettoken_query_standard."""
    while reader.is_space(reader.at):
        reader.at += 1
    if reader.wants != "operator":
        return _standard_operand(reader)
    for letter, operator in (("&", AND), ("|", OR)):
        if reader.starts(letter):
            return _operator(reader, operator)
    distance = reader.phrase_distance()
    if distance is not None:
        return _operator(reader, PHRASE, 0, distance)
    if reader.starts(")"):
        reader.at, reader.depth = reader.at + 1, reader.depth - 1
        if reader.depth >= 0:
            return _CLOSE
    elif reader.at >= len(reader.text) and not reader.depth:
        return _END
    raise reader.syntax_error()


def _standard_operand(reader: _QueryReader) -> _Token:
    if reader.starts("!"):
        return _operator(reader, NOT)
    if reader.starts("("):
        reader.at, reader.depth, reader.wants = reader.at + 1, reader.depth + 1, "operand"
        return _OPEN
    if reader.starts(":"):
        raise reader.syntax_error()
    word = reader.word(False)
    if word is None:
        if reader.wants == "first operand":
            return _END
        raise reader.syntax_error("no operand in tsquery")
    reader.wants = "operator"
    return _Token("word", word, *reader.modifiers())


def _web(reader: _QueryReader) -> _Token:
    """gettoken_query_websearch."""
    is_operand = reader.wants != "operator"
    while reader.is_space(reader.at) or reader.starts(_OPERATORS):
        if is_operand and reader.starts(_OPERATORS):
            reader.wants = "operand"
        reader.at += 1
    if not is_operand:
        if reader.at >= len(reader.text):
            return _END
        return _operator(reader, OR, 2) if _or_follows(reader) else _operator(reader, AND, 0)
    if reader.starts("-"):
        return _operator(reader, NOT)
    if reader.starts('"'):
        start = reader.at + 1
        close = reader.text.find('"', start)
        end = len(reader.text) if close < 0 else close
        reader.at, reader.wants = min(end + 1, len(reader.text)), "operator"
        return _Token("word", reader.text[start:end])
    word = reader.word(True)
    if word is None:
        if reader.wants != "first operand":
            reader.values.append(_STOP)
        return _END
    reader.wants = "operator"
    return _Token("word", word)


def _or_follows(reader: _QueryReader) -> bool:
    """parse_or_operator: a word of its own, and something behind it."""
    rest = reader.text[reader.at : reader.at + 3]
    if rest[:2].lower() != "or" or len(rest) < 3:
        return False
    classes = reader.simple.classes
    if rest[2] in "-_" or classes.has("alpha", rest[2]) or classes.has("digit", rest[2]):
        return False
    at = reader.at + 3
    while reader.is_space(at):
        at += 1
    return at < len(reader.text)


def _plain(reader: _QueryReader) -> _Token:
    """gettoken_query_plain."""
    start, reader.at = reader.at, len(reader.text)
    return _END if start == len(reader.text) else _Token("word", reader.text)


def _without_stops(query: TsQuery) -> tuple[TsQuery | None, int, int]:
    """clean_stopword_intree: what is left, and by how much phrases to its left and to its right become longer."""
    if not query.operator:
        return (None if query is _STOP else query), 0, 0
    assert query.left is not None
    left, left_left, left_right = _without_stops(query.left)
    if query.operator == NOT:
        return (None if left is None else TsQuery(NOT, left=left)), left_left, left_right
    assert query.right is not None
    right, right_left, right_right = _without_stops(query.right)
    is_phrase, distance = query.operator == PHRASE, query.distance
    if left is None and right is None:
        added = left_left + distance + right_left if is_phrase else max(left_left, right_left)
        return None, added, added
    if left is None:
        return right, left_left + distance + right_left if is_phrase else right_left, right_right
    if right is None:
        return left, left_left, left_right + distance + right_right if is_phrase else left_right
    if not is_phrase:
        return TsQuery(query.operator, left=left, right=right), 0, 0
    return TsQuery(PHRASE, distance + left_right + right_left, left, right), left_left, right_right


def _parsed(next_token: Callable[[_QueryReader], _Token], joined_by: int = PHRASE) -> Implementation:
    return of_configuration(lambda simple, text: _QueryReader(simple, text, joined_by).read(next_token))


FUNCTIONS: dict[str, Implementation] = {
    "to_tsquery_byid": _parsed(_standard), "websearch_to_tsquery_byid": _parsed(_web), "plainto_tsquery_byid": _parsed(_plain, AND),
    "phraseto_tsquery_byid": _parsed(_plain),
}  # fmt: skip
