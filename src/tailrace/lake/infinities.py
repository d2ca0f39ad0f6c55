"""Values that Delta's statistics cannot say: times that are PostgreSQL's 'infinity' or in years before 1 or after 9999, and numbers that are none.

Of such years delta-rs (1.6) writes what its own reader finds nothing by (timestamps) or refuses (dates), and at infinity it panics. Of a float that
is infinite it writes no greatest, and then finds nothing; NaN, greater than all others to PostgreSQL and Spark, it passes over. So columns that hold
any have no statistics (`lake/statistics.py`). The values are stored as they are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_FIRST, _LAST = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970-01-01."""
_DAY = 86_400_000_000
"""In microseconds."""


def unbounded_values(rows: pa.Table) -> dict[str, int]:
    """How many dates or timestamps statistics cannot hold, by the columns that have any."""
    counts = {}
    for field in rows.schema:
        if pa.types.is_date32(field.type):
            first, last, whole = _FIRST, _LAST, pa.int32()
        elif pa.types.is_timestamp(field.type):
            first, last, whole = _FIRST * _DAY, (_LAST + 1) * _DAY - 1, pa.int64()
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
