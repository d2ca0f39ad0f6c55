"""All families' tables in one (`utils/fmgrtab.c`): which C function is carried out how; and which functions are behind < and = of a family."""

from __future__ import annotations

import pkgutil
from functools import cache

from tailrace.expressions.evaluate.comparison import btree_support, record_comparison, text_comparison
from tailrace.expressions.evaluate.containers import array_functions, range_functions
from tailrace.expressions.evaluate.datetimes import at_time_zone, date_timestamp, extract_and_trunc, intervals
from tailrace.expressions.evaluate.fmgr.function_calls import Implementation
from tailrace.expressions.evaluate.geometry import line_and_lseg, path_and_polygon, point_box_circle, polygon_relations
from tailrace.expressions.evaluate.identifiers import network_addresses, tid_and_snapshot, walfile_names
from tailrace.expressions.evaluate.json import json_functions, jsonb_functions, jsonpath_functions
from tailrace.expressions.evaluate.numbers import (
    float_transcendental,
    floats,
    integers,
    money,
    numeric_functions,
    numeric_transcendental,
)
from tailrace.expressions.evaluate.patterns import like, regexp, regexp_occurrences
from tailrace.expressions.evaluate.strings import bytea_and_bit, decode_and_parse, text_functions, to_ascii, xml
from tailrace.expressions.evaluate.text_search import ts_documents, ts_queries, ts_rank, tsquery_rewrite, tsvector_tsquery

FAMILIES = (
    array_functions, at_time_zone, btree_support, bytea_and_bit, date_timestamp, decode_and_parse, extract_and_trunc,
    float_transcendental, floats, integers, intervals, json_functions, jsonb_functions, jsonpath_functions, like, line_and_lseg,
    money, network_addresses, numeric_functions, numeric_transcendental, path_and_polygon, point_box_circle, polygon_relations,
    range_functions, record_comparison, regexp, regexp_occurrences, text_comparison, text_functions, tid_and_snapshot, to_ascii,
    ts_documents, ts_queries, ts_rank, tsquery_rewrite, tsvector_tsquery, walfile_names, xml,
)  # fmt: skip

IMPLEMENTATIONS: dict[str, Implementation] = {symbol: what for family in FAMILIES for symbol, what in family.FUNCTIONS.items()}


@cache
def _orderings() -> dict[int, tuple[int, int]]:
    table = pkgutil.get_data("tailrace.expressions.evaluate.executor", "orderings.tsv")
    assert table is not None
    lines = (tuple(map(int, line.split("\t"))) for line in table.decode().splitlines()[1:])
    return {operator: (less, equal) for operator, less, equal in lines}


OPERATOR_FUNCTIONS = _orderings()
"""Operator -> the functions behind < and = of its family."""
