"""A table's rows as a server copies them, typed as its changes are: what to ask for, and Arrow of what comes.

In: a relation, and how values are held. Out: the SELECT list of a COPY, and for the rows that it gives a record batch in the columns of
`row_schema`. Where Arrow has a type of its own for a column, its values come in binary form; where it has only the text, the text is what the type's
output function prints, as in the changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from tailrace.changes import row_schema
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.model import Column, PgType, Relation
from tailrace.quarantine.fitting import is_of_rows, unfit_values
from tailrace.quarantine.quarantined_rows import Reason
from tailrace.quarantine.unfit_rows import UnfitRows
from tailrace.types import oids
from tailrace.types.codec import string_array
from tailrace.types.quoting import quote_identifier
from tailrace.types.registry import ArrowStyle, codec_of, parse_binary, parse_texts, to_arrow
from tailrace.types.values import Values
from tailrace.wire.binary_copy import CopiedFields

_SENT_AS_TEXT = frozenset({oids.TEXT, oids.VARCHAR, oids.BPCHAR})
"""Their binary form is their text."""
_WIDTHS: Mapping[int, int] = {
    oids.INT2: 2, oids.INT4: 4, oids.INT8: 8, oids.OID: 4, oids.FLOAT4: 4, oids.FLOAT8: 8, oids.DATE: 4, oids.TIME: 8, oids.TIMESTAMP: 8,
    oids.TIMESTAMPTZ: 8,
}  # fmt: skip
"""Types whose binary form is one number, as it is stored but for the order of its bytes."""
_VIRTUAL = "v"
SETTINGS: Mapping[str, str] = {
    "DateStyle": "ISO, MDY", "TimeZone": "UTC", "IntervalStyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1",
    "search_path": "public", "row_security": "off", "lc_monetary": "C", "standard_conforming_strings": "on",
}  # fmt: skip
"""Of the session that copies: text is printed as in the changes, rows that a policy would hide are an error, and constants of row filters are read as
they were written."""


@dataclass(frozen=True, slots=True)
class CopiedRows:
    relation: Relation
    style: ArrowStyle

    @property
    def select_list(self) -> str:
        """Expressions for the columns, in their order; a constant where the table has none, since each row is to have a field."""
        return ", ".join(map(self._expression, self.relation.live_columns)) or "NULL"

    @property
    def fields(self) -> int:
        """How many each row has."""
        return max(1, len(self.relation.live_columns))

    def batch(self, rows: CopiedFields) -> pa.RecordBatch:
        """Raises what values of a type raise that do not fit Arrow's."""
        columns = self.relation.live_columns
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        arrays = [self._array(column, number, rows) for number, column in enumerate(columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=row_schema(self.relation, self.style))

    def fitting(self, rows: CopiedFields) -> Iterator[pa.RecordBatch | UnfitRows]:
        """The same, where rows with values that do not fit Arrow's come as they are."""
        try:
            yield self.batch(rows)
            return
        except TailraceError as error:
            if not is_of_rows(error):
                raise
        unfit: dict[int, Reason] = {}
        for number, column in enumerate(self.relation.live_columns):
            if not self._is_string(column.live_type, column):
                for row, why in unfit_values(column, _stored(column.live_type, number, rows), self.style):
                    unfit.setdefault(row, Reason.of(why, column.name))
        kept = np.array(sorted(unfit), np.int64)
        if len(rest := np.setdiff1d(np.arange(len(rows)), kept)):
            yield self.batch(rows.take(rest))
        if len(kept):
            yield UnfitRows(self._all_stored(rows.take(kept)), [unfit[row] for row in kept.tolist()])

    def _all_stored(self, rows: CopiedFields) -> list[Values]:
        """Of each column. Raises what the input function of a type raises that we cannot do without the server."""
        columns = []
        for number, column in enumerate(self.relation.live_columns):
            kind = column.live_type
            if self._is_string(kind, column) and kind.oid not in _SENT_AS_TEXT:
                valid, texts = rows.texts(number)
                columns.append(parse_texts(texts, valid, kind))
            else:
                columns.append(_stored(kind, number, rows))
        return columns

    def _expression(self, column: Column) -> str:
        name, kind = quote_identifier(column.name), column.live_type
        if column.generated == _VIRTUAL:  # the log has no value of it either
            return "NULL"
        if kind.oid in _SENT_AS_TEXT or self._is_binary(kind, column):
            return name
        return f"CASE pg_catalog.num_nonnulls({name}) WHEN 1 THEN pg_catalog.concat({name}) END"

    def _is_binary(self, kind: PgType, column: Column) -> bool:
        return not self._is_string(kind, column) and codec_of(kind).receive is not None

    def _is_string(self, kind: PgType, column: Column) -> bool:
        codec = codec_of(kind, self.style.text.unknown_types)
        return codec.arrow is None or codec.arrow(kind, column.typmod, self.style) == pa.string()

    def _array(self, column: Column, number: int, rows: CopiedFields) -> pa.Array:
        kind = column.live_type
        if self._is_string(kind, column):
            valid, texts = rows.texts(number)
            return string_array(texts, valid)
        try:
            return to_arrow(_stored(kind, number, rows), kind, column.typmod, self.style)
        except TailraceError as error:
            error.context = error.context or f'table {self.relation}, column "{column.name}"'
            raise


def _stored(kind: PgType, number: int, rows: CopiedFields) -> Values:
    """The values of that column."""
    width = _WIDTHS.get(kind.oid)
    if width is not None and (values := rows.numbers(number, width)) is not None:
        return values
    valid, texts = rows.texts(number)
    read = parse_binary if codec_of(kind).receive is not None else parse_texts
    return read(texts, valid, kind)
