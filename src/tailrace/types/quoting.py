"""Names and literals in quotes, as PostgreSQL puts them there (quote_identifier in `utils/adt/ruleutils.c`, `quote.c`), and lists of names as it
reads them (SplitIdentifierString in `utils/adt/varlena.c`): of `orders, "My Table"` the names that the catalogs have.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tailrace.majors import NEWEST, Compared

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")
_SPACE = r"[ \t\n\r\f\v]*"
_FOLDED = str.maketrans({chr(letter): chr(letter).lower() for letter in range(ord("A"), ord("Z") + 1)})
"""Where characters have several bytes, PostgreSQL folds ASCII alone (`downcase_identifier`)."""

_FIRST = frozenset(
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
_MORE = _FIRST | frozenset("json_array json_arrayagg json_object json_objectagg system_user".split())
_MOST = _MORE | frozenset("json json_exists json_query json_scalar json_serialize json_table json_value merge_action".split())

COMPARED = Compared(__name__, "SELECT word FROM pg_get_keywords() WHERE catcode <> 'U'", upto=18)
_KEYWORDS = COMPARED.table({14: _FIRST, 16: _MORE, 17: _MOST})
"""Those of a category other than UNRESERVED."""


@lru_cache(maxsize=1 << 16)
def quote_identifier(name: str, major: int = NEWEST) -> str:
    """`name`, in double quotes if PostgreSQL of that major would put it in them."""
    if _PLAIN.match(name) and name not in _KEYWORDS[major]:
        return name
    return '"' + name.replace('"', '""') + '"'


def simple_quote_literal(text: str) -> str:
    """As pg_get_expr() quotes constants, and the grammar reads them where standard_conforming_strings is on: quotes doubled, and nothing else."""
    return "'" + text.replace("'", "''") + "'"


def quote_literal(text: str) -> str:
    """As quote_literal(): quotes doubled, and backslashes too, behind an E, where there are any."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"


def split_identifiers(text: str, separator: str = ",") -> list[str] | None:
    """What stands in double quotes is taken as it is, a doubled quote for one; the rest is folded to lower case. None for what
    is no list; a blank text has no names. Nothing is cut to 63 bytes."""
    if not text.strip(" \t\n\r\f\v"):
        return []
    part = _PARTS[separator]
    names = []
    at = 0
    while (match := part.match(text, at)) is not None:
        quoted, bare, behind = match.groups()
        names.append(bare.translate(_FOLDED) if quoted is None else quoted.replace('""', '"'))
        if not behind:
            return names
        at = match.end()
    return None


def _part(separator: str) -> re.Pattern[str]:
    """One identifier, and the separator behind it."""
    ends = rf"{re.escape(separator)} \t\n\r\f\v"
    return re.compile(rf'{_SPACE}(?:"((?:[^"]|"")*)"|([^"{ends}][^{ends}]*)){_SPACE}({re.escape(separator)}|\Z)')


_PARTS = {separator: _part(separator) for separator in ",."}
