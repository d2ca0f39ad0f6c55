"""How two values of a type compare where something else compares them: elements of arrays, bounds of ranges, fields of rows.

In: a type and `Facts`. Out: a function that says -1, 0 or 1 for two values in working form, as the type's default B-tree operator class does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate.datetimes import date_timestamp, intervals
from tailrace.expressions.evaluate.fmgr.datum_forms import DTYPES, text_codec, type_of
from tailrace.expressions.evaluate.fmgr.refusals import refused
from tailrace.expressions.evaluate.fmgr.vectors import Facts
from tailrace.expressions.evaluate.numbers import numeric_arithmetic
from tailrace.expressions.evaluate.strings import bytea_and_bit
from tailrace.types import oids

Compare = Callable[[Any, Any], int]


def plain(left: Any, right: Any) -> int:
    return (left > right) - (left < right)


def floats(left: float, right: float) -> int:
    """NaN equals NaN, and is above all."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) - math.isnan(right)
    return plain(left, right)


def _by(key: Callable[[Any], Any]) -> Compare:
    return lambda left, right: plain(key(left), key(right))


_COMPARES: dict[int, Compare] = {
    oids.FLOAT4: floats, oids.FLOAT8: floats, oids.NUMERIC: numeric_arithmetic.compare, oids.INTERVAL: _by(intervals.span),
    oids.TIMETZ: _by(date_timestamp.timetz_key), oids.BPCHAR: _by(lambda text: text.rstrip(" ")), oids.BIT: bytea_and_bit.order,
    oids.VARBIT: bytea_and_bit.order, oids.BYTEA: plain, oids.UUID: plain, oids.MACADDR: plain, oids.MACADDR8: plain,
    oids.TID: plain, oids.NAME: plain, oids.TEXT: plain, oids.VARCHAR: plain,
}  # fmt: skip
_TEXTS = (oids.NAME, oids.TEXT, oids.BPCHAR, oids.VARCHAR)
_FACTORIES: dict[int, Callable[[Facts], Compare]] = {}
_BY_KIND: dict[str, Callable[[int, Facts, int], Compare]] = {}


def register_order(type_oid: int, make: Callable[[Facts], Compare]) -> None:
    """A type's order, which stands in the module of its family."""
    _FACTORIES[type_oid] = make


def register_kind_order(kind: str, make: Callable[[int, Facts, int], Compare]) -> None:
    """The same for arrays, ranges and multiranges; called with the type, facts and the collation."""
    _BY_KIND[kind] = make


def _collated(order: Callable[[bytes, bytes], int], encoding: str, trim: bool) -> Compare:
    codec = text_codec(encoding)

    def stored(text: str) -> bytes:
        return (text.rstrip(" ") if trim else text).encode(codec, "surrogateescape")

    return lambda left, right: plain(order(stored(left), stored(right)), 0)


def comparison(type_oid: int, facts: Facts, collation: int = 100) -> Compare:
    """How values of the type compare. Texts are refused where the collation is not known."""
    order = facts.order(collation) if type_oid in _TEXTS and type_oid != oids.NAME else None
    if order is not None:
        return _collated(order, facts.encoding, type_oid == oids.BPCHAR)
    if type_oid in _COMPARES:
        return _COMPARES[type_oid]
    if type_oid in DTYPES and type_oid not in (oids.XID, oids.CID):
        return plain
    if type_oid in _FACTORIES:
        return _FACTORIES[type_oid](facts)
    pg_type = type_of(type_oid)
    if pg_type.kind in _BY_KIND:
        return _BY_KIND[pg_type.kind](type_oid, facts, collation)
    raise refused(f'an order of values of type "{pg_type.label}"')


def equality(type_oid: int, facts: Facts) -> Callable[[Any, Any], bool]:
    """Whether values of the type are equal, which no collation changes."""
    if type_oid in (oids.NAME, oids.TEXT, oids.VARCHAR, oids.XID, oids.CID):
        return lambda left, right: left == right
    compare = comparison(type_oid, facts, 950)
    return lambda left, right: compare(left, right) == 0
