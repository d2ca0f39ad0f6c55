"""Rows, messages, truncations, and what begins and ends transactions and blocks, as lines in their order.

In: what workers formatted of a run of transactions, and the events among them. Out: `Lines`. Order is total (rule 4): by commit
LSN (for a message outside transactions its own LSN), then BEGIN, changes by (LSN, sequence), COMMIT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Relation
from tailrace.plan import Plan
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.commit_order import BEFORE, CHANGE, COMMIT, STOP, TransactionGroup, place_of, rank, sorted_order
from tailrace.plugins.failures import in_callback
from tailrace.plugins.formatted_changes import FormattedChanges
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, StreamingCallbacks, TwoPhaseCallbacks
from tailrace.plugins.relation_callbacks import RelationCallbacks, RelationUses
from tailrace.transactions.commit_or_abort import BARE_PREPARE, BLOCK, NEVER, STREAM_ABORT, Transactions
from tailrace.types.values import Texts
from tailrace.wal import xact

_CALLBACKS = {LogicalMessage: "message", Truncation: "truncate"}
"""What output_plugin.h calls the callback for an event of each kind."""


def in_order(plan: Plan, plugin: OutputPlugin, group: TransactionGroup) -> Lines:
    """Everything of these transactions as lines, sorted."""
    order = _Order(plan, plugin, group)
    order.add_messages_outside()
    order.add_whole_transactions()
    order.add_blocks()
    order.add_ends_of_streamed()
    return order.lines()


@dataclass(slots=True)
class _Singles:
    """Rows that are no changes of tables: key in the order, as (rank of the transaction, kind, LSN, sequence); LSN and xid that
    are printed; text. `ends` and `stops` as in `Lines`."""

    key: NDArray[np.int64]
    printed: NDArray[np.int64]
    xid: NDArray[np.integer]
    texts: Texts
    ends: bool = False
    stops: bool = False


class _Order:
    """What is added to rows, until all is sorted at once."""

    def __init__(self, plan: Plan, plugin: OutputPlugin, group: TransactionGroup) -> None:
        self._plan, self._plugin, self._begun, self._group = plan, plugin, plugin.begun, group
        self._begun_before = frozenset(plugin.begun)
        self._transactions = plan.transactions
        self._singles: list[_Singles] = []
        inside = group.inside
        self._ordinal, self._lsn, inside_ordinal, inside_lsn = (
            np.concatenate([np.zeros(0, np.int64), *parts])
            for parts in (
                [part.ordinal for part in group.rows],
                [part.lsn for part in group.rows],
                [np.array([item.ordinal for item in inside], np.int64)],
                [np.array([item.lsn for item in inside], np.int64)],
            )
        )
        inside_printed = np.array([item.printed_lsn for item in inside], np.int64)
        texts = Texts.of([self._inside_text(item) for item in inside])
        place = np.array([(rank(item.ordinal), CHANGE, *place_of(item)) for item in inside], np.int64)
        self._singles.append(_Singles(place.reshape(-1, 4).T, inside_printed, self._transactions.xid[inside_ordinal], texts))
        # What makes a transaction worth telling: of each such row whose it is, where it stands, and the LSN that is printed.
        worth = np.ones(len(inside), np.bool_)
        if plugin.wants.skip_empty_xacts and not plugin.wants.messages_begin:
            worth = np.array([not isinstance(item, LogicalMessage) for item in inside], np.bool_)
        self._of = np.concatenate([self._ordinal, inside_ordinal[worth]])
        self._at = np.concatenate([self._lsn, inside_lsn[worth]])
        self._printed = np.concatenate([self._lsn, inside_printed[worth]])
        has_content = np.zeros(len(plan.transactions), np.bool_)
        has_content[self._of] = True
        self._has_content = has_content[group.ordinals]
        kind = self._transactions.kind[group.ordinals]
        was_begun = np.isin(self._transactions.full_xid[group.ordinals], np.array(sorted(plugin.begun), np.int64))
        # One that was to be streamed, and turns out to have nothing: a block without rows, or empty like any other.
        self._has_block = plan.streams.streamed[group.ordinals] & (self._has_content | (plugin.wants.stream_empty & ~was_begun))
        self._is_streamed = plan.streams.streamed[group.ordinals] & (
            self._has_block | was_begun | (kind == BLOCK) | (not group.ends)
        )
        self._was_begun = was_begun

    def _inside_text(self, item: LogicalMessage | Truncation) -> str | bytes:
        streamed = "stream_" if self._plan.streams.streamed[item.ordinal] else ""
        try:
            return self._text(item)
        except UsageError as error:
            raise in_callback(error, self._plugin, streamed + _CALLBACKS[type(item)], item.lsn) from None

    def _outside_text(self, message: LogicalMessage) -> str | bytes:
        try:
            return self._plugin.message_text(message)
        except UsageError as error:
            raise in_callback(error, self._plugin, "message", message.lsn) from None

    def _text(self, item: LogicalMessage | Truncation) -> str | bytes:
        is_streamed = self._plan.streams.streamed[item.ordinal]
        xid = int(self._transactions.xid[item.ordinal])
        match item:
            case LogicalMessage() if is_streamed:
                return self._streaming.stream_message_text(item, xid)
            case LogicalMessage():
                return self._plugin.message_text(item)
            case Truncation() if is_streamed:
                return self._streaming.stream_truncate_text(item, xid)
            case Truncation():
                return self._plugin.truncate_text(item)
            case _:
                assert_never(item)

    @property
    def _streaming(self) -> StreamingCallbacks:
        assert isinstance(self._plugin, StreamingCallbacks), "a plan has blocks for no other"
        return self._plugin

    @property
    def _two_phase(self) -> TwoPhaseCallbacks:
        assert isinstance(self._plugin, TwoPhaseCallbacks), "a plan has prepared transactions for no other"
        return self._plugin

    def add_messages_outside(self) -> None:
        due = self._group.due
        lsn = np.array([message.lsn for message in due], np.int64)
        before = np.searchsorted(self._transactions.commit_lsn, lsn)
        key = np.stack([rank(before) - 1, np.full(len(due), CHANGE), lsn, np.zeros(len(due), np.int64)])
        printed, xid = (np.array([getattr(message, name) for message in due], np.int64) for name in ("end_lsn", "xid"))
        self._singles.append(_Singles(key, printed, xid, Texts.of([self._outside_text(message) for message in due]), ends=True))

    def add_whole_transactions(self) -> None:
        """BEGIN, and COMMIT or what else ends them."""
        group, transactions, plugin = self._group, self._transactions, self._plugin
        ordinals = group.ordinals[~self._is_streamed & (transactions.kind[group.ordinals] != STREAM_ABORT)]
        first_at, first_printed = np.zeros(len(ordinals), np.int64), transactions.first_lsn[ordinals]
        if plugin.wants.skip_empty_xacts:
            if group.begins and group.ends:  # whole transactions; one in parts has rows
                told_anyway = ~transactions.has_rows[ordinals]
                if not plugin.wants.skip_empty_prepared:
                    told_anyway |= transactions.kind[ordinals] == xact.PREPARE
                ordinals = ordinals[np.isin(ordinals, self._of) | told_anyway]
            first_at, first_printed = self._least(self._at)[ordinals], self._least(self._printed)[ordinals]
            if not plugin.wants.skip_empty_prepared:
                prepared = transactions.kind[ordinals] == xact.PREPARE
                first_at[prepared], first_printed[prepared] = 0, transactions.first_lsn[ordinals[prepared]]
        begins = transactions.has_rows[ordinals] & group.begins
        beginning = ordinals[begins]
        self._add(beginning, CHANGE, first_at[begins], BEFORE, first_printed[begins], self._begin_texts)
        foreign = transactions.origin[beginning] != 0
        if foreign.any():
            mine, at, printed = beginning[foreign], first_at[begins][foreign], first_printed[begins][foreign]
            self._add_origins(mine, at, printed, plugin.origin_texts(transactions.subset(mine), mine, at))
        if group.ends:
            self._add(ordinals, COMMIT, 0, 0, transactions.end_lsn[ordinals], self._end_texts, ends=True)

    def add_blocks(self) -> None:
        """What opens and closes each block."""
        ordinals = self._group.ordinals[self._has_block]
        if not len(ordinals):
            return
        plugin = self._streaming
        first, has_rows = ~self._was_begun[self._has_block], self._has_content[self._has_block]
        begun = self._transactions.first_lsn[ordinals]
        least, most, printed = (
            np.where(has_rows, of[ordinals], begun)
            for of in (self._least(self._at), self._most(self._printed), self._least(self._printed))
        )
        if self._group.begins:  # what the server queues first, even if nothing is printed of it
            queued = self._plan.streams.first_lsn[ordinals]
            printed = np.where(has_rows | (queued == NEVER), np.minimum(printed, queued), queued)
        self._add(ordinals, CHANGE, least, BEFORE, printed, lambda those: plugin.stream_start_texts(those, first))
        origins = self._plan.streams.origin[ordinals]
        foreign = np.flatnonzero((origins != 0) & first)
        if len(foreign):
            mine = ordinals[foreign]
            texts = plugin.stream_origin_texts(origins[foreign], self._transactions.first_lsn[mine])
            self._add_origins(mine, least[foreign], printed[foreign], texts)
        self._add(ordinals, STOP, 0, 0, most, plugin.stream_stop_texts, stops=True)
        self._begun.update(self._transactions.full_xid[ordinals].tolist())

    def add_ends_of_streamed(self) -> None:
        group, transactions = self._group, self._transactions
        kind = transactions.kind[group.ordinals]
        tops = self._plan.streams.tops
        lost = self._lost()
        if lost:
            those = np.array(lost, np.int64)
            of = [tops[xid] for xid in transactions.full_xid[those].tolist()]
            aborts = partial(self._streaming.stream_abort_texts, tops=of)
            self._add(those, COMMIT, 0, 0, transactions.end_lsn[those], aborts, ends=True)
            self._begun.difference_update(transactions.full_xid[those].tolist())
        if group.ends:
            ended = self._is_streamed & (kind != BLOCK)
            ordinals = group.ordinals[ended]
            prepared = transactions.kind[ordinals] == xact.PREPARE
            for those, callback in ((ordinals[~prepared], "stream_commit_texts"), (ordinals[prepared], "stream_prepare_texts")):
                if len(those):
                    texts = getattr(self._streaming, callback)
                    self._add(those, COMMIT, 0, 0, transactions.end_lsn[those], texts, ends=True)
            self._begun.difference_update(transactions.full_xid[ordinals].tolist())

    def _lost(self) -> list[int]:
        """Ordinals of what is rolled back of transactions of which a block has been written by then, and not their end."""
        kind = self._transactions.kind[self._group.ordinals]
        has_block = self._has_block
        in_question = has_block | self._is_streamed | (kind == STREAM_ABORT)
        begun, lost = set(self._begun_before), []
        for at in np.flatnonzero(in_question).tolist():
            ordinal = int(self._group.ordinals[at])
            xid = int(self._transactions.full_xid[ordinal])
            if kind[at] == STREAM_ABORT:
                if self._plan.streams.tops[xid] in begun:
                    lost.append(ordinal)
                begun.discard(xid)
            elif kind[at] != BLOCK and self._group.ends:
                begun.discard(xid)
            elif has_block[at]:
                begun.add(xid)
        return lost

    def _add(
        self, ordinals: NDArray[np.int64], kind: int, lsn: NDArray[np.int64] | int, sequence: int, printed: NDArray[np.int64],
        texts: Callable[[Transactions], Texts], *, ends: bool = False, stops: bool = False,
    ) -> None:  # fmt: skip
        """A row for each of these transactions."""
        key = np.stack([rank(ordinals), *(np.broadcast_to(np.int64(each), len(ordinals)) for each in (kind, lsn, sequence))])
        facts = self._transactions.subset(ordinals)
        self._singles.append(_Singles(key, printed, facts.xid, texts(facts), ends, stops))

    def _add_origins(
        self, ordinals: NDArray[np.int64], lsn: NDArray[np.int64], printed: NDArray[np.int64], texts: Texts | None
    ) -> None:  # fmt: skip
        """A row for each of these transactions of which there is something to say."""
        if texts is not None:
            written = np.flatnonzero(np.diff(texts.offsets))
            those = Texts(texts.offsets[np.append(0, written + 1)], texts.data)  # what is left out has no bytes
            self._add(ordinals[written], CHANGE, lsn[written], BEFORE, printed[written], lambda _: those)

    def _begin_texts(self, transactions: Transactions) -> Texts:
        """Have the plugin print what begins each transaction."""
        prepared = transactions.kind == xact.PREPARE
        if not prepared.any():
            return self._plugin.begin_texts(transactions)
        return _by_kind(transactions, {True: self._two_phase.begin_prepare_texts, False: self._plugin.begin_texts}, prepared)

    def _end_texts(self, transactions: Transactions) -> Texts:
        """What ends each transaction: a commit, nearly always."""
        if (transactions.kind == xact.COMMIT).all():
            return self._plugin.commit_texts(transactions)
        two_phase = self._two_phase
        callbacks = {
            xact.COMMIT: self._plugin.commit_texts, xact.PREPARE: two_phase.prepare_texts,
            xact.COMMIT_PREPARED: two_phase.commit_prepared_texts, xact.ABORT_PREPARED: two_phase.rollback_prepared_texts,
            BARE_PREPARE: two_phase.prepare_texts,
        }  # fmt: skip
        return _by_kind(transactions, callbacks, transactions.kind)

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
        group, singles, plugin = self._group, self._singles, self._plugin
        order = sorted_order(group, np.concatenate([single.key for single in singles], axis=1))
        printed = np.concatenate([self._lsn, *(single.printed for single in singles)])[order]
        xid = np.concatenate([self._transactions.xid[self._ordinal], *(single.xid for single in singles)])[order].astype(
            np.uint32
        )
        ends, stops = (
            np.repeat(
                [False, *(getattr(single, name) for single in singles)],
                [len(self._lsn), *(len(single.printed) for single in singles)],
            )[order]
            for name in ("ends", "stops")
        )
        texts = [*(part.texts for part in group.rows), *(single.texts for single in singles)]
        if isinstance(plugin, RelationCallbacks):
            before, described = plugin.relation_texts(self._uses(order))
            # Each stands with the row that it is for: under its LSN and xid.
            texts.append(described)
            order = np.insert(order, before, len(order) + np.arange(len(before)))
            printed, xid = (np.insert(each, before, each[before]) for each in (printed, xid))
            ends, stops = (np.insert(each, before, False) for each in (ends, stops))
        at = np.flatnonzero(ends)
        lines = Lines(printed, xid, Texts.merged(texts, order), at + 1, np.flatnonzero(stops) + 1, printed[at])
        return plugin.finished(lines.without_silence() if plugin.wants.may_write_nothing else lines)

    def _uses(self, order: NDArray[np.int64]) -> RelationUses:
        """Which of the rows, so ordered, are of relations that the receiver must know."""
        group = self._group
        number: dict[Relation, int] = {}
        rows = []
        for part in group.rows:
            numbers = np.array([number.setdefault(relation, len(number)) for relation in part.relations], np.int32)
            rows.append(numbers[part.relation])
        none = np.full(len(order) - len(self._ordinal), -1, np.int32)
        relation = np.concatenate([*rows, none])[order]
        ordinal, lsn = np.concatenate([self._ordinal, none])[order], np.concatenate([self._lsn, none])[order]
        xid = np.concatenate([*(_xids_of(part) for part in group.rows), np.zeros(len(none), np.uint32)])[order]
        # What stands inside of transactions are the first of the singles.
        inside = np.flatnonzero((order >= len(self._ordinal)) & (order < len(self._ordinal) + len(group.inside))).tolist()
        events = [(place, group.inside[int(order[place]) - len(self._ordinal)]) for place in inside]
        truncations = [(place, event) for place, event in events if isinstance(event, Truncation)]
        for place, event in truncations:
            ordinal[place], lsn[place], xid[place] = event.ordinal, event.lsn, event.xid
        return RelationUses(tuple(number), relation, ordinal, lsn, xid, truncations)


def _by_kind(transactions: Transactions, callbacks: Mapping[int, Callable[[Transactions], Texts]], kind: NDArray[Any]) -> Texts:
    """What the callback of each transaction's kind writes of it."""
    rows = [np.flatnonzero(kind == each) for each in callbacks]
    texts = [callback(transactions.subset(mine)) for callback, mine in zip(callbacks.values(), rows, strict=True)]
    return Texts.merged(texts, np.argsort(np.concatenate(rows), kind="stable"))


def _xids_of(part: FormattedChanges) -> NDArray[np.uint32]:
    """By row: where nothing is streamed they are zero."""
    return part.xid if len(part.xid) else np.zeros(len(part.ordinal), np.uint32)
