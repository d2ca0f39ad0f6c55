"""The words of a statement in Spark SQL: strings, comments, names and parentheses (Spark's `SqlBaseLexer.g4`).

In: a text. Out: its tokens in order, each with where it stands, those in parentheses or brackets as a `Group`. Comments are left out.
Nothing more of the grammar is known here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tailrace.errors import UsageError

WORD, QUOTED, STRING, NUMBER, SYMBOL = "word", "quoted", "string", "number", "symbol"

_SKIPPED = re.compile(r"\s+|--(?:\\\r?\n|[^\n])*")
_RAW = re.compile(r"[rR](?:'[^']*'|\"[^\"]*\")")
_STRINGS = {
    True: re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL),
    False: re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""),
}
"""Whether a backslash escapes -> what a string is."""
_OTHERS = (
    (QUOTED, re.compile(r"`(?:[^`]|``)*`")),
    (NUMBER, re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*")),
    (WORD, re.compile(r"[^\W\d]\w*")),
    (SYMBOL, re.compile(r"=>|::|\|>|\|\||.", re.DOTALL)),
)
_COMMENT = re.compile(r"/\*|\*/")
_CLOSES = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is as it was written; it stands at [start, end)."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """A keyword, or name without quotes, in upper case; else empty."""
        return self.text.upper() if self.kind == WORD else ""

    @property
    def name(self) -> str:
        """What it names, in lower case, as names are resolved; empty if it is no name."""
        if self.kind == QUOTED:
            return self.text[1:-1].replace("``", "`").lower()
        return self.text.lower() if self.kind == WORD else ""

    def is_symbol(self, text: str) -> bool:
        return self.kind == SYMBOL and self.text == text


@dataclass(slots=True)
class Group:
    """What stands between a parenthesis or bracket and the one that closes it, which are at start and at end - 1."""

    bracket: str
    start: int
    end: int = 0
    items: list[Item] = field(default_factory=list)


Item = Token | Group


def string_value(token: Token, *, escapes: bool) -> str | None:
    """The value of a string; None where that takes more than doubled quotes to know."""
    if token.text[0] in "rR":
        return token.text[2:-1]
    inner = token.text[1:-1]
    if escapes and "\\" in inner:
        return None
    return inner.replace(token.text[0] * 2, token.text[0])


def items_of(text: str, *, escapes: bool) -> list[Item]:
    """The tokens and groups of a text. Raises UsageError (42601) for a string, comment or parenthesis that is not closed, with its position."""
    outermost = Group("", 0)
    open_groups = [outermost]
    for token in _tokens(text, escapes=escapes):
        if token.kind == SYMBOL and token.text in _CLOSES:
            group = Group(token.text, token.start)
            open_groups[-1].items.append(group)
            open_groups.append(group)
        elif token.kind == SYMBOL and token.text in _CLOSES.values():
            if len(open_groups) < 2 or _CLOSES[open_groups[-1].bracket] != token.text:
                raise _wrong(f'syntax error at or near "{token.text}"', token.start)
            open_groups.pop().end = token.end
        else:
            open_groups[-1].items.append(token)
    if len(open_groups) > 1:
        raise _wrong("unclosed parenthesis", open_groups[-1].start)
    return outermost.items


def _tokens(text: str, *, escapes: bool) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(text):
        skipped = _SKIPPED.match(text, at)
        if skipped:
            at = skipped.end()
        elif text.startswith("/*", at):
            at = _end_of_comment(text, at)
        else:
            token = _token(text, at, _STRINGS[escapes])
            found.append(token)
            at = token.end
    return found


def _token(text: str, at: int, strings: re.Pattern[str]) -> Token:
    for pattern in (_RAW, strings):
        if match := pattern.match(text, at):
            return Token(STRING, match[0], at, match.end())
    kind, match = next((kind, match) for kind, pattern in _OTHERS if (match := pattern.match(text, at)))
    if match[0] in "'\"`":
        raise _wrong("unterminated quoted " + ("identifier" if text[at] == "`" else "string"), at)
    return Token(kind, match[0], at, match.end())


def _end_of_comment(text: str, at: int) -> int:
    """Comments may hold comments."""
    depth = 0
    for match in _COMMENT.finditer(text, at):
        depth += 1 if match[0] == "/*" else -1
        if not depth:
            return match.end()
    raise _wrong("unterminated /* comment", at)


def _wrong(message: str, at: int) -> UsageError:
    return UsageError(message, sqlstate="42601").in_text(at + 1)
