"""pgoutput: what a subscriber reads, as the messages of the logical replication protocol (`replication/pgoutput/pgoutput.c`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.rows import CatalogTable
from tailrace.logicalproto import message as m
from tailrace.logicalproto.change_writer import fixed_length_messages
from tailrace.logicalproto.formats import write_message
from tailrace.model import Lsn
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.pgoutput.formatter import MessageFormatter
from tailrace.plugins.pgoutput.options import FIRST_WITH, PARALLEL, Options, parse_options
from tailrace.plugins.pgoutput.relations import Telling, Told
from tailrace.plugins.plugin import OutputPlugin, PlanFacts, RelationUses
from tailrace.transactions.epochs import LOW_WORD
from tailrace.transactions.fates import Transactions
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.encodings.server_encodings import CHECKED
from tailrace.types.values import Texts, as_string
from tailrace.wal import xact

_FIRST_TO_SKIP_EMPTY = 15
_CASCADE, _RESTART_IDENTITY = 1, 2


class PgOutput(OutputPlugin):
    """The options are those of its major."""

    name = "pgoutput"
    writes_binary = True
    tells_relations = True
    skips_empty_prepared = False
    streams_nothing = True

    def __init__(self) -> None:
        super().__init__()
        self.options = Options(1, ())
        self._told = Told()
        self._telling: Telling | None = None
        self._origins: CatalogTable | None = None

    def created(self, options: Mapping[str, str | None], major: int) -> None:
        # Those that are to be kept with the slot are checked; which they are may be said later, as on a server.
        if options:
            self.startup(options, major)

    def startup(self, options: Mapping[str, str | None], major: int) -> None:
        self.options = parse_options(options, major)
        self.publication_names = self.options.publication_names
        self.takes_messages = self.options.messages
        self.streams = self.options.streaming != "off"
        self.only_local = self.options.only_local
        self.skips_empty_transactions = major >= _FIRST_TO_SKIP_EMPTY
        self.style = replace(self.style, major=major)
        self.two_phase = (self.two_phase or self.options.two_phase) and major >= FIRST_WITH["two_phase"]

    @property
    def memory(self) -> dict[str, Any]:
        in_stream = {str(xid): sorted(known) for xid, known in self._told.in_stream.items()}
        return {**super().memory, "told": sorted(self._told.known), "told_in_stream": in_stream, "told_upto": self._told.upto}

    def recall(self, memory: Mapping[str, Any]) -> None:
        super().recall(memory)
        in_stream = {int(xid): set(known) for xid, known in memory.get("told_in_stream", {}).items()}
        self._told = Told(set(memory.get("told", ())), in_stream, memory.get("told_upto", 0))

    @property
    def formatter(self) -> MessageFormatter:
        return MessageFormatter(self.style, self.options.binary, self.codec)

    # -- what depends on the order of the stream ---------------------------------------------------------------------------------------

    def planned(self, about: PlanFacts) -> None:
        self._origins = about.history.table("pg_replication_origin")
        self._telling = Telling(about, self._told, in_utf8=self.is_unsure_of_bytes and self.style.reads_utf8)

    def told_upto(self, lsn: Lsn) -> None:
        if self._telling is not None:
            self._telling.told_upto(lsn)

    def relations_told(self, uses: RelationUses) -> tuple[NDArray[np.int64], Texts]:
        assert self._telling is not None, "planned comes first"
        told = self._telling.of(uses)
        return np.array([place for place, _ in told], np.int64), Texts.of([message for _, message in told])

    # -- transactions ------------------------------------------------------------------------------------------------------------------

    def begin_texts(self, transactions: Transactions) -> Texts:
        if (transactions.kind == xact.COMMIT).all():
            return fixed_length_messages(b"B", transactions.commit_lsn, transactions.time, transactions.xid)
        return Texts.of([self._begin(transactions, row) for row in range(len(transactions))])

    def _begin(self, transactions: Transactions, row: int) -> bytes:
        each = transactions[row]
        if transactions.kind[row] == xact.PREPARE:
            return write_message(m.BeginPrepare(each.commit_lsn, each.end_lsn, each.commit_time, each.xid, self._sent(each.gid)))
        return write_message(m.Begin(each.commit_lsn, each.commit_time, each.xid))

    def origin_texts(self, transactions: Transactions, ordinals: NDArray[np.int64], first: NDArray[np.int64]) -> Texts:
        begun = np.where(self.skips_empty_transactions & (first > 0), first, transactions.first_lsn)
        moments = zip(transactions, ordinals.tolist(), begun.tolist(), strict=True)
        return Texts.of([self._origin(t.origin, t.origin_lsn, ordinal, lsn) for t, ordinal, lsn in moments])

    def _origin(self, number: int, origin_lsn: Lsn, ordinal: int, lsn: int) -> bytes:
        """Where the change at `lsn` comes from, by the name that it sees, numbers being given again; nothing without (`send_repl_origin`)."""
        assert self._origins is not None, "planned comes first"
        rows = self._origins.seen_where("roident", number, lsn, ordinal)
        names = [as_string(name) for name in self._origins.of("roname", rows) if name is not None]
        return write_message(m.Origin(origin_lsn, self._sent(names[-1]))) if names else b""

    def commit_texts(self, transactions: Transactions) -> Texts:
        return fixed_length_messages(b"C\0", transactions.commit_lsn, transactions.end_lsn, transactions.time)

    def prepare_texts(self, transactions: Transactions) -> Texts:
        return Texts.of(
            [write_message(m.Prepare(t.commit_lsn, t.end_lsn, t.commit_time, t.xid, self._sent(t.gid))) for t in transactions]
        )

    def commit_prepared_texts(self, transactions: Transactions) -> Texts:
        return Texts.of(
            [
                write_message(m.CommitPrepared(t.commit_lsn, t.end_lsn, t.commit_time, t.xid, self._sent(t.gid)))
                for t in transactions
            ]
        )

    def rollback_prepared_texts(self, transactions: Transactions) -> Texts:
        prepared_end, prepared_time = transactions.prepared_end.tolist(), transactions.prepared_time.tolist()
        return Texts.of(
            [
                write_message(m.RollbackPrepared(Lsn(end), t.end_lsn, time, t.commit_time, t.xid, self._sent(t.gid)))
                for t, end, time in zip(transactions, prepared_end, prepared_time, strict=True)
            ]
        )

    def truncate_text(self, truncation: Truncation) -> bytes:
        return _truncate(truncation, None)

    def message_text(self, message: LogicalMessage) -> bytes:
        return self._message(message, None)

    # -- blocks of transactions in progress ----------------------------------------------------------------------------------------------

    def stream_start_texts(self, transactions: Transactions, first: NDArray[np.bool_]) -> Texts:
        return Texts.of(
            [write_message(m.StreamStart(t.xid, int(is_first))) for t, is_first in zip(transactions, first.tolist(), strict=True)]
        )

    def stream_origin_texts(self, origins: NDArray[np.uint16], begun: NDArray[np.int64]) -> Texts:
        # Where the transaction ends there is not known yet, and nothing of its own is seen where it begins.
        pairs = zip(origins.tolist(), begun.tolist(), strict=True)
        return Texts.of([self._origin(origin, Lsn(0), -1, lsn) for origin, lsn in pairs])

    def stream_stop_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([write_message(m.StreamStop())] * len(transactions))

    def stream_commit_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([write_message(m.StreamCommit(t.xid, t.commit_lsn, t.end_lsn, t.commit_time)) for t in transactions])

    def stream_prepare_texts(self, transactions: Transactions) -> Texts:
        return Texts.of(
            [
                write_message(m.StreamPrepare(t.commit_lsn, t.end_lsn, t.commit_time, t.xid, self._sent(t.gid)))
                for t in transactions
            ]
        )

    def stream_abort_texts(self, transactions: Transactions, tops: Sequence[int]) -> Texts:
        messages = []
        for each, top in zip(transactions, tops, strict=True):
            aborted = m.StreamAbort(top & LOW_WORD, each.xid)
            if self.options.streaming == PARALLEL:
                aborted = replace(aborted, abort_lsn=each.end_lsn, abort_timestamp=each.commit_time)
            messages.append(write_message(aborted))
        return Texts.of(messages)

    def stream_truncate_text(self, truncation: Truncation, xid: int) -> bytes:
        return _truncate(truncation, truncation.xid)

    def stream_message_text(self, message: LogicalMessage, xid: int) -> bytes:
        return self._message(message, xid)

    def _message(self, message: LogicalMessage, xid: int | None) -> bytes:
        flags = int(message.ordinal >= 0)
        return write_message(m.Message(flags, message.end_lsn, self._sent(message.prefix), message.content, xid))

    def _sent(self, text: str) -> str:
        """In the client's encoding, which is UTF-8."""
        codec = CHECKED if self.is_unsure_of_bytes and self.style.reads_utf8 else self.codec
        return to_utf8(Texts.of([text]), codec).to_list()[0]


def _truncate(truncation: Truncation, xid: int | None) -> bytes:
    flags = _CASCADE * truncation.cascade | _RESTART_IDENTITY * truncation.restart_sequences
    return write_message(m.Truncate(flags, tuple(relation.oid for relation in truncation.relations), xid))
