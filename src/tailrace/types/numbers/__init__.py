"""Numbers: int2, int4, int8, float4, float8, numeric, money; and oid, xid, cid, xid8, which are stored and printed as whole numbers are."""

from __future__ import annotations

from tailrace.types.codec import Codec, Quoting
from tailrace.types.codec.binary_forms import receive_swapped, send_swapped
from tailrace.types.numbers.floats import arrow_floats, floats_to_arrow, format_floats, parse_floats
from tailrace.types.numbers.integers import arrow_integers, format_integers, integers_to_arrow, parse_integers
from tailrace.types.numbers.money import format_money, parse_money
from tailrace.types.numbers.numeric.arrow import arrow_numerics, numerics_to_arrow
from tailrace.types.numbers.numeric.binary import receive_numerics, send_numerics
from tailrace.types.numbers.numeric.text import format_numerics, parse_numerics


def _integers(width: int, quoting: Quoting = "bare") -> Codec:
    return Codec(
        format=format_integers, parse=parse_integers, send=send_swapped(width), receive=receive_swapped(width),
        arrow=arrow_integers, to_arrow=integers_to_arrow, quoting=quoting,
    )  # fmt: skip


def _floats(width: int) -> Codec:
    return Codec(
        format=format_floats, parse=parse_floats, send=send_swapped(width), receive=receive_swapped(width),
        arrow=arrow_floats, to_arrow=floats_to_arrow, quoting="bare",
    )  # fmt: skip


INT2, INT4, INT8, OID = (_integers(width) for width in (2, 4, 8, 4))
XID, CID, XID8 = (_integers(width, "quoted") for width in (4, 4, 8))
FLOAT4, FLOAT8 = _floats(4), _floats(8)
NUMERIC = Codec(
    format=format_numerics, parse=parse_numerics, send=send_numerics, receive=receive_numerics,
    arrow=arrow_numerics, to_arrow=numerics_to_arrow, quoting="bare",
)  # fmt: skip
MONEY = Codec(format=format_money, parse=parse_money, send=send_swapped(8), receive=receive_swapped(8))
