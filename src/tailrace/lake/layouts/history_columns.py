"""The columns of a history: all that the table has, those that it had once, and from when to when a row is a version.

In: a target, and what its table in the lake has already. Out: names that are not taken twice, and the table's schema. A column is known by its
attribute number. One that was dropped stays under its name, null in later versions; where another column has that name by now, the number is put
behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Self

import pyarrow as pa

from tailrace.apply.versions import PERIOD
from tailrace.changes import row_schema
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.lake.position import TablePosition, columns_of
from tailrace.lake.table_change import conformed, only_adds_columns
from tailrace.lake.target_tables import TargetTable
from tailrace.model import Column
from tailrace.types.quoting import quote_identifier

_OWN = frozenset(PERIOD.names)
_ONE_TYPE = "A history has all versions of a row in one type. Keep this lake as it is, and make another for what follows."


def with_lost_columns(target: TargetTable, lost: Sequence[Column]) -> TargetTable:
    """The target with the columns that were dropped in the span. Raises UsageError if the table has a column by the name of one of ours."""
    relation = target.relation
    for column in relation.live_columns:
        if column.name.lower() in _OWN:
            raise UsageError(
                f"column {quote_identifier(column.name)} has a name that a history gives to a column of its own",
                hint="ALTER TABLE … RENAME COLUMN, or leave the table out by a publication.", context=f"table {relation}", sqlstate="42701",
            )  # fmt: skip
    before = _before(target)
    if target.span.publications:  # of what is published others may not see what is not
        lost = [column for column in lost if column.number in before]
    live = {column.number: column.name for column in relation.live_columns}
    gone = {column.number: column.name for column in lost} | before
    names = _names(live.values(), [(number, name) for number, name in gone.items() if number not in live])
    revived = {column.number: replace(column, name=names[column.number]) for column in lost if column.number in names}
    columns = tuple(revived.get(column.number, column) for column in relation.columns)
    return replace(target, relation=replace(relation, columns=columns), lost=frozenset(revived))


def _before(target: TargetTable) -> dict[int, str]:
    """The columns that the table in the lake has."""
    return {number: name for number, name, _ in target.position.columns} if target.position else {}


def _names(taken: Collection[str], gone: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Names for columns that are gone: the last to have one keeps it."""
    used, names = {name.lower() for name in taken} | _OWN, {}
    for number, name in sorted(gone, reverse=True):
        free = name if name.lower() not in used else f"{name}_dropped_{number}"
        while free.lower() in used:
            free += "_"
        used.add(free.lower())
        names[number] = free
    return names


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """`schema` is the table's; `kept` are columns that it has, and the target's relation has no more, and `before` their names so far. `live` are the
    names of those that the source has."""

    target: TargetTable
    schema: pa.Schema
    kept: tuple[tuple[int, str, str], ...]
    before: tuple[str, ...]
    live: tuple[str, ...]

    @classmethod
    def of(cls, target: TargetTable, there: pa.Schema | None) -> Self:
        """`there` is the schema of the table in the lake, if it is there."""
        relation, position = target.relation, target.position
        rows = row_schema(relation, target.style)
        fields = {column.number: rows.field(column.name) for column in relation.live_columns}
        own = list(fields)
        live = tuple(column.name for column in relation.live_columns if column.number not in target.lost)
        gone = [each for each in position.columns if each[0] not in fields] if position else []
        lost = [(number, fields[number].name) for number in target.lost]
        names = _names(live, [*lost, *((number, name) for number, name, _ in gone)])
        for number, name, _ in gone:
            assert there is not None
            fields[number] = pa.field(names[number], there.field(name).type)
        kept = tuple((number, names[number], kind) for number, _, kind in gone)
        numbered = sorted(fields) if own == sorted(own) else list(fields)
        schema = pa.schema([*(fields[number] for number in numbered), *PERIOD])
        return cls(target, schema, kept, tuple(name for _, name, _ in gone), live)

    def are_there(self, position: TablePosition) -> bool:
        """Whether rows that are there can stay as they are: columns were added at most, and are null in them."""
        is_named_so = all(name == before for (_, name, _), before in zip(self.kept, self.before, strict=True))
        return is_named_so and only_adds_columns(self._still(position), self.target.relation, self.target.style)

    def conformed(self, rows: pa.Table, position: TablePosition) -> pa.Table:
        """Rows of the table so far in these columns. What was added with a default has it in all versions that are older."""
        target = self.target
        found = conformed(rows, self._still(position), target.relation, target.style, _ONE_TYPE)
        for (_, name, _), before in zip(self.kept, self.before, strict=True):
            found = found.append_column(self.schema.field(name), rows[before])
        for field in PERIOD:
            found = found.append_column(field, rows[field.name])
        return found.select(self.schema.names)

    def _still(self, position: TablePosition) -> TablePosition:
        """With those columns that the relation still has."""
        numbers = {number for number, _, _ in columns_of(self.target.relation, self.target.style)}
        return replace(position, columns=tuple(each for each in position.columns if each[0] in numbers))


def in_one_type(error: UsageError) -> None:
    """What helps where values of before do not fit into a type that is new."""
    if error.sqlstate == "42804":
        error.hint = _ONE_TYPE
