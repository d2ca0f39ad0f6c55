"""Collations of the C library (`utils/adt/pg_locale_libc.c`): its strcoll_l, towupper_l and their kin, under a locale of this machine.

Two machines with the same glibc have the same locales, which is what PostgreSQL records as their version.
"""

from __future__ import annotations

import ctypes
import locale as locales
from functools import cache, cached_property, lru_cache
from typing import Any

from tailrace.expressions.evaluate.collations.collation import Compare
from tailrace.expressions.evaluate.collations.letters import EVERY, FIXED, Letters, bracketed, capitalized

_COLLATE, _CTYPE = 1 << locales.LC_COLLATE, 1 << locales.LC_CTYPE
"""Masks for newlocale, as glibc and musl have them."""
_SURROGATES = range(0xD800, 0xE000)


@cache
def _function(name: str, result: Any, *arguments: Any) -> Any:
    found = getattr(ctypes.CDLL(None, use_errno=True), name)
    found.argtypes, found.restype = arguments, result
    return found


@cache
def actual_version() -> str:
    """glibc's, as pg_collation_actual_version says it; empty for another library, of which PostgreSQL knows none."""
    try:
        return str(_function("gnu_get_libc_version", ctypes.c_char_p)().decode())
    except AttributeError:
        return ""


@cache
def opened(collate: str, ctype: str) -> int | None:
    """The handle of a locale; None where this machine does not have it."""
    if not actual_version():
        return None
    create = _function("newlocale", ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    handle = create(_COLLATE, collate.encode(), None)
    return create(_CTYPE, ctype.encode(), handle) if handle else None


def ordering(handle: int) -> Compare:
    """strcoll_l; of texts that it takes for the same strcmp decides, as PostgreSQL's collations are deterministic."""
    collate = _function("strcoll_l", ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
    plain = _function("strcmp", ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)

    @lru_cache(maxsize=65536)
    def compare(left: bytes, right: bytes) -> int:
        return int(collate(left, right, handle) or plain(left, right))

    return compare


class _Table(dict[int, int]):
    """A mapping of characters for str.translate, which asks the library about each once."""

    def __init__(self, function: Any, handle: int, forced: range) -> None:
        super().__init__()
        self.function, self.handle, self.forced = function, handle, forced

    def __missing__(self, code: int) -> int:
        found = code
        if code in self.forced:
            found = ord(chr(code).upper() if "upper" in self.function.__name__ else chr(code).lower())
        elif code not in _SURROGATES:
            found = int(self.function(code, self.handle))
        self[code] = found
        return found


class LibcLetters(Letters):
    """`wide` are characters of UTF-8; else each byte is one, and the encoding that of the locale.

    Under the default collation I and i of ASCII stay a pair in Turkish, but for upper and lower of UTF-8.
    """

    def __init__(self, handle: int, wide: bool, is_default: bool) -> None:
        self.handle, self.wide = handle, wide
        forced = range(128) if is_default else range(0)
        self._upper, self._lower = (self._table(name, range(0) if wide else forced) for name in ("upper", "lower"))
        self._one_upper, self._one_lower = (self._table(name, forced) for name in ("upper", "lower"))

    def _table(self, name: str, forced: range) -> _Table:
        return _Table(self._ask(f"tow{name}_l" if self.wide else f"to{name}_l"), self.handle, forced)

    def _ask(self, name: str) -> Any:
        code = ctypes.c_uint if self.wide else ctypes.c_int
        return _function(name, code, code, ctypes.c_void_p)

    def upper(self, text: str) -> str:
        return text.translate(self._upper)

    def lower(self, text: str) -> str:
        return text.translate(self._lower)

    def initcap(self, text: str) -> str:
        is_alnum = self._ask("iswalnum_l" if self.wide else "isalnum_l")
        return capitalized(text, self.upper, self.lower, lambda letter: bool(is_alnum(ord(letter), self.handle)))

    def cases(self, letter: str) -> str:
        return letter.translate(self._one_lower) + letter.translate(self._one_upper)

    @cached_property
    def _classes(self) -> dict[str, str]:
        return {}

    def in_class(self, name: str) -> str:
        if name in FIXED:
            return FIXED[name]
        if name == "word":
            return self.in_class("alnum") + "_"
        if name not in self._classes:
            ask, handle = self._ask(f"isw{name}_l" if self.wide else f"is{name}_l"), self.handle
            self._classes[name] = bracketed(code for code in range(EVERY if self.wide else 256) if ask(code, handle))
        return self._classes[name]

    def is_in_class(self, name: str, letter: str) -> bool:
        return bool(self._ask(f"isw{name}_l" if self.wide else f"is{name}_l")(ord(letter), self.handle))


@cache
def letters(handle: int, wide: bool, is_default: bool) -> LibcLetters:
    return LibcLetters(handle, wide, is_default)
