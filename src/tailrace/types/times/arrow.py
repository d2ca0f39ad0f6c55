"""date, timestamp and timestamptz in Arrow: date32, and microseconds since 1970. Times of day are strings of their text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec import ArrowStyle, primitive_array, string_array
from tailrace.types.style import TextStyle
from tailrace.types.times.calendar import PYTHON_DATES, UNIX_TO_POSTGRES_DAYS, UNIX_TO_POSTGRES_USECS, USECS_PER_DAY
from tailrace.types.times.text import format_dates, format_timestamps
from tailrace.types.values import Mask, Texts, Values

_TIMESTAMPS = (PYTHON_DATES[0] * USECS_PER_DAY, (PYTHON_DATES[1] + 1) * USECS_PER_DAY - 1)
_TIMESTAMPTZS = (_TIMESTAMPS[0] + 2 * USECS_PER_DAY, _TIMESTAMPS[1] - USECS_PER_DAY)
"""The years of PYTHON_DATES. A timestamptz must be in them in every time zone, and at the beginning datetime.fromtimestamp() looks at the day before
as well."""


def arrow_times(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    """date32, or microseconds with or without UTC; or string."""
    if style.times == "text":
        return pa.string()
    return {oids.DATE: pa.date32(), oids.TIMESTAMP: pa.timestamp("us")}.get(pg_type.oid, pa.timestamp("us", "UTC"))


def dates_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """Days since 1970. The infinities stay the extremes of int32, and every other date of PostgreSQL fits; bounded ones are of the years 1
    to 9999."""
    if style.times == "text":
        return string_array(format_dates(values, pg_type, style.text), values.valid)
    days, bounds = values.as_dtype("<i4"), np.iinfo(np.int32)
    endless = (days == bounds.min) | (days == bounds.max)
    moved = np.where(endless, days, days + np.int32(UNIX_TO_POSTGRES_DAYS))
    if style.times == "bounded":
        odd = _outside(values, moved, endless, PYTHON_DATES)
        if odd is not None:
            raise _out_of_range("date", format_dates(odd, pg_type, TextStyle()))
        moved = np.clip(moved, *PYTHON_DATES)
    return primitive_array(moved.astype(np.int32, copy=False), values.valid, pa.date32())


def timestamps_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """Microseconds since 1970. The infinities stay the extremes of int64; finite moments after 294247-01-10, which int64 cannot
    count from 1970, are refused rather than bent. Bounded ones are of the years 1 to 9999."""
    if style.times == "text":
        return string_array(format_timestamps(values, pg_type, style.text), values.valid)
    stamps, bounds = values.as_dtype("<i8"), np.iinfo(np.int64)
    kind, latest = arrow_times(pg_type, typmod, style), bounds.max - UNIX_TO_POSTGRES_USECS
    if style.times != "bounded" and len(stamps) and bounds.min < stamps.min() and stamps.max() < latest:  # as in most columns
        return primitive_array(stamps + UNIX_TO_POSTGRES_USECS, values.valid, kind)
    endless = (stamps == bounds.min) | (stamps == bounds.max)
    beyond = values.valid & ~endless & (stamps >= latest)
    if bool(beyond.any()):
        late = format_timestamps(values.take(np.flatnonzero(beyond)[:1]), pg_type, style.text).to_list()[0]
        raise UsageError(
            f"timestamp out of range: {late} does not fit an Arrow timestamp", hint="Set times=text.", sqlstate="22008"
        )
    moved = np.where(endless, stamps, np.where(endless, 0, stamps) + UNIX_TO_POSTGRES_USECS)
    if style.times == "bounded":
        limits = _TIMESTAMPTZS if pg_type.oid == oids.TIMESTAMPTZ else _TIMESTAMPS
        odd = _outside(values, moved, endless, limits)
        if odd is not None:
            raise _out_of_range("timestamp", format_timestamps(odd, pg_type, TextStyle()))
        moved = np.clip(moved, *limits)
    return primitive_array(moved, values.valid, kind)


def _outside(values: Values, moved: NDArray, endless: Mask, limits: tuple[int, int]) -> Values | None:
    """The first finite value that is, counted from 1970, outside of the limits."""
    rows = np.flatnonzero(values.valid & ~endless & ((moved < limits[0]) | (moved > limits[1])))
    return values.take(rows[:1]) if len(rows) else None


def _out_of_range(noun: str, texts: Texts) -> UsageError:
    return UsageError(
        f'{noun} out of range: "{texts.to_list()[0]}"',
        hint="Python's dates are of the years 1 to 9999. Set times=text, or times=native for Spark's own functions.",
        sqlstate="22008",
    )
