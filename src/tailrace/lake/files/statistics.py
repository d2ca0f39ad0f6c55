"""Which columns of a table get no statistics: those with values of which readers, or what the statistics are written in, make something else
(`lake/delta/statistics.py` has what was found of Delta's). The values are stored as they are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.types.times.calendar import PYTHON_DATES, USECS_PER_DAY

MOST_DIGITS = 15
"""Any decimal of so many digits is told from its neighbours by a 64-bit float."""
MOST_SCALE = 5
"""0.00001 is written so; what is smaller, as 1e-6, which delta-rs itself does not read as a decimal again."""


def wide_decimals(schema: pa.Schema) -> frozenset[str]:
    """Columns of more digits, or more of them behind the point, than statistics can hold."""
    return frozenset(field.name for field in schema if is_wide(field.type))


def is_wide(kind: pa.DataType) -> bool:
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
        ends = pc.min_max(numbers)
        if ends["min"].as_py() is None or (ends["min"].as_py() >= first and ends["max"].as_py() <= last):
            continue
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


def without_statistics(schema: pa.Schema, unbounded: frozenset[str] | None = frozenset()) -> frozenset[str]:
    """Columns that get none, those that are `unbounded` among them. None: of a table of changes only the order of commits has any."""
    if unbounded is None:
        return frozenset(schema.names) - {"commit_lsn"}
    return wide_decimals(schema) | unbounded
