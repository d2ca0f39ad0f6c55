"""The maps of `multibyte` as codecs of Python: for names, which are strings, and few."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import cache

import numpy as np

from tailrace.types.encodings.multibyte import BEFORE_PLANES, FORMS, PLANE, SS2, SS3, map_of

PREFIX = "postgres_"


def codec_of(encoding: str) -> str:
    """The name of the codec for one of FORMS."""
    return PREFIX + encoding.lower()


@cache
def _strings(encoding: str) -> tuple[dict[bytes, str], dict[str, bytes]]:
    """Each character's code -> string, and back: to the shortest code, where there are several."""
    table, widths, _ = map_of(encoding)
    strings = {}
    for slot in np.flatnonzero(widths).tolist():
        plane, last = slot // PLANE, bytes([slot % PLANE // 128 + 128, slot % 128 + 128])
        lead = (b"", bytes([SS3]))[plane] if plane < 2 else bytes([SS2, BEFORE_PLANES + plane])
        strings[lead + last] = table[slot, : widths[slot]].tobytes().decode()
    return strings, {text: code for code, text in sorted(strings.items(), key=lambda each: -len(each[0]))}


def _decode(raw: bytes, errors: str, encoding: str) -> tuple[str, int]:
    strings, form = _strings(encoding)[0], FORMS[encoding]
    raw, parts, at = bytes(raw), [], 0
    while at < len(raw):
        code = raw[at : at + form.length(raw[at])]
        if raw[at] < 128 or code in strings:
            parts.append(strings.get(code) or chr(raw[at]))
            at += len(code)
            continue
        # One byte alone, so that what follows it is read for itself.
        error = UnicodeDecodeError(codec_of(encoding), raw, at, at + 1, "no equivalent in UTF8")
        replacement, at = codecs.lookup_error(errors)(error)
        parts.append(str(replacement))
    return "".join(parts), len(raw)


def _encode(text: str, errors: str, encoding: str) -> tuple[bytes, int]:
    codes = _strings(encoding)[1]
    parts, at = [], 0
    while at < len(text):
        pair = codes.get(text[at : at + 2]) if at + 1 < len(text) else None
        code = pair or (text[at].encode() if text[at] < "\x80" else codes.get(text[at]))
        after = at + (2 if pair else 1)
        if code is None:
            error = UnicodeEncodeError(codec_of(encoding), text, at, at + 1, "no such character")
            replacement, after = codecs.lookup_error(errors)(error)
            code = replacement if isinstance(replacement, bytes) else replacement.encode("ascii")
        parts.append(code)
        at = after
    return b"".join(parts), len(text)


def register_codecs(prefix: str, encode: Callable[..., tuple[bytes, int]], decode: Callable[..., tuple[str, int]]) -> None:
    """Give Python a codec for each of FORMS, whose name begins so; both functions are given the encoding, too."""

    @cache
    def find(codec: str) -> codecs.CodecInfo | None:
        encoding = codec.removeprefix(prefix).upper()
        if not codec.startswith(prefix) or encoding not in FORMS:
            return None
        return codecs.CodecInfo(
            name=codec,
            encode=lambda text, errors="strict": encode(text, errors, encoding),
            decode=lambda raw, errors="strict": decode(raw, errors, encoding),
        )

    codecs.register(find)


register_codecs(PREFIX, _encode, _decode)
