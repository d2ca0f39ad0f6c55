"""Regular expressions (`regex/`) made Python's: the subset of PostgreSQL's that Python's can do exactly.

A pattern is read as PostgreSQL does and written anew for Python. Whether there is a match does not depend on which match it is,
so `~` takes alternatives and
any quantifiers; functions that ask where a match ends take only patterns with one way to match (`Translated.single`): PostgreSQL takes the longest,
Python the first. Back references, lookbehind and options in the middle are refused. What \\w and its like mean, and which letters are one but for
case, says the collation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tailrace.expressions.evaluate.collations import ASCII, Letters
from tailrace.expressions.evaluate.collations.letters import CLASSES
from tailrace.expressions.evaluate.refusals import evaluation_error, refused

_ESCAPED_CLASSES = {"d": "digit", "w": "word", "s": "space"}
_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "e": "\033", "B": "\\", "0": "\0"}
_CONSTRAINTS = {
    "m": "(?<!{word})(?={word})", "M": "(?<={word})(?!{word})", "y": "(?:(?<!{word})(?={word})|(?<={word})(?!{word}))",
    "Y": "(?:(?<={word})(?={word})|(?<!{word})(?!{word}))",
}  # fmt: skip
MOST_REPETITIONS = 255
"""DUPMAX."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A pattern for Python; `single` says that it can match in only one way, `classes` that it depends on what letters are."""

    pattern: re.Pattern[str]
    single: bool
    classes: bool


def _malformed(what: str) -> Exception:
    return evaluation_error(f"invalid regular expression: {what}", "2201B")


class _Translator:
    """Reads one pattern. State: the place, and what has been seen that decides how it may be used."""

    def __init__(self, text: str, letters: Letters, ignore_case: bool) -> None:
        self.text, self.at = text, 0
        self.letters, self.ignore_case = letters, ignore_case
        self.variable = 0
        self.alternatives = self.classes = False
        self.depth = 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def expression(self) -> str:
        """Branches with | between them, up to the end or a closing parenthesis."""
        branches = [self.branch()]
        while self.peek() == "|":
            self.take()
            self.alternatives = True
            branches.append(self.branch())
        return "|".join(branches)

    def branch(self) -> str:
        out = []
        while self.at < len(self.text) and self.peek() != "|" and not (self.peek() == ")" and self.depth):
            out.append(self.quantified())
        return "".join(out)

    def quantified(self) -> str:
        started = self.variable
        atom, may_repeat = self.atom()
        bounds = self.quantifier()
        if bounds is None:
            return atom
        if not may_repeat:
            raise _malformed("quantifier operand invalid")
        low, high, lazy = bounds
        if low != high:
            self.variable += 1
            if self.variable - started > 1:
                self.variable += 1
        if self.quantifier() is not None:
            raise _malformed("quantifier operand invalid")
        return f"(?:{atom}){{{low},{'' if high is None else high}}}{'?' if lazy else ''}"

    def quantifier(self) -> tuple[int, int | None, bool] | None:
        """(least, most, whether the shortest is wanted), or None where none follows."""
        letter = self.peek()
        if letter and letter in "*+?":
            self.take()
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[letter]
        elif letter == "{" and self.text[self.at + 1 : self.at + 2].isdigit():
            found = re.compile(r"\{(\d+)(,?)(\d*)\}").match(self.text, self.at)
            if found is None:
                raise refused(f'the regular expression "{self.text}"')
            self.at = found.end()
            low = int(found[1])
            high = low if not found[2] else int(found[3]) if found[3] else None
            if low > MOST_REPETITIONS or (high is not None and (high > MOST_REPETITIONS or low > high)):
                raise _malformed("invalid repetition count(s)")
        else:
            return None
        lazy = self.peek() == "?"
        self.at += lazy
        return low, high, lazy

    def atom(self) -> tuple[str, bool]:
        """Python's form of what stands next, and whether a quantifier may follow."""
        letter = self.take()
        match letter:
            case "(":
                return self.group()
            case "[":
                return self.bracket(), True
            case "\\":
                return self.escape()
            case ".":
                return r"[\s\S]", True
            case "^":
                return r"\A", False
            case "$":
                return r"\Z", False
            case "*" | "+" | "?":
                raise _malformed("quantifier operand invalid")
            case "{" if self.peek().isdigit():
                raise _malformed("quantifier operand invalid")
            case ")":
                raise _malformed("parentheses () not balanced")
        return self.character(letter), True

    def character(self, letter: str) -> str:
        """A letter, or if case does not matter its two cases; the letter itself may be neither."""
        cases = self.letters.cases(letter) if self.ignore_case else letter
        return re.escape(letter) if cases in (letter, 2 * letter) else f"[{re.escape(cases)}]"

    def in_class(self, name: str) -> str:
        """A class's characters. Where case does not matter, upper and lower are all letters."""
        self.classes = True
        return self.letters.in_class("alpha" if self.ignore_case and name in ("upper", "lower") else name)

    def group(self) -> tuple[str, bool]:
        opening, repeats = "(", True
        if self.peek() == "?":
            self.take()
            kind = self.peek()
            if not kind or kind not in ":=!":
                raise refused(f'the regular expression "{self.text}"')
            self.take()
            opening, repeats = "(?" + kind, kind == ":"
            if kind in "=!":
                self.alternatives = True
        self.depth += 1
        inside = self.expression()
        self.depth -= 1
        if self.peek() != ")":
            raise _malformed("parentheses () not balanced")
        self.take()
        return f"{opening}{inside})", repeats

    def escape(self) -> tuple[str, bool]:
        if self.at == len(self.text):
            raise _malformed("invalid escape \\ sequence")
        letter = self.take()
        if not letter.isalnum() or not letter.isascii():
            return self.character(letter), True
        if letter.lower() in _ESCAPED_CLASSES:
            return f"[{'^' if letter.isupper() else ''}{self.in_class(_ESCAPED_CLASSES[letter.lower()])}]", True
        if letter in "AZ":
            return "\\" + letter, False
        if letter in _CONSTRAINTS:
            return _CONSTRAINTS[letter].format(word=f"[{self.in_class('word')}]"), False
        if letter in _CHARACTERS and not (letter == "0" and self.peek().isdigit()):
            return re.escape(_CHARACTERS[letter]), True
        raise refused(f'the regular expression "{self.text}"')

    def bracket(self) -> str:
        """[…], as a class of Python's."""
        negated = self.peek() == "^"
        self.at += negated
        out: list[str] = []
        first = True
        while True:
            if self.at >= len(self.text):
                raise _malformed("brackets [] not balanced")
            if self.peek() == "]" and not first:
                self.take()
                return f"[{'^' if negated else ''}{''.join(out)}]"
            out.append(self.bracket_part(first))
            first = False

    def bracket_part(self, first: bool) -> str:
        start = self.bracket_character(first)
        if isinstance(start, tuple):
            return start[0]
        if self.peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return re.escape("".join(sorted({*self.letters.cases(start)}))) if self.ignore_case else re.escape(start)
        self.take()
        end = self.bracket_character(False)
        if isinstance(end, tuple):
            raise refused(f'the regular expression "{self.text}"')
        if start > end:
            raise _malformed("invalid character range")
        others = self.outside(start, end) if self.ignore_case else ""
        return f"{re.escape(start)}-{re.escape(end)}{re.escape(others)}"

    def outside(self, start: str, end: str) -> str:
        """The other cases of the letters of a range that are not in it."""
        found = {case for code in range(ord(start), ord(end) + 1) for case in self.letters.cases(chr(code))}
        return "".join(sorted(case for case in found if not start <= case <= end))

    def bracket_character(self, first: bool) -> str | tuple[str]:
        """One character, or a class of them."""
        letter = self.take()
        if letter == "[" and self.peek() in (":", ".", "="):
            found = re.compile(r":(\w+):\]").match(self.text, self.at)
            if found is None or found[1] not in CLASSES:
                raise refused(f'the regular expression "{self.text}"')
            self.at = found.end()
            return (self.in_class(found[1]),)
        if letter == "\\":
            if self.at >= len(self.text):
                raise _malformed("invalid escape \\ sequence")
            escaped = self.take()
            if escaped in _ESCAPED_CLASSES:
                return (self.in_class(_ESCAPED_CLASSES[escaped]),)
            if escaped.isalnum():
                if escaped not in _CHARACTERS or escaped == "0":
                    raise refused(f'the regular expression "{self.text}"')
                return _CHARACTERS[escaped]
            return escaped
        if letter == "-" and not first and self.peek() != "]":
            raise refused(f'the regular expression "{self.text}"')
        return letter


@lru_cache(maxsize=1024)
def translated(text: str, flags: str = "", letters: Letters = ASCII) -> Translated:
    """A pattern with its options, for Python. Raises the server's error for a malformed one."""
    ignore_case = "i" in flags
    if text.startswith("***"):
        raise refused(f'the regular expression "{text}"')
    leading = re.compile(r"\(\?([a-z]+)\)").match(text)
    if leading is not None:
        if set(leading[1]) - set("ics"):
            raise refused(f'the regular expression "{text}"')
        ignore_case = (ignore_case or "i" in leading[1]) and "c" not in leading[1]
        text = text[leading.end() :]
    reader = _Translator(text, letters, ignore_case)
    source = reader.expression()
    if reader.at < len(reader.text):
        raise _malformed("parentheses () not balanced")
    pattern = re.compile(source)
    return Translated(pattern, reader.variable <= 1 and not reader.alternatives, reader.classes or ignore_case)
