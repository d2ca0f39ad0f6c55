"""Constants as the grammar has them (`parser/parse_node.c`, make_const).

In: an A_Const. Out: a `Constant`: integer, bigint or numeric, by size; bit for B'1' and X'1F'; boolean. A string and NULL have no type yet.
"""

from __future__ import annotations

from typing import Any

from pglast import ast

from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.analysis.literals.literals import read_bits
from tailrace.expressions.analysis.state import Node, ParseState
from tailrace.types import oids
from tailrace.types.numbers.numeric.text import parse_numeric

_INT4, _INT8 = 1 << 31, 1 << 63


def transform_constant(state: ParseState, raw: Any) -> Node:
    location = state.place(raw)
    if raw.isnull:
        return tree.Const(oids.UNKNOWN, None, location=location)
    value = raw.val
    match value:
        case ast.Integer():
            return tree.Const(oids.INT4, int(value.ival or 0).to_bytes(4, "little", signed=True), location=location)
        case ast.Float():
            return _number(str(value.fval), location)
        case ast.Boolean():
            return tree.Const(oids.BOOL, bytes([bool(value.boolval)]), location=location)
        case ast.BitString():
            return tree.Const(oids.BIT, _bits(state, str(value.bsval), location), location=location)
    text = str(value.sval or "")
    return tree.Const(oids.UNKNOWN, text.encode("utf-8", "surrogateescape"), location=location)


def _number(text: str, location: int) -> tree.Const:
    """What does not fit integer: bigint if it is whole and fits, else numeric."""
    whole = _whole(text)
    if whole is not None and -_INT8 <= whole < _INT8:
        if -_INT4 <= whole < _INT4:
            return tree.Const(oids.INT4, whole.to_bytes(4, "little", signed=True), location=location)
        return tree.Const(oids.INT8, whole.to_bytes(8, "little", signed=True), location=location)
    plain = str(whole) if whole is not None else text.replace("_", "")
    return tree.Const(oids.NUMERIC, parse_numeric(plain), location=location)


def _whole(text: str) -> int | None:
    try:
        return int(text.replace("_", ""), 0 if text.lstrip("-")[:2].lower() in ("0x", "0o", "0b") else 10)
    except ValueError:
        return None


def _bits(state: ParseState, text: str, location: int) -> bytes:
    try:
        return read_bits(text)
    except UsageError as error:
        raise state.error(error.message, error.sqlstate, location) from None
