"""Pieces of a log, and the publisher of what is in them: what a worker must have to give published changes and no others.

In: a plan's pieces. Out: pieces, and batches, each of one version of a table as which changes are published. A partition that
goes out as another table is that table here, with its columns by that one's numbers."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.decode import Batch, Reader, decode_by_descriptor
from tailrace.model import Relation
from tailrace.plan import Plan
from tailrace.plan.pieces import Piece, pieces_of
from tailrace.publications.publishing.publisher import Publisher


@dataclass(frozen=True, slots=True)
class PublishedPiece(Piece):
    """Travels with as much of the publisher as it needs."""

    publisher: Publisher

    @property
    def relations(self) -> tuple[Relation, ...]:
        tables = (table for relation in self.plan.relations for table in self.publisher.tables_of(relation))
        return tuple(dict.fromkeys(tables))

    def __reduce__(self) -> tuple[Any, ...]:
        oids = {relation.rewrite_of or relation.oid for relation in self.plan.relations}
        part = self.publisher.part(oids, set(self.ordinals.tolist()))
        return PublishedPiece, (self.plan, self.ordinals, self.facts, part)


def published_pieces(plan: Plan, publisher: Publisher, oids: frozenset[int], since: int = 0) -> list[Piece]:
    """What to decode for changes that are published as these tables."""
    sources = frozenset(
        relation.oid for relation in plan.relations if any(table.oid in oids for table in publisher.tables_of(relation))
    )
    return [PublishedPiece(piece.plan, piece.ordinals, piece.facts, publisher) for piece in pieces_of(plan, sources, since)]


def published_batches(read: Reader, piece: PublishedPiece, oids: Container[int] | None) -> Iterator[Batch]:
    """Its changes that are published as these tables (None: as any)."""
    publisher = piece.publisher
    sources = {
        relation.oid
        for relation in piece.plan.relations
        if any(oids is None or table.oid in oids for table in publisher.tables_of(relation))
    }
    for changes in decode_by_descriptor(piece.plan, read, sources):
        if any(relation.rewrite_of for relation in changes.relations):
            for batch in changes.by_relation():
                yield from publisher.rewritten(batch) if batch.relation.rewrite_of else _published(publisher, batch, oids)
        else:
            yield from _published(publisher, changes, oids)


def _published(publisher: Publisher, changes: Batch, oids: Container[int] | None) -> Iterator[Batch]:
    for shown in publisher.publish(changes):
        numbers = np.unique(shown.number)
        of = [shown.relations[number] for number in numbers]
        tables = {shown.published_as[number].oid: shown.published_as[number] for number in numbers}
        is_of_one = len(tables) == 1 and len({(each.replica_identity, each.identity) for each in of}) == 1
        # Rows of several tables come in the order of their commits, whatever numbers the tables have.
        batches = iter([shown.as_of_one(of[0], *tables.values())]) if is_of_one else shown.by_relation()
        for batch in batches:
            table = batch.published_relation
            if oids is None or table.oid in oids:
                yield batch if batch.relation.oid == table.oid else batch.as_of_one(_numbered(batch), table)


def _numbered(batch: Batch) -> Relation:
    """The table as which a partition is published, with the partition's identity."""
    table, identity = batch.published_relation, batch.relation.identity
    names = {column.name for column in batch.relation.live_columns if column.number in identity}
    mine = tuple(column.number for column in table.live_columns if column.name in names)
    return replace(table, identity=mine, replica_identity=batch.relation.replica_identity)
