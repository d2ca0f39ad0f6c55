"""Row filters, made ready to be asked: the one place of this folder that knows how expressions are read, analysed and evaluated.

In: a `RowFilter`, and the relation whose rows it is asked about. Out: a condition that tells of columns of values which rows
pass. A filter of the catalog is a node tree already. One of SQL is analysed against the columns by the names that they had when
it was written; `stored_filters` does so once, where a log is planned, so that what travels to workers are node trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from tailrace.catalog.history import History
from tailrace.catalog.rows import CatalogTable
from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.deparse import deparse
from tailrace.expressions.evaluate import Facts, Filter, compile_filter
from tailrace.expressions.evaluate.collations import Collation
from tailrace.expressions.evaluate.refusals import refused
from tailrace.expressions.evaluate.vectors import DEFAULT_COLLATION
from tailrace.expressions.node_tree import read_filter, write_node_tree
from tailrace.expressions.session import ExpressionSession
from tailrace.majors import ROW_FILTERS
from tailrace.model import Relation
from tailrace.publications.publication import NODE_TREE, RowFilter
from tailrace.types.encodings.server_encodings import NAMES
from tailrace.types.style import TextStyle

"""Filters that are defined here for a server before that are read as this one reads them."""
_UNICODE = 963
"""The collation `unicode`, the only one of ICU that each server has (`catalog/pg_collation.dat`)."""
_LIBC = "c"
_AS_WRITTEN = frozenset({"UTF8", "SQL_ASCII"})


@dataclass(frozen=True, slots=True)
class FilterCompiler:
    """A `publish.Compile`. `facts` are of the database whose rows are filtered; it travels to workers."""

    major: int
    facts: Facts

    def __call__(self, row_filters: tuple[RowFilter, ...], relation: Relation) -> Filter:
        """What lets a row through that one of the filters does. They are one OR, as on the server: behind one that is true none
        is evaluated. Raises UsageError for what is not evaluated, and for a column that is no longer what it was."""
        with _of_table(relation):
            each = tuple(self.expression(row_filter, relation) for row_filter in row_filters)
            return compile_filter(each[0] if len(each) == 1 else tree.Or(each), relation.live_columns, self.facts)

    def stored(self, row_filter: RowFilter, relation: Relation) -> RowFilter:
        """The filter as a server would keep it of this relation. Raises UsageError as the call does."""
        with _of_table(relation):
            return RowFilter(write_node_tree(self.expression(row_filter, relation), max(self.major, ROW_FILTERS.first)))

    def columns_of(self, row_filter: RowFilter, relation: Relation) -> tuple[int, ...]:
        """The attribute numbers of the columns that it reads."""
        return tuple(tree.columns_of(self.expression(row_filter, relation)))

    def expression(self, row_filter: RowFilter, relation: Relation) -> tree.Expression:
        """The filter's tree, for this relation. What is written in SQL is in UTF-8: its characters beyond ASCII would be other
        bytes than those of the rows in other encodings."""
        if row_filter.form == NODE_TREE:
            return read_filter(row_filter.text)
        if not row_filter.text.isascii() and self.facts.encoding not in _AS_WRITTEN:
            raise refused(f"characters beyond ASCII in a database whose encoding is {self.facts.encoding}")
        return analysed(row_filter, named_as_then(relation, row_filter), self.major, self.facts.style)


@contextmanager
def _of_table(relation: Relation) -> Iterator[None]:
    """Errors say of which table the filter is."""
    try:
        yield
    except UsageError as error:
        error.context = error.context or f'WHERE clause of a publication, table "{relation}"'
        raise


StoredFilters = Mapping[tuple[RowFilter, Relation], RowFilter | UsageError]
"""What a server would keep of filters in SQL, of relations; or its error."""


def stored_filters(compiler: FilterCompiler, wanted: Iterable[tuple[RowFilter, Relation]]) -> StoredFilters:
    """Those of the filters that are in SQL."""
    found: dict[tuple[RowFilter, Relation], RowFilter | UsageError] = {}
    for row_filter, relation in wanted:
        if row_filter.form != NODE_TREE and (row_filter, relation) not in found:
            try:
                found[row_filter, relation] = compiler.stored(row_filter, relation)
            except UsageError as error:
                found[row_filter, relation] = error
    return found


def analysed(row_filter: RowFilter, relation: Relation, major: int, style: TextStyle) -> tree.Expression:
    """A WHERE clause in SQL as the server reads it. Raises UsageError in its words."""
    from tailrace.expressions.analysis.where_clause import analyse  # noqa: PLC0415 - workers need no parser

    generated = {number: read_filter(expression) for number, expression in row_filter.generated}
    return analyse(
        row_filter.text, relation, ExpressionSession(major=max(major, ROW_FILTERS.first), style=style, generated=generated)
    )


def filter_text(compiler: FilterCompiler, row_filter: RowFilter, relation: Relation) -> str:
    """A WHERE clause as pg_get_expr prints it, of the relation as it is called now."""
    session = ExpressionSession(major=max(compiler.major, ROW_FILTERS.first), style=compiler.facts.style)
    return deparse(compiler.expression(row_filter, relation), relation, session)


def named_as_then(relation: Relation, row_filter: RowFilter) -> Relation:
    """The relation with the names that its columns had when the filter was written. Columns that came later have none that it
    could mean."""
    names = dict(row_filter.names)
    columns = tuple(
        replace(column, name=names.get(column.number, f"........{column.number}........")) for column in relation.columns
    )
    return replace(relation, columns=columns)


def facts_of(history: History, style: TextStyle) -> Facts:
    """What a filter's values depend on, of the database: its encoding, and its default collation where the history ends."""
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
