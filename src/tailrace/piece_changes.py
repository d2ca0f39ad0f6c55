"""What a piece of WAL has: batches of decoded rows, or typed changes for a `Feed`.

In: a piece, and what reads WAL. Out: batches, or changes table by table. Runs in workers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.decode import DELETE, INSERT, UPDATE, Batch, Reader, decode
from tailrace.errors import InsufficientLogging, TailraceError
from tailrace.feed import PassedOver, QuarantinedChanges, RefusedChanges, TableChanges, WantedTable
from tailrace.model import Relation
from tailrace.plan.pieces import Piece
from tailrace.publications.publishing import replica_identity
from tailrace.publications.publishing.published_pieces import PublishedPiece, published_batches
from tailrace.publications.publishing.replica_identity import no_replica_identity

Decoder = Callable[[Piece, Container[int] | None], Iterator[Batch]]
"""Decodes a piece: the changes of these relations (by oid; None: of all). The ordinals of a batch are indexes into the piece's `facts`."""


def decode_piece(read: Reader, piece: Piece, oids: Container[int] | None) -> Iterator[Batch]:
    """The `Decoder` of pieces of WAL, which `read` reads; of published pieces what is published."""
    batches = published_batches(read, piece, oids) if isinstance(piece, PublishedPiece) else decode(piece.plan, read, oids)
    for batch in batches:
        yield replace(batch, ordinal=np.searchsorted(piece.ordinals, batch.ordinal))


def changes_of_piece(
    decoder: Decoder, piece: Piece, wanted: Mapping[int, WantedTable]
) -> Iterator[TableChanges | RefusedChanges | QuarantinedChanges | PassedOver]:
    """As a `Feed` gives them."""
    oids = {each.oid for each in piece.relations if (each.rewrite_of or each.oid) in wanted}
    for batch in decoder(piece, oids):
        relation = batch.relation
        oid = relation.rewrite_of or relation.oid
        commits = piece.facts.commit_lsn[batch.ordinal]
        later = commits >= wanted[oid].since
        if (copied := wanted[oid].copied) is not None:
            later &= copied.lack(commits, piece.facts.xid[batch.ordinal].astype(np.int64))
        if not later.any():
            continue
        mine = batch if later.all() else batch.take(np.flatnonzero(later))  # what is not wanted need not fit
        rewrite = relation.oid if relation.rewrite_of else 0
        if wanted[oid].quarantine is not None:
            yield from _with_some_in_quarantine(mine, piece, wanted[oid], rewrite)
            continue
        try:
            changes = _changes_of(mine, piece, wanted[oid])
        except TailraceError as error:
            yield _refused(oid, commits[later], mine.lsn, error)
            continue
        yield TableChanges(oid, rewrite, changes)
    if isinstance(piece, PublishedPiece) and piece.publisher.passed_over:
        yield PassedOver(frozenset(piece.publisher.passed_over))


def _with_some_in_quarantine(
    batch: Batch, piece: Piece, table: WantedTable, rewrite: int
) -> Iterator[TableChanges | RefusedChanges | QuarantinedChanges]:
    """What of these rows goes into quarantine, and the changes that do not."""
    from tailrace.quarantine.fitting import Unfit, fitted  # noqa: PLC0415 - as in `_changes_of`
    from tailrace.quarantine.quarantined_rows import Reason, quarantined_rows  # noqa: PLC0415

    asked, oid = table.quarantine, table.relation.oid
    assert asked is not None
    chosen = np.full(len(batch), asked.everything)
    if asked.places:
        commits = piece.facts.commit_lsn[batch.ordinal]
        places = zip(commits.tolist(), batch.lsn.tolist(), batch.sequence.tolist(), strict=True)
        chosen |= np.array([place in asked.places for place in places], np.bool_)

    def quarantined(rows: Batch, reasons: list[Reason]) -> QuarantinedChanges:
        return QuarantinedChanges(oid, rewrite, quarantined_rows(rows, piece.facts, oid, piece.plan.codec, reasons))

    if chosen.any():
        yield quarantined(batch.take(np.flatnonzero(chosen)), [Reason(asked.reason, asked.sqlstate)] * int(chosen.sum()))
    rest = batch.take(np.flatnonzero(~chosen)) if chosen.any() else batch
    unfit: dict[int, Reason] = {}
    try:
        found_of_rows = list(fitted(rest, lambda part: _changes_of(part, piece, table), table.style))
    except InsufficientLogging as error:  # no value is at fault: what the log lacks is the table's trouble
        yield _refused(oid, piece.facts.commit_lsn[rest.ordinal], rest.lsn, error)
        return
    for rows, found in found_of_rows:
        if not isinstance(found, Unfit):
            yield TableChanges(oid, rewrite, found)
        elif asked.refused:
            unfit.update(dict.fromkeys(rows.tolist(), Reason.of(found.error, found.column)))
        else:
            commits, place = piece.facts.commit_lsn[rest.ordinal], int(rows[-1])
            last = int(commits[place]), int(rest.lsn[place]), 0
            yield RefusedChanges(oid, int(commits[rows[0]]), last, found.error)
    if unfit:
        yield quarantined(rest.take(np.array(list(unfit), np.int64)), list(unfit.values()))


def _refused(oid: int, commits: NDArray[np.int64], lsns: NDArray[np.int64], error: TailraceError) -> RefusedChanges:
    """What cannot be made of changes that stand at these places."""
    last = int(commits.max())
    return RefusedChanges(oid, int(commits.min()), (last, int(lsns[commits == last].max()), 0), error)


def _changes_of(batch: Batch, piece: Piece, table: WantedTable) -> pa.RecordBatch:
    from tailrace.changes import change_batch  # noqa: PLC0415 - who prints text does not load Arrow's functions

    if table.fill_missing:  # the table is to have rows, and not their changes
        _check_identity_then(batch, table.relation)
    style = table.style
    if batch.names is not None:
        style = replace(style, text=replace(style.text, names=batch.names))
    return change_batch(batch, piece.facts, table.relation, style=style, codec=piece.plan.codec, fill_missing=table.fill_missing)


def _check_identity_then(batch: Batch, relation: Relation) -> None:
    """Raise PostgreSQL's refusal for rows that went while the table had no replica identity, though it has one by now: which they were nobody
    says."""
    then = batch.relation
    if _has_identity(then):
        _check_key_then(batch, relation)
        return
    if not _has_identity(relation):  # of one that has none at the end, that is said there
        return
    without = np.flatnonzero((batch.kind != INSERT) & ~batch.has_old)
    if len(without):
        command = replica_identity.DELETE if batch.kind[without[0]] == DELETE else replica_identity.UPDATE
        raise no_replica_identity(then, command, f"table {then}", int(batch.lsn[without[0]]))


def _check_key_then(batch: Batch, relation: Relation) -> None:
    """Raise InsufficientLogging for an UPDATE that says no more than that the replica identity of then stayed as it was, where the table's rows are
    told apart by other columns by now: these may have changed."""
    then, key = batch.relation, relation.row_key
    if then.oid != relation.oid or then.replica_identity == "f" or set(key) <= set(then.identity):
        return
    silent = np.flatnonzero((batch.kind == UPDATE) & ~batch.has_old)
    if len(silent):
        raise InsufficientLogging(
            f'the log does not say which row of table "{then.name}" was updated: its replica identity was another one then',
            context=f"table {then}", lsn=int(batch.lsn[silent[0]]),
        )  # fmt: skip


def _has_identity(relation: Relation) -> bool:
    return bool(relation.identity) or relation.replica_identity == "f"
