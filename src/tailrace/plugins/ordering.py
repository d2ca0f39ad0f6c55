"""Rows, messages, truncations, and what begins and ends transactions and blocks, as lines in their order.

In: what workers formatted of a run of transactions, and the events among them. Out: `Lines`. Order is total (rule 4): by commit LSN (for a message
outside transactions its own LSN), then BEGIN, changes by (LSN, sequence), COMMIT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import Relation
from tailrace.plan import Plan
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.failures import in_callback
from tailrace.plugins.formatted import Formatted
from tailrace.plugins.lines import Lines
from tailrace.plugins.plugin import OutputPlugin, RelationUses
from tailrace.transactions.fates import BARE_PREPARE, BLOCK, NEVER, STREAM_ABORT, Transactions
from tailrace.types.values import Texts
from tailrace.wal import xact

_CHANGE, _STOP, _COMMIT = 0, 1, 2
_BEFORE, _BEHIND = -1, 2**62
"""Where a BEGIN stands among the rows of the record that it comes before, and a message among those that the server prints before it."""


@dataclass(frozen=True, slots=True)
class Some:
    """What is to be put in order: these transactions (ordinals, ascending), their rows, and the events `inside` of them; messages `due` before the
    last of them commits. Of one that comes in parts, `begins` and `ends` say whether its first and its last part is here."""

    ordinals: NDArray[np.int64]
    rows: list[Formatted]
    inside: list[LogicalMessage | Truncation]
    due: list[LogicalMessage]
    begins: bool = True
    ends: bool = True


def in_order(plan: Plan, plugin: OutputPlugin, some: Some) -> Lines:
    """Everything of these transactions as lines, sorted."""
    order = _Order(plan, plugin, some)
    order.add_messages_outside()
    order.add_whole_transactions()
    order.add_blocks()
    order.add_ends_of_streamed()
    return order.lines()


@dataclass(slots=True)
class _Singles:
    """Rows that are no changes of tables: key in the order, as (rank of the transaction, kind, LSN, sequence); LSN and xid that are printed; text.
    `ends` and `stops` as in `Lines`."""

    key: NDArray[np.int64]
    printed: NDArray[np.int64]
    xid: NDArray[np.integer]
    texts: Texts
    ends: bool = False
    stops: bool = False


class _Order:
    """What is added to rows, until all is sorted at once."""

    def __init__(self, plan: Plan, plugin: OutputPlugin, some: Some) -> None:
        self._plan, self._plugin, self._begun, self._some = plan, plugin, plugin.begun, some
        self._begun_before = frozenset(plugin.begun)
        self._transactions = plan.transactions
        self._singles: list[_Singles] = []
        inside = some.inside
        self._ordinal, self._lsn, inside_ordinal, inside_lsn = (
            np.concatenate([np.zeros(0, np.int64), *parts])
            for parts in (
                [part.ordinal for part in some.rows],
                [part.lsn for part in some.rows],
                [np.array([item.ordinal for item in inside], np.int64)],
                [np.array([item.lsn for item in inside], np.int64)],
            )
        )
        inside_printed = inside_lsn.copy()
        for i, item in enumerate(inside):
            if isinstance(item, LogicalMessage):
                inside_printed[i] = item.end_lsn
        texts = Texts.of([self._inside_text(item) for item in inside])
        place = np.array([(_rank(item.ordinal), _CHANGE, *_place(item)) for item in inside], np.int64)
        self._singles.append(_Singles(place.reshape(-1, 4).T, inside_printed, self._transactions.xid[inside_ordinal], texts))
        # What makes a transaction worth telling: of each such row whose it is, where it stands, and the LSN that is printed.
        worth = np.ones(len(inside), np.bool_)
        if plugin.skips_empty_transactions and not plugin.messages_begin:
            worth = np.array([isinstance(item, Truncation) for item in inside], np.bool_)
        self._of = np.concatenate([self._ordinal, inside_ordinal[worth]])
        self._at = np.concatenate([self._lsn, inside_lsn[worth]])
        self._printed = np.concatenate([self._lsn, inside_printed[worth]])
        has_content = np.zeros(len(plan.transactions), np.bool_)
        has_content[self._of] = True
        self._has_content = has_content[some.ordinals]
        kind = self._transactions.kind[some.ordinals]
        was_begun = np.isin(self._transactions.full_xid[some.ordinals], np.array(sorted(plugin.begun), np.int64))
        # One that was to be streamed, and turns out to have nothing: a block without rows, or empty like any other.
        self._has_block = plan.streams.streamed[some.ordinals] & (self._has_content | (plugin.streams_nothing & ~was_begun))
        self._is_streamed = plan.streams.streamed[some.ordinals] & (
            self._has_block | was_begun | (kind == BLOCK) | (not some.ends)
        )
        self._was_begun = was_begun

    def _inside_text(self, item: LogicalMessage | Truncation) -> str | bytes:
        streamed = "stream_" if self._plan.streams.streamed[item.ordinal] else ""
        callback = "message" if isinstance(item, LogicalMessage) else "truncate"
        try:
            return self._text(item)
        except UsageError as error:
            raise in_callback(error, self._plugin, streamed + callback, item.lsn) from None

    def _outside_text(self, message: LogicalMessage) -> str | bytes:
        try:
            return self._plugin.message_text(message)
        except UsageError as error:
            raise in_callback(error, self._plugin, "message", message.lsn) from None

    def _text(self, item: LogicalMessage | Truncation) -> str | bytes:
        plugin = self._plugin
        if not self._plan.streams.streamed[item.ordinal]:
            return plugin.message_text(item) if isinstance(item, LogicalMessage) else plugin.truncate_text(item)
        xid = int(self._transactions.xid[item.ordinal])
        if isinstance(item, LogicalMessage):
            return plugin.stream_message_text(item, xid)
        return plugin.stream_truncate_text(item, xid)

    def add_messages_outside(self) -> None:
        due = self._some.due
        lsn = np.array([message.lsn for message in due], np.int64)
        before = np.searchsorted(self._transactions.commit_lsn, lsn)
        key = np.stack([_rank(before) - 1, np.full(len(due), _CHANGE), lsn, np.zeros(len(due), np.int64)])
        printed, xid = (np.array([getattr(message, name) for message in due], np.int64) for name in ("end_lsn", "xid"))
        self._singles.append(_Singles(key, printed, xid, Texts.of([self._outside_text(message) for message in due]), ends=True))

    def add_whole_transactions(self) -> None:
        """BEGIN, and COMMIT or what else ends them."""
        some, transactions, plugin = self._some, self._transactions, self._plugin
        ordinals = some.ordinals[~self._is_streamed & (transactions.kind[some.ordinals] != STREAM_ABORT)]
        first_at, first_printed = np.zeros(len(ordinals), np.int64), transactions.first_lsn[ordinals]
        if plugin.skips_empty_transactions:
            if some.begins and some.ends:  # whole transactions; one in parts has rows
                told_anyway = ~transactions.has_rows[ordinals]
                if not plugin.skips_empty_prepared:
                    told_anyway |= transactions.kind[ordinals] == xact.PREPARE
                ordinals = ordinals[np.isin(ordinals, self._of) | told_anyway]
            first_at, first_printed = self._least(self._at)[ordinals], self._least(self._printed)[ordinals]
            if not plugin.skips_empty_prepared:
                prepared = transactions.kind[ordinals] == xact.PREPARE
                first_at[prepared], first_printed[prepared] = 0, transactions.first_lsn[ordinals[prepared]]
        begins = transactions.has_rows[ordinals] & some.begins
        beginning = ordinals[begins]
        self._add(beginning, _CHANGE, first_at[begins], _BEFORE, first_printed[begins], plugin.begin_texts)
        foreign = transactions.origin[beginning] != 0
        if foreign.any():
            mine, at, printed = beginning[foreign], first_at[begins][foreign], first_printed[begins][foreign]
            self._add_origins(mine, at, printed, plugin.origin_texts(transactions.subset(mine), mine, at))
        if some.ends:
            self._add(ordinals, _COMMIT, 0, 0, transactions.end_lsn[ordinals], self._end_texts, ends=True)

    def add_blocks(self) -> None:
        """What opens and closes each block."""
        ordinals = self._some.ordinals[self._has_block]
        if not len(ordinals):
            return
        plugin = self._plugin
        first, has_rows = ~self._was_begun[self._has_block], self._has_content[self._has_block]
        begun = self._transactions.first_lsn[ordinals]
        least, most, printed = (
            np.where(has_rows, of[ordinals], begun)
            for of in (self._least(self._at), self._most(self._printed), self._least(self._printed))
        )
        if self._some.begins:  # what the server queues first, even if nothing is printed of it
            queued = self._plan.streams.first_lsn[ordinals]
            printed = np.where(has_rows | (queued == NEVER), np.minimum(printed, queued), queued)
        self._add(ordinals, _CHANGE, least, _BEFORE, printed, lambda those: plugin.stream_start_texts(those, first))
        origins = self._plan.streams.origin[ordinals]
        foreign = np.flatnonzero((origins != 0) & first)
        if len(foreign):
            mine = ordinals[foreign]
            texts = plugin.stream_origin_texts(origins[foreign], self._transactions.first_lsn[mine])
            self._add_origins(mine, least[foreign], printed[foreign], texts)
        self._add(ordinals, _STOP, 0, 0, most, plugin.stream_stop_texts, stops=True)
        self._begun.update(self._transactions.full_xid[ordinals].tolist())

    def add_ends_of_streamed(self) -> None:
        some, transactions, plugin = self._some, self._transactions, self._plugin
        kind = transactions.kind[some.ordinals]
        tops = self._plan.streams.tops
        lost = self._lost()
        if lost:
            those = np.array(lost, np.int64)
            of = [tops[xid] for xid in transactions.full_xid[those].tolist()]
            self._add(
                those, _COMMIT, 0, 0, transactions.end_lsn[those], lambda facts: plugin.stream_abort_texts(facts, of), ends=True
            )
            self._begun.difference_update(transactions.full_xid[those].tolist())
        if some.ends:
            ended = self._is_streamed & (kind != BLOCK)
            ordinals = some.ordinals[ended]
            prepared = transactions.kind[ordinals] == xact.PREPARE
            for those, texts in (
                (ordinals[~prepared], plugin.stream_commit_texts),
                (ordinals[prepared], plugin.stream_prepare_texts),
            ):
                if len(those):
                    self._add(those, _COMMIT, 0, 0, transactions.end_lsn[those], texts, ends=True)
            self._begun.difference_update(transactions.full_xid[ordinals].tolist())

    def _lost(self) -> list[int]:
        """Ordinals of what is rolled back of transactions of which a block has been told by then, and not their end."""
        kind = self._transactions.kind[self._some.ordinals]
        has_block = self._has_block
        in_question = has_block | self._is_streamed | (kind == STREAM_ABORT)
        begun, lost = set(self._begun_before), []
        for at in np.flatnonzero(in_question).tolist():
            ordinal = int(self._some.ordinals[at])
            xid = int(self._transactions.full_xid[ordinal])
            if kind[at] == STREAM_ABORT:
                if self._plan.streams.tops[xid] in begun:
                    lost.append(ordinal)
                begun.discard(xid)
            elif kind[at] != BLOCK and self._some.ends:
                begun.discard(xid)
            elif has_block[at]:
                begun.add(xid)
        return lost

    def _add(
        self, ordinals: NDArray[np.int64], kind: int, lsn: NDArray[np.int64] | int, sequence: int, printed: NDArray[np.int64],
        texts: Callable[[Transactions], Texts], *, ends: bool = False, stops: bool = False,
    ) -> None:  # fmt: skip
        """A row for each of these transactions."""
        key = np.stack([_rank(ordinals), *(np.broadcast_to(np.int64(each), len(ordinals)) for each in (kind, lsn, sequence))])
        facts = self._transactions.subset(ordinals)
        self._singles.append(_Singles(key, printed, facts.xid, texts(facts), ends, stops))

    def _add_origins(
        self, ordinals: NDArray[np.int64], lsn: NDArray[np.int64], printed: NDArray[np.int64], texts: Texts | None
    ) -> None:  # fmt: skip
        """A row for each of these transactions of which there is something to say."""
        if texts is not None:
            told = np.flatnonzero(np.diff(texts.offsets))
            those = Texts(texts.offsets[np.append(0, told + 1)], texts.data)  # what is left out has no bytes
            self._add(ordinals[told], _CHANGE, lsn[told], _BEFORE, printed[told], lambda _: those)

    def _end_texts(self, transactions: Transactions) -> Texts:
        """What ends each transaction: a commit, nearly always."""
        plugin, kinds = self._plugin, transactions.kind
        if (kinds == xact.COMMIT).all():
            return plugin.commit_texts(transactions)
        parts = {
            xact.COMMIT: plugin.commit_texts, xact.PREPARE: plugin.prepare_texts,
            xact.COMMIT_PREPARED: plugin.commit_prepared_texts, xact.ABORT_PREPARED: plugin.rollback_prepared_texts,
            BARE_PREPARE: plugin.prepare_texts,
        }  # fmt: skip
        at = [np.flatnonzero(kinds == kind) for kind in parts]
        texts = [part(transactions.subset(mine)) for part, mine in zip(parts.values(), at, strict=True)]
        return Texts.merged(texts, np.argsort(np.concatenate(at), kind="stable"))

    def _least(self, of: NDArray[np.int64]) -> NDArray[np.int64]:
        """By ordinal."""
        least = np.full(len(self._transactions), np.iinfo(np.int64).max, np.int64)
        np.minimum.at(least, self._of, of)
        return least

    def _most(self, of: NDArray[np.int64]) -> NDArray[np.int64]:
        most = np.zeros(len(self._transactions), np.int64)
        np.maximum.at(most, self._of, of)
        return most

    def lines(self) -> Lines:
        some, singles, plugin = self._some, self._singles, self._plugin
        order = self._sorted(np.concatenate([single.key for single in singles], axis=1))
        printed = np.concatenate([self._lsn, *(single.printed for single in singles)])[order]
        xid = np.concatenate([self._transactions.xid[self._ordinal], *(single.xid for single in singles)]).astype(np.uint32)[
            order
        ]
        ends, stops = (
            np.repeat(
                [False, *(getattr(single, name) for single in singles)],
                [len(self._lsn), *(len(single.printed) for single in singles)],
            )[order]
            for name in ("ends", "stops")
        )
        texts = [*(part.texts for part in some.rows), *(single.texts for single in singles)]
        if plugin.tells_relations:
            before, told = plugin.relations_told(self._uses(order))
            # Each stands with what it is told for: under its LSN and xid.
            texts.append(told)
            order = np.insert(order, before, len(order) + np.arange(len(before)))
            printed, xid = (np.insert(each, before, each[before]) for each in (printed, xid))
            ends, stops = (np.insert(each, before, False) for each in (ends, stops))
        at = np.flatnonzero(ends)
        lines = Lines(printed, xid, Texts.merged(texts, order), at + 1, np.flatnonzero(stops) + 1, printed[at])
        return plugin.finished(lines.without_silence() if plugin.may_be_silent else lines)

    def _uses(self, order: NDArray[np.int64]) -> RelationUses:
        """Which of the rows, so ordered, are of relations that the receiver must know."""
        some = self._some
        number: dict[Relation, int] = {}
        rows = []
        for part in some.rows:
            numbers = np.array([number.setdefault(relation, len(number)) for relation in part.relations], np.int32)
            rows.append(numbers[part.relation])
        none = np.full(len(order) - len(self._ordinal), -1, np.int32)
        relation = np.concatenate([*rows, none])[order]
        ordinal, lsn = np.concatenate([self._ordinal, none])[order], np.concatenate([self._lsn, none])[order]
        xid = np.concatenate([*(_xids_of(part) for part in some.rows), np.zeros(len(none), np.uint32)])[order]
        # What stands inside of transactions are the first of the singles.
        inside = np.flatnonzero((order >= len(self._ordinal)) & (order < len(self._ordinal) + len(some.inside))).tolist()
        events = [(place, some.inside[int(order[place]) - len(self._ordinal)]) for place in inside]
        truncations = [(place, event) for place, event in events if isinstance(event, Truncation)]
        for place, event in truncations:
            ordinal[place], lsn[place], xid[place] = event.ordinal, event.lsn, event.xid
        return RelationUses(tuple(number), relation, ordinal, lsn, xid, truncations)

    def _sorted(self, extra: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order in which rows stand, as numbers into: rows as they come, then singles, end to end.

        Not the rows are sorted but runs of them: a stretch's rows of one transaction are in order already, and stretches come in WAL order. Only a
        transaction with a message or TRUNCATE inside has runs of single rows, where those must find their place.
        """
        split = np.array(sorted({item.ordinal for item in self._some.inside}), np.int64)
        starts: list[NDArray[np.int64]] = []
        keys: list[NDArray[np.int64]] = []
        base = 0
        for part in self._some.rows:
            first = np.ones(len(part.ordinal), np.bool_)
            first[1:] = part.ordinal[1:] != part.ordinal[:-1]
            if len(split):
                first |= np.isin(part.ordinal, split)
            at = np.flatnonzero(first)
            starts.append(at + base)
            keys.append(np.stack([_rank(part.ordinal[at]), np.full(len(at), _CHANGE), part.lsn[at], part.sequence[at]]))
            base += len(part.ordinal)
        rows = base + extra.shape[1]
        start = np.concatenate([*starts, np.arange(base, rows)]).astype(np.int64)
        stop = np.append(start[1:], rows)
        key = np.concatenate([*keys, extra], axis=1).astype(np.int64)
        order = np.lexsort((key[3], key[2], key[1], key[0]))
        return expanded(start[order], (stop - start)[order], rows)


def _xids_of(part: Formatted) -> NDArray[np.uint32]:
    """By row: where nothing is streamed they are zero."""
    return part.xid if len(part.xid) else np.zeros(len(part.ordinal), np.uint32)


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


Ordinal = TypeVar("Ordinal", int, NDArray[np.int64])


def _rank(ordinal: Ordinal) -> Ordinal:
    """Where transactions stand among each other, with room before each for messages outside of them. Ordinals are in the order of commits; blocks
    that end together have one LSN."""
    return 2 * ordinal + 1


def _place(item: LogicalMessage | Truncation) -> tuple[int, int]:
    """Where it stands among the rows of its transaction: (LSN, sequence)."""
    if isinstance(item, LogicalMessage) and item.behind:
        return item.end_lsn, _BEHIND
    return item.lsn, 0
