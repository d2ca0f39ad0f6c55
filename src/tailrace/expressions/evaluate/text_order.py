"""Comparisons of text, name and character(n) (`adt/varlena.c`, `adt/varchar.c`, `adt/name.c`).

Collations that a filter can name are deterministic,
so = and <> compare bytes. < and > are evaluated only where the collation orders by code points. character(n)
is compared without the blanks at its end. Results of `bttextcmp` and its like beyond their sign are the C library's, so these are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.expressions.evaluate.calls import Call, Implementation, made, rows, whole
from tailrace.expressions.evaluate.forms import text_codec
from tailrace.expressions.evaluate.vectors import Vector
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


def _bytes_compared(name: str, ordered: bool) -> Implementation:
    test = SYMBOLS[name]

    def make(call: Call) -> Implementation:
        if ordered:
            call.demand_c()
        encoding = call.facts.encoding

        def run(vectors: Sequence[Vector], count: int, valid: Mask) -> NDArray:
            return as_mask(test(arrow_bytes(vectors[0], encoding), arrow_bytes(vectors[1], encoding)), count)

        return whole(run)

    return made(make)


def _trimmed_compared(test: Callable[[str, str], bool], ordered: bool) -> Implementation:
    def make(call: Call) -> Implementation:
        if ordered:
            call.demand_c()
        return rows(lambda left, right: test(left.rstrip(" "), right.rstrip(" ")), True)

    return made(make)


PLAIN: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda left, right: left == right, "ne": lambda left, right: left != right, "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right, "gt": lambda left, right: left > right, "ge": lambda left, right: left >= right,
}  # fmt: skip


def _pick(larger: bool, trim: bool) -> Implementation:
    """The larger or the smaller; of equals text_larger gives the second, bpchar_larger the first."""

    def make(call: Call) -> Implementation:
        call.demand_c()
        if trim:
            if larger:
                return rows(lambda left, right: left if left.rstrip(" ") >= right.rstrip(" ") else right, True)
            return rows(lambda left, right: left if left.rstrip(" ") <= right.rstrip(" ") else right, True)
        if larger:
            return rows(lambda left, right: left if left > right else right, True)
        return rows(lambda left, right: left if left < right else right, True)

    return made(make)


for _name, _test in PLAIN.items():
    _ordered = _name not in ("eq", "ne")
    FUNCTIONS[f"text_{_name}" if _ordered else f"text{_name}"] = _bytes_compared(_name, _ordered)
    FUNCTIONS[f"name{_name}"] = FUNCTIONS[f"name{_name}text"] = FUNCTIONS[f"text{_name}name"] = _bytes_compared(_name, _ordered)
    FUNCTIONS[f"bpchar{_name}"] = _trimmed_compared(_test, _ordered)
    FUNCTIONS[f"bytea{_name}"] = _bytes_compared(_name, False)
    if _ordered:
        FUNCTIONS[f"text_pattern_{_name}"] = _bytes_compared(_name, False)
        FUNCTIONS[f"bpchar_pattern_{_name}"] = _trimmed_compared(_test, False)
FUNCTIONS["text_larger"], FUNCTIONS["text_smaller"] = _pick(True, False), _pick(False, False)
FUNCTIONS["bpchar_larger"], FUNCTIONS["bpchar_smaller"] = _pick(True, True), _pick(False, True)
