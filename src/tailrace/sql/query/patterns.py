"""Regular expressions of PostgreSQL's that the engine reads alike (`regex/regcomp.c`; the engine has RE2).

In: a pattern. Out: the engine's, or None where it would, or might, mean something else: classes that depend on a locale, look-around, references
back, what PostgreSQL refuses. That it is about whether there is a match, not about which, leaves greediness out. Letters are folded one by one, as
there: RE2's own folding knows more of Unicode.
"""

from __future__ import annotations

import re
import string

_REPEATED = re.compile(r"\{(\d{1,3})(,(\d{0,3}))?\}")
_MOST = 255
_KINDS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)


def engine_pattern(pattern: str, *, folds: bool) -> str | None:
    """`folds`: upper and lower case are the same."""
    out: list[str] = []
    opened, at = 0, 0
    repeatable, empty = False, True  # whether a quantifier may follow; whether nothing stands in this branch
    while at < len(pattern):
        letter = pattern[at]
        if letter in "*+?{":
            found = _REPEATED.match(pattern, at) if letter == "{" else re.compile("[*+?]").match(pattern, at)
            if not repeatable or found is None or not _is_possible(found):
                return None
            out.append(found[0])
            at = found.end()
            repeatable = False
            if pattern[at : at + 1] == "?":
                at += 1  # non-greedy
            continue
        if letter == "(":
            group = "(?:" if pattern.startswith("(?:", at) else "("
            if group == "(" and pattern[at + 1 : at + 2] in ("?", "*"):
                return None
            out.append("(?:")
            opened, repeatable, empty = opened + 1, False, True
            at += len(group)
            continue
        if letter in ")|":
            if empty or (letter == ")" and not opened):
                return None
            opened -= letter == ")"
            out.append(letter)
            repeatable, empty = letter == ")", letter == "|"
            at += 1
            continue
        piece, at = _atom(pattern, at, folds=folds)
        if piece is None:
            return None
        out.append(piece)
        repeatable, empty = piece not in ("^", "$"), False
    return None if opened or (empty and pattern) else "".join(out)


def _is_possible(found: re.Match[str]) -> bool:
    if found[0][0] != "{":
        return True
    least, most = int(found[1]), int(found[3] or found[1])
    return least <= most <= _MOST


def _atom(pattern: str, at: int, *, folds: bool) -> tuple[str | None, int]:
    letter = pattern[at]
    if letter == "[":
        return _bracket(pattern, at + 1, folds=folds)
    if letter == "\\":
        after = pattern[at + 1 : at + 2]
        return ("[0-9]" if after == "d" else _escaped(after)), at + 2
    if letter in "^$.":
        return letter, at + 1
    return _literal(letter, folds=folds), at + 1


def _escaped(letter: str) -> str | None:
    """A backslash takes away the meaning of what is neither letter nor digit; the engine has none before `_`."""
    if letter == "_":
        return letter
    return f"\\{letter}" if letter and letter in string.punctuation else None


def _literal(letter: str, *, folds: bool) -> str | None:
    if letter in string.ascii_letters and folds:
        return f"[{letter.lower()}{letter.upper()}]"
    if not letter.isascii():
        return None if folds else letter
    return _escaped(letter) or letter


def _bracket(pattern: str, at: int, *, folds: bool) -> tuple[str | None, int]:
    """What stands between brackets: letters, digits, ranges of these, other characters."""
    out = ["["]
    if pattern[at : at + 1] == "^":
        out.append("^")
        at += 1
    first = at
    while at < len(pattern) and pattern[at] != "]":
        letter = pattern[at]
        if letter == "\\":
            at += 1
            piece = "0-9" if pattern[at : at + 1] == "d" else _escaped(pattern[at : at + 1])
        elif pattern[at + 1 : at + 2] == "-" and pattern[at + 2 : at + 3] not in ("]", ""):
            piece = _range(letter, pattern[at + 2], folds=folds)
            at += 2
        elif letter == "[" or (not letter.isascii() and folds):
            piece = None
        else:
            folded = letter.lower() + letter.upper() if folds and letter in string.ascii_letters else letter
            piece = _escaped(letter) or folded
        if piece is None:
            return None, at
        out.append(piece)
        at += 1
    if at == first or at == len(pattern):
        return None, at
    return "".join([*out, "]"]), at + 1


def _range(low: str, high: str, *, folds: bool) -> str | None:
    if low > high or not any(low in kind and high in kind for kind in _KINDS):
        return None
    return f"{low}-{high}" + (f"{low.swapcase()}-{high.swapcase()}" if folds and low.isalpha() else "")
