"""How PostgreSQL puts names and literals in quotes: quote_identifier() and quote_literal() (`utils/adt/ruleutils.c`, `quote.c`)."""

from __future__ import annotations

import re
from functools import lru_cache

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")

# Keywords of a category other than UNRESERVED. The few that later majors added are harmless to leave out of earlier ones only if a
# user names a column so; they are kept apart for that reason.
_KEYWORDS = frozenset(
    """all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast char character check
    coalesce collate collation column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user dec decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign
    freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join lateral
    leading least left like limit localtime localtimestamp national natural nchar none normalize not notnull null nullif numeric offset on only or
    order out outer overlaps overlay placing position precision primary real references returning right row select session_user setof similar
    smallint some substring symmetric table tablesample then time timestamp to trailing treat trim true union unique user using values varchar
    variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
    xmlserialize xmltable""".split()
)
_SINCE_16 = frozenset("json_array json_arrayagg json_object json_objectagg system_user".split())
_SINCE_17 = frozenset("json json_exists json_query json_scalar json_serialize json_table json_value merge_action".split())


@lru_cache(maxsize=1 << 16)
def quote_identifier(name: str, major: int = 18) -> str:
    """`name`, in double quotes if PostgreSQL of that major would put it in them."""
    keywords = (name in _KEYWORDS) or (major >= 16 and name in _SINCE_16) or (major >= 17 and name in _SINCE_17)
    if _PLAIN.match(name) and not keywords:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """As quote_literal(): quotes doubled, and backslashes too, behind an E, where there are any."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"
