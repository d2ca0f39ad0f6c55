"""What Delta's statistics of a table say, and what they must not: values that delta-rs (up to 1.6.6) gets wrong there.

Decimals go through 64-bit floats: beyond 15 digits least and greatest come out rounded, and a reader that believes them skips
files in which its value is; what is smaller than 0.00001 cannot be read again. Of years before 1 or after 9999 delta-rs writes
what its own reader finds nothing by (timestamps) or refuses (dates), and at PostgreSQL's 'infinity' it panics. Of a float that is
infinite it writes no greatest, and then finds nothing; NaN, greater than all others to PostgreSQL and Spark, it passes over. The
values are stored as they are.

Such columns get no statistics: not from us, nor from those who compact the table (`table_settings`, which
writers keep to, and by which readers know that there are none: without, delta-rs tells Arrow that no row is equal to anything).
What is wrong in a table already is put right (`corrected`): the same files are added once more, with what is true of them, as the
protocol has it for statistics that are computed anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.file_statistics import EXACT
from tailrace.lake.files.statistics import is_wide, wide_decimals

LOG_SETTINGS: Mapping[str, str] = {"delta.dataSkippingStatsColumns": "commit_lsn"}
"""Of a table of changes: what follows from order is all that is worth having."""
_INDEXED = 32
"""As many columns have statistics where nothing is said (delta.dataSkippingNumIndexedCols)."""
_SIDES = ("minValues", "maxValues", "nullCount")
Column = tuple[str, ...]
"""A column by the names that lead to it."""


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


def files_that_are_wrong(files: Iterable[DataFile], schema: pa.Schema) -> list[str]:
    """Those with statistics of decimals that need not be right: others wrote them."""
    wide = list(_wide_columns(schema))
    return [
        file.path
        for file in files
        if wide and not EXACT.items() <= file.tags.items() and _corrected(file, wide) != file.statistics
    ]


def corrected(file: DataFile, schema: pa.Schema) -> DataFile:
    """The file without those."""
    return replace(file, statistics=_corrected(file, list(_wide_columns(schema))))


def _corrected(file: DataFile, wide: Sequence[Column]) -> str:
    """The statistics without what they say of these columns; as they are if that is nothing."""
    statistics, is_changed = json.loads(file.statistics or "{}"), False
    for side in _SIDES:
        for *above, last in wide:
            values = statistics.get(side)
            for each in above:
                values = (values or {}).get(each)
            is_changed |= bool(values) and values.pop(last, None) is not None
    return json.dumps(statistics) if is_changed else file.statistics


def _wide_columns(fields: Iterable[pa.Field], above: Column = ()) -> Iterator[Column]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _wide_columns(field.type, (*above, field.name))
        elif is_wide(field.type):
            yield *above, field.name
