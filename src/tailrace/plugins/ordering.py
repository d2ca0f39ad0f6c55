"""Rows, messages, truncations, BEGINs and COMMITs as lines in their order.

In: what workers formatted of a run of transactions, and the events among them. Out: `Lines`. Order is total (rule 4): by commit LSN (for a message
outside transactions its own LSN), then BEGIN, changes by (LSN, sequence), COMMIT.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.plan import Plan
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.picking import taken
from tailrace.plugins.plugin import OutputPlugin
from tailrace.transactions.fates import Transactions
from tailrace.types.values import Texts
from tailrace.wal import xact

_CHANGE, _COMMIT = 0, 1
_BEFORE, _BEHIND = -1, 2**62
"""Where a BEGIN stands among the rows of the record that it comes before, and a message among those that the server prints before it."""


@dataclass(slots=True)
class Lines:
    """Output rows in order: LSN, xid and text of each. Behind row `ends[i] - 1` something is told to its end: a transaction, or a message outside of
    one."""

    lsn: NDArray[np.int64]
    xid: NDArray[np.uint32]
    texts: Texts
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lsn)

    def first(self, rows: int) -> Lines:
        """So many of them."""
        texts = Texts(self.texts.offsets[: rows + 1], self.texts.data[: self.texts.offsets[rows]])
        return Lines(self.lsn[:rows], self.xid[:rows], texts, self.ends[self.ends <= rows])


@dataclass(slots=True, kw_only=True)
class Formatted:
    """What a worker makes of a stretch: texts with their order keys, sorted by (ordinal, LSN, sequence)."""

    ordinal: NDArray[np.int64]
    lsn: NDArray[np.int64]
    sequence: NDArray[np.int64]
    texts: Texts

    def part(self, start: int, stop: int) -> Formatted:
        """Rows `[start, stop)`, sharing memory."""
        offsets = self.texts.offsets[start : stop + 1]
        texts = Texts(offsets - offsets[0], self.texts.data[offsets[0] : offsets[-1]])
        return Formatted(
            ordinal=self.ordinal[start:stop], lsn=self.lsn[start:stop], sequence=self.sequence[start:stop], texts=texts
        )

    def copied(self) -> Formatted:
        """The same in memory of its own, so that what it was a part of can be freed."""
        texts = Texts(self.texts.offsets, self.texts.data.copy())
        return Formatted(ordinal=self.ordinal.copy(), lsn=self.lsn.copy(), sequence=self.sequence.copy(), texts=texts)


def in_order(
    plan: Plan, plugin: OutputPlugin, ordinals: NDArray[np.int64], due: list[LogicalMessage], results: list[Formatted],
    inside: list[LogicalMessage | Truncation], *, begin: bool, commit: bool,
) -> Lines:  # fmt: skip
    """Everything of these transactions as lines, sorted: their rows, events `inside` of them, and messages `due` before the last commit."""
    transactions = plan.transactions
    ordinal = np.concatenate([*(part.ordinal for part in results), np.array([item.ordinal for item in inside], np.int64)]).astype(
        np.int64
    )
    lsn = np.concatenate([*(part.lsn for part in results), np.array([item.lsn for item in inside], np.int64)]).astype(np.int64)
    printed = lsn.copy()
    for i, item in enumerate(inside, start=len(lsn) - len(inside)):
        if isinstance(item, LogicalMessage):
            printed[i] = item.end_lsn
    begin_lsn, begin_at = transactions.first_lsn[ordinals], np.zeros(len(ordinals), np.int64)
    if plugin.skips_empty_transactions:
        counts = np.ones(len(lsn), np.bool_)
        if not plugin.messages_begin:
            messages = [i for i, item in enumerate(inside, start=len(lsn) - len(inside)) if isinstance(item, LogicalMessage)]
            counts[messages] = False
        if begin and commit:  # whole transactions; one in parts has rows
            ordinals = ordinals[np.isin(ordinals, ordinal[counts]) | ~transactions.has_rows[ordinals]]
        begin_lsn, begin_at = (_firsts(ordinal[counts], each[counts], len(transactions))[ordinals] for each in (printed, lsn))
    texts = [part.texts for part in results]
    texts.append(Texts.of([_inside_text(plugin, item) for item in inside]))
    texts.append(Texts.of([plugin.message_text(message) for message in due]))
    begun = transactions.has_rows[ordinals] & begin
    beginning, begin_lsn, begin_at = ordinals[begun], begin_lsn[begun], begin_at[begun]
    ending = ordinals if commit else ordinals[:0]
    texts += [plugin.begin_texts(transactions.subset(beginning)), _end_texts(plugin, transactions, ending)]

    due_lsn = np.array([message.lsn for message in due], np.int64)
    order = _order(transactions.commit_lsn, results, inside, due_lsn, beginning, begin_at, ending)
    all_printed = np.concatenate(
        [printed, np.array([message.end_lsn for message in due], np.int64), begin_lsn, transactions.end_lsn[ending]]
    )
    all_xid = np.concatenate(
        [
            transactions.xid[ordinal],
            np.array([message.xid for message in due], np.uint32),
            transactions.xid[beginning],
            transactions.xid[ending],
        ]
    )
    is_end = np.zeros(len(order), np.bool_)
    is_end[len(lsn) : len(lsn) + len(due)] = True
    is_end[len(order) - len(ending) :] = True
    ends = np.flatnonzero(is_end[order]) + 1
    return Lines(all_printed[order], all_xid[order].astype(np.uint32), taken(texts, order), ends)


def _firsts(ordinal: NDArray[np.int64], lsn: NDArray[np.int64], transactions: int) -> NDArray[np.int64]:
    """The least LSN of each transaction, by ordinal."""
    first = np.full(transactions, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, ordinal, lsn)
    return first


def _end_texts(plugin: OutputPlugin, transactions: Transactions, ordinals: NDArray[np.int64]) -> Texts:
    """What ends each transaction: a commit, nearly always."""
    kinds = transactions.kind[ordinals]
    if (kinds == xact.COMMIT).all():
        return plugin.commit_texts(transactions.subset(ordinals))
    parts = {
        xact.COMMIT: plugin.commit_texts, xact.PREPARE: plugin.prepare_texts,
        xact.COMMIT_PREPARED: plugin.commit_prepared_texts, xact.ABORT_PREPARED: plugin.rollback_prepared_texts,
    }  # fmt: skip
    at = [np.flatnonzero(kinds == kind) for kind in parts]
    texts = [part(transactions.subset(ordinals[mine])) for part, mine in zip(parts.values(), at, strict=True)]
    return taken(texts, np.argsort(np.concatenate(at), kind="stable"))


def _order(
    commit_lsn: NDArray[np.int64], results: list[Formatted], inside: list[LogicalMessage | Truncation],
    due: NDArray[np.int64],
    begun: NDArray[np.int64], begun_at: NDArray[np.int64], ended: NDArray[np.int64],
) -> NDArray[np.int64]:  # fmt: skip
    """The order in which rows stand, as numbers into: rows of `results`, `inside`, `due`, BEGINs, COMMITs, end to end.

    Not the rows are sorted but runs of them: a stretch's rows of one transaction are in order already, and stretches come in WAL order. Only a
    transaction with a message or TRUNCATE inside has runs of single rows, where those must find their place.
    """
    split = np.array(sorted({item.ordinal for item in inside}), np.int64)
    starts: list[NDArray[np.int64]] = []
    keys: list[NDArray[np.int64]] = []
    base = 0
    for part in results:
        first = np.ones(len(part.ordinal), np.bool_)
        first[1:] = part.ordinal[1:] != part.ordinal[:-1]
        if len(split):
            first |= np.isin(part.ordinal, split)
        at = np.flatnonzero(first)
        starts.append(at + base)
        keys.append(np.stack([commit_lsn[part.ordinal[at]], np.full(len(at), _CHANGE), part.lsn[at], part.sequence[at]]))
        base += len(part.ordinal)
    rows = base
    singles = [
        np.array([(commit_lsn[item.ordinal], _CHANGE, *_place(item)) for item in inside], np.int64).reshape(-1, 4).T,
        np.stack([due, np.full(len(due), _CHANGE), due, np.zeros(len(due), np.int64)]),
        np.stack([commit_lsn[begun], np.full(len(begun), _CHANGE), begun_at, np.full(len(begun), _BEFORE)]),
        np.stack([commit_lsn[ended], np.full(len(ended), _COMMIT), np.zeros(len(ended), np.int64), np.zeros(len(ended), np.int64)]),
    ]  # fmt: skip
    extra = sum(single.shape[1] for single in singles)
    start = np.concatenate([*starts, np.arange(rows, rows + extra)]).astype(np.int64)
    stop = np.append(start[1:], rows + extra)
    key = np.concatenate([*keys, *singles], axis=1).astype(np.int64)
    order = np.lexsort((key[3], key[2], key[1], key[0]))
    return expanded(start[order], (stop - start)[order], rows + extra)


@kernel
def expanded(start, length, total):  # type: ignore[no-untyped-def]
    """start[0], start[0] + 1, … for each run."""
    out = np.empty(total, np.int64)
    to = 0
    for run in range(len(start)):
        for i in range(length[run]):
            out[to] = start[run] + i
            to += 1
    return out


def _place(item: LogicalMessage | Truncation) -> tuple[int, int]:
    """Where it stands among the rows of its transaction: (LSN, sequence)."""
    if isinstance(item, LogicalMessage) and item.behind:
        return item.end_lsn, _BEHIND
    return item.lsn, 0


def _inside_text(plugin: OutputPlugin, item: LogicalMessage | Truncation) -> str | bytes:
    return plugin.message_text(item) if isinstance(item, LogicalMessage) else plugin.truncate_text(item)
