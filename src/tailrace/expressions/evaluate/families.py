"""All families' tables in one: which C function is carried out how; and by which functions an operator that sorts is taken apart."""

from __future__ import annotations

import pkgutil
from functools import cache

from tailrace.expressions.evaluate import (
    arrays,
    btree_support,
    bytes_and_bits,
    extracting,
    floats,
    identifiers,
    integers,
    intervals,
    jsonbs,
    jsons,
    moments,
    networks,
    numerics,
    paths_and_polygons,
    patterns,
    polygons,
    ranges,
    regex_occurrences,
    regexes,
    row_images,
    searches,
    segments_and_lines,
    shapes,
    text_order,
    text_readers,
    texts,
    transcendental,
    zones,
)
from tailrace.expressions.evaluate.calls import Implementation

FAMILIES = (
    arrays, btree_support, bytes_and_bits, extracting, floats, identifiers, integers, intervals, jsonbs, jsons, moments, networks,
    numerics, paths_and_polygons, patterns, polygons, ranges,
    regex_occurrences, regexes, row_images, searches, segments_and_lines, shapes, text_order, text_readers, texts,
    transcendental, zones,
)  # fmt: skip

IMPLEMENTATIONS: dict[str, Implementation] = {symbol: what for family in FAMILIES for symbol, what in family.FUNCTIONS.items()}


@cache
def _orderings() -> dict[int, tuple[int, int]]:
    table = pkgutil.get_data("tailrace.expressions.evaluate", "orderings.tsv")
    assert table is not None
    lines = (tuple(map(int, line.split("\t"))) for line in table.decode().splitlines()[1:])
    return {operator: (less, equal) for operator, less, equal in lines}


OPERATOR_FUNCTIONS = _orderings()
"""Operator -> the functions behind < and = of its family."""
