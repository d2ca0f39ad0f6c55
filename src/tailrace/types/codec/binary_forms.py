"""What the binary forms of several families have in common: numbers whose bytes change order, payloads sent as they are, a text behind a version.

Most fixed-length types are numbers in a row, stored little-endian and sent big-endian: `send_swapped` and `receive_swapped` make their functions from
the widths of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

Send = Callable[[Values, PgType, TextStyle], Texts]
Receive = Callable[[Texts, Mask, PgType], Values]


def send_swapped(*widths: int) -> Send:
    """The send function of a fixed-length type of numbers that wide: the bytes of each change their order."""
    return lambda values, pg_type, style: _send_fixed(values, widths)


def receive_swapped(*widths: int) -> Receive:
    """The receive function of such a type."""
    return lambda texts, valid, pg_type: _receive_fixed(texts, valid, widths)


def _swapped(rows: NDArray[np.uint8], widths: tuple[int, ...]) -> NDArray[np.uint8]:
    """Rows of numbers that wide, in the other byte order."""
    if len(set(widths)) == 1:
        return np.ascontiguousarray(rows).view(f"<u{widths[0]}").byteswap().view(np.uint8)
    starts = [0, *accumulate(widths[:-1])]
    places = [np.arange(start, start + width)[::-1] for start, width in zip(starts, widths, strict=True)]
    return rows[:, np.concatenate(places)]


def swap_bytes(raw: bytes, width: int) -> bytes:
    """Numbers of `width` bytes each, in the other byte order."""
    return np.frombuffer(raw, f"<u{width}").byteswap().tobytes()


def _send_fixed(values: Values, widths: tuple[int, ...]) -> Texts:
    assert values.fixed is not None
    rows = values.fixed if values.valid.all() else values.fixed[values.valid]
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.where(values.valid, sum(widths), 0), out=offsets[1:])
    return Texts(offsets, _swapped(rows, widths).reshape(-1))


def _receive_fixed(texts: Texts, valid: Mask, widths: tuple[int, ...]) -> Values:
    length = sum(widths)
    sizes = np.diff(texts.offsets)[valid]
    if (sizes != length).any():
        short = bool((sizes < length).any())
        words = "insufficient data left in message" if short else "incorrect binary data format"
        raise UsageError(words, sqlstate="08P01" if short else "22P03")
    places = texts.offsets[:-1][valid]
    if len(texts.data) == length * len(sizes):  # nothing else lies there
        rows = texts.data.reshape(-1, length)
    else:
        rows = texts.data[places[:, None] + np.arange(length)]
    if len(sizes) == len(texts):
        return Values(valid, fixed=_swapped(rows, widths))
    fixed = np.zeros((len(texts), length), np.uint8)
    fixed[valid] = _swapped(rows, widths)
    return Values(valid, fixed=fixed)


def send_bytes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """The payload itself: texts and bytea. Not copied."""
    return Texts(*values.payloads)


def receive_bytes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return Values(valid, offsets=texts.offsets, data=texts.data)


def with_version(texts: Texts, valid: Mask) -> Texts:
    """The texts with the version of the form before them, which is 1: jsonb, jsonpath, ltree."""
    rows = zip(texts.to_bytes(), valid.tolist(), strict=True)
    return Texts.of([b"\1" + text if there else b"" for text, there in rows])


def without_version(texts: Texts, valid: Mask, pg_type: PgType) -> Texts:
    """The texts behind their version."""
    rows = list(zip(texts.to_bytes(), valid.tolist(), strict=True))
    for sent, there in rows:
        if there and sent[:1] != b"\1":
            version = sent[0] if sent else 0
            raise UsageError(f"unsupported {pg_type.name} version number {version}", sqlstate="XX000")
    return Texts.of([sent[1:] for sent, _ in rows])
