"""Whether a mirrored table and its source hold the same rows: all of them, in full, by value.

In: a connection to the source, and a Delta table. Out: the counts, and whether all rows are equal. The source comes as CSV
through COPY, read with the types of the mirror; lists travel as JSON on both sides.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from tailrace.dataclass import dataclass
from tailrace.lake.delta.table import is_table
from tailrace.lake.reading import read_table


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows on both sides, and whether they are the same."""

    table: str
    source_rows: int
    mirror_rows: int
    equal: bool


def compare(connection: psycopg.Connection[Any], table: str, mirror: Path, key: tuple[str, ...]) -> Comparison:
    """Compare `public.<table>` with the Delta table. Columns must be the same, in the same order. Without a key, rows are
    compared in the order of all their columns."""
    return compare_rows(connection, table, read_table(mirror), key) if is_table(mirror) else Comparison(table, 0, 0, False)


def compare_rows(connection: psycopg.Connection[Any], table: str, rows: pa.Table, key: tuple[str, ...]) -> Comparison:
    """The same with all rows of a table."""
    ours = _readable(rows)
    theirs = _source(connection, table, ours.schema)
    if theirs is None:
        return Comparison(table, 0, len(ours), False)
    order = [(name, "ascending") for name in key or ours.schema.names]
    same = len(ours) == len(theirs) and _sorted(ours, order).equals(_sorted(theirs, order))
    return Comparison(table, len(theirs), len(ours), same)


def _sorted(rows: pa.Table, order: list[tuple[str, str]]) -> pa.Table:
    """In order, with floats as text: NaN is to equal NaN here."""
    types = [(field.name, pa.string() if pa.types.is_floating(field.type) else field.type) for field in rows.schema]
    return rows.sort_by(order).cast(pa.schema(types))


def _readable(rows: pa.Table) -> pa.Table:
    """Lists as JSON."""
    for position, column in enumerate(rows.schema):
        if pa.types.is_list(column.type):
            texts = [
                None if value is None else json.dumps(value, separators=(",", ":")) for value in rows[column.name].to_pylist()
            ]
            rows = rows.set_column(position, column.name, pa.array(texts, pa.string()))
    return rows.combine_chunks()


def _source(connection: psycopg.Connection[Any], table: str, wanted: pa.Schema) -> pa.Table | None:
    """All rows of the source, in the types of the mirror; None if its columns are others."""
    described = connection.execute(
        "SELECT attname, atttypid::regtype::text LIKE '%%[]' FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [f"public.{table}"],
    ).fetchall()
    if [name for name, _ in described] != wanted.names:
        return None
    columns = sql.SQL(", ").join(
        sql.SQL("to_json({0})::text" if is_list else "{0}").format(sql.Identifier(name)) for name, is_list in described
    )
    query = sql.SQL("COPY (SELECT {} FROM public.{}) TO STDOUT (FORMAT csv)").format(columns, sql.Identifier(table))
    data = io.BytesIO()
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for part in copy:
            data.write(part)
    if not data.tell():
        return wanted.empty_table()
    data.seek(0)
    options = csv.ConvertOptions(
        column_types={field.name: field.type for field in wanted}, true_values=["t"], false_values=["f"],
        null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
    )  # fmt: skip
    parsing = csv.ParseOptions(newlines_in_values=True)
    return csv.read_csv(data, csv.ReadOptions(column_names=wanted.names, block_size=32 << 20), parsing, options).combine_chunks()
