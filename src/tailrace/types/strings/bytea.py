r"""bytea: \x6869, or the older escapes under bytea_output = escape. Binary form and Arrow have the bytes themselves."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import ArrowStyle, parse_each, string_array, syntax_error
from tailrace.types.codec.ascii import BACKSLASH
from tailrace.types.style import TextStyle
from tailrace.types.uuid import HEX
from tailrace.types.values import Mask, Texts, Values, as_writable

LETTER_X = ord("x")


@kernel
def _format_bytes(starts: Any, data: Any, valid: Any) -> Any:
    r"""\x, and two digits a byte."""
    rows = len(valid)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(2 * (rows + starts[rows] - starts[0]), np.uint8)
    at = 0
    for row in range(rows):
        if valid[row]:
            out[at] = BACKSLASH
            out[at + 1] = LETTER_X
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
            plain, escapes = pieces[::2], pieces[1::2]
            if any("\\" in piece for piece in plain):
                raise syntax_error("bytea", text)
            codes = [b"\\" if escape == "\\" else bytes([int(escape, 8)]) for escape in escapes]
            return b"".join(piece.encode() + code for piece, code in zip(plain, [*codes, b""], strict=True))
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
