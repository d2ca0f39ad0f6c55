"""Damage to a table of a lake, as a disk, a program or a bug of ours may do it.

A row is lost or doubled, one bit of one value is another, a value is NULL, or those of two columns are swapped. It is committed to the table as
anybody could, and nothing but the values says that it is there.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tailrace.lake.catalog import StoredCatalog
from tailrace.lake.files.file_changes import FileChanges
from tailrace.lake.formats import format_named
from tailrace.lake.reading import rows_of
from tailrace.lake.table import CommitNote, TableVersion
from tailrace.storage.store import Store

LOST, DOUBLED, BIT, NULL, SWAPPED = "lost", "doubled", "bit", "null", "swapped"
KINDS = (LOST, DOUBLED, BIT, NULL, SWAPPED)


def version_of(lake: Store, name: str) -> TableVersion:
    """The newest of the table of this name."""
    catalog = StoredCatalog.read(lake).catalog
    assert catalog is not None
    table = next(each for each in catalog.tables.values() if each.name == name)
    return format_named(catalog.format).none(lake.below(table.folder)).refreshed()


def rows_in(lake: Store, name: str) -> pa.Table:
    found = version_of(lake, name)
    return pa.Table.from_batches(rows_of(found), found.open().schema)


def write_rows(lake: Store, name: str, rows: pa.Table) -> None:
    """In place of all that the table has."""
    found = version_of(lake, name)
    data = found.data_files(found.open().schema, uuid.uuid4().hex)
    found.commit(name, FileChanges(tuple(found.open().files), tuple(data.write_all(rows))), CommitNote())


def damage(lake: Store, name: str, key: str, times: int, seed: int) -> dict[Any, str]:
    """So many rows are damaged, each once: by the value of its key, how."""
    dice, rows = random.Random(seed), rows_in(lake, name)
    damaged = dict(zip(dice.sample(range(len(rows)), times), (dice.choice(KINDS) for _ in range(times)), strict=True))
    others = [each for each in rows.schema.names if each != key]
    columns = {each: _flat(rows[each]) for each in rows.schema.names}
    for row, kind in damaged.items():
        if kind in (BIT, NULL):
            there = [each for each in others if columns[each][row].is_valid]
            column = dice.choice(there)
            columns[column] = _set(columns[column], row, None if kind == NULL else _bit_changed(columns[column], row, dice))
        elif kind == SWAPPED:
            one, two = dice.choice(_that_differ(columns, others, row))
            mine, theirs = (columns[each].slice(row, 1) for each in (one, two))
            columns[one], columns[two] = _set(columns[one], row, theirs), _set(columns[two], row, mine)
    stay = [row for row in range(len(rows)) if damaged.get(row) != LOST]
    stay += [row for row, kind in damaged.items() if kind == DOUBLED]
    keys = rows[key].to_pylist()
    write_rows(lake, name, pa.table(columns, schema=rows.schema).take(pa.array(stay)))
    return {keys[row]: kind for row, kind in damaged.items()}


def _that_differ(columns: dict[str, pa.Array], names: Sequence[str], row: int) -> list[tuple[str, str]]:
    return [
        (one, two) for one in names for two in names
        if one < two and columns[one].type == columns[two].type and columns[one].slice(row, 1) != columns[two].slice(row, 1)
    ]  # fmt: skip


def _bit_changed(column: pa.Array, row: int, dice: random.Random) -> pa.Array:
    """The value with another bit."""
    kind, one = column.type, column.slice(row, 1)
    if pa.types.is_boolean(kind):
        return pa.array([not one[0].as_py()])
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        data = bytearray(one.cast(pa.binary())[0].as_py() or b"\x00")
        at = dice.randrange(len(data))
        data[at] ^= 1  # of a letter in ASCII: another letter
        return pa.array([bytes(data)], pa.binary()).cast(kind)
    width = kind.bit_width // 8
    data = bytearray(one.take(pa.array([0])).buffers()[1].to_pybytes()[:width])
    data[dice.randrange(width if not pa.types.is_decimal(kind) else 4)] ^= 1 << dice.randrange(8)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(data))])


def _set(column: pa.Array, row: int, value: pa.Array | None) -> pa.Array:
    value = pa.nulls(1, column.type) if value is None else value
    return pa.concat_arrays([column.slice(0, row), value, column.slice(row + 1)])


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
