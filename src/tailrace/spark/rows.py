"""Rows of a DataFrame: the changes of a piece of the log that are the tables' own, as record batches.

In: a piece and what decodes it, the tables, and the shape of rows. Out: record batches, a few thousand rows each. Runs in workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.changes import COLUMNS, change_batch, change_schema
from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.errors import UsageError
from tailrace.model import Relation
from tailrace.piece_changes import Decoder
from tailrace.plan.pieces import Piece
from tailrace.publications.publishing.published_pieces import PublishedPiece
from tailrace.publications.publishing.published_relation import warn_of_missing
from tailrace.settings import bool_option
from tailrace.spark.change_feed import ASKED, feed_batch, feed_schema
from tailrace.spark.change_feed import DEFAULT as FEED_COLUMNS
from tailrace.spark.changed_table import ChangedTable
from tailrace.spark.several_tables import SEVERAL_COLUMNS, several_batch, several_schema
from tailrace.types.registry import ArrowStyle
from tailrace.types.style import PARAMETERS, TextStyle

_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class RowShape:
    """Which columns a row of the DataFrame has, and how values become Arrow."""

    columns: tuple[str, ...]
    style: ArrowStyle
    several: bool
    is_feed: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> RowShape:
        text, several = options.get("columns"), "table" not in options
        is_feed = "readchangefeed" in options and bool_option("readChangeFeed", options["readchangefeed"])
        if is_feed and several:
            raise UsageError(
                'readChangeFeed needs option "table"', hint="Several tables do not share columns: leave it out.", sqlstate="0A000"
            )
        known = FEED_COLUMNS if is_feed else SEVERAL_COLUMNS if several else COLUMNS
        names = tuple(name.strip() for name in text.split(",")) if text else known
        for name in () if is_feed else names:  # of a feed, once the table is known
            if name not in known or names.count(name) > 1:
                raise UsageError(
                    f'column "{name}" does not exist or is named twice', hint=f"Columns: {', '.join(known)}.", sqlstate="42703"
                )
        chosen = {"times": "bounded"} | {name: options[name] for name in ("numeric", "arrays", "times") if name in options}
        parameters = {name: options[name] for name in PARAMETERS if name in options}
        text_style = TextStyle(unknown_types=options.get("unknowntypes", "error")).under(parameters)
        return cls(names, ArrowStyle(**chosen, text=text_style), several, is_feed)

    def schema(self, relation: Relation | None) -> pa.Schema:
        """Of the rows of one relation; of several there need be none."""
        if self.several or relation is None:
            return several_schema(self.columns)
        if self.is_feed:
            return feed_schema(relation, self.columns, self.style)
        return change_schema(relation, self.columns, self.style)


def rows_of(decode: Decoder, piece: Piece, tables: Sequence[ChangedTable], shape: RowShape) -> Iterator[pa.RecordBatch]:
    """Decode a piece into rows of these tables."""
    for batch in decode(piece, oids_of(tables)):
        ordinals = piece.ordinals[batch.ordinal]
        held = reduce(np.logical_or, (table.held(batch, ordinals) for table in tables))
        if held.any():
            changes = _changes_of(batch, held, piece, tables, shape)
            changes = changes if held.all() else changes.filter(pa.array(held))
            if shape.is_feed:
                changes = feed_batch(changes, shape.schema(tables[0].relation), str(tables[0].relation))
            for start in range(0, len(changes), _ROWS):
                yield changes.slice(start, _ROWS)
    if isinstance(piece, PublishedPiece):
        warn_of_missing(piece.publisher.passed_over)


def oids_of(tables: Sequence[ChangedTable]) -> frozenset[int]:
    """The relations that have their rows."""
    return frozenset().union(*(table.oids for table in tables))


def _changes_of(
    batch: Batch, held: NDArray[np.bool_], piece: Piece, tables: Sequence[ChangedTable], shape: RowShape
) -> pa.RecordBatch:
    """The batch as rows; those `held` are the tables' own."""
    style = replace(shape.style, text=replace(shape.style.text, names=batch.names))
    columns, codec = ASKED if shape.is_feed else shape.columns, piece.plan.codec
    if shape.several:
        return several_batch(batch, piece.facts, columns, style.text, codec)
    (table,) = tables
    if table.partitions is not None:
        numbered = table.numbered(batch, piece.ordinals[batch.ordinal], held)
        batch = replace(batch.as_of_one(numbered, batch.published_relation), columns=numbered.live_columns)
    return change_batch(batch, piece.facts, table.relation, columns=columns, style=style, codec=codec)
