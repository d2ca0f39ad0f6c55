"""The two sides of a table, as they can be compared: with the columns that both have, by their numbers.

In: a table of a server, and of a lake, either of which may not be there. Out: `TableSides`. A mirror follows the names and new columns of a table
once one of its rows changes; so a column that the lake does not have yet, or has still, is no difference, but is told.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tailrace.apply.keys import key_of
from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.dataclass import dataclass
from tailrace.lake.catalog import LakeTable
from tailrace.lake.position import columns_of
from tailrace.lake.target_tables import kept_style
from tailrace.model import Lsn, Relation
from tailrace.publications.subscription import only_columns
from tailrace.types.registry import ArrowStyle
from tailrace.verify.hashed_columns import HashedColumns
from tailrace.verify.lake_at_rest import LakeAtRest
from tailrace.verify.lake_rows import LakeRows
from tailrace.verify.server_rows import ServerRows
from tailrace.verify.server_source import ServerSource, SourceTable


@dataclass(frozen=True, slots=True)
class TableSides:
    """`relation` has the columns that are compared; None, and no server's rows, where the server has no such table or `is_unpublished`: none of the
    lake's publications publishes it any more. `lake` are rows that workers anywhere can read, unless something was brought to the table here. `unfit`
    says why values of a column cannot be compared, and `note` what else is left out."""

    name: str
    relation: Relation | None
    style: ArrowStyle
    columns: HashedColumns
    server: ServerRows | None
    lake: LakeRows
    changed: Lsn | None = None
    unfit: str = ""
    note: str = ""
    is_unpublished: bool = False

    def are_asked_alike(self, other: TableSides) -> bool:
        """Whether the server gives the same for both."""
        return (self.relation, self.style, self.columns) == (other.relation, other.style, other.columns)


def sides_of(
    source: ServerSource, rest: LakeAtRest, mine: SourceTable | None, table: LakeTable | None, noted: Callable[[], Path], *, is_own: bool
) -> TableSides:  # fmt: skip
    """With `is_own`, nothing was brought to the lake aside."""
    position = rest.position(table) if table is not None else None
    before = rest.pinned_catalog.tables.get(table.oid) if table is not None else None
    changed = before.changed if before is not None else None
    style = kept_style(rest.lake.style, position) if position is not None else rest.lake.style
    if mine is None:
        assert table is not None, "one of both is there"
        names = tuple(name for _, name, _ in position.columns) if position is not None else ()
        columns = HashedColumns(names, ())
        lake = LakeRows.of(rest.own_version(table) if is_own else rest.version(table), columns)
        name = write_table_name(table.schema, table.name)
        is_there = table.oid in source.snapshot.tables
        note = "it is published no more, and was not compared" if is_there else "the server has no such table"
        return TableSides(name, None, style, columns, None, lake, changed, note=note, is_unpublished=is_there)
    relation = mine.relation
    name = write_table_name(relation.schema, relation.name)
    if table is None or position is None:
        compared, lake_names, unfit, note = relation, {}, "", "the lake has no such table" if table is None else ""
        lake = LakeRows.none(rest.store)
    else:
        there = {number: (column, kind) for number, column, kind in position.columns}
        here = {number: kind for number, _, kind in columns_of(relation, style)}
        both = {number for number in there if here.get(number) == there[number][1]}
        others = [
            f"column {there[number][0]} is {there[number][1]} in the lake, and {here[number]} at the source"
            for number in sorted(there.keys() & here.keys() - both)
        ]
        new = ", ".join(column.name for column in relation.live_columns if column.number not in there)
        old = ", ".join(there[number][0] for number in sorted(there.keys() - here.keys()))
        lacks = f"the lake does not have column {new} yet" if new else ""
        if table.held is not None and new:  # rows may have been changed since
            others.append(lacks)
            lacks = ""
        unfit = ", ".join(others)
        notes = [
            f"held since {table.held.since}: {table.held.message}" if table.held is not None else "",
            lacks,
            f"the source has no column {old} any more" if old else "",
        ]
        note = "; ".join(filter(None, notes))
        compared = only_columns(relation, both)
        lake_names = {number: there[number][0] for number in both}
        found = rest.own_version(table) if is_own else rest.version(table)
        by_number = {column.name: lake_names[column.number] for column in compared.live_columns}
        key = tuple(by_number[each] for each in key_of(compared))
        lake = LakeRows.of(found, HashedColumns(tuple(by_number.values()), key))
    columns = HashedColumns(tuple(column.name for column in compared.live_columns), key_of(compared))
    server = ServerRows(source.snapshot.sessions, compared, style, columns, mine.leaves, mine.where, noted(), mine.pages)
    return TableSides(name, compared, style, columns, server, lake, changed, unfit, note)
