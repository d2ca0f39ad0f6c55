"""What the modifier of a type says (atttypmod), of those whose modifier is more than one number: numeric(p,s), and interval's fields and digits."""

from __future__ import annotations

VARHDRSZ = 4
"""The length word of a varlena, which the modifiers of strings and of numeric are greater by."""
INTERVAL_MASK = {"month": 1 << 1, "year": 1 << 2, "day": 1 << 3, "hour": 1 << 10, "minute": 1 << 11, "second": 1 << 12}
"""The bit of each field in an interval's modifier (`utils/timestamp.h`)."""
INTERVAL_FULL_RANGE, INTERVAL_FULL_PRECISION = 0x7FFF, 0xFFFF


def numeric_typmod(typmod: int) -> tuple[int, int] | None:
    """(precision, scale) of numeric(p,s); None of numeric alone. The scale is a signed field of 11 bits: since 15 it may be negative."""
    if typmod < VARHDRSZ:
        return None
    return typmod - VARHDRSZ >> 16 & 0xFFFF, (typmod - VARHDRSZ & 0x7FF ^ 0x400) - 0x400


def make_numeric_typmod(precision: int, scale: int) -> int:
    """The reverse."""
    return (precision << 16 | scale & 0x7FF) + VARHDRSZ


def interval_typmod(typmod: int) -> tuple[int, int]:
    """The fields that there may be, by INTERVAL_MASK, and how many digits of the second's fraction; of -1, all."""
    return (
        (typmod >> 16 & INTERVAL_FULL_RANGE, typmod & 0xFFFF) if typmod >= 0 else (INTERVAL_FULL_RANGE, INTERVAL_FULL_PRECISION)
    )
