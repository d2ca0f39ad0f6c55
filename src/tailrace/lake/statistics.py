"""What Delta's statistics of a table say, and what they must not: values that delta-rs (up to 1.6.6) gets wrong there.

Decimals go through 64-bit floats: beyond 15 digits least and greatest come out rounded, and a reader that believes them skips
files in which its value is; what is smaller than 0.00001 cannot be read again. Of years before 1 or after 9999 delta-rs writes
what its own reader finds nothing by (timestamps) or refuses (dates), and at PostgreSQL's 'infinity' it panics. Of a float that is
infinite it writes no greatest, and then finds nothing; NaN, greater than all others to PostgreSQL and Spark, it passes over. The
values are stored as they are.

Such columns get no statistics: not from us (`writer_settings`), nor from those who compact the table (`table_settings`, which
writers keep to, and by which readers know that there are none: without, delta-rs tells Arrow that no row is equal to anything).
What is wrong in a table already is put right (`without_statistics`): the same files are added once more, with what is true of them, as the
protocol has it for statistics that are computed anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import ColumnProperties, DeltaTable, WriterProperties
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from tailrace.errors import UsageError
from tailrace.types.times.calendar import PYTHON_DATES, USECS_PER_DAY

MOST_DIGITS = 15
"""Any decimal of so many digits is told from its neighbours by a 64-bit float."""
MOST_SCALE = 5
"""0.00001 is written so; what is smaller, as 1e-6, which delta-rs itself does not read as a decimal again."""
LOG_SETTINGS: Mapping[str, str] = {"delta.dataSkippingStatsColumns": "commit_lsn"}
"""Of a table of changes: what follows from order is all that is worth having."""
_INDEXED = 32
"""As many columns have statistics where nothing is said (delta.dataSkippingNumIndexedCols)."""
_NONE = ColumnProperties(statistics_enabled="NONE")
_SIDES = ("minValues", "maxValues", "nullCount")
Column = tuple[str, ...]
"""A column by the names that lead to it."""


@contextmanager
def delta_errors() -> Iterator[None]:
    """What delta-rs raises inside is a DeltaError, also what has no class of its own there: an error of Arrow's comes through
    pyo3-arrow as a bare Exception."""
    try:
        yield
    except Exception as error:
        if type(error) is Exception:
            raise DeltaError(str(error)) from error
        raise


def schema_of(table: DeltaTable) -> pa.Schema:
    """The columns of a table as an Arrow schema."""
    with delta_errors():
        return pa.schema(table.schema().to_arrow())


def files_of(table: DeltaTable) -> pa.Table:
    """Its files as the log has them: path, size_bytes, modification_time, statistics."""
    with delta_errors():
        return pa.table(table.get_add_actions())


def wide_decimals(schema: pa.Schema) -> frozenset[str]:
    """Columns of more digits, or more of them behind the point, than statistics can hold."""
    return frozenset(field.name for field in schema if _is_wide(field.type))


def _is_wide(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) and (kind.precision > MOST_DIGITS or kind.scale > MOST_SCALE)


def unbounded_values(rows: pa.Table) -> dict[str, int]:
    """How many dates or timestamps statistics cannot hold, by the columns that have any."""
    counts = {}
    for field in rows.schema:
        if pa.types.is_date32(field.type):
            (first, last), whole = PYTHON_DATES, pa.int32()
        elif pa.types.is_timestamp(field.type):
            first, last, whole = PYTHON_DATES[0] * USECS_PER_DAY, (PYTHON_DATES[1] + 1) * USECS_PER_DAY - 1, pa.int64()
        else:
            continue
        numbers = rows[field.name].cast(whole)
        beyond = pc.or_(pc.less(numbers, pa.scalar(first, whole)), pc.greater(numbers, pa.scalar(last, whole)))
        count = pc.sum(beyond).as_py()
        if count:
            counts[field.name] = count
    return counts


def columns_beyond_statistics(rows: pa.Table) -> frozenset[str]:
    """Columns whose statistics would be wrong, with these rows among theirs."""
    floats = (field.name for field in rows.schema if pa.types.is_floating(field.type))
    return frozenset(unbounded_values(rows)) | {
        name for name in floats if not pc.all(pc.is_finite(rows[name]), min_count=0).as_py()
    }


def writer_settings(schema: pa.Schema, unbounded: frozenset[str] | None = frozenset()) -> WriterProperties | None:
    """For who writes a table of these columns, those that are `unbounded` among them. None: of a table of changes, whose columns lie
    in structs; delta-rs takes no settings for those one by one."""
    if unbounded is None:
        commits = ColumnProperties(statistics_enabled="CHUNK")
        return WriterProperties(default_column_properties=_NONE, column_properties={"commit_lsn": commits})
    without = wide_decimals(schema) | unbounded
    return WriterProperties(column_properties=dict.fromkeys(sorted(without), _NONE)) if without else None


def table_settings(schema: pa.Schema, unbounded: frozenset[str] | None = frozenset()) -> dict[str, str]:
    """The same for whoever writes the table later, as properties of it. None where all columns may have statistics."""
    if unbounded is None:
        return dict(LOG_SETTINGS)
    without = wide_decimals(schema) | unbounded
    if not without:
        return {}
    # In the setting a name stands between backticks, and delta-rs knows no way to write one.
    names = [name for name in schema.names if name not in without and "`" not in name][:_INDEXED]
    if not names:
        return {"delta.dataSkippingNumIndexedCols": "0"}
    return {"delta.dataSkippingStatsColumns": ",".join(f"`{name}`" for name in names)}


def files_that_are_wrong(table: DeltaTable) -> list[str]:
    """Those with statistics of decimals that need not be right."""
    wide = list(_wide_columns(schema_of(table)))
    if not wide:
        return []
    files = files_of(table)
    wrong = np.zeros(len(files), np.bool_)
    for side in _PARSED:
        for column in wide:
            values = _at(files, side, column)
            if values is not None:
                wrong |= values.is_valid().to_numpy(zero_copy_only=False)
    paths: list[str] = files["path"].filter(pa.array(wrong)).to_pylist()
    return paths


def _at(files: pa.Table, side: str, column: Column) -> pa.Array | None:
    values = files[side].combine_chunks() if side in files.schema.names else None
    for name in column:
        if values is None or values.type.get_field_index(name) < 0:
            return None
        values = pc.struct_field(values, name)
    return values


def without_statistics(path: Path, version: int, table: DeltaTable, files: Sequence[str], name: str) -> list[AddAction]:
    """These files of a version once more, without the statistics that cannot be right. Raises UsageError where they cannot be taken
    out."""
    wide = list(_wide_columns(schema_of(table)))
    known = {file["path"]: file for file in files_of(table).to_pylist()}
    said = _added(path, version, set(files))
    return [_without(known[file], said.get(file), wide, name) for file in files]


_PARSED = ("min", "max", "null_count")
"""The sides, as delta-rs has them when it has read them; of what is no number to it, only the last."""


def _wide_columns(fields: Iterable[pa.Field], above: Column = ()) -> Iterable[Column]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _wide_columns(field.type, (*above, field.name))
        elif _is_wide(field.type):
            yield *above, field.name


def _added(folder: Path, version: int, paths: set[str]) -> dict[str, dict[str, Any]]:
    """By path, what the log says of files: its newest checkpoint, and the commits behind it."""
    log = folder / "_delta_log"
    files = sorted([*log.glob("*.json"), *log.glob("*.checkpoint*.parquet")], key=_place)
    added: dict[str, dict[str, Any]] = {}
    for file in files:
        if _place(file)[0] <= version:
            for add in _adds(file):
                if unquote(add["path"]) in paths:
                    added[unquote(add["path"])] = add
    return added


def _adds(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".json":
        return [action["add"] for action in map(json.loads, file.read_text(encoding="utf-8").splitlines()) if "add" in action]
    return [add for add in pq.read_table(file, columns=["add"])["add"].to_pylist() if add is not None]


def _place(file: Path) -> tuple[int, bool]:
    """A checkpoint says what is there with the commit of its version."""
    number = file.name.split(".")[0]
    return int(number) if number.isdigit() else 2**63, file.suffix != ".json"


def _without(file: Mapping[str, Any], add: Mapping[str, Any] | None, wide: Iterable[Column], name: str) -> AddAction:
    """The file once more, with statistics of the other columns."""
    if add is None or add["path"] != file["path"] or add.get("deletionVector"):
        raise UsageError(
            "statistics of decimals are wrong, and cannot be taken out of the table's log",
            hint="Have the program that deletes rows of it rewrite its files, or make the table anew.",
            context=f"table {name}, file {file['path']}",
        )  # fmt: skip
    statistics = json.loads(add.get("stats") or "{}")
    for side in _SIDES:
        for *above, last in wide:
            values = statistics.get(side)
            for each in above:
                values = (values or {}).get(each)
            if values:
                values.pop(last, None)
    partition = dict(add.get("partitionValues") or {})
    return AddAction(file["path"], file["size_bytes"], partition, file["modification_time"], False, json.dumps(statistics))
