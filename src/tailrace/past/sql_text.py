"""Statements about single rows, as text that means the same in every session: names with their schemas, literals with their
types.

In: a table as it is now, and rows as the log tells them. Out: conditions, and UPDATE, DELETE and INSERT with their guards.
Generated columns are left out: what they are made from is there.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.dataclass import dataclass
from tailrace.model import Column, PgType, Relation
from tailrace.past.row_changes import Absent, Cell
from tailrace.past.trails import Row
from tailrace.types import oids
from tailrace.types.format_type import VECTORS, format_type_with_typemod
from tailrace.types.quoting import quote_identifier, quote_literal

_COMPARED_AS_THEY_ARE = frozenset(
    {
        oids.BOOL, oids.BYTEA, oids.CHAR, oids.NAME, oids.INT8, oids.INT2, oids.INT4, oids.TEXT, oids.OID, oids.CIDR, oids.FLOAT4,
        oids.FLOAT8, oids.MACADDR8, oids.MONEY, oids.MACADDR, oids.INET, oids.BPCHAR, oids.VARCHAR, oids.DATE, oids.TIME,
        oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIMETZ, oids.BIT, oids.VARBIT, oids.NUMERIC, oids.UUID, oids.PG_LSN, oids.JSONB,
        oids.XID8,
    }
)  # fmt: skip
"""Types whose = tells all values apart that differ in meaning. Others have none, or one that compares sizes, as that of box:
these are compared as text."""


@dataclass(frozen=True, slots=True)
class StatementTable:
    """A table as statements name it. Rows are told by the columns `key`, of which there may be none; with `only`, tables that
    inherit from it are left out. `identities` are the numbers of its identity columns, which INSERT must be told to take values
    for; `always` are those of them that are GENERATED ALWAYS, which UPDATE cannot set."""

    relation: Relation
    key: tuple[int, ...]
    only: bool
    identities: frozenset[int] = frozenset()
    always: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        return f"{quote_identifier(self.relation.schema)}.{quote_identifier(self.relation.name)}"

    @property
    def rows(self) -> str:
        return f"ONLY {self.name}" if self.only else self.name

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that statements may set."""
        return tuple(column for column in self.relation.live_columns if not column.generated)


def update(target: StatementTable, row: Row, values: Row) -> str:
    """Give the row `values`, if it is as `row` says."""
    assignments = ", ".join(
        f"{quote_identifier(column.name)} = {literal(values[column.number], column)}"
        for column in target.columns
        if column.number in values
    )
    return f"UPDATE {target.rows} SET {assignments} WHERE {_this_row(target, row)};"


def delete(target: StatementTable, row: Row) -> str:
    """Remove the row, if it is as `row` says; where several are, one of them."""
    return f"DELETE FROM {target.rows} WHERE {_this_row(target, row)};"


def insert(target: StatementTable, row: Row) -> str:
    """Put the row there, unless another has its key by now."""
    columns = [column for column in target.columns if column.number in row]
    if not columns:
        return f"INSERT INTO {target.name} DEFAULT VALUES;"
    names = ", ".join(quote_identifier(column.name) for column in columns)
    overriding = " OVERRIDING SYSTEM VALUE" if target.identities else ""
    values = ", ".join(literal(row[column.number], column) for column in columns)
    head = f"INSERT INTO {target.name} ({names}){overriding}"
    keys = [column for column in columns if column.number in target.key]
    if len(keys) < len(target.key) or not keys:
        return f"{head} VALUES ({values});"
    there = " AND ".join(_is(column, row[column.number]) for column in keys)
    return f"{head} SELECT {values} WHERE NOT EXISTS (SELECT FROM {target.name} WHERE {there});"


def _this_row(target: StatementTable, row: Row) -> str:
    """The row by its key, if all that is known of it is so still; without a key, one of those that are so."""
    columns = [
        column for column in target.relation.live_columns if not isinstance(row.get(column.number, Absent.UNKNOWN), Absent)
    ]
    columns = [column for column in columns if not column.generated or column.number in target.key]
    keys = [column for column in columns if column.number in target.key]
    told = [_is(column, row[column.number]) for column in keys]
    told += [_is_still(column, row[column.number]) for column in columns if column.number not in target.key]
    condition = " AND ".join(told) or "true"
    if len(keys) == len(target.key) and keys:
        return condition
    return f"ctid = (SELECT ctid FROM {target.rows} WHERE {condition} LIMIT 1)"


def _is(column: Column, cell: Cell) -> str:
    return _is_still(column, cell) if cell is None else f"{quote_identifier(column.name)} = {literal(cell, column)}"


def _is_still(column: Column, cell: Cell) -> str:
    name = quote_identifier(column.name)
    if cell is None:
        return f"{name} IS NULL"
    if _is_compared(column.live_type):
        return f"{name} IS NOT DISTINCT FROM {literal(cell, column)}"
    return f"{name}::text IS NOT DISTINCT FROM {literal(cell, column)}::text"


def _is_compared(pg_type: PgType) -> bool:
    if pg_type.kind in "adrm" and pg_type.element is not None and pg_type.oid not in VECTORS:
        return _is_compared(pg_type.element)
    return pg_type.kind == "e" or pg_type.oid in _COMPARED_AS_THEY_ARE


def literal(cell: Cell, column: Column) -> str:
    """A value, as quote_literal() writes it, with the column's type. The type has no modifier: too long a value is an error then,
    and not cut."""
    if cell is None:
        return "NULL"
    assert not isinstance(cell, Absent)
    return f"{quote_literal(cell)}::{format_type_with_typemod(column.live_type, -1)}"


_KEYS_BETWEEN = """CREATE TEMP TABLE tailrace_undo_keys ON COMMIT DROP AS
WITH RECURSIVE touched(oid) AS (
  SELECT unnest(ARRAY[{tables}]::regclass[])::oid
  UNION SELECT inhparent FROM pg_inherits JOIN touched ON inhrelid = touched.oid)
SELECT conrelid::regclass AS of_table, conname FROM pg_constraint
WHERE contype = 'f' AND NOT condeferrable AND conparentid = 0
  AND conrelid IN (SELECT oid FROM touched) AND confrelid IN (SELECT oid FROM touched)
  AND pg_has_role((SELECT relowner FROM pg_class WHERE pg_class.oid = conrelid), 'USAGE');"""
_ALTER_KEYS = """DO $$ DECLARE key record; BEGIN
  FOR key IN SELECT * FROM tailrace_undo_keys LOOP
    EXECUTE format('ALTER TABLE %s ALTER CONSTRAINT %I {how}', key.of_table, key.conname);
  END LOOP;
END $$;"""


def defer_keys(tables: Iterable[str]) -> str:
    """Have the foreign keys between these tables (and those that they are partitions of) checked at the end of the transaction.
    Rows that ON DELETE and ON UPDATE took along come behind their cause in the log, so that in reverse order they refer to rows
    that are not there yet."""
    literals = ", ".join(quote_literal(table) for table in tables)
    return f"{_KEYS_BETWEEN.format(tables=literals)}\n{_ALTER_KEYS.format(how='DEFERRABLE INITIALLY DEFERRED')}"


def restore_keys() -> str:
    """Check them, and have them as they were before :func:`defer_keys`."""
    return f"SET CONSTRAINTS ALL IMMEDIATE;\n{_ALTER_KEYS.format(how='NOT DEFERRABLE')}"


def comment(text: str) -> str:
    """As lines that SQL passes over."""
    return "\n".join(f"-- {line}" for line in text.splitlines())


def column_names(columns: Iterable[Column]) -> str:
    return ", ".join(quote_identifier(column.name) for column in columns)
