"""What pg_get_indexdef() says of an index, and pg_get_expr() of a partition's bound (`utils/adt/ruleutils.c`).

In: a snapshot of the catalogs, and what deparses expressions. Out: SQL. Operator classes that extensions bring are not tracked, and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tailrace.catalog.rows.column_values import int2_vector, oid_vector, text_elements
from tailrace.catalog.rows.layouts import layouts_of
from tailrace.expressions import tree
from tailrace.expressions.node_tree import read_node_tree
from tailrace.majors import Compared
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.sql.views.untracked_catalogs import ACCESS_METHODS
from tailrace.types.quoting import quote_identifier, quote_literal

COMPARED = Compared(__name__, "pg_opclass on a server", upto=18)
_NAMED = (
    "4217 text_pattern_ops 4218 varchar_pattern_ops 4219 bpchar_pattern_ops 10009 cidr_ops 10010 cidr_ops 10017 inet_ops"
    " 10036 record_image_ops 10044 varchar_ops 10045 varchar_ops 10056 text_pattern_ops 10057 varchar_pattern_ops"
    " 10058 bpchar_pattern_ops 10085 kd_point_ops 10091 jsonb_path_ops 10127 inet_minmax_ops 10093 bytea_bloom_ops"
    " 10095 char_bloom_ops 10097 name_bloom_ops 10099 int8_minmax_multi_ops 10100 int8_bloom_ops 10102 int2_minmax_multi_ops"
    " 10103 int2_bloom_ops 10105 int4_minmax_multi_ops 10106 int4_bloom_ops 10108 text_bloom_ops 10110 oid_minmax_multi_ops"
    " 10111 oid_bloom_ops 10113 tid_bloom_ops 10114 tid_minmax_multi_ops 10116 float4_minmax_multi_ops 10117 float4_bloom_ops"
    " 10119 float8_minmax_multi_ops 10120 float8_bloom_ops 10122 macaddr_minmax_multi_ops 10123 macaddr_bloom_ops"
    " 10125 macaddr8_minmax_multi_ops 10126 macaddr8_bloom_ops 10128 inet_minmax_multi_ops 10129 inet_bloom_ops"
    " 10132 bpchar_bloom_ops 10134 time_minmax_multi_ops 10135 time_bloom_ops 10137 date_minmax_multi_ops 10138 date_bloom_ops"
    " 10140 timestamp_minmax_multi_ops 10141 timestamp_bloom_ops 10143 timestamptz_minmax_multi_ops 10144 timestamptz_bloom_ops"
    " 10146 interval_minmax_multi_ops 10147 interval_bloom_ops 10149 timetz_minmax_multi_ops 10150 timetz_bloom_ops"
    " 10154 numeric_minmax_multi_ops 10155 numeric_bloom_ops 10157 uuid_minmax_multi_ops 10158 uuid_bloom_ops"
    " 10161 pg_lsn_minmax_multi_ops 10162 pg_lsn_bloom_ops"
).split()
OPERATOR_CLASSES = dict(zip(map(int, _NAMED[::2]), _NAMED[1::2], strict=True))
"""Those that are no type's default: only they are written."""
_DESCENDING, _NULLS_FIRST = 1, 2
_COLUMNS = (
    "indexrelid", "indrelid", "indnatts", "indnkeyatts", "indisunique", "indkey", "indcollation", "indclass", "indoption", "indexprs", "indpred",
)  # fmt: skip
Deparse = Callable[[str, int], str]
"""A node tree's expression over a relation of this oid."""


class IndexDefinitions:
    """Of one snapshot. `deparse` and `name_of` are those of a call: with few parentheses and short names, or without."""

    def __init__(self, snapshot: CatalogSnapshot) -> None:
        history = snapshot.history
        self._snapshot, self._major, self._codec = snapshot, history.major, history.codec or "utf-8"
        more = ("indnullsnotdistinct",) if "indnullsnotdistinct" in layouts_of(history.major)["pg_index"].names else ()
        self._indexes = history.table_with("pg_index", (*_COLUMNS, *more))
        self._has_distinct_nulls = not more

    def definition(self, oid: int, column: int, deparse: Deparse, name_of: Callable[[int], str]) -> str | None:
        """Of the whole index, or of one of its columns by number; None if there is no such index."""
        rows = self._indexes.seen_where("indexrelid", oid, self._snapshot.lsn, -1)
        if not len(rows):
            return None
        row = int(rows[-1])
        table = int(self._indexes["indrelid"][row])
        columns = list(self._columns(row, deparse, is_whole=not column))
        if column:
            return columns[column - 1] if column <= len(columns) else ""
        keys = int(self._indexes["indnkeyatts"][row])
        classes = self._snapshot.history.table("pg_class")
        (place,) = classes.seen_where("oid", oid, self._snapshot.lsn, -1)[-1:].tolist()
        only = "ONLY " if chr(classes["relkind"][place]) == "I" else ""
        unique = "UNIQUE " if self._indexes["indisunique"][row] else ""
        method = ACCESS_METHODS.get(int(classes["relam"][place]), ("(not known)",))[0]
        name = quote_identifier(classes.name("relname", place), self._major)
        said = f"CREATE {unique}INDEX {name} ON {only}{name_of(table)} USING {method} ({', '.join(columns[:keys])})"
        if columns[keys:]:
            said += f" INCLUDE ({', '.join(columns[keys:])})"
        if not self._has_distinct_nulls and self._indexes["indnullsnotdistinct"][row]:
            said += " NULLS NOT DISTINCT"
        options = classes["reloptions"][place]
        if options is not None:
            said += f" WITH ({', '.join(map(_option, text_elements(options)))})"
        predicate = self._indexes["indpred"][row]
        return said if predicate is None else f"{said} WHERE {deparse(predicate.decode(self._codec), table)}"

    def _columns(self, row: int, deparse: Deparse, *, is_whole: bool) -> Iterator[str]:
        indexes, table = self._indexes, int(self._indexes["indrelid"][row])
        relation = self._snapshot.relation(table)
        assert relation is not None
        trees = indexes["indexprs"][row]
        expressions = iter(() if trees is None else nodes_of(trees.decode(self._codec)))
        options, classes = int2_vector(indexes["indoption"][row]), oid_vector(indexes["indclass"][row])
        collations, keys = oid_vector(indexes["indcollation"][row]), int(indexes["indnkeyatts"][row])
        for place, number in enumerate(int2_vector(indexes["indkey"][row])):
            if number:
                said, own = quote_identifier(relation.columns[number - 1].name, self._major), self._collation(table, number)
            else:
                node_tree = next(expressions)
                said, node = deparse(node_tree, table), read_node_tree(node_tree)
                said = said if isinstance(node, _LIKE_FUNCTIONS) else f"({said})"
                own = getattr(node, "collation", 0)
            if is_whole and place < keys:
                said += self._details(collations[place], own, classes[place], options[place])
            yield said

    def _details(self, collation: int, own: int, operator_class: int, option: int) -> str:
        said = f" COLLATE {self._collation_name(collation)}" if collation and collation != own else ""
        if operator_class in OPERATOR_CLASSES:
            said += f" {OPERATOR_CLASSES[operator_class]}"
        if option & _DESCENDING:
            return f"{said} DESC" + ("" if option & _NULLS_FIRST else " NULLS LAST")
        return f"{said} NULLS FIRST" if option & _NULLS_FIRST else said

    def _collation(self, table: int, number: int) -> int:
        attributes = self._snapshot.history.table("pg_attribute")
        rows = attributes.seen_where("attrelid", table, self._snapshot.lsn, -1)
        return int(attributes["attcollation"][rows[attributes["attnum"][rows] == number]][-1])

    def _collation_name(self, oid: int) -> str:
        collations = self._snapshot.history.table("pg_collation")
        rows = collations.seen_where("oid", oid, self._snapshot.lsn, -1)
        return quote_identifier(collations.name("collname", int(rows[-1])), self._major) if len(rows) else str(oid)


_LIKE_FUNCTIONS = (tree.FuncExpr, tree.CoalesceExpr, tree.MinMaxExpr, tree.NullIfExpr, tree.XmlExpr)
"""looks_like_function."""


def _option(raw: bytes) -> str:
    name, _, value = raw.decode().partition("=")
    return f"{name}={value if re.fullmatch(r'[a-z_][a-z0-9_]*', value) else quote_literal(value)}"


def nodes_of(text: str) -> Iterator[str]:
    """The nodes of a list of some, as text."""
    depth = start = 0
    for found in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        if found[0] == "{":
            start, depth = (start if depth else found.start()), depth + 1
        elif found[0] == "}":
            depth -= 1
            if not depth:
                yield text[start : found.end()]


_BOUND = re.compile(
    r"\{PARTITIONBOUNDSPEC :strategy (?P<strategy>\S+) :is_default (?P<default>\w+) :modulus (?P<modulus>\d+) :remainder (?P<remainder>\d+)"
    r" :listdatums (?P<list>.*) :lowerdatums (?P<lower>.*) :upperdatums (?P<upper>.*) :location \S+\}", re.DOTALL,
)  # fmt: skip
_KIND = re.compile(r"\{PARTITIONRANGEDATUM :kind (-?\d)")
_LIMITS = {"-1": "MINVALUE", "1": "MAXVALUE"}


def partition_bound(text: str, constant: Callable[[Any], str]) -> str | None:
    """FOR VALUES …, as psql prints it; None for what is no bound. `constant` prints a value without its type."""
    found = _BOUND.fullmatch(text)
    if found is None:
        return None
    if found["default"] == "true":
        return "DEFAULT"

    def values(text: str) -> str:
        said = []
        for each in nodes_of(text):
            kind = _KIND.match(each)
            limit = _LIMITS.get(kind[1]) if kind else None
            said.append(limit or constant(read_node_tree(next(nodes_of(each[1:-1])) if kind else each)))
        return ", ".join(said)

    if found["strategy"] == "h":
        return f"FOR VALUES WITH (modulus {found['modulus']}, remainder {found['remainder']})"
    if found["strategy"] == "l":
        return f"FOR VALUES IN ({values(found['list'])})"
    return f"FOR VALUES FROM ({values(found['lower'])}) TO ({values(found['upper'])})"
