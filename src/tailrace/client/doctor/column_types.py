"""Types of columns that tailrace does not know: a change of such a column ends decoding, unless the stored bytes will do (unknown_types=hex).

In: a connection to a database. Out: a finding for each base type without a codec (`types/registry.py`), whatever it is part of: an array, a domain, a
composite, a range.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.catalog.history.history import FIRST_UNPINNED_TYPE
from tailrace.client.doctor.checks import answers
from tailrace.client.doctor.database_checks import TABLES
from tailrace.client.doctor.findings import OK, WARNING, Finding
from tailrace.errors import UnsupportedWal, count_of
from tailrace.model import PgType
from tailrace.types.built_in import INTERNAL_LANGUAGE, internal_functions
from tailrace.types.registry import codec_of

_NAME = "column types"
_NAMED = 3
_BASE_TYPES = f"""
    WITH RECURSIVE {TABLES},
    columns AS (
        SELECT atttypid AS type, format('%s.%I', name, attname) AS name FROM pg_attribute JOIN tables ON attrelid = tables.oid
        WHERE attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p')),
    parts AS (
        SELECT DISTINCT type AS whole, type AS part FROM columns
        UNION
        SELECT whole, inner_part.type FROM parts JOIN pg_type ON pg_type.oid = part CROSS JOIN LATERAL (
            SELECT typelem WHERE typelem <> 0 AND typlen = -1 AND typsubscript = 'array_subscript_handler'::regproc
            UNION ALL SELECT typbasetype WHERE typtype = 'd'
            UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = pg_type.oid
            UNION ALL SELECT rngtypid FROM pg_range WHERE rngmultitypid = pg_type.oid
            UNION ALL SELECT atttypid FROM pg_attribute WHERE typtype = 'c' AND attrelid = typrelid AND attnum > 0 AND NOT attisdropped
        ) AS inner_part(type))
    SELECT pg_type.oid::bigint, nspname, typname, format_type(pg_type.oid, NULL), typlen::int, typbyval,
           ARRAY(SELECT CASE WHEN function = 0 THEN '' ELSE (SELECT prosrc FROM pg_proc WHERE oid = function AND prolang = {INTERNAL_LANGUAGE}) END
                 FROM unnest(ARRAY[typoutput::oid, typsend::oid, typinput::oid, typreceive::oid]) WITH ORDINALITY AS functions(function, place)
                 ORDER BY place),
           ARRAY(SELECT name FROM columns WHERE type IN (SELECT whole FROM parts WHERE part = pg_type.oid) ORDER BY name)
    FROM pg_type JOIN pg_namespace ON pg_namespace.oid = typnamespace
    WHERE pg_type.oid IN (SELECT part FROM parts) AND typtype = 'b'
      AND NOT (typelem <> 0 AND typlen = -1 AND typsubscript = 'array_subscript_handler'::regproc)
      AND pg_type.oid >= {FIRST_UNPINNED_TYPE}
    ORDER BY 4"""


def unknown_types(connection: Any, database: str) -> Iterator[Finding]:
    """A finding for each type that is not known, or that there is none."""
    rows, problem = answers(connection, _NAME, _BASE_TYPES, database=database)
    if problem is not None:
        yield problem
        return
    is_fine = True
    for oid, schema, name, label, length, by_value, functions, columns in rows:
        pg_type = PgType(oid, schema, name, label, "b", length, 1, functions=internal_functions(length, by_value, functions))
        try:
            codec_of(pg_type)
        except UnsupportedWal:
            is_fine = False
            yield Finding(_NAME, WARNING, _told(label, columns), f"--unknown-types hex  # of tailrace decode: {_HEX}", database)
    if is_fine:
        yield Finding(_NAME, OK, "all are known", "", database)


_HEX = "its stored bytes; or a codec (tailrace.types.registry.register), or a publication without these columns"


def _told(label: str, columns: list[str]) -> str:
    named = ", ".join(columns[:_NAMED]) + (", …" if len(columns) > _NAMED else "")
    return f"type {label} is not known, of {count_of(len(columns), 'column')} ({named}): a change of such a table ends decoding"
