"""Row filters are analysed and compiled here, and nowhere else in this folder.

In: a `RowFilter`, and the relation whose rows it filters. Out: a condition that says which rows of columns of values pass. A
filter of the source's catalogs is a node tree. One in SQL is analysed against the columns by the names that they had when it was
written; `stored_filters` does so once, where a log is planned, so that workers get node trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.deparse import deparse
from tailrace.expressions.evaluate import Facts, Filter, compile_filter
from tailrace.expressions.evaluate.fmgr.refusals import refused
from tailrace.expressions.expression_session import ExpressionSession
from tailrace.expressions.node_tree import read_filter, write_node_tree
from tailrace.majors import ROW_FILTERS
from tailrace.model import Relation
from tailrace.publications.publication import NODE_TREE, RowFilter
from tailrace.types.style import TextStyle

_AS_WRITTEN = frozenset({"UTF8", "SQL_ASCII"})


@dataclass(frozen=True, slots=True)
class FilterCompiler:
    """Compiles row filters of a source of this major, whose database the `facts` are of; it travels to workers. Filters that are
    defined for a major without row filters are read as the first with them reads them."""

    major: int
    facts: Facts

    def __call__(self, row_filters: tuple[RowFilter, ...], relation: Relation) -> Filter:
        """The OR of the filters, as the server makes it: behind one that is true none is evaluated. Raises UsageError for
        functions that are not evaluated, and for a column that is no longer what it was."""
        with _of_table(relation):
            each = tuple(self.expression(row_filter, relation) for row_filter in row_filters)
            return compile_filter(each[0] if len(each) == 1 else tree.Or(each), relation.live_columns, self.facts)

    def stored(self, row_filter: RowFilter, relation: Relation) -> RowFilter:
        """The filter as a server would store it of this relation. Raises the errors of its analysis."""
        with _of_table(relation):
            return RowFilter(write_node_tree(self.expression(row_filter, relation), max(self.major, ROW_FILTERS.first)))

    def columns_of(self, row_filter: RowFilter, relation: Relation) -> tuple[int, ...]:
        """The attribute numbers of the columns that it reads."""
        return tuple(tree.columns_of(self.expression(row_filter, relation)))

    def expression(self, row_filter: RowFilter, relation: Relation) -> tree.Expression:
        """The filter's tree, for this relation. SQL is text in UTF-8, whose characters beyond ASCII are other bytes than those of
        rows in other encodings."""
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
"""What a server would store of filters in SQL, by filter and relation; or the error that their analysis raises."""


def stored_filters(compiler: FilterCompiler, wanted: Iterable[tuple[RowFilter, Relation]]) -> StoredFilters:
    """Analyse the filters that are in SQL, each once for each relation."""
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
    """The relation with the names that its columns had when the filter was written. Columns that were added later have names that
    no filter could mean."""
    names = dict(row_filter.names)
    columns = tuple(
        replace(column, name=names.get(column.number, f"........{column.number}........")) for column in relation.columns
    )
    return replace(relation, columns=columns)
