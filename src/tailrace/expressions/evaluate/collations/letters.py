"""Which characters are letters, and what is their upper and lower case: `Letters`, of which each provider has its own. Here are those of ASCII."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tailrace.expressions.evaluate.collations.collation import Problem

_UPPER = {lower: lower - 32 for lower in range(97, 123)}
_LOWER = {upper: upper + 32 for upper in range(65, 91)}
_CLASSES = {
    "alpha": "A-Za-z", "digit": "0-9", "alnum": "0-9A-Za-z", "upper": "A-Z", "lower": "a-z", "space": " \\t\\n\\r\\f\\v",
    "punct": "!-/:-@\\[-`{-~", "print": " -~", "graph": "!-~", "word": "0-9A-Za-z_",
}  # fmt: skip
FIXED = {"blank": " \\t", "xdigit": "0-9A-Fa-f", "cntrl": "\\x00-\\x1f\\x7f-\\x9f", "ascii": "\\x00-\\x7f"}
"""Classes that are the same everywhere (`regc_locale.c`)."""
CLASSES = (*_CLASSES, *FIXED)
EVERY = 0x110000


class Letters:
    """Those of the C locale: ASCII's, and no others."""

    known = True

    def check(self, text: str, what: str) -> None:
        """Raise Refused where it is not known what this text's letters are."""

    def upper(self, text: str) -> str:
        return text.translate(_UPPER)

    def lower(self, text: str) -> str:
        return text.translate(_LOWER)

    def initcap(self, text: str) -> str:
        """The first letter of each word upper, the others lower; words are of letters and digits."""
        return capitalized(text, self.upper, self.lower, lambda letter: letter.isascii() and letter.isalnum())

    def cases(self, letter: str) -> str:
        """What a regular expression that ignores case takes for the letter."""
        return self.lower(letter) + self.upper(letter)

    def in_class(self, name: str) -> str:
        """The characters of a class of regular expressions, as between Python's brackets."""
        return FIXED.get(name) or _CLASSES[name]

    def is_in_class(self, name: str, letter: str) -> bool:
        return re.match(f"[{self.in_class(name)}]", letter) is not None


class Unknown(Letters):
    """Of a locale that cannot be asked. ASCII's letters are the same in all locales, but for i and I in Turkish and Azeri."""

    known = False

    def __init__(self, problem: Problem, locale: str) -> None:
        self.problem, self.no_ascii = problem, locale[:2].lower() in {"tr", "az"}

    def check(self, text: str, what: str) -> None:
        if self.no_ascii:
            raise self.problem.refusal(what)
        if not text.isascii():
            raise self.problem.refusal(f"{what} of letters beyond ASCII")


def capitalized(text: str, upper: Callable[[str], str], lower: Callable[[str], str], is_alnum: Callable[[str], bool]) -> str:
    """initcap, a character at a time: of each what it has become decides whether a word goes on."""
    out, inside = [], False
    for letter in text:
        made = lower(letter) if inside else upper(letter)
        out.append(made)
        inside = is_alnum(made)
    return "".join(out)


def bracketed(codes: Iterable[int]) -> str:
    """Characters in order, as ranges between Python's brackets."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(
        re.escape(chr(first)) if first == last else f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges
    )


ASCII = Letters()
