"""Texts in the encodings of several bytes a character (EUC_*) as Python strings in which each character is one, whatever it means.

In: stored bytes. Out: strings, and back to the very bytes. What Unicode makes of a character does not matter to functions that count, cut and
compare, and may be two of its own, or that of another character as well. Bytes that are no character stand alone.
"""

from __future__ import annotations

from tailrace.types.encodings.multibyte import BEFORE_PLANES, FORMS, PLANE, SS2, SS3, slot_of
from tailrace.types.encodings.multibyte_codecs import register_codecs

_PREFIX = "characters_of_"
_FIRST = 0x20000
"""Characters of several bytes are numbered from here on, by their slots."""
_ALONE = 0xDC00


def codec_of(encoding: str) -> str:
    """The name of Python's codec for one of FORMS."""
    return _PREFIX + encoding.lower()


def _decode(raw: bytes, errors: str, encoding: str) -> tuple[str, int]:
    form, raw = FORMS[encoding], bytes(raw)
    parts, at = [], 0
    while at < len(raw):
        first = raw[at]
        code = raw[at : at + form.length(first)]
        if first < 128:
            parts.append(chr(first))
        elif len(code) == form.length(first) > 1 and form.is_valid(code):
            parts.append(chr(_FIRST + slot_of(code)))
        else:
            code = code[:1]
            parts.append(chr(_ALONE + first))
        at += len(code)
    return "".join(parts), len(raw)


def _encode(text: str, errors: str, encoding: str) -> tuple[bytes, int]:
    parts = []
    for letter in text:
        number = ord(letter)
        if number >= _FIRST:
            plane, slot = divmod(number - _FIRST, PLANE)
            lead = b"" if plane == 0 else bytes([SS3]) if plane == 1 else bytes([SS2, BEFORE_PLANES + plane])
            parts.append(lead + bytes([slot // 128 + 128, slot % 128 + 128]))
        else:
            parts.append(bytes([number - _ALONE if number >= _ALONE else number]))
    return b"".join(parts), len(text)


register_codecs(_PREFIX, _encode, _decode)
