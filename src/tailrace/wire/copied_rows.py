"""A table's rows as a server copies them, typed as its changes are: what to ask for, and Arrow of what comes.

In: a relation, and how values are held. Out: the SELECT list of a COPY, and for what it gives a record batch in the columns of `row_schema`. Where
Arrow has a type of its own for a column, its values come in binary form; where it has only the text, the text is what the type's output function
prints, as in the changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tailrace.changes import row_schema
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.model import Column, PgType, Relation
from tailrace.types import oids
from tailrace.types.codec import string_array
from tailrace.types.quoting import quote_identifier
from tailrace.types.registry import ArrowStyle, codec_of, parse_binary, parse_texts, to_arrow
from tailrace.types.values import Mask, Texts
from tailrace.wire.binary_copy import columns_of

_SENT_AS_TEXT = frozenset({oids.TEXT, oids.VARCHAR, oids.BPCHAR})
"""Their binary form is their text."""
_VIRTUAL = "v"
SETTINGS: Mapping[str, str] = {
    "DateStyle": "ISO, MDY", "TimeZone": "UTC", "IntervalStyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1",
    "search_path": "public", "row_security": "off",
}  # fmt: skip
"""Of the session that copies: text is printed as in the changes, and rows that a policy would hide are an error."""


@dataclass(frozen=True, slots=True)
class CopiedRows:
    relation: Relation
    style: ArrowStyle

    @property
    def select_list(self) -> str:
        """Expressions for the columns, in their order; a constant where the table has none, since each row is to have a field."""
        return ", ".join(map(self._expression, self.relation.live_columns)) or "NULL"

    def batch(self, data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> pa.RecordBatch:
        """Of whole rows. Raises PeerError for what are none, and what values of a type raise that do not fit Arrow's."""
        return self.batch_of(columns_of(data, max(1, len(self.relation.live_columns))))

    def batch_of(self, found: Sequence[tuple[Mask, Texts]]) -> pa.RecordBatch:
        """The same of the columns of such rows, which may have stood behind others."""
        columns = self.relation.live_columns
        schema = row_schema(self.relation, self.style)
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(found[0][0]), pa.struct([])))
        arrays = [self._array(column, *values) for column, values in zip(columns, found, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

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

    def _array(self, column: Column, valid: Mask, texts: Texts) -> pa.Array:
        kind = column.live_type
        if self._is_string(kind, column):
            return string_array(texts, valid)
        try:
            read = parse_binary if codec_of(kind).receive is not None else parse_texts
            return to_arrow(read(texts, valid, kind), kind, column.typmod, self.style)
        except TailraceError as error:
            error.context = error.context or f'table {self.relation}, column "{column.name}"'
            raise
