"""Times that Delta's statistics cannot hold: PostgreSQL's 'infinity', and years beyond a few hundred thousand.

delta-rs (1.6) panics when it makes statistics of them, so columns that hold any go without; their values are stored as they are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import ColumnProperties, WriterProperties

_DAYS = 73_000_000
"""200,000 years, in days: the calendar of delta-rs ends at some 262,000."""
_MICROSECONDS = _DAYS * 86_400_000_000


def unbounded_values(rows: pa.Table) -> dict[str, int]:
    """How many dates or timestamps statistics cannot hold, by the columns that have any."""
    counts = {}
    for field in rows.schema:
        if pa.types.is_date32(field.type):
            limit, whole = _DAYS, pa.int32()
        elif pa.types.is_timestamp(field.type):
            limit, whole = _MICROSECONDS, pa.int64()
        else:
            continue
        numbers = rows[field.name].cast(whole)
        beyond = pc.or_(pc.less_equal(numbers, pa.scalar(-limit, whole)), pc.greater_equal(numbers, pa.scalar(limit, whole)))
        count = pc.sum(beyond).as_py()
        if count:
            counts[field.name] = count
    return counts


def without_statistics(columns: frozenset[str]) -> WriterProperties | None:
    """Writer settings that leave these columns out of all statistics."""
    if not columns:
        return None
    none = ColumnProperties(statistics_enabled="NONE")
    return WriterProperties(column_properties=dict.fromkeys(sorted(columns), none))
