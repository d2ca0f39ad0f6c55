"""Comparison functions of B-trees whose result is more than a sign: it is the C library's, memcmp's or strncmp's, so it is asked here as well.

`left < right` and its kin stand with the families; a filter calls these by name, as in `byteacmp(a, b) > 0`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate.comparison import type_comparison
from tailrace.expressions.evaluate.comparison.memcmp import bytes_compared, memcmp
from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.datum_forms import text_codec
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.strings.bytea_and_bit import Bits, bytes_of_bits
from tailrace.expressions.evaluate.text_search.tsquery_nodes import compare_queries
from tailrace.types.text_search.tsquery import count_items
from tailrace.types.text_search.tsvector import POSITION, WEIGHT_SHIFT, Lexeme, write_lexemes

FUNCTIONS: dict[str, Implementation] = {}


def _bits_compared(left: Bits, right: Bits) -> int:
    found = bytes_compared(bytes_of_bits(left), bytes_of_bits(right))
    return found or type_comparison.plain(left[0], right[0])


def _addresses_compared(left: bytes, right: bytes, count: int) -> int:
    """bitncmp: whole bytes by memcmp, then the bits of the next one."""
    whole, rest = divmod(count, 8)
    found = memcmp()(left, right, whole)
    if found or not rest:
        return found
    return type_comparison.plain(left[whole] >> 8 - rest, right[whole] >> 8 - rest)


def _networks_compared(left: bytes, right: bytes) -> int:
    """Of stored values: family, bits, address (`network_cmp_internal`)."""
    if left[0] != right[0]:
        return left[0] - right[0]
    mine, other = left[2:], right[2:]
    return (
        _addresses_compared(mine, other, min(left[1], right[1]))
        or left[1] - right[1]
        or _addresses_compared(mine, other, 8 * len(mine))
    )


def _oids_compared(left: Array, right: Array) -> int:
    return len(left.items) - len(right.items) or type_comparison.plain(left.items, right.items)


def _of_text(trim: bool) -> Implementation:
    """text_pattern_ops: the bytes, whatever the collation says."""

    def make(call: FunctionCallInfo) -> Implementation:
        codec = text_codec(call.facts.encoding)

        def run(left: str, right: str) -> int:
            if trim:
                left, right = left.rstrip(" "), right.rstrip(" ")
            return bytes_compared(left.encode(codec, "surrogateescape"), right.encode(codec, "surrogateescape"))

        return rows(run, True)

    return made(make)


# -- text search -------------------------------------------------------------------------------------------------------------------


def _larger_first(left: Any, right: Any) -> int:
    return (left < right) - (left > right)


def _vectors_compared(left: list[Lexeme], right: list[Lexeme]) -> int:
    """By the size that is stored, then by how many lexemes, and only then by what they are (`silly_cmp_tsvector`)."""
    found = type_comparison.plain(len(write_lexemes(left)), len(write_lexemes(right))) or type_comparison.plain(
        len(left), len(right)
    )
    if found:
        return found
    for (word, places), (other, others) in zip(left, right, strict=True):
        found = (
            _larger_first(bool(places), bool(others)) or bytes_compared(word, other) or _larger_first(len(places), len(others))
        )
        if found:
            return found
        for mine, its in zip(places, others, strict=True):
            found = _larger_first(mine & POSITION, its & POSITION) or _larger_first(mine >> WEIGHT_SHIFT, its >> WEIGHT_SHIFT)
            if found:
                return found
    return 0


def _queries_compared(left: bytes, right: bytes) -> int:
    found = type_comparison.plain(count_items(left), count_items(right)) or type_comparison.plain(len(left), len(right))
    return found or compare_queries(left, right)


_TESTS: dict[str, Callable[[int], Any]] = {
    "lt": lambda found: found < 0, "le": lambda found: found <= 0, "ge": lambda found: found >= 0, "gt": lambda found: found > 0,
    "cmp": lambda found: found,
}  # fmt: skip


def _tested(compare: Callable[[Any, Any], int], test: Callable[[int], Any]) -> Implementation:
    return rows(lambda left, right: test(compare(left, right)), True)


for _name, _test in _TESTS.items():
    FUNCTIONS[f"tsvector_{_name}"] = _tested(_vectors_compared, _test)
    FUNCTIONS[f"tsquery_{_name}"] = _tested(_queries_compared, _test)
FUNCTIONS.update(
    {
        "byteacmp": rows(bytes_compared, True), "uuid_cmp": rows(bytes_compared, True), "bitcmp": rows(_bits_compared, True),
        "network_cmp": rows(_networks_compared, True), "btoidvectorcmp": rows(_oids_compared, True), "bttext_pattern_cmp": _of_text(False),
        "btbpchar_pattern_cmp": _of_text(True),
    }
)  # fmt: skip
