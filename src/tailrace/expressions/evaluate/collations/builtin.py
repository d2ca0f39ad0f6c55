"""The builtin provider of 17 and 18 (`utils/adt/pg_locale_builtin.c`, `common/unicode_case.c`): letters by tables of the Unicode that each has.

C.UTF-8 maps a character to one character; PG_UNICODE_FAST has full mappings, as of ß to SS, and a sigma for the ends of words. Both compare
bytes. The tables (`unicode.tsv`, by tools/unicode_tables.py) are layers, each of which says what is other than in the one before.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache

from tailrace.expressions.evaluate.collations.letters import FIXED, Letters, bracketed
from tailrace.majors import Compared

VERSION = "1"
"""Of all its locales, as pg_collation_actual_version says it."""
FULL = "PG_UNICODE_FAST"
COMPARED = Compared(__name__, "common/unicode_version.h (tools/unicode_tables.py)", upto=18)
_LAYERS = ("17", "18", "18full")
_LAYER = COMPARED.table({14: "17", 18: "18"})
_BITS = {"alpha": 1, "digit": 2, "alnum": 4, "upper": 8, "lower": 16, "space": 32, "punct": 64, "print": 128, "graph": 256}
_SIGMA, _FINAL_SIGMA = "Σ", "ς"
_CASED, _IGNORED = 1, 2


@cache
def _lines() -> tuple[tuple[str, str, int, int, str], ...]:
    table = pkgutil.get_data("tailrace.expressions.evaluate.collations", "unicode.tsv")
    assert table is not None
    rows = (line.split("\t") for line in table.decode().splitlines()[1:])
    return tuple((layer, what, int(first, 16), int(last, 16), value) for layer, what, first, last, value in rows)


@cache
def _values(layer: str, what: str) -> Mapping[int, str]:
    """Of each character that a layer, or one below, says something of."""
    below = _LAYERS[: _LAYERS.index(layer) + 1]
    found: dict[int, str] = dict(_values(layer, "upper")) if what == "title" else {}
    for name, about, first, last, value in _lines():
        if about == what and name in below:
            found.update(dict.fromkeys(range(first, last + 1), value))
    return found


@cache
def _mapping(layer: str, what: str) -> dict[int, str]:
    """For str.translate."""
    found = {}
    for code, value in _values(layer, what).items():
        if " " in value:
            found[code] = "".join(chr(int(each, 16)) for each in value.split())
        elif value != "0":
            found[code] = chr(code + int(value))
    return found


class BuiltinLetters(Letters):
    """`full` is PG_UNICODE_FAST; regular expressions take one character for one there, too."""

    def __init__(self, major: int, full: bool) -> None:
        one = _LAYER[major]
        self.layer, self.full = "18full" if full else one, full
        self._one_upper, self._one_lower = _mapping(one, "upper"), _mapping(one, "lower")
        self._upper, self._lower = _mapping(self.layer, "upper"), _mapping(self.layer, "lower")
        self._title = _mapping(self.layer, "title") if full else self._upper

    def upper(self, text: str) -> str:
        return text.translate(self._upper)

    def lower(self, text: str) -> str:
        if not self.full or _SIGMA not in text:
            return text.translate(self._lower)
        return "".join(self._lowered(text, at) for at in range(len(text)))

    def _lowered(self, text: str, at: int) -> str:
        """One character. A sigma that ends a word has a form of its own."""
        if self.full and text[at] == _SIGMA and self._ends_word(text, at):
            return _FINAL_SIGMA
        return self._lower.get(ord(text[at]), text[at])

    def _ends_word(self, text: str, at: int) -> bool:
        """check_final_sigma: a cased character is before and none behind, but for what is ignored. If all before is ignored that is enough for it."""
        return at > 0 and self._first_counts(text[:at][::-1]) is not False and self._first_counts(text[at + 1 :]) is not True

    def _first_counts(self, text: str) -> bool | None:
        """Whether the first character that counts is a cased one; None if there is none."""
        kinds = _values(self.layer, "sigma")
        for letter in text:
            kind = int(kinds.get(ord(letter), "0"))
            if kind != _IGNORED:
                return kind == _CASED
        return None

    def initcap(self, text: str) -> str:
        """The first character of each run of letters and digits, and of each run of others, is as in a title."""
        out = []
        inside: bool | None = None
        for at, letter in enumerate(text):
            is_alnum = self._is_in(letter, _BITS["alnum"])
            out.append(self._title.get(ord(letter), letter) if is_alnum != inside else self._lowered(text, at))
            inside = is_alnum
        return "".join(out)

    def _is_in(self, letter: str, bit: int) -> bool:
        return bool(int(_values(self.layer, "class").get(ord(letter), "0")) & bit)

    def cases(self, letter: str) -> str:
        return letter.translate(self._one_lower) + letter.translate(self._one_upper)

    def in_class(self, name: str) -> str:
        if name in FIXED:
            return FIXED[name]
        return _class(self.layer, "alnum") + "_" if name == "word" else _class(self.layer, name)


@cache
def _class(layer: str, name: str) -> str:
    bit = _BITS[name]
    return bracketed(sorted(code for code, value in _values(layer, "class").items() if int(value) & bit))


@cache
def letters(major: int, locale: str) -> Letters:
    return BuiltinLetters(major, locale == FULL)
