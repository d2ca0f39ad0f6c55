"""Bytes in hexadecimal digits, and the types that print as groups of them: uuid, macaddr, macaddr8."""

from __future__ import annotations

import re

import numpy as np

from tailrace.model import PgType
from tailrace.types.codec import Codec, parse_each, syntax_error
from tailrace.types.codec.binary_forms import receive_swapped, send_swapped
from tailrace.types.values import Bytes, Mask, Texts, Values

HEX = np.frombuffer("".join(f"{n:02x}" for n in range(256)).encode(), np.uint8).copy()
"""The two digits of each byte, one after another."""


def hex_groups(separator: str, groups: tuple[int, ...]) -> Codec:
    """The codec of a fixed-length type whose bytes print as so many bytes each, with the separator between. They are sent as they are."""
    single_bytes = (1,) * sum(groups)
    return Codec(
        format=lambda values, pg_type, style: _format_groups(values, separator, groups), parse=_parse_groups,
        send=send_swapped(*single_bytes), receive=receive_swapped(*single_bytes),
    )  # fmt: skip


def _format_groups(values: Values, separator: str, groups: tuple[int, ...]) -> Texts:
    """a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11, 08:00:2b:01:02:03."""
    assert values.fixed is not None
    rows = values.fixed if values.valid.all() else values.fixed[values.valid]
    width = 2 * sum(groups) + len(groups) - 1
    grid = np.full((len(rows), width), ord(separator), np.uint8)
    digits: Bytes = HEX.view(np.uint16)[np.ascontiguousarray(rows)].view(np.uint8)
    source = target = 0
    for group in groups:
        grid[:, target : target + 2 * group] = digits[:, source : source + 2 * group]
        source, target = source + 2 * group, target + 2 * group + 1
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.where(values.valid, width, 0), out=offsets[1:])
    return Texts(offsets, grid.reshape(-1))


def _parse_groups(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Separators may stand anywhere."""

    def parse_one(text: str) -> bytes:
        try:
            raw = bytes.fromhex(re.sub("[-:.{} ]", "", text))
        except ValueError:
            raw = b""
        if len(raw) != pg_type.length:
            raise syntax_error(pg_type.name, text)
        return raw

    return parse_each(texts, valid, pg_type, parse_one)


UUID = hex_groups("-", (4, 2, 2, 2, 6))
"""16 bytes, printed as a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11. In Arrow a string of that."""
