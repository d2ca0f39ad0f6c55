"""What a piece of WAL has: batches of decoded rows, or typed changes for a `Feed`.

In: a piece, and what reads WAL. Out: batches, or changes table by table. Runs in workers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tailrace.decode import Batch, Reader, decode
from tailrace.errors import TailraceError
from tailrace.feed import PassedOver, RefusedChanges, TableChanges, WantedTable
from tailrace.plan.pieces import Piece
from tailrace.publications.publishing.published_pieces import PublishedPiece, published_batches

Decoder = Callable[[Piece, Container[int] | None], Iterator[Batch]]
"""Decodes a piece: the changes of these relations (by oid; None: of all). The ordinals of a batch are indexes into the piece's `facts`."""


def decode_piece(read: Reader, piece: Piece, oids: Container[int] | None) -> Iterator[Batch]:
    """The `Decoder` of pieces of WAL, which `read` reads; of published pieces what is published."""
    batches = published_batches(read, piece, oids) if isinstance(piece, PublishedPiece) else decode(piece.plan, read, oids)
    for batch in batches:
        yield replace(batch, ordinal=np.searchsorted(piece.ordinals, batch.ordinal))


def changes_of_piece(
    decoder: Decoder, piece: Piece, wanted: Mapping[int, WantedTable]
) -> Iterator[TableChanges | RefusedChanges | PassedOver]:
    """As a `Feed` gives them."""
    oids = {each.oid for each in piece.relations if (each.rewrite_of or each.oid) in wanted}
    for batch in decoder(piece, oids):
        relation = batch.relation
        oid = relation.rewrite_of or relation.oid
        commits = piece.facts.commit_lsn[batch.ordinal]
        later = commits >= wanted[oid].since
        if not later.any():
            continue
        try:
            changes = _changes_of(batch, piece, wanted[oid])
        except TailraceError as error:
            last = int(commits.max())
            where = (last, int(batch.lsn[commits == last].max()), 0)
            yield RefusedChanges(oid, int(commits[later].min()), where, error)
            continue
        rewrite = relation.oid if relation.rewrite_of else 0
        yield TableChanges(oid, rewrite, changes if later.all() else changes.filter(pa.array(later)))
    if isinstance(piece, PublishedPiece) and piece.publisher.passed_over:
        yield PassedOver(frozenset(piece.publisher.passed_over))


def _changes_of(batch: Batch, piece: Piece, table: WantedTable) -> pa.RecordBatch:
    from tailrace.changes import change_batch  # noqa: PLC0415 - who prints text does not load Arrow's functions

    style = table.style
    if batch.names is not None:
        style = replace(style, text=replace(style.text, names=batch.names))
    return change_batch(batch, piece.facts, table.relation, style=style, codec=piece.plan.codec, fill_missing=table.fill_missing)
