"""Regular expressions of PostgreSQL's that the engine, which has RE2, reads alike.

In: a pattern. Out: the engine's, or None where it would, or might, mean something else: classes that depend on a locale, look-around,
what PostgreSQL refuses, empty branches. It is about whether there is a match, not about which, so greediness is left out. Letters are
folded one by one, as there: RE2's own folding knows more of Unicode.
"""

from __future__ import annotations

import string

from tailrace.errors import UsageError
from tailrace.expressions.evaluate.patterns import regcomp

_KINDS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
_QUANTIFIERS = {(0, None): "*", (1, None): "+", (0, 1): "?"}


class _ReadOtherwise(Exception):
    """RE2 may mean something else."""


def re2_pattern(pattern: str, *, folds: bool) -> str | None:
    """`folds`: upper and lower case are the same."""
    try:
        return "" if not pattern else _alternatives(regcomp.read_pattern(pattern), folds)
    except (_ReadOtherwise, UsageError):
        return None


def _alternatives(found: regcomp.Alternatives, folds: bool) -> str:
    if not all(found.branches):
        raise _ReadOtherwise
    return "|".join("".join(_piece(piece, folds) for piece in branch) for branch in found.branches)


def _piece(piece: regcomp.Piece, folds: bool) -> str:
    match piece:
        case regcomp.Character(letter):
            cases = _cases(letter, folds)
            return _literal(letter) if cases == letter else f"[{cases}]"
        case regcomp.AnyCharacter():
            return "."
        case regcomp.CharacterClass("digit", False):
            return "[0-9]"
        case regcomp.Bracket(negated, items):
            return f"[{'^' if negated else ''}{''.join(_bracket_item(item, folds) for item in items)}]"
        case regcomp.Constraint("^" | "$"):
            return piece.letter
        case regcomp.Group("" | ":", body):
            return f"(?:{_alternatives(body, folds)})"
        case regcomp.Repetition(atom, least, most):
            bounds = _QUANTIFIERS.get((least, most)) or f"{{{least},{'' if most is None else most}}}"
            return f"{_piece(atom, folds)}{bounds}"
    raise _ReadOtherwise


def _cases(letter: str, folds: bool) -> str:
    if folds and not letter.isascii():
        raise _ReadOtherwise
    return letter.lower() + letter.upper() if folds and letter in string.ascii_letters else letter


def _literal(letter: str) -> str:
    """The engine knows no escape of `_`."""
    return f"\\{letter}" if letter in string.punctuation and letter != "_" else letter


def _bracket_item(item: regcomp.Character | regcomp.CharacterClass | regcomp.CharacterRange, folds: bool) -> str:
    match item:
        case regcomp.CharacterClass("digit"):
            return "0-9"
        case regcomp.Character(letter):
            return "".join(map(_literal, _cases(letter, folds)))
        case regcomp.CharacterRange(first, last) if any(first in kind and last in kind for kind in _KINDS):
            folded = f"{first.swapcase()}-{last.swapcase()}" if folds and first.isalpha() else ""
            return f"{first}-{last}{folded}"
    raise _ReadOtherwise
