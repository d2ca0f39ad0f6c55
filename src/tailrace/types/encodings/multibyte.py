"""The server encodings of several bytes a character (EUC_*), as PostgreSQL converts them to UTF-8: its maps differ from those of Python's codecs, and
Python has none for EUC_TW.

In: texts in such an encoding. Out: the same in UTF-8, or an error in the server's words. The maps lie in `multibyte.bin`, which
`tools/encodings.py` made from a server; they are data of the package, and come as its code does.
"""

from __future__ import annotations

import pkgutil
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.kernels import inner_kernel, kernel
from tailrace.types.values import Texts, as_writable

PLANE = 128 * 128
"""Slots of a plane, one for each pair of bytes above 127: a character's last two. Plane 0 has those of no more, 1 those behind SS3; behind SS2 and
another byte come as many as an encoding has."""
LONGEST = 6
"""Bytes of UTF-8 that a character may become: EUC_JIS_2004 has characters that are two in Unicode."""
SS2, SS3 = 0x8E, 0x8F
BEFORE_PLANES = 0x9F
"""What the byte behind SS2 exceeds by the number of the plane, from 2 on."""


@dataclass(frozen=True, slots=True)
class Form:
    """How an encoding's characters are built (`common/wchar.c`). `shown` is how many bytes an error names, by the first of them."""

    planes: int
    ss2: int = 2
    shown_ss2: int = 2
    is_valid: Callable[[bytes], bool] = lambda code: all(_is_euc(byte) for byte in code)

    @property
    def lengths(self) -> NDArray[np.uint8]:
        """Bytes of a character, by the first."""
        lengths = np.where(np.arange(256) < 128, 1, 2).astype(np.uint8)
        lengths[[SS2, SS3]] = self.ss2, 3
        return lengths

    def length(self, first: int) -> int:
        return 1 if first < 128 else {SS2: self.ss2, SS3: 3}.get(first, 2)


def _is_euc(byte: int) -> bool:
    return 0xA1 <= byte <= 0xFE


def _is_japanese(code: bytes) -> bool:
    if code[0] == SS2:
        return 0xA1 <= code[1] <= 0xDF
    return all(_is_euc(byte) for byte in (code[1:] if code[0] == SS3 else code))


def _is_taiwanese(code: bytes) -> bool:
    if code[0] == SS2:
        return 0xA1 <= code[1] <= 0xA7 and _is_euc(code[2]) and _is_euc(code[3])
    return code[0] != SS3 and _is_euc(code[1])


FORMS = {
    "EUC_JP": Form(2, is_valid=_is_japanese),
    "EUC_CN": Form(1, shown_ss2=3),
    "EUC_KR": Form(1),
    "EUC_TW": Form(4, ss2=4, shown_ss2=4, is_valid=_is_taiwanese),
    "EUC_JIS_2004": Form(2, is_valid=_is_japanese),
}


def slot_of(code: bytes) -> int:
    """Where a whole character of two bytes or more stands in the map."""
    plane = {2: 0, 3: 1, 4: code[1] - BEFORE_PLANES}[len(code)]
    return plane * PLANE + (code[-2] - 128) * 128 + code[-1] - 128


@cache
def map_of(encoding: str) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """The UTF-8 form of each slot, how long that is (0: there is none), and the bytes of a character by the first."""
    packed = pkgutil.get_data("tailrace.types.encodings", "multibyte.bin")
    assert packed is not None
    at = 0
    for name, form in FORMS.items():
        size = form.planes * PLANE
        if name == encoding:
            break
        at += size * LONGEST
    whole = np.frombuffer(zlib.decompress(packed), np.uint8)
    table = np.ascontiguousarray(whole[at : at + size * LONGEST].reshape(LONGEST, size).T)
    return table, (table != 0).sum(axis=1).astype(np.int64), form.lengths


def converted(texts: Texts, encoding: str) -> Texts:
    """The texts in UTF-8. Raises UsageError for the first character that has none."""
    table, widths, lengths = map_of(encoding)
    data, bounds = as_writable(texts.data), as_writable(texts.offsets)
    offsets = np.zeros(len(bounds), np.int64)
    bad = _measure(data, bounds, widths, lengths, offsets)
    if bad >= 0:
        stop = int(bounds[np.searchsorted(bounds, bad, side="right")])
        raise _refusal(data[bad:stop].tobytes(), encoding)
    out = np.empty(offsets[-1], np.uint8)
    _spell(data, bounds, table, widths, lengths, out)
    return Texts(offsets, out)


def _refusal(rest: bytes, encoding: str) -> UsageError:
    """What the server says of what begins with a bad character (`report_invalid_encoding`, `report_untranslatable_char` in `mb/mbutils.c`)."""
    form = FORMS[encoding]
    shown = {SS2: form.shown_ss2, SS3: 3}.get(rest[0], 2)
    code = rest[: form.length(rest[0])]
    if len(code) < form.length(rest[0]) or not form.is_valid(code):
        return invalid(rest[:shown], encoding)
    return untranslatable(code, encoding)


def invalid(code: bytes, encoding: str) -> UsageError:
    """Bytes that are no character of the encoding."""
    return UsageError(f'invalid byte sequence for encoding "{encoding}": {_hex(code)}', sqlstate="22021")


def untranslatable(code: bytes, encoding: str) -> UsageError:
    """A character that UTF-8 has no equivalent of, as far as the server knows."""
    return UsageError(
        f'character with byte sequence {_hex(code)} in encoding "{encoding}" has no equivalent in encoding "UTF8"',
        sqlstate="22P05",
    )


def _hex(code: bytes) -> str:
    return " ".join(f"0x{byte:02x}" for byte in code)


@inner_kernel
def _slot(data: Any, at: Any, stop: Any, length: Any) -> Any:
    """The slot of the character of `length` (2 to 4) bytes at `at`; -1 if it is cut off, or no character."""
    if at + length > stop:
        return -1
    plane = np.int64(data[at + 1]) - BEFORE_PLANES if length == 4 else np.int64(length == 3)
    first, second = np.int64(data[at + length - 2]) - 128, np.int64(data[at + length - 1]) - 128
    if first < 0 or second < 0 or (length == 4 and plane < 2):
        return -1
    return plane * PLANE + first * 128 + second


@kernel
def _measure(data: Any, bounds: Any, widths: Any, lengths: Any, offsets: Any) -> Any:
    """Where each text will begin in UTF-8; returns where the first bad character is, or -1."""
    size = 0
    for row in range(len(bounds) - 1):
        at, stop = bounds[row], bounds[row + 1]
        while at < stop:
            length = np.int64(lengths[data[at]])
            if length == 1:
                size += 1
            else:
                slot = _slot(data, at, stop, length)
                if slot < 0 or slot >= len(widths) or widths[slot] == 0:
                    return at
                size += widths[slot]
            at += length
        offsets[row + 1] = size
    return -1


@kernel
def _spell(data: Any, bounds: Any, table: Any, widths: Any, lengths: Any, out: Any) -> None:
    """The texts' characters in UTF-8, one after another. All are good."""
    to = 0
    for row in range(len(bounds) - 1):
        at, stop = bounds[row], bounds[row + 1]
        while at < stop:
            length = np.int64(lengths[data[at]])
            if length == 1:
                out[to] = data[at]
                to += 1
            else:
                slot = _slot(data, at, stop, length)
                for i in range(widths[slot]):
                    out[to] = table[slot, i]
                    to += 1
            at += length
