"""What the values of row filters depend on in a database: encoding and collations, from pg_database and pg_collation.

In: a history, and the settings of a session. Out: `Facts`.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tailrace.catalog.history.history import History
from tailrace.catalog.rows.catalog_rows import CatalogTable
from tailrace.expressions.evaluate import Facts
from tailrace.expressions.evaluate.collations import Collation
from tailrace.expressions.evaluate.fmgr.vectors import DEFAULT_COLLATION
from tailrace.types.encodings.server_encodings import NAMES
from tailrace.types.style import TextStyle
from tailrace.wal.pages import LogIdentity

_UNICODE = 963
"""The collation `unicode`, the only one of ICU that each server has (`catalog/pg_collation.dat`)."""
_LIBC = "c"


def facts_of(history: History, style: TextStyle, log: LogIdentity | None = None) -> Facts:
    """The encoding of the history's database, its default collation and those that a row filter may name, where the history
    ends; the timeline of the log, if there is one at hand."""
    databases = history.table("pg_database")
    rows = databases.where("oid", history.database)
    row = int(rows[-1])
    provider = databases.rows.columns.get("datlocprovider")
    letter = _LIBC if provider is None else chr(provider[row])
    return Facts(
        encoding=NAMES.get(history.encoding, "UTF8"),
        collate=_text(databases, row, "datcollate" if letter == _LIBC else "datlocale"),
        ctype=_text(databases, row, "datctype" if letter == _LIBC else "datlocale"),
        provider=letter,
        version=_text(databases, row, "datcollversion"),
        rules=_text(databases, row, "daticurules"),
        database=databases.name("datname", row),
        collations=_collations(history),
        timeline=0 if log is None else log.timeline,
        segment_size=0 if log is None else log.segment_size,
        style=replace(style, major=history.major),
    )


def _collations(history: History) -> tuple[tuple[int, Collation], ...]:
    """Those that a filter may name beside the default one: of what initdb found on its machine, some hundreds, what a number in a
    filter can mean."""
    table = history.table("pg_collation")
    filters = history.table("pg_publication_rel").rows.columns.get("prqual", ())
    numbers = {_UNICODE, *(int(number) for text in filters if text for number in re.findall(rb"\b\d{3,5}\b", text))}
    found = {}
    for row in np.flatnonzero(np.isin(table["oid"], sorted(numbers - {DEFAULT_COLLATION}))).tolist():
        provider = chr(table["collprovider"][row])
        collate = _text(table, row, "collcollate" if provider == _LIBC else "colllocale")
        ctype = _text(table, row, "collctype" if provider == _LIBC else "colllocale")
        version, rules = _text(table, row, "collversion"), _text(table, row, "collicurules")
        found[int(table["oid"][row])] = Collation(provider, collate, ctype, version, rules, table.name("collname", row))
    return tuple(found.items())


_OLDER = {"datlocale": "daticulocale", "colllocale": "colliculocale"}
"""Up to 16. In 14 there is one column for all providers."""


def _text(table: CatalogTable, row: int, column: str) -> str:
    """A column of a catalog as text; empty for NULL, and where this major has none. In 14 locales are of type name."""
    if column in table.rows.names:
        return table.name(column, row)
    columns = table.rows.columns
    found = next((each for each in (column, _OLDER.get(column)) if each in columns), None)
    if found is None:
        return _text(table, row, "collcollate") if column == "colllocale" else ""
    stored = columns[found][row]
    return stored.decode() if stored else ""
