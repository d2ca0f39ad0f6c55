"""Regular expressions made Python's: the subset of PostgreSQL's that Python's can do exactly.

In: a pattern. Out: one of Python's. Whether there is a match does not depend on which match it is, so `~` takes alternatives and any
quantifiers; functions that ask where a match ends take only patterns with one way to match (`PythonPattern.single`): PostgreSQL takes
the longest, Python the first. What \\w and its like mean, and which letters are one but for case, says the collation.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tailrace.dataclass import dataclass
from tailrace.expressions.evaluate.collations import ASCII, Letters
from tailrace.expressions.evaluate.fmgr.refusals import refused
from tailrace.expressions.evaluate.patterns import regcomp

_LEADING_OPTIONS = re.compile(r"\(\?([a-z]+)\)")
_CONSTRAINTS = {
    "^": r"\A", "$": r"\Z", "A": r"\A", "Z": r"\Z", "m": "(?<!{word})(?={word})", "M": "(?<={word})(?!{word})",
    "y": "(?:(?<!{word})(?={word})|(?<={word})(?!{word}))", "Y": "(?:(?<={word})(?={word})|(?<!{word})(?!{word}))",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PythonPattern:
    """`single` says that it can match in only one way, `classes` that it depends on what letters are."""

    pattern: re.Pattern[str]
    single: bool
    classes: bool


@lru_cache(maxsize=1024)
def python_pattern(text: str, flags: str = "", letters: Letters = ASCII) -> PythonPattern:
    """A pattern with its options, for Python. Raises the server's error for a malformed one."""
    ignore_case = "i" in flags
    if text.startswith("***"):
        raise refused(f'the regular expression "{text}"')
    leading = _LEADING_OPTIONS.match(text)
    if leading is not None:
        if set(leading[1]) - set("ics"):
            raise refused(f'the regular expression "{text}"')
        ignore_case = (ignore_case or "i" in leading[1]) and "c" not in leading[1]
        text = text[leading.end() :]
    found = regcomp.read_pattern(text)
    pieces = list(regcomp.pieces_of(found))
    groups = [piece for piece in pieces if isinstance(piece, regcomp.Group)]
    branching = any(len(each.branches) > 1 for each in (found, *(group.body for group in groups)))
    variable = sum(isinstance(piece, regcomp.Repetition) and piece.least != piece.most for piece in pieces)
    single = variable <= 1 and not branching and not any(group.kind in ("=", "!") for group in groups)
    pattern = re.compile(_PythonWriter(letters, ignore_case).alternatives(found))
    return PythonPattern(pattern, single, ignore_case or any(map(_asks_for_letters, pieces)))


def _asks_for_letters(piece: regcomp.Piece) -> bool:
    match piece:
        case regcomp.CharacterClass():
            return True
        case regcomp.Bracket(items=items):
            return any(isinstance(item, regcomp.CharacterClass) for item in items)
        case regcomp.Constraint(letter=letter):
            return letter in "mMyY"
    return False


@dataclass(frozen=True, slots=True)
class _PythonWriter:
    letters: Letters
    ignore_case: bool

    def alternatives(self, found: regcomp.Alternatives) -> str:
        return "|".join("".join(map(self.piece, branch)) for branch in found.branches)

    def piece(self, piece: regcomp.Piece) -> str:
        match piece:
            case regcomp.Character(letter):
                return self.character(letter)
            case regcomp.AnyCharacter():
                return r"[\s\S]"
            case regcomp.CharacterClass(name, negated):
                return f"[{'^' if negated else ''}{self.in_class(name)}]"
            case regcomp.Bracket(negated, items):
                return f"[{'^' if negated else ''}{''.join(map(self.bracket_item, items))}]"
            case regcomp.Constraint(letter):
                return _CONSTRAINTS[letter].format(word=f"[{self.in_class('word')}]")
            case regcomp.Group(kind, body):
                return f"({'?' if kind else ''}{kind}{self.alternatives(body)})"
            case regcomp.Repetition(atom, least, most, lazy):
                return f"(?:{self.piece(atom)}){{{least},{'' if most is None else most}}}{'?' if lazy else ''}"

    def character(self, letter: str) -> str:
        """A letter, or if case does not matter its two cases; the letter itself may be neither."""
        cases = self.letters.cases(letter) if self.ignore_case else letter
        return re.escape(letter) if cases in (letter, 2 * letter) else f"[{re.escape(cases)}]"

    def in_class(self, name: str) -> str:
        """A class's characters. Where case does not matter, upper and lower are all letters."""
        return self.letters.in_class("alpha" if self.ignore_case and name in ("upper", "lower") else name)

    def bracket_item(self, item: regcomp.Character | regcomp.CharacterClass | regcomp.CharacterRange) -> str:
        match item:
            case regcomp.CharacterClass(name):
                return self.in_class(name)
            case regcomp.Character(letter):
                return re.escape("".join(sorted({*self.letters.cases(letter)}))) if self.ignore_case else re.escape(letter)
            case regcomp.CharacterRange(first, last):
                others = self.outside(first, last) if self.ignore_case else ""
                return f"{re.escape(first)}-{re.escape(last)}{re.escape(others)}"

    def outside(self, first: str, last: str) -> str:
        """The other cases of the letters of a range that are not in it."""
        found = {case for code in range(ord(first), ord(last) + 1) for case in self.letters.cases(chr(code))}
        return "".join(sorted(case for case in found if not first <= case <= last))
