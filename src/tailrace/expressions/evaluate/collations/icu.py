"""Collations of ICU (`utils/adt/pg_locale_icu.c`): of the libicu that gives the version that the catalogs recorded, if the loader finds one.

Each release of the library has its number in its name and behind its symbols, so several can be at hand; LD_LIBRARY_PATH says where else to look.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from typing import Any

from tailrace.expressions.evaluate.collations.collation import Collation, Compare, Problem, mismatch
from tailrace.expressions.evaluate.collations.letters import EVERY, FIXED, Letters, bracketed

_RELEASES = range(99, 53, -1)
"""Since 54 ucol_open reads attributes in a locale's name by itself."""
_OVERFLOW = 15
"""U_BUFFER_OVERFLOW_ERROR; what is above 0 is an error."""
_DEFAULT_STRENGTH = _DEFAULT_MODE = -1


class Library:
    """One release."""

    def __init__(self, release: int) -> None:
        self.release = release
        self._uc, self._i18n = (ctypes.CDLL(f"libicu{part}.so.{release}") for part in ("uc", "i18n"))

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        found = getattr(self._i18n if name.startswith("ucol") else self._uc, f"{name}_{self.release}")
        found.argtypes, found.restype = arguments, result
        return found

    @lru_cache(maxsize=256)  # noqa: B019 - there is one of each release, for good
    def collator(self, locale: str, rules: str) -> int | None:
        """make_icu_collator; None for one that it does not open."""
        status = ctypes.c_int(0)
        found = self.function("ucol_open", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            locale.encode(), ctypes.byref(status)
        )
        if status.value > 0 or not rules:
            return found if status.value <= 0 else None
        length = ctypes.c_int32(0)
        standard = self.function("ucol_getRules", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(found, ctypes.byref(length))
        every = ctypes.string_at(standard, 2 * length.value) + _utf16(rules)
        opened = self.function(
            "ucol_openRules", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
        )(every, len(every) // 2, _DEFAULT_MODE, _DEFAULT_STRENGTH, None, ctypes.byref(status))  # fmt: skip
        return opened if status.value <= 0 else None

    def version(self, locale: str) -> str:
        """As pg_collation_actual_version says it: of the locale without anybody's rules."""
        collator = self.collator(locale, "")
        if collator is None:
            return ""
        info, text = (ctypes.c_uint8 * 4)(), ctypes.create_string_buffer(20)
        self.function("ucol_getVersion", None, ctypes.c_void_p, ctypes.c_void_p)(collator, info)
        self.function("u_versionToString", None, ctypes.c_void_p, ctypes.c_char_p)(info, text)
        return text.value.decode()

    def ordering(self, collator: int) -> Compare:
        collate = self.function(
            "ucol_strcollUTF8", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p
        )  # fmt: skip

        @lru_cache(maxsize=65536)
        def compare(left: bytes, right: bytes) -> int:
            status = ctypes.c_int(0)
            found = int(collate(collator, left, len(left), right, len(right), ctypes.byref(status)))
            return found or (left > right) - (left < right)

        return compare


@cache
def libraries() -> tuple[Library, ...]:
    """All that the loader finds, the newest first."""
    found = []
    for release in _RELEASES:
        try:
            found.append(Library(release))
        except OSError:
            continue
    return tuple(found)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


class IcuLetters(Letters):
    """A text's case is made as a whole, with what the locale says of it; regular expressions take one character for one."""

    def __init__(self, library: Library, locale: str) -> None:
        self.library, self.locale = library, locale.encode()

    def _converted(self, name: str, text: str, *between: Any) -> str:
        kinds = [ctypes.c_void_p] * len(between)
        convert = self.library.function(
            name, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32, *kinds, ctypes.c_char_p, ctypes.c_void_p
        )  # fmt: skip
        stored = _utf16(text)
        units = len(stored) // 2
        room = units + 16
        while True:
            status, made = ctypes.c_int(0), ctypes.create_string_buffer(2 * room)
            length = convert(made, room, stored, units, *between, self.locale, ctypes.byref(status))
            if status.value != _OVERFLOW:
                return made.raw[: 2 * length].decode("utf-16-le", "surrogatepass")
            room = length

    @cached_property
    def upper(self) -> Callable[[str], str]:
        return lru_cache(maxsize=65536)(lambda text: self._converted("u_strToUpper", text))

    @cached_property
    def lower(self) -> Callable[[str], str]:
        return lru_cache(maxsize=65536)(lambda text: self._converted("u_strToLower", text))

    @cached_property
    def initcap(self) -> Callable[[str], str]:
        """u_strToTitle, with the words that the locale knows."""
        return lru_cache(maxsize=65536)(lambda text: self._converted("u_strToTitle", text, None))

    def _asked(self, name: str) -> Any:
        result = ctypes.c_int8 if name.startswith("u_is") else ctypes.c_int32
        return self.library.function(name, result, ctypes.c_int32)

    def cases(self, letter: str) -> str:
        return "".join(chr(self._asked(name)(ord(letter))) for name in ("u_tolower", "u_toupper"))

    def in_class(self, name: str) -> str:
        if name in FIXED:
            return FIXED[name]
        return self._class("alnum") + "_" if name == "word" else self._class(name)

    @lru_cache(maxsize=16)  # noqa: B019 - there is one of each locale, for good
    def _class(self, name: str) -> str:
        ask = self._asked(f"u_is{name}")
        return bracketed(code for code in range(EVERY) if ask(code))


def of_version(collation: Collation, ignore: bool) -> Library | Problem:
    """The library that gives the recorded version; the newest if none was recorded, or if any will do."""
    found = libraries()
    for library in found:
        if not collation.version or library.version(collation.collate) == collation.version:
            return library
    if found and ignore:
        return found[0]
    actual = found[0].version(collation.collate) if found else ""
    return mismatch(collation, actual) or Problem("this machine has no libicu")


@cache
def letters(library: Library, locale: str) -> Letters:
    return IcuLetters(library, locale)


def ordering(library: Library, collation: Collation) -> Compare | Problem:
    collator = library.collator(collation.collate, collation.rules)
    if collator is None:
        return Problem(f'could not open collator for locale "{collation.collate}"')
    return library.ordering(collator)
