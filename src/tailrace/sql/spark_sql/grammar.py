"""A statement in Spark SQL, read by sqlglot (docs/decisions/014-sqlglot.md).

In: a text. Out: its tokens, which parenthesis closes which, and, of a query, sqlglot's tree. Two things are ours: arguments
that Spark has no grammar for (`pg_lsn '0/16'`, VARIADIC), and what Spark's lexer does with a backslash at the end of a
comment's line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError

_OPENS = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSES = {TokenType.R_PAREN: ")", TokenType.R_BRACKET: "]", TokenType.R_BRACE: "}"}
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_BEGIN_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES", "INSERT"})
_CONTINUED_COMMENT = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|/\*.*?\*/)|--(?:\\\r?\n|[^\n])*\\\r?\n[^\n]*""", re.DOTALL
)
"""Strings, names and comments in which two dashes say nothing; else a comment that goes on behind a backslash."""


class _Dialect(Spark):
    """pg_lsn is known by the name of a type that Spark does not have."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: tuple[str, ...] = ("\\", "'", '"')
        COMMANDS: frozenset[TokenType] = frozenset()  # whose text sqlglot leaves unread
        KEYWORDS = {**Spark.Tokenizer.KEYWORDS, "PG_LSN": TokenType.INET, "NAME": TokenType.NAME}  # noqa: RUF012

    class Parser(Spark.Parser):
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
            **Spark.Parser.NO_PAREN_FUNCTION_PARSERS,
            "VARIADIC": lambda self: self.expression(exp.Variadic(this=self._parse_bitwise())),
        }


class _WithoutEscapes(_Dialect):
    """As `spark.sql.parser.escapedStringLiterals` has it: a backslash is a backslash."""

    class Tokenizer(_Dialect.Tokenizer):
        STRING_ESCAPES = ("'", '"')


@dataclass(frozen=True)
class SparkStatement:
    """`closing` has, for each opening parenthesis or bracket, by the number of its token, that of the closing one. `piped`
    are the numbers of tokens that stand behind a `|>`."""

    text: str
    escapes: bool
    tokens: list[Token]
    closing: dict[int, int]
    piped: frozenset[int]

    @classmethod
    def of(cls, text: str, *, escapes: bool) -> SparkStatement:
        """Raises UsageError (42601), with its position, for a string, comment or parenthesis that is not closed."""
        tokens = _tokens(text, _dialect(escapes=escapes))
        while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens.pop()
        return cls(text, escapes, tokens, *_parentheses(tokens))

    @property
    def is_single(self) -> bool:
        return all(token.token_type != TokenType.SEMICOLON for token in self.tokens)

    @cached_property
    def words(self) -> list[str]:
        """The words outside of parentheses, in upper case."""
        return [self.tokens[at].text.upper() for at in self._outside if self.tokens[at].text[:1].isalpha()]

    @property
    def _outside(self) -> Iterator[int]:
        at = 0
        while at < len(self.tokens):
            if at in self.closing:
                at = self.closing[at]
            else:
                yield at
            at += 1

    @property
    def begins_query(self) -> bool:
        first = next((token.text for token in self.tokens if token.token_type != TokenType.L_PAREN), "")
        return self.is_single and first.upper() in _BEGIN_QUERIES

    @cached_property
    def query(self) -> exp.Expression | None:
        """The tree of a query, or of INSERT with one; None for another statement, and for one that sqlglot does not know."""
        if not self.begins_query:
            return None
        try:
            (found,) = _dialect(escapes=self.escapes).parser().parse(list(self.tokens), self.text)
        except (ParseError, RecursionError):
            return None
        return None if isinstance(found, exp.Command) else found

    def name(self, at: int) -> str:
        """What a token names, in lower case; empty if it is no name."""
        token = self.tokens[at]
        is_name = token.token_type in _NAMES or token.text.isidentifier()
        return token.text.lower() if is_name and token.token_type not in (TokenType.STRING, TokenType.RAW_STRING) else ""

    def start_of_name(self, at: int) -> int:
        """The number of the token where a name begins that may have the schema pg_catalog; -1 if it has another."""

        def is_dot(place: int) -> bool:
            return place >= 0 and self.tokens[place].token_type == TokenType.DOT

        if not is_dot(at - 1):
            return at
        return at - 2 if at > 1 and self.name(at - 2) == "pg_catalog" and not is_dot(at - 3) else -1


def _dialect(*, escapes: bool) -> Any:
    return _Dialect() if escapes else _WithoutEscapes()


def _tokens(text: str, dialect: Any) -> list[Token]:
    if re.search(r"--[^\n]*\\\r?\n", text):
        text = _CONTINUED_COMMENT.sub(lambda found: found[1] or " " * len(found[0]), text)
    tokenizer = dialect.tokenizer()
    try:
        return list(tokenizer.tokenize(text))
    except TokenError as error:
        if isinstance(error.__cause__, IndexError):
            raise _wrong("unterminated /* comment", text.rfind("/*")) from None
        if missing := re.match(r"Missing (.).* from \d+:(\d+)", str(error.__cause__)):
            what = "identifier" if missing[1] == "`" else "string"
            raise _wrong(f"unterminated quoted {what}", int(missing[2])) from None
        return []  # Spark says what is wrong with it


def _parentheses(tokens: list[Token]) -> tuple[dict[int, int], frozenset[int]]:
    closing: dict[int, int] = {}
    piped: set[int] = set()
    opened: list[int] = []
    is_piped = [False]
    for at, token in enumerate(tokens):
        if any(is_piped):
            piped.add(at)
        if token.token_type in _OPENS:
            opened.append(at)
            is_piped.append(False)
        elif token.token_type in _CLOSES:
            if not opened or _OPENS[tokens[opened[-1]].token_type] != _CLOSES[token.token_type]:
                raise _wrong(f'syntax error at or near "{token.text}"', token.start)
            closing[opened.pop()] = at
            is_piped.pop()
        elif token.token_type == TokenType.PIPE_GT:
            is_piped[-1] = True
    if opened:
        raise _wrong("unclosed parenthesis", tokens[opened[-1]].start)
    return closing, frozenset(piped)


def _wrong(message: str, at: int) -> UsageError:
    return UsageError(message, sqlstate="42601").in_text(at + 1)
