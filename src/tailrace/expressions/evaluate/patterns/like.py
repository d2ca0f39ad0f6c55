"""LIKE and ILIKE (`adt/like.c`, `adt/like_match.c`): % is any text, _ any character, backslash takes the next one as it is.

A constant pattern of the common kinds (`x%`, `%x`, `%x%`,
no wildcard) is a search over bytes for the whole column; others become a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.expressions.evaluate.comparison.text_comparison import arrow_bytes, as_mask
from tailrace.expressions.evaluate.fmgr.datum_forms import text_codec
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows, whole
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error
from tailrace.expressions.evaluate.fmgr.vectors import Vector
from tailrace.types.values import Mask

FUNCTIONS: dict[str, Implementation] = {}


def pieces_of(pattern: str) -> list[str | None]:
    """A pattern as literal texts, and None for each run of %. `_` is refused by ValueError, and so is a backslash at the end."""
    found: list[str | None] = [""]
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "_":
            raise ValueError("any character")
        if letter == "%":
            if found[-1] is not None:
                found.append(None)
        else:
            at += letter == "\\"
            if at == len(pattern):
                raise ValueError("nothing after the escape")
            if found[-1] is None:
                found.append("")
            found[-1] = str(found[-1]) + pattern[at]
        at += 1
    return found[1:] if found[0] == "" and len(found) > 1 else found


@lru_cache(maxsize=1024)
def expression_of(pattern: str) -> re.Pattern[str] | None:
    """A regular expression for a pattern; None for one that ends with a lone backslash."""
    out, at = [], 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "%":
            out.append(".*")
            while pattern[at + 1 : at + 2] == "%":
                at += 1
        elif letter == "_":
            out.append(".")
        else:
            at += letter == "\\"
            if at == len(pattern):
                return None
            out.append(re.escape(pattern[at]))
        at += 1
    return re.compile("".join(out), re.DOTALL)


def ends_in_escape(pattern: str) -> bool:
    """Whether a backslash stands at its end that escapes nothing."""
    return expression_of(pattern) is None


def like(text: str, pattern: str) -> bool:
    """Whether the whole text matches."""
    expression = expression_of(pattern)
    if expression is not None:
        return expression.fullmatch(text) is not None
    return _walk(text, 0, pattern, 0) == _MATCH


_MATCH, _NO, _ABORT = 1, 0, -1


def _walk(text: str, at: int, pattern: str, place: int) -> int:
    """MatchText itself: with a backslash at the end it matters how far the comparison comes, as only there it fails."""
    while at < len(text) and place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            place += 1
            if place >= len(pattern):
                raise _ends_with_escape()
            if pattern[place] != text[at]:
                return _NO
        elif letter == "%":
            return _walk_percent(text, at, pattern, place + 1)
        elif letter not in ("_", text[at]):
            return _NO
        at, place = at + 1, place + 1
    if at < len(text):
        return _NO
    rest = pattern[place:].lstrip("%")
    return _MATCH if not rest else _ABORT


def _walk_percent(text: str, at: int, pattern: str, place: int) -> int:
    """What follows a %: further wildcards are taken at once, then the first literal character is looked for."""
    while place < len(pattern) and pattern[place] in "%_":
        if pattern[place] == "_":
            if at >= len(text):
                return _ABORT
            at += 1
        place += 1
    if place >= len(pattern):
        return _MATCH
    first = pattern[place]
    if first == "\\":
        if place + 1 >= len(pattern):
            raise _ends_with_escape()
        first = pattern[place + 1]
    while at < len(text):
        if text[at] == first:
            found = _walk(text, at, pattern, place)
            if found != _NO:
                return found
        at += 1
    return _ABORT


def _ends_with_escape() -> Exception:
    return evaluation_error("LIKE pattern must not end with escape character", "22025")


def _search(pattern: str, encoding: str) -> Callable[[object], object] | None:
    """A search over bytes that does the same as a constant pattern; None where there is none."""
    try:
        pieces = pieces_of(pattern)
    except ValueError:
        return None
    words = [None if each is None else each.encode(text_codec(encoding), "surrogateescape") for each in pieces]
    match words:
        case [bytes() as word]:
            return lambda array: pc.equal(array, word)
        case [None]:
            return lambda array: pc.greater_equal(pc.binary_length(array), 0)
        case [bytes() as word, None]:
            return lambda array: pc.starts_with(array, pattern=word)
        case [None, bytes() as word]:
            return lambda array: pc.ends_with(array, pattern=word)
        case [None, bytes() as word, None]:
            return lambda array: pc.match_substring(array, pattern=word)
        case _:
            return None


def _like(negated: bool) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        encoding, pattern = call.facts.encoding, call.constant(1)
        search = _search(pattern, encoding) if isinstance(pattern, str) else None
        if search is not None:

            def run(vectors: Sequence[Vector], count: int, valid: Mask) -> NDArray:
                found = as_mask(search(arrow_bytes(vectors[0], encoding)), count)
                return ~found if negated else found

            return whole(run)
        safe = isinstance(pattern, str) and not ends_in_escape(pattern)
        return rows(lambda text, pattern: like(text, pattern) != negated, safe)

    return made(make)


def _ilike(negated: bool) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        letters = call.letters()

        def run(text: str, pattern: str) -> bool:
            for each in (text, pattern):
                letters.check(each, "ILIKE")
            return like(letters.lower(text), letters.lower(pattern)) != negated

        return rows(run)

    return made(make)


def _byte_like(negated: bool) -> Implementation:
    return rows(lambda value, pattern: like(value.decode("latin-1"), pattern.decode("latin-1")) != negated)


def like_escape(pattern: str, escape: str) -> str:
    """The pattern with backslash in place of another escape character."""
    if len(escape) > 1:
        raise evaluation_error("invalid escape string", "22025", "Escape string must be empty or one character.")
    if not escape:
        return pattern.replace("\\", "\\\\")
    if escape == "\\":
        return pattern
    out, after = [], False
    for letter in pattern:
        if letter == escape and not after:
            out.append("\\")
            after = True
        elif letter == "\\":
            out.append("\\" if after else "\\\\")
            after = False
        else:
            out.append(letter)
            after = False
    return "".join(out)


def _byte_escaped(pattern: bytes, escape: bytes) -> bytes:
    return like_escape(pattern.decode("latin-1"), escape.decode("latin-1")).encode("latin-1")


for _prefix in ("text", "name"):
    FUNCTIONS[f"{_prefix}like"], FUNCTIONS[f"{_prefix}nlike"] = _like(False), _like(True)
    FUNCTIONS[f"{_prefix}iclike"], FUNCTIONS[f"{_prefix}icnlike"] = _ilike(False), _ilike(True)
FUNCTIONS["bytealike"], FUNCTIONS["byteanlike"] = _byte_like(False), _byte_like(True)
FUNCTIONS["like_escape"], FUNCTIONS["like_escape_bytea"] = rows(like_escape), rows(_byte_escaped)
