"""Comparisons of text, name and character(n) (`adt/varlena.c`, `adt/varchar.c`, `adt/name.c`).

Collations that a filter can name are deterministic, so = and <> compare bytes. < and > do so where the collation is C's or the builtin provider's;
else they ask the collation, once for each pair of texts. character(n) is compared without the blanks at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.expressions.evaluate.collations import Compare
from tailrace.expressions.evaluate.comparison.memcmp import bytes_compared
from tailrace.expressions.evaluate.fmgr.datum_forms import text_codec
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows, whole
from tailrace.expressions.evaluate.fmgr.vectors import C_COLLATION, Facts, Vector
from tailrace.types.values import Mask

FUNCTIONS: dict[str, Implementation] = {}
SYMBOLS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": pc.equal, "ne": pc.not_equal, "lt": pc.less, "le": pc.less_equal, "gt": pc.greater, "ge": pc.greater_equal,
}  # fmt: skip


def arrow_bytes(vector: Vector, encoding: str) -> pa.Array | pa.Scalar:
    """The texts' bytes: a scalar of a constant, else an array; NULL rows are empty."""
    if vector.constant:
        value = vector.value()
        return pa.scalar(
            b""
            if value is None
            else value
            if isinstance(value, bytes)
            else value.encode(text_codec(encoding), "surrogateescape"),
            pa.large_binary(),
        )
    if vector.stored is not None and vector.stored.fixed is None:
        offsets, data = vector.stored.payloads
        return pa.Array.from_buffers(pa.large_binary(), len(vector.valid), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    codec = text_codec(encoding)
    pairs = zip(vector.data, vector.valid.tolist(), strict=True)
    return pa.array(
        [(each if isinstance(each, bytes) else each.encode(codec, "surrogateescape")) if there else b"" for each, there in pairs],
        pa.large_binary(),
    )


def as_mask(found: Any, count: int) -> NDArray:
    """Arrow's answer as an array of truth values."""
    if isinstance(found, pa.Scalar):
        return np.full(count, bool(found.as_py()))
    return found.to_numpy(zero_copy_only=False).astype(np.bool_)


def _stored_texts(vector: Vector, encoding: str) -> tuple[list[bytes], NDArray]:
    """The distinct texts of a column, and which of them each row has."""
    found = arrow_bytes(vector, encoding)
    if isinstance(found, pa.Scalar):
        return [found.as_py()], np.zeros(1, np.int64)
    encoded = found.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _signs(order: Compare, vectors: Sequence[Vector], count: int, encoding: str, trim: bool) -> NDArray:
    """How the texts of two columns compare: a collation is asked about each pair of distinct texts that there is once."""
    (mine, left), (others, right) = (_stored_texts(vector, encoding) for vector in vectors)
    if trim:
        mine, others = [each.rstrip(b" ") for each in mine], [each.rstrip(b" ") for each in others]
    pairs, places = np.unique(np.broadcast_to(left * len(others) + right, (count,)), return_inverse=True)
    found = [order(mine[pair // len(others)], others[pair % len(others)]) for pair in pairs.tolist()]
    return np.array(found, np.int32)[places]


def _ordered(name: str, trim: bool) -> Implementation:
    """< and its kin under the call's collation."""
    by_bytes = _trimmed_compared(PLAIN[name]) if trim else _bytes_compared(name)

    def make(call: FunctionCallInfo) -> Implementation:
        order = call.order()
        if order is None:
            return by_bytes
        compare, encoding, test = order, call.facts.encoding, SIGNS[name]
        return whole(lambda vectors, count, valid: test(_signs(compare, vectors, count, encoding, trim)))

    return made(make)


def _bytes_compared(name: str) -> Implementation:
    test = SYMBOLS[name]

    def make(call: FunctionCallInfo) -> Implementation:
        encoding = call.facts.encoding

        def run(vectors: Sequence[Vector], count: int, valid: Mask) -> NDArray:
            return as_mask(test(arrow_bytes(vectors[0], encoding), arrow_bytes(vectors[1], encoding)), count)

        return whole(run)

    return made(make)


def _trimmed_compared(test: Callable[[str, str], bool]) -> Implementation:
    return rows(lambda left, right: test(left.rstrip(" "), right.rstrip(" ")), True)


PLAIN: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda left, right: left == right, "ne": lambda left, right: left != right, "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right, "gt": lambda left, right: left > right, "ge": lambda left, right: left >= right,
}  # fmt: skip


SIGNS: dict[str, Callable[[NDArray], NDArray]] = {
    "lt": lambda found: found < 0, "le": lambda found: found <= 0, "gt": lambda found: found > 0, "ge": lambda found: found >= 0,
    "cmp": lambda found: found,
}  # fmt: skip


def text_comparison(facts: Facts, collation: int, trim: bool) -> Callable[[str, str], int]:
    """How two texts compare, for who has them one at a time."""
    order, codec = facts.order(collation) or bytes_compared, text_codec(facts.encoding)
    known = facts.collation(collation)
    end = "\0" if known is not None and known.compares_by_strcmp else ""

    def compare(left: str, right: str) -> int:
        if trim:
            left, right = left.rstrip(" "), right.rstrip(" ")
        return order((left + end).encode(codec, "surrogateescape"), (right + end).encode(codec, "surrogateescape"))

    return compare


def _compared(trim: bool) -> Implementation:
    """bttextcmp and its kin: what the C library says, beyond its sign too."""
    return made(lambda call: rows(text_comparison(call.facts, call.collation, trim), True))


def _names_compared(call: FunctionCallInfo) -> Implementation:
    """Under C by strncmp, for which the end of a name is a zero."""
    if call.order() is not None:
        return rows(text_comparison(call.facts, call.collation, False), True)
    compare = text_comparison(call.facts, C_COLLATION, False)
    return rows(lambda left, right: compare(left + "\0", right + "\0"), True)


def _pick(larger: bool, trim: bool) -> Implementation:
    """The larger or the smaller; of equals text_larger gives the second, bpchar_larger the first."""

    def make(call: FunctionCallInfo) -> Implementation:
        compare, sign = text_comparison(call.facts, call.collation, trim), 1 if larger else -1
        if trim:
            return rows(lambda left, right: left if sign * compare(left, right) >= 0 else right, True)
        return rows(lambda left, right: left if sign * compare(left, right) > 0 else right, True)

    return made(make)


for _name, _test in PLAIN.items():
    _sorts = _name not in ("eq", "ne")
    FUNCTIONS[f"text_{_name}" if _sorts else f"text{_name}"] = _ordered(_name, False) if _sorts else _bytes_compared(_name)
    FUNCTIONS[f"name{_name}"] = FUNCTIONS[f"name{_name}text"] = FUNCTIONS[f"text{_name}name"] = (
        _ordered(_name, False) if _sorts else _bytes_compared(_name)
    )
    FUNCTIONS[f"bpchar{_name}"] = _ordered(_name, True) if _sorts else _trimmed_compared(_test)
    FUNCTIONS[f"bytea{_name}"] = _bytes_compared(_name)
    if _sorts:
        FUNCTIONS[f"text_pattern_{_name}"] = _bytes_compared(_name)
        FUNCTIONS[f"bpchar_pattern_{_name}"] = _trimmed_compared(_test)
FUNCTIONS["text_larger"], FUNCTIONS["text_smaller"] = _pick(True, False), _pick(False, False)
FUNCTIONS["bpchar_larger"], FUNCTIONS["bpchar_smaller"] = _pick(True, True), _pick(False, True)
FUNCTIONS["btnamecmp"] = made(_names_compared)
FUNCTIONS["bttextcmp"] = FUNCTIONS["btnametextcmp"] = FUNCTIONS["bttextnamecmp"] = _compared(False)
FUNCTIONS["bpcharcmp"] = _compared(True)
