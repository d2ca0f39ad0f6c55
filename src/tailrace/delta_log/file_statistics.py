"""What the log says of the values in a data file: how many rows, and per column the least, the greatest and the number of nulls.

In: rows as Arrow. Out: the JSON text of them (PROTOCOL.md, "Per-file Statistics"), which holds of every row or says nothing. Readers skip files by
it, and a file that is skipped by mistake is rows lost, so:

- decimals are written in all their digits, as others cannot (`lake/delta/statistics.py`), and so are integers and floats;
- a timestamp, of which Delta has milliseconds, is rounded down to be the least, and up to be the greatest;
- a long text is cut, and one that is the greatest made greater, in the order of UTF-8's bytes as in that of UTF-16;
- 0 and -0 are -0 as the least and 0 as the greatest, since some readers tell them apart;
- a column with values of which readers disagree has no bounds: floats with NaN or infinite ones, years before 1 or after 9999.

A file of several batches has the sum of their statistics.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.dataclass import dataclass
from tailrace.types.times.calendar import PYTHON_DATES, USECS_PER_DAY

Value = int | float | Decimal | str
"""A date is days, a timestamp microseconds of Unix's clock."""
EXACT = {"tailrace.statistics": "exact"}
"""The tag of files whose statistics are from here: others' are not believed in all (`file_bounds.py`)."""
LONGEST_TEXT = 64
_LAST_IN_BOTH_ORDERS = 0xD7FF
"""Up to this code point UTF-8 and UTF-16 sort alike."""
_FIRST_TIMESTAMP, _END_OF_TIMESTAMPS = PYTHON_DATES[0] * USECS_PER_DAY, (PYTHON_DATES[1] + 1) * USECS_PER_DAY
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """`least` and `greatest` are None where all is null, or where the column is not `bounded`: it has values that statistics must not speak of."""

    nulls: int
    least: Value | None = None
    greatest: Value | None = None
    bounded: bool = True

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        nulls = self.nulls + other.nulls
        if not (self.bounded and other.bounded):
            return ColumnStatistics(nulls, bounded=False)
        if self.least is None or other.least is None:
            known = other if self.least is None else self
            return ColumnStatistics(nulls, known.least, known.greatest)
        assert self.greatest is not None
        assert other.greatest is not None
        return ColumnStatistics(nulls, min(self.least, other.least), max(self.greatest, other.greatest))


@dataclass(frozen=True, slots=True)
class FileStatistics:
    rows: int
    columns: Mapping[str, tuple[pa.DataType, ColumnStatistics]]

    @classmethod
    def of(cls, rows: pa.Table | pa.RecordBatch, columns: Collection[str]) -> FileStatistics:
        """Those of `rows`, with bounds of these `columns`, which are in them."""
        return cls(rows.num_rows, {name: (rows.schema.field(name).type, _statistics(rows[name])) for name in columns})

    @classmethod
    def written(cls, rows: pa.Table, footer: pq.FileMetaData, columns: Collection[str]) -> FileStatistics:
        """The same of rows that were written as one group of a Parquet file: its footer has most of them already."""
        chunks = _chunks(footer)
        found = {}
        for name in columns:
            kind = rows.schema.field(name).type
            said = _of_chunk(kind, chunks[name]) if _has_bounds(kind) and name in chunks else None
            found[name] = (kind, said or _statistics(rows[name]))
        return cls(rows.num_rows, found)

    def __add__(self, other: FileStatistics) -> FileStatistics:
        """Of both, which have the same columns."""
        columns = {name: (kind, mine + other.columns[name][1]) for name, (kind, mine) in self.columns.items()}
        return FileStatistics(self.rows + other.rows, columns)

    def as_json(self) -> str:
        least, greatest = {}, {}
        for name, (kind, column) in self.columns.items():
            if column.least is not None and (text := _lower(kind, column.least)) is not None:
                least[name] = text
            if column.greatest is not None and (text := _upper(kind, column.greatest)) is not None:
                greatest[name] = text
        nulls = {name: str(column.nulls) for name, (_, column) in self.columns.items()}
        sides = (("minValues", least), ("maxValues", greatest), ("nullCount", nulls))
        return f'{{"numRecords":{self.rows},' + ",".join(f"{_text(side)}:{_object(values)}" for side, values in sides) + "}"


def with_wide_bounds(statistics: str) -> str:
    """The same of a file of which rows are deleted: what is least and greatest then need not be in it any more. Numbers keep their digits."""
    if not statistics:
        return ""
    return _verbatim({**json.loads(statistics, parse_int=_Digits, parse_float=_Digits), "tightBounds": False})


def format_statistics(said: Mapping[str, Any]) -> str:
    """The text of statistics that were read as JSON is, or from Parquet; decimals keep their digits."""
    return _verbatim(said)


def _statistics(values: pa.Array | pa.ChunkedArray) -> ColumnStatistics:
    nulls, kind = values.null_count, values.type
    if not _has_bounds(kind):
        return ColumnStatistics(nulls, bounded=False)
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(values), min_count=0).as_py():
        return ColumnStatistics(nulls, bounded=False)
    values = values.cast(_plain(kind))
    ends = pc.min_max(values)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    if least is not None and not (_is_speakable(kind, least) and _is_speakable(kind, greatest)):
        return ColumnStatistics(nulls, bounded=False)
    return ColumnStatistics(nulls, least, greatest)


def _chunks(footer: pq.FileMetaData) -> dict[str, pq.ColumnChunkMetaData]:
    """By their paths, without those that have the same: a column's name may have dots, and a field of a struct has one before it."""
    group = footer.row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    paths = Counter(chunk.path_in_schema for chunk in chunks)
    return {chunk.path_in_schema: chunk for chunk in chunks if paths[chunk.path_in_schema] == 1}


def _of_chunk(kind: pa.DataType, chunk: pq.ColumnChunkMetaData) -> ColumnStatistics | None:
    """None where Parquet's statistics are silent, or speak of floats, of which it leaves some out."""
    said = chunk.statistics
    if pa.types.is_floating(kind) or said is None or not said.has_null_count or not said.has_min_max:
        return None
    least, greatest = (_value(kind, each) for each in (said.min_raw, said.max_raw))
    if not (_is_speakable(kind, least) and _is_speakable(kind, greatest)):
        return ColumnStatistics(said.null_count, bounded=False)
    return ColumnStatistics(said.null_count, least, greatest)


def _value(kind: pa.DataType, raw: Any) -> Any:
    """What is stored as these bytes, or is this number already."""
    if pa.types.is_decimal(kind):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return Decimal(f"{unscaled}E{-kind.scale}")
    return raw.decode() if _is_text(kind) else raw


def _has_bounds(kind: pa.DataType) -> bool:
    """Bytes have none in Delta, and of a boolean they are of no use."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return is_number or _is_text(kind) or pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us")


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _is_speakable(kind: pa.DataType, value: Any) -> bool:
    if pa.types.is_date32(kind):
        return PYTHON_DATES[0] <= value <= PYTHON_DATES[1]
    return not pa.types.is_timestamp(kind) or _FIRST_TIMESTAMP <= value < _END_OF_TIMESTAMPS


def _lower(kind: pa.DataType, value: Value) -> str | None:
    """As JSON, what is not greater than `value`."""
    if isinstance(value, str):
        return _text(value[:LONGEST_TEXT])
    if pa.types.is_timestamp(kind):
        return _timestamp(kind, int(value) // 1000)
    return _number(kind, -0.0 if pa.types.is_floating(kind) and value == 0 else value)


def _upper(kind: pa.DataType, value: Value) -> str | None:
    """As JSON, what is not less than `value`; None if there is nothing short."""
    if isinstance(value, str):
        cut = _no_less(value)
        return None if cut is None else _text(cut)
    if pa.types.is_timestamp(kind):
        return _timestamp(kind, -(-int(value) // 1000))
    return _number(kind, 0.0 if pa.types.is_floating(kind) and value == 0 else value)


def _no_less(value: str) -> str | None:
    if len(value) <= LONGEST_TEXT:
        return value
    for at in reversed(range(LONGEST_TEXT)):
        if (code := ord(value[at])) < _LAST_IN_BOTH_ORDERS:
            return value[:at] + chr(code + 1)
    return None


def _number(kind: pa.DataType, value: Value) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if pa.types.is_date32(kind):
        return _text(date.fromordinal(_UNIX_EPOCH.toordinal() + int(value)).isoformat())
    return repr(value)


def _timestamp(kind: pa.DataType, milliseconds: int) -> str | None:
    if milliseconds * 1000 >= _END_OF_TIMESTAMPS:
        return None
    at = _UNIX_EPOCH + timedelta(milliseconds=milliseconds)
    return _text(at.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if kind.tz else ""))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(values: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{_text(name)}:{value}" for name, value in values.items()) + "}"


class _Digits(str):
    """A number as it was written."""

    __slots__ = ()


def _verbatim(value: Any) -> str:
    if isinstance(value, _Digits):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return _object({name: _verbatim(each) for name, each in value.items()})
    if isinstance(value, list):
        return "[" + ",".join(map(_verbatim, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
