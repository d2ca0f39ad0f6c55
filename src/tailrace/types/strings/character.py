"""Character types: text, varchar and bpchar, whose stored bytes are their text; name and "char", which have a fixed place."""

from __future__ import annotations

import numpy as np

from tailrace.errors import UsageError
from tailrace.majors import OCTAL_CHARS, supports
from tailrace.model import NAMEDATALEN, PgType
from tailrace.types.codec import none_of_its_type, parse_each, receive_each
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def format_strings(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """The stored bytes are the text, blank padding of char(n) included; not copied."""
    return Texts(*values.payloads)


def parse_strings(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As textin; not copied."""
    return Values(valid, offsets=texts.offsets, data=texts.data)


def format_names(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As nameout: up to the first zero byte. Raises CorruptWal for a value that has none."""
    assert values.fixed is not None
    lengths = np.where(values.valid, np.argmin(values.fixed, axis=1), 0) if len(values) else np.zeros(0, np.int64)
    if (values.valid & (values.fixed[np.arange(len(values)), lengths] != 0)).any():
        raise none_of_its_type(pg_type)
    return Texts.of_grid(values.fixed, lengths)


def parse_names(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Cut to 63 bytes between characters, as namein."""

    def parse_one(text: str) -> bytes:
        cut = text.encode()[: NAMEDATALEN - 1].decode(errors="ignore")
        return cut.encode().ljust(NAMEDATALEN, b"\0")

    return parse_each(texts, valid, pg_type, parse_one)


def format_chars(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    r"""As charout: one byte; zero prints as nothing, a byte above 127 as \ooo (as itself in 14)."""
    codes = values.as_dtype("u1")
    high = codes > (127 if supports(style.major, OCTAL_CHARS) else 255)
    grid = np.empty((len(codes), 4), np.uint8)
    grid[:, 0] = np.where(high, ord("\\"), codes)
    for place, shift in ((1, 6), (2, 3), (3, 0)):
        grid[:, place] = ord("0") + ((codes >> shift) & 7)
    return Texts.of_grid(grid, np.where(values.valid, np.where(high, 4, codes != 0), 0).astype(np.int64))


def parse_chars(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As charin."""

    def parse_one(text: str) -> bytes:
        if len(text) == 4 and text[0] == "\\" and set(text[1:]) <= set("01234567"):
            return bytes([int(text[1:], 8) & 0xFF])
        if len(text.encode()) > 1:
            raise UsageError(f'value too long for type "char": "{text}"', sqlstate="22001")
        return text.encode() or b"\0"

    return parse_each(texts, valid, pg_type, parse_one)


def send_names(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As namesend: the name without its padding."""
    return format_names(values, pg_type, style)


def receive_names(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As namerecv."""
    return receive_each(texts, valid, pg_type, lambda sent: sent.ljust(NAMEDATALEN, b"\0"))
