"""boolean: one byte, printed as t or f."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.model import PgType
from tailrace.settings import parse_bool
from tailrace.types.codec import ArrowStyle, Codec, mask_buffer, syntax_error
from tailrace.types.codec.binary_forms import receive_swapped, send_swapped
from tailrace.types.codec.plain_forms import parse_numbers
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def format_bools(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """t or f, as boolout."""
    return Texts.of_choices(("f", "t"), values.as_dtype("u1").astype(np.int64), values.valid)


def printed_bool(values: Values) -> Texts:
    """true or false: test_decoding's own words."""
    return Texts.of_choices(("false", "true"), values.as_dtype("u1").astype(np.int64), values.valid)


def parse_bools(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As boolin: unique prefixes of true, false, yes, no, on, off; 1 and 0."""

    def parse_one(text: str) -> bytes:
        meaning = parse_bool(text.strip())
        if meaning is None:
            raise syntax_error("boolean", text)
        return b"\1" if meaning else b"\0"

    return parse_numbers(texts, valid, "u1", _parse_letters, parse_one)


def _parse_letters(offsets: Any, data: Any, valid: Any, numbers: Any) -> Any:
    """t and f, as boolout prints them; returns which rows are something else."""
    single = valid & (np.diff(offsets) == 1)
    letters = data[offsets[:-1][single]]
    numbers[single] = letters == ord("t")
    left = valid & ~single
    left[single] = (letters != ord("t")) & (letters != ord("f"))
    return left


def arrow_bools(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    return pa.bool_()


def bools_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    bits = pa.py_buffer(np.packbits(values.as_dtype("u1").astype(bool), bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [mask_buffer(values.valid), bits])


BOOL = Codec(
    format=format_bools, parse=parse_bools, send=send_swapped(1), receive=receive_swapped(1),
    arrow=arrow_bools, to_arrow=bools_to_arrow, quoting="bare",
)  # fmt: skip
