"""Regular expressions as PostgreSQL reads them (`regex/regcomp.c`, `regex/regc_lex.c`): advanced ones, of whatever dialect can be said of engines.

In: a pattern. Out: its tree. Back references, lookbehind and options in the middle are refused; what is malformed raises the server's error.
Whether letters are one but for case, and which they are, is a matter of who writes the tree for an engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions.evaluate.collations.letters import CLASSES
from tailrace.expressions.evaluate.fmgr.refusals import Refused, evaluation_error, refused

_ESCAPED_CLASSES = {"d": "digit", "w": "word", "s": "space"}
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "e": "\033", "B": "\\", "0": "\0"}
_CONSTRAINTS = frozenset("AZmMyY")
_BOUNDS = re.compile(r"\{(\d+)(,?)(\d*)\}")
_NAMED_CLASS = re.compile(r":(\w+):\]")
MOST_REPETITIONS = 255
"""DUPMAX."""


@dataclass(frozen=True, slots=True)
class Character:
    letter: str


@dataclass(frozen=True, slots=True)
class AnyCharacter:
    """A dot."""


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """`\\d`, or `[:alpha:]` in brackets; negated as `\\D`."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class CharacterRange:
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Bracket:
    negated: bool
    items: tuple[Character | CharacterClass | CharacterRange, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """`^`, `$`, or the letter of an escape that matches nothing: A, Z, m, M, y, Y."""

    letter: str


@dataclass(frozen=True, slots=True)
class Group:
    """`kind` is what stands behind the question mark, of `(?:…)`, `(?=…)`, `(?!…)`; empty of a group that captures."""

    kind: str
    body: Alternatives


@dataclass(frozen=True, slots=True)
class Repetition:
    """From `least` to `most` times, without bound if that is None; `lazy` prefers less."""

    atom: Atom
    least: int
    most: int | None
    lazy: bool


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Branches, of which each is a sequence."""

    branches: tuple[tuple[Piece, ...], ...]


Atom = Character | AnyCharacter | CharacterClass | Bracket | Constraint | Group
Piece = Atom | Repetition


def read_pattern(text: str) -> Alternatives:
    """Raises the server's error (2201B) for a malformed pattern, Refused for one that is not read."""
    reader = _PatternReader(text)
    found = reader.alternatives()
    if reader.at < len(text):
        raise malformed("parentheses () not balanced")
    return found


def pieces_of(found: Alternatives) -> Iterator[Piece]:
    """Every piece, each before what it is made of."""
    for branch in found.branches:
        for piece in branch:
            yield piece
            atom = piece.atom if isinstance(piece, Repetition) else piece
            if atom is not piece:
                yield atom
            if isinstance(atom, Group):
                yield from pieces_of(atom.body)


def malformed(what: str) -> UsageError:
    return evaluation_error(f"invalid regular expression: {what}", "2201B")


class _PatternReader:
    """Reads one pattern. State: the place, and in how many groups it is."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def refused(self) -> Refused:
        return refused(f'the regular expression "{self.text}"')

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self) -> Alternatives:
        """Branches with | between them, up to the end or a closing parenthesis."""
        branches = [self.branch()]
        while self.peek() == "|":
            self.take()
            branches.append(self.branch())
        return Alternatives(tuple(branches))

    def branch(self) -> tuple[Piece, ...]:
        found = []
        while self.at < len(self.text) and self.peek() != "|" and not (self.peek() == ")" and self.depth):
            found.append(self.piece())
        return tuple(found)

    def piece(self) -> Piece:
        atom = self.atom()
        bounds = self.quantifier()
        if bounds is None:
            return atom
        if isinstance(atom, Constraint) or (isinstance(atom, Group) and atom.kind in ("=", "!")) or self.quantifier() is not None:
            raise malformed("quantifier operand invalid")
        return Repetition(atom, *bounds)

    def quantifier(self) -> tuple[int, int | None, bool] | None:
        """(least, most, whether the shortest is wanted), or None where none follows."""
        letter = self.peek()
        most: int | None
        if letter and letter in "*+?":
            self.take()
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[letter]
        elif letter == "{" and self.text[self.at + 1 : self.at + 2].isdigit():
            found = _BOUNDS.match(self.text, self.at)
            if found is None:
                raise self.refused()
            self.at = found.end()
            least = int(found[1])
            most = least if not found[2] else int(found[3]) if found[3] else None
            if least > MOST_REPETITIONS or (most is not None and (most > MOST_REPETITIONS or least > most)):
                raise malformed("invalid repetition count(s)")
        else:
            return None
        lazy = self.peek() == "?"
        self.at += lazy
        return least, most, lazy

    def atom(self) -> Atom:
        letter = self.take()
        match letter:
            case "(":
                return self.group()
            case "[":
                return self.bracket()
            case "\\":
                return self.escape()
            case ".":
                return AnyCharacter()
            case "^" | "$":
                return Constraint(letter)
            case "*" | "+" | "?":
                raise malformed("quantifier operand invalid")
            case "{" if self.peek().isdigit():
                raise malformed("quantifier operand invalid")
            case ")":
                raise malformed("parentheses () not balanced")
        return Character(letter)

    def group(self) -> Group:
        kind = ""
        if self.peek() == "?":
            self.take()
            kind = self.peek()
            if not kind or kind not in ":=!":
                raise self.refused()
            self.take()
        self.depth += 1
        inside = self.alternatives()
        self.depth -= 1
        if self.peek() != ")":
            raise malformed("parentheses () not balanced")
        self.take()
        return Group(kind, inside)

    def escape(self) -> Atom:
        if self.at == len(self.text):
            raise malformed("invalid escape \\ sequence")
        letter = self.take()
        if not letter.isalnum() or not letter.isascii():
            return Character(letter)
        if letter.lower() in _ESCAPED_CLASSES:
            return CharacterClass(_ESCAPED_CLASSES[letter.lower()], letter.isupper())
        if letter in _CONSTRAINTS:
            return Constraint(letter)
        if letter in _ESCAPED and not (letter == "0" and self.peek().isdigit()):
            return Character(_ESCAPED[letter])
        raise self.refused()

    def bracket(self) -> Bracket:
        """[…]."""
        negated = self.peek() == "^"
        self.at += negated
        items: list[Character | CharacterClass | CharacterRange] = []
        while True:
            if self.at >= len(self.text):
                raise malformed("brackets [] not balanced")
            if self.peek() == "]" and items:
                self.take()
                return Bracket(negated, tuple(items))
            items.append(self.bracket_item(first=not items))

    def bracket_item(self, *, first: bool) -> Character | CharacterClass | CharacterRange:
        start = self.bracket_character(first=first)
        if isinstance(start, CharacterClass) or self.peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return start
        self.take()
        end = self.bracket_character(first=False)
        if isinstance(end, CharacterClass):
            raise self.refused()
        if start.letter > end.letter:
            raise malformed("invalid character range")
        return CharacterRange(start.letter, end.letter)

    def bracket_character(self, *, first: bool) -> Character | CharacterClass:
        letter = self.take()
        if letter == "[" and self.peek() in (":", ".", "="):
            found = _NAMED_CLASS.match(self.text, self.at)
            if found is None or found[1] not in CLASSES:
                raise self.refused()
            self.at = found.end()
            return CharacterClass(found[1])
        if letter == "\\":
            return self.bracket_escape()
        if letter == "-" and not first and self.peek() != "]":
            raise self.refused()
        return Character(letter)

    def bracket_escape(self) -> Character | CharacterClass:
        if self.at >= len(self.text):
            raise malformed("invalid escape \\ sequence")
        escaped = self.take()
        if escaped in _ESCAPED_CLASSES:
            return CharacterClass(_ESCAPED_CLASSES[escaped])
        if not escaped.isalnum():
            return Character(escaped)
        if escaped not in _ESCAPED or escaped == "0":
            raise self.refused()
        return Character(_ESCAPED[escaped])
