"""What a worker makes of a stretch: its changes as texts with their order keys, for the driver to put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.model import Relation
from tailrace.plugins.failures import Failure
from tailrace.types.values import Texts

NO_RELATIONS: NDArray[np.int32] = np.zeros(0, np.int32)
"""Where the plugin does not ask for them."""
NO_XIDS: NDArray[np.uint32] = np.zeros(0, np.uint32)
"""Where nothing is streamed."""


@dataclass(slots=True, kw_only=True)
class FormattedChanges:
    """The changes of a stretch as texts, sorted by their order keys (ordinal, LSN, sequence). `driver.format_stretch` makes it,
    in a worker.

    Row i is of `relations[relation[i]]`, if that was asked for; where rows are streamed, `xid` is as in a batch. Of what commits
    before the transaction of the `failure` nothing is missing. `passed_over` are publications that were asked for and are not
    there; `warnings`, in the plugin's words, what it left out."""

    ordinal: NDArray[np.int64]
    lsn: NDArray[np.int64]
    sequence: NDArray[np.int64]
    texts: Texts
    relations: tuple[Relation, ...] = ()
    relation: NDArray[np.int32]
    failure: Failure | None = None
    xid: NDArray[np.uint32] = field(default_factory=NO_XIDS.copy)
    passed_over: frozenset[str] = frozenset()
    warnings: frozenset[str] = frozenset()

    def part(self, start: int, stop: int) -> FormattedChanges:
        """Rows `[start, stop)`, sharing memory."""
        return FormattedChanges(
            ordinal=self.ordinal[start:stop], lsn=self.lsn[start:stop], sequence=self.sequence[start:stop],
            texts=self.texts.part(start, stop),
            relations=self.relations, relation=self.relation[start:stop], xid=self.xid[start:stop],
        )  # fmt: skip

    def copied(self) -> FormattedChanges:
        """The same in memory of its own, so that what it was a part of can be freed."""
        return FormattedChanges(
            ordinal=self.ordinal.copy(), lsn=self.lsn.copy(), sequence=self.sequence.copy(),
            texts=Texts(self.texts.offsets, self.texts.data.copy()),
            relations=self.relations, relation=self.relation.copy(), xid=self.xid.copy(),
        )  # fmt: skip


class RelationsMet:
    """The relations of a stretch's changes, each once, and by row its number among them."""

    def __init__(self) -> None:
        self.relations: list[Relation] = []
        self._number: dict[int, int] = {}  # by identity: a plan has each relation once
        self._rows: list[NDArray[np.int32]] = []

    def add(self, batch: Batch, relations: Sequence[Relation]) -> None:
        numbers = np.empty(len(batch.relations), np.int32)
        for i in np.flatnonzero(np.bincount(batch.number, minlength=len(batch.relations))).tolist():
            relation = relations[i]
            numbers[i] = self._number.setdefault(id(relation), len(self.relations))
            if numbers[i] == len(self.relations):
                self.relations.append(relation)
        self._rows.append(numbers[batch.number])

    def of_rows(self, order: NDArray[np.int64]) -> NDArray[np.int32]:
        """By row, in that order; nothing if nothing was added."""
        return np.concatenate(self._rows)[order] if self._rows else NO_RELATIONS
