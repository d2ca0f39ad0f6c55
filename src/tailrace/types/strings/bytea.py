r"""Bytes and bits: bytea (\x6869), uuid, macaddr, macaddr8 (hexadecimal in groups), bit and varbit (B'0101' without the B)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import ArrowStyle, parse_each, string_array, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.values import Bytes, Mask, Texts, Values, as_writable

HEX = np.frombuffer("".join(f"{n:02x}" for n in range(256)).encode(), np.uint8).copy()
GROUPS = {2950: ("-", (4, 2, 2, 2, 6)), 829: (":", (1,) * 6), 774: (":", (1,) * 8)}
"""uuid, macaddr, macaddr8: the separator, and how many bytes stand between two."""
NAMES = {2950: "uuid", 829: "macaddr", 774: "macaddr8"}


@kernel
def _format_bytes(starts: Any, data: Any, valid: Any) -> Any:
    rows = len(valid)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(2 * (rows + starts[rows] - starts[0]), np.uint8)
    at = 0
    for row in range(rows):
        if valid[row]:
            out[at] = 92
            out[at + 1] = 120
            at += 2
            for place in range(starts[row], starts[row + 1]):
                pair = 2 * np.int64(data[place])
                out[at] = HEX[pair]
                out[at + 1] = HEX[pair + 1]
                at += 2
        offsets[row + 1] = at
    return offsets, out[:at]


def format_byteas(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    r"""As byteaout: \x and hexadecimal, or the older escapes where the style asks for them."""
    if style.bytea_output == "escape":
        return Texts.of([_escaped(payload) for payload in values.payload_list()])
    return Texts(*_format_bytes(*values.payloads, as_writable(values.valid)))


def _escaped(payload: bytes) -> str:
    return "".join(
        "\\\\" if byte == 92 else chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
        for byte in payload
    )  # fmt: skip


def parse_byteas(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As byteain: both forms."""

    def parse_one(text: str) -> bytes:
        if not text.startswith("\\x"):
            pieces = re.split(r"\\(\\|[0-3][0-7]{2})", text)
            if any("\\" in piece for piece in pieces[::2]):
                raise syntax_error("bytea", text)
            odd = [b"\\" if piece == "\\" else bytes([int(piece, 8)]) for piece in pieces[1::2]]
            return b"".join(plain.encode() + code for plain, code in zip(pieces[::2], [*odd, b""], strict=True))
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            raise UsageError(f'invalid hexadecimal data: "{text}"', sqlstate="22023") from None

    return parse_each(texts, valid, pg_type, parse_one)


def arrow_byteas(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    return pa.binary()


def byteas_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """The bytes themselves, not copied."""
    return string_array(Texts(*values.payloads), values.valid, pa.binary())


def format_hex_groups(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11, 08:00:2b:01:02:03."""
    assert values.fixed is not None
    separator, groups = GROUPS[pg_type.oid]
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


def parse_hex_groups(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Separators may stand anywhere."""

    def parse_one(text: str) -> bytes:
        try:
            found = bytes.fromhex(re.sub("[-:.{} ]", "", text))
        except ValueError:
            found = b""
        if len(found) != pg_type.length:
            raise syntax_error(NAMES[pg_type.oid], text)
        return found

    return parse_each(texts, valid, pg_type, parse_one)


def format_bits(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """Stored as i32 number of bits, then the bits, highest first (`utils/varbit.h`)."""
    starts, data = values.payloads
    lengths = np.zeros(len(values), np.int64)
    heads = starts[:-1][values.valid]
    for place in range(4):
        lengths[values.valid] |= data[heads + place].astype(np.int64) << (8 * place)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(8 * (starts[:-1] + 4) - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Texts(offsets, np.unpackbits(data)[places] + np.uint8(48))


def parse_bits(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    def parse_one(text: str) -> bytes:
        if set(text) - set("01"):
            raise UsageError(f'"{text}" is not a valid binary digit', sqlstate="22P02")
        padded = text.ljust(-(-len(text) // 8) * 8, "0")
        return len(text).to_bytes(4, "little") + bytes(int(padded[at : at + 8], 2) for at in range(0, len(padded), 8))

    return parse_each(texts, valid, pg_type, parse_one)
