"""The half of a plugin written per change that lives with the ordered driver: it has the callbacks called in the order of the
stream.

What the driver asks it for it answers with a note (`EVENT` and a number) of what is to be called; the notes come back in order,
among the changes that workers made texts of (`plugins/callbacks/formatter.py`), and now callbacks are called, and what they write takes
the place of the note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.model import Lsn, Transaction
from tailrace.plan.demand import Demand
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.origin_filter import OriginFilter
from tailrace.plugins.callbacks.catalogs import CatalogReader, HistoricSnapshot
from tailrace.plugins.callbacks.change import Change, ChangeShape, read_change
from tailrace.plugins.callbacks.context import Context, OutputOptions
from tailrace.plugins.callbacks.formatter import CHANGE, EVENT, ONE, CallbackFormatter, read_rows
from tailrace.plugins.callbacks.plugin import Plugin, check_callbacks, implements
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, OutputPluginOptions, StreamingCallbacks, TwoPhaseCallbacks
from tailrace.plugins.relation_callbacks import PlanFacts, RelationCallbacks, RelationUses
from tailrace.transactions.commit_or_abort import Transactions, TwoPhase
from tailrace.types.values import Texts


@dataclass(frozen=True, slots=True)
class _Answers:
    """What a callback answers to a number or a name. Plugins of one kind with equal options answer alike."""

    kind: type[Plugin]
    options: tuple[tuple[str, str | None], ...]
    ask: Callable[..., bool] = field(compare=False)

    def __call__(self, *about: Any) -> bool:
        return self.ask(*about)


class _Limit:
    """Where something ends with which there are so many rows: nothing is called any more for what stands behind."""

    def __init__(self, lines: Lines, most: int) -> None:
        self._ends = np.union1d(lines.ends, lines.stops).tolist()
        self._most = most
        self._rows = 0
        self.stop = 0

    def is_reached(self, place: int, rows: NDArray[np.int64]) -> bool:
        """Whether it stands before the line at `place`. Of each line before that, `rows` has how many were written."""
        while self._rows < self._most and self._ends and self._ends[0] <= place:
            end = self._ends.pop(0)
            self._rows += int(rows[self.stop : end].sum())
            self.stop = end
        return self._rows >= self._most


class CalledPlugin(OutputPlugin, TwoPhaseCallbacks, StreamingCallbacks, RelationCallbacks):
    """A plugin with the manual's callbacks, as the driver takes one.

    Sent to another process, it travels as it was before `startup`, so that this may open what cannot be sent; there it is started
    up again when it is asked for something first.
    """

    def __init__(self, plugin: Plugin, name: str = "") -> None:
        super().__init__()
        check_callbacks(plugin)
        self.plugin = plugin
        self._before_startup = copy(plugin)
        self._was_sent = False
        self.name = name or type(plugin).__name__
        self.callback_context = Context(plugin=self.name)
        self._notes: list[tuple[str, int, tuple[Any, ...], HistoricSnapshot | None]] = []
        self._uses: RelationUses | None = None
        self._txn: Transaction | None = None
        self._in_stream = False
        self._rows_given = 0
        self._reader: CatalogReader | None = None

    @property
    def _is_parallel(self) -> bool:
        return self.plugin.parallel or implements(self.plugin, "change_batch")

    # -- its life ----------------------------------------------------------------------------------------------------------------

    def started(self, options: Mapping[str, str | None], major: int, *, is_init: bool) -> OutputPluginOptions:
        context = Context(plugin=self.name, slot=self.context.slot, major=major, options=options, _is_alone=self._is_parallel)
        self.callback_context, output = context, OutputOptions()
        context.call("startup", None, self.plugin.startup, output, is_init, writes=False)
        context.binary_output = output.binary_output
        self.context.two_phase = self.context.two_phase and implements(self.plugin, "prepare")
        return OutputPluginOptions(
            binary_output=output.binary_output, receive_rewrites=output.receive_rewrites,
            streaming=implements(self.plugin, "stream_start"), messages=implements(self.plugin, "message"),
            commits=self._is_parallel or self.plugin.typed,
        )  # fmt: skip

    def shutdown(self) -> None:
        if not self._was_sent:
            self.callback_context.call("shutdown", None, self.plugin.shutdown, writes=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "plugin": self._before_startup, "_was_sent": True}

    def _start_again(self) -> None:
        """In the process that it was sent to, once."""
        if self._was_sent:
            self._was_sent = False
            self.startup(self.callback_context.options, self.callback_context.major)

    @property
    def formatter(self) -> CallbackFormatter:
        self._start_again()
        return CallbackFormatter(self.context.style, self.context.codec, self.plugin, self.callback_context.alone())

    @property
    def demand(self) -> Demand:
        asked = super().demand
        if asked.two_phase is not None:
            asked = replace(asked, two_phase=TwoPhase(self.context.two_phase_since, self._answers(self._filters_prepared)))
        return asked

    @property
    def filter_by_origin(self) -> OriginFilter | None:
        return self._answers(self._filters_origin) if implements(self.plugin, "filter_by_origin") else None

    def _answers(self, ask: Callable[..., bool]) -> _Answers:
        return _Answers(type(self.plugin), tuple(self.callback_context.options.items()), ask)

    def _filters_origin(self, origin: int) -> bool:
        self._start_again()
        return bool(self.callback_context.call("filter_by_origin", None, self.plugin.filter_by_origin, origin, writes=False))

    def _filters_prepared(self, xid: int, gid: str) -> bool:
        self._start_again()
        return bool(self.callback_context.call("filter_prepare", None, self.plugin.filter_prepare, xid, gid, writes=False))

    def planned(self, facts: PlanFacts) -> None:
        self._reader = None
        if not self._is_parallel:
            self._reader = CatalogReader(facts.history, self.context.style, self.context.codec, typed=self.plugin.typed)

    # -- notes of what is to be called -------------------------------------------------------------------------------------------

    def _note(self, callback: str, lsn: int, *args: Any, snapshot: HistoricSnapshot | None = None) -> bytes:
        self._notes.append((callback, lsn, args, snapshot))
        return EVENT + b"%d" % (len(self._notes) - 1)

    def begin_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([self._note("begin", each.first_lsn, each) for each in transactions])

    def begin_prepare_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([self._note("begin_prepare", each.first_lsn, each) for each in transactions])

    def commit_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([self._note("commit", each.end_lsn, each, each.commit_lsn) for each in transactions])

    def prepare_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([self._note("prepare", each.end_lsn, each, each.commit_lsn) for each in transactions])

    def commit_prepared_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([self._note("commit_prepared", each.end_lsn, each, each.commit_lsn) for each in transactions])

    def rollback_prepared_texts(self, transactions: Transactions) -> Texts:
        prepared = zip(transactions, transactions.prepared_end.tolist(), transactions.prepared_time.tolist(), strict=True)
        return Texts.of([self._note("rollback_prepared", each.end_lsn, each, Lsn(end), time) for each, end, time in prepared])

    def truncate_text(self, truncation: Truncation) -> bytes:
        return self._noted_truncation("truncate", truncation) if implements(self.plugin, "truncate") else b""

    def _noted_truncation(self, callback: str, truncation: Truncation) -> bytes:
        change = Change("truncate", truncation.lsn, cascade=truncation.cascade, restart_sequences=truncation.restart_sequences)
        snapshot = HistoricSnapshot(truncation.lsn + 1, truncation.ordinal)
        return self._note(callback, truncation.lsn, truncation.relations, change, snapshot=snapshot)

    def message_text(self, message: LogicalMessage) -> bytes:
        return self._noted_message("message", message)

    def _noted_message(self, callback: str, message: LogicalMessage) -> bytes:
        transactional = message.ordinal >= 0
        about = (message.end_lsn, transactional, message.prefix, message.content)
        snapshot = HistoricSnapshot(message.lsn + 1, message.ordinal)
        return self._note(callback, message.end_lsn, None if transactional else message.xid, *about, snapshot=snapshot)

    def stream_start_texts(self, transactions: Transactions, first: NDArray[np.bool_]) -> Texts:
        return Texts.of([self._note("stream_start", each.first_lsn, each) for each in transactions])

    def stream_stop_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([self._note("stream_stop", each.end_lsn, each) for each in transactions])

    def stream_commit_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([self._note("stream_commit", each.end_lsn, each, each.commit_lsn) for each in transactions])

    def stream_prepare_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([self._note("stream_prepare", each.end_lsn, each, each.commit_lsn) for each in transactions])

    def stream_abort_texts(self, transactions: Transactions, tops: Sequence[int]) -> Texts:
        return Texts.of([self._note("stream_abort", each.end_lsn, each, each.commit_lsn) for each in transactions])

    def stream_truncate_text(self, truncation: Truncation, xid: int) -> bytes:
        return self._noted_truncation("stream_truncate", truncation)

    def stream_message_text(self, message: LogicalMessage, xid: int) -> bytes:
        return self._noted_message("stream_message", message)

    def relation_texts(self, uses: RelationUses) -> tuple[NDArray[np.int64], Texts]:
        """Nothing is written of relations; but which are used is now known."""
        self._uses = uses
        return np.zeros(0, np.int64), Texts.of([])

    # -- calling -----------------------------------------------------------------------------------------------------------------

    def finished(self, lines: Lines) -> Lines:
        offsets, data = lines.texts.offsets, lines.texts.data
        sizes = np.diff(offsets)
        kind = np.zeros(len(lines), np.uint8)
        kind[sizes > 0] = data[offsets[:-1][sizes > 0]]
        plain = kind == ord(ONE)
        rows = np.ones(len(lines), np.int64)
        made: list[bytes] = []
        shapes: dict[int, ChangeShape] = {}
        raw = data.tobytes() if not plain.all() else b""
        limit = _Limit(lines, self.context.upto_nchanges - self._rows_given) if self.context.upto_nchanges else None
        for place in np.flatnonzero(~plain).tolist():
            if limit is not None and limit.is_reached(place, rows):
                lines = lines.part(0, limit.stop)
                break
            text = raw[offsets[place] : offsets[place + 1]]
            try:
                written = self._called(place, text, int(lines.lsn[place]), shapes)
            except TailraceError as error:
                self.failed = error
                lines = lines.part(0, int(lines.ends[lines.ends <= place].max(initial=0)))
                break
            rows[place] = len(written)
            made += written
        self._notes, self._uses = [], None
        plain, rows = plain[: len(lines)], rows[: len(lines)]
        self._rows_given += int(rows.sum())
        return self._given(lines, plain, rows, made[: int(rows[~plain].sum())])

    def _given(self, lines: Lines, plain: NDArray[np.bool_], rows: NDArray[np.int64], made: list[bytes]) -> Lines:
        """What stands in the place of the lines: of those in workers, what they wrote, and what was `made` of the others."""
        before = np.append(0, np.cumsum(rows))
        return Lines(
            np.repeat(lines.lsn, rows), np.repeat(lines.xid, rows), self._interleaved(lines.texts, plain, rows, made),
            before[lines.ends], before[lines.stops], lines.ended,
        )  # fmt: skip

    @staticmethod
    def _interleaved(texts: Texts, plain: NDArray[np.bool_], rows: NDArray[np.int64], made: list[bytes]) -> Texts:
        """What workers wrote, without its first byte, and what was written here, in their order."""
        kept = np.repeat(plain, np.diff(texts.offsets))
        kept[texts.offsets[:-1][plain]] = False
        theirs = Texts(np.append(0, np.cumsum(np.diff(texts.offsets)[plain] - 1)), texts.data[kept])
        of_theirs = np.repeat(plain, rows)
        order = np.empty(len(of_theirs), np.int64)
        order[of_theirs] = np.arange(len(theirs))
        order[~of_theirs] = len(theirs) + np.arange(len(made))
        return Texts.merged([theirs, Texts.of(made)], order)

    def _called(self, place: int, text: bytes, lsn: int, shapes: dict[int, ChangeShape]) -> list[bytes]:
        """What is written of one thing in the stream."""
        if not text:
            return []
        if text[:1] == EVENT:
            return self._note_called(*self._notes[int(text[1:])])
        if text[:1] != CHANGE:
            return read_rows(text)
        uses = self._uses
        assert uses is not None, "relation_texts comes first"
        number = int(uses.relation[place])
        shape = shapes.get(number) or shapes.setdefault(number, ChangeShape(uses.relations[number]))
        change = shape.change(read_change(text[1:], typed=self.plugin.typed), lsn)
        callback = "stream_change" if self._in_stream else "change"
        self.callback_context.reads(self._reader, HistoricSnapshot(lsn + 1, int(uses.ordinal[place])))
        self.callback_context.call(callback, lsn, getattr(self.plugin, callback), self._txn, shape.relation, change)
        return self.callback_context.take_written()

    def _note_called(self, callback: str, lsn: int, args: tuple[Any, ...], snapshot: HistoricSnapshot | None) -> list[bytes]:
        self.callback_context.reads(self._reader, snapshot or self._snapshot_of(callback, args[0]))
        if callback in _BEGINNING:
            self._txn, self._in_stream = args[0], callback == "stream_start"
        elif callback in ("truncate", "stream_truncate"):
            args = (self._txn, *args)
        elif callback in ("message", "stream_message"):
            args = (self._txn if args[0] is None else _of_nothing(args[0]), *args[1:])
        self.callback_context.call(callback, lsn, getattr(self.plugin, callback), *args)
        if callback in _ENDING:
            self._txn, self._in_stream = None, False
        self.callback_context.reads(None, None)
        return self.callback_context.take_written()

    def _snapshot_of(self, callback: str, txn: Transaction) -> HistoricSnapshot | None:
        """Where a transaction begins, and where it ends. When it is told of again, the server has no snapshot for it."""
        if callback in _BEGINNING:
            return HistoricSnapshot(txn.first_lsn, -1)
        return HistoricSnapshot(txn.commit_lsn, self._ordinal_of(txn)) if callback in _AT_END else None

    def _ordinal_of(self, txn: Transaction) -> int:
        """Its number among all of the plan."""
        every = self.context.transactions
        assert every is not None, "the driver sets it"
        first, stop = np.searchsorted(every.commit_lsn, [txn.commit_lsn, txn.commit_lsn + 1])
        return int(first) + int(np.flatnonzero(every.xid[first:stop] == txn.xid)[0])


_BEGINNING = frozenset({"begin", "begin_prepare", "stream_start"})
_AT_END = frozenset({"commit", "prepare", "stream_stop"})
_ENDING = frozenset({"commit", "prepare", "stream_stop", "commit_prepared"})


def _of_nothing(xid: int) -> Transaction | None:
    """What is known of the transaction of a message that is not transactional: its xid, if it had one."""
    if not xid:
        return None
    return Transaction(ordinal=-1, xid=xid, commit_lsn=Lsn(0), end_lsn=Lsn(0), first_lsn=Lsn(0), commit_time=0, database=0)
