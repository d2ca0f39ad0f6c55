"""pgoutput: what a subscriber reads, as the messages of the logical replication protocol (`replication/pgoutput/pgoutput.c`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.rows.catalog_rows import CatalogTable
from tailrace.logicalproto import message as m
from tailrace.logicalproto.change_writer import fixed_length_messages
from tailrace.logicalproto.formats import write_message
from tailrace.logicalproto.protocol import OFF, PARALLEL
from tailrace.majors import EMPTY_TRANSACTIONS_SKIPPED, PGOUTPUT_TWO_PHASE, supports
from tailrace.model import Lsn
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.origin_filter import OriginFilter, from_elsewhere
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, OutputPluginOptions, StreamingCallbacks, TwoPhaseCallbacks
from tailrace.plugins.pgoutput.formatter import MessageFormatter
from tailrace.plugins.pgoutput.options import PgOutputOptions, parse_options
from tailrace.plugins.pgoutput.relations import RelationSync, SentRelations
from tailrace.plugins.relation_callbacks import PlanFacts, RelationCallbacks, RelationUses
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.transactions.epochs import LOW_WORD
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.encodings.server_encodings import CHECKED
from tailrace.types.values import Texts, as_string

_CASCADE, _RESTART_IDENTITY = 1, 2
_BEGINNINGS = np.frombuffer(b"BbS", np.uint8)
_DESCRIPTIONS = np.frombuffer(b"RY", np.uint8)


class PgOutput(OutputPlugin, TwoPhaseCallbacks, StreamingCallbacks, RelationCallbacks):
    """The options are those of its major."""

    name = "pgoutput"

    def __init__(self) -> None:
        super().__init__()
        self.options = PgOutputOptions(1, ())
        self._sent_relations = SentRelations()
        self._relation_sync: RelationSync | None = None
        self._origins: CatalogTable | None = None

    def started(self, options: Mapping[str, str | None], major: int, *, is_init: bool) -> OutputPluginOptions:
        if (
            is_init and not options
        ):  # which publications may be said later, as on a server; options that are kept with the slot are checked
            return self.wants
        self.options = parse_options(options, major)
        self.context.two_phase = (self.context.two_phase or self.options.two_phase) and supports(major, PGOUTPUT_TWO_PHASE)
        return OutputPluginOptions(
            binary_output=True, streaming=self.options.streaming != OFF, messages=self.options.messages,
            publication_names=self.options.publication_names, skip_empty_xacts=supports(major, EMPTY_TRANSACTIONS_SKIPPED),
            skip_empty_prepared=False, stream_empty=True,
        )  # fmt: skip

    @property
    def filter_by_origin(self) -> OriginFilter | None:
        return from_elsewhere if self.options.only_local else None

    @property
    def memory(self) -> dict[str, Any]:
        sent = self._sent_relations
        in_stream = {str(xid): sorted(known) for xid, known in sent.in_stream.items()}
        return {**super().memory, "told": sorted(sent.known), "told_in_stream": in_stream, "told_upto": sent.upto}

    def recall(self, memory: Mapping[str, Any]) -> None:
        super().recall(memory)
        in_stream = {int(xid): set(known) for xid, known in memory.get("told_in_stream", {}).items()}
        self._sent_relations = SentRelations(set(memory.get("told", ())), in_stream, memory.get("told_upto", 0))

    @property
    def formatter(self) -> MessageFormatter:
        return MessageFormatter(self.context.style, self.context.codec, self.options.binary)

    def header_lsns(self, lines: Lines) -> NDArray[np.int64]:
        """Relation and Type go before the row that they are for; what begins a transaction or block, before its Origin."""
        if not len(lines):
            return lines.lsn
        first = lines.texts.data[lines.texts.offsets[:-1]]
        begins = np.isin(first, _BEGINNINGS)
        begins[:-1] &= first[1:] == ord("O")
        begins[-1] = False  # behind a beginning something follows
        return np.where(begins | np.isin(first, _DESCRIPTIONS), 0, lines.lsn)

    # -- what depends on the order of the stream ---------------------------------------------------------------------------------

    def planned(self, facts: PlanFacts) -> None:
        self._origins = facts.history.table("pg_replication_origin")
        in_utf8 = self.context.is_sql_ascii and self.context.style.reads_utf8
        self._relation_sync = RelationSync(facts, self._sent_relations, in_utf8=in_utf8)

    def written_upto(self, lsn: Lsn) -> None:
        if self._relation_sync is not None:
            self._relation_sync.written_upto(lsn)

    def relation_texts(self, uses: RelationUses) -> tuple[NDArray[np.int64], Texts]:
        assert self._relation_sync is not None, "planned comes first"
        messages = self._relation_sync.messages(uses)
        return np.array([place for place, _ in messages], np.int64), Texts.of([message for _, message in messages])

    # -- transactions ------------------------------------------------------------------------------------------------------------

    def begin_texts(self, transactions: Transactions) -> Texts:
        return fixed_length_messages(b"B", transactions.commit_lsn, transactions.time, transactions.xid)

    def origin_texts(self, transactions: Transactions, ordinals: NDArray[np.int64], first: NDArray[np.int64]) -> Texts:
        begun = np.where(self.wants.skip_empty_xacts & (first > 0), first, transactions.first_lsn)
        moments = zip(transactions, ordinals.tolist(), begun.tolist(), strict=True)
        return Texts.of([self._origin(t.origin, t.origin_lsn, ordinal, lsn) for t, ordinal, lsn in moments])

    def _origin(self, number: int, origin_lsn: Lsn, ordinal: int, lsn: int) -> bytes:
        """Where the change at `lsn` comes from, by the name that it sees, numbers being given again; nothing without
        (`send_repl_origin`)."""
        assert self._origins is not None, "planned comes first"
        rows = self._origins.seen_where("roident", number, lsn, ordinal)
        names = [as_string(name) for name in self._origins.of("roname", rows) if name is not None]
        return write_message(m.Origin(origin_lsn, self._sent(names[-1]))) if names else b""

    def commit_texts(self, transactions: Transactions) -> Texts:
        return fixed_length_messages(b"C\0", transactions.commit_lsn, transactions.end_lsn, transactions.time)

    def begin_prepare_texts(self, transactions: Transactions) -> Texts:
        return _texts(m.BeginPrepare(t.commit_lsn, t.end_lsn, t.commit_time, t.xid, self._sent(t.gid)) for t in transactions)

    def prepare_texts(self, transactions: Transactions) -> Texts:
        return _texts(m.Prepare(t.commit_lsn, t.end_lsn, t.commit_time, t.xid, self._sent(t.gid)) for t in transactions)

    def commit_prepared_texts(self, transactions: Transactions) -> Texts:
        return _texts(m.CommitPrepared(t.commit_lsn, t.end_lsn, t.commit_time, t.xid, self._sent(t.gid)) for t in transactions)

    def rollback_prepared_texts(self, transactions: Transactions) -> Texts:
        prepared_end, prepared_time = transactions.prepared_end.tolist(), transactions.prepared_time.tolist()
        return _texts(
            m.RollbackPrepared(Lsn(end), t.end_lsn, time, t.commit_time, t.xid, self._sent(t.gid))
            for t, end, time in zip(transactions, prepared_end, prepared_time, strict=True)
        )

    def truncate_text(self, truncation: Truncation) -> bytes:
        return _truncate(truncation, None)

    def message_text(self, message: LogicalMessage) -> bytes:
        return self._message(message, None)

    # -- blocks of transactions in progress --------------------------------------------------------------------------------------

    def stream_start_texts(self, transactions: Transactions, first: NDArray[np.bool_]) -> Texts:
        return _texts(m.StreamStart(t.xid, int(is_first)) for t, is_first in zip(transactions, first.tolist(), strict=True))

    def stream_origin_texts(self, origins: NDArray[np.uint16], begun: NDArray[np.int64]) -> Texts:
        # Where the transaction ends there is not known yet, and nothing of its own is seen where it begins.
        pairs = zip(origins.tolist(), begun.tolist(), strict=True)
        return Texts.of([self._origin(origin, Lsn(0), -1, lsn) for origin, lsn in pairs])

    def stream_stop_texts(self, transactions: Transactions) -> Texts:
        return _texts([m.StreamStop()] * len(transactions))

    def stream_commit_texts(self, transactions: Transactions) -> Texts:
        return _texts(m.StreamCommit(t.xid, t.commit_lsn, t.end_lsn, t.commit_time) for t in transactions)

    def stream_prepare_texts(self, transactions: Transactions) -> Texts:
        return _texts(m.StreamPrepare(t.commit_lsn, t.end_lsn, t.commit_time, t.xid, self._sent(t.gid)) for t in transactions)

    def stream_abort_texts(self, transactions: Transactions, tops: Sequence[int]) -> Texts:
        if self.options.streaming != PARALLEL:
            return _texts(m.StreamAbort(top & LOW_WORD, t.xid) for t, top in zip(transactions, tops, strict=True))
        return _texts(
            m.StreamAbort(top & LOW_WORD, t.xid, t.end_lsn, t.commit_time) for t, top in zip(transactions, tops, strict=True)
        )

    def stream_truncate_text(self, truncation: Truncation, xid: int) -> bytes:
        return _truncate(truncation, truncation.xid)

    def stream_message_text(self, message: LogicalMessage, xid: int) -> bytes:
        return self._message(message, xid)

    def _message(self, message: LogicalMessage, xid: int | None) -> bytes:
        flags = int(message.ordinal >= 0)
        return write_message(m.Message(flags, message.end_lsn, self._sent(message.prefix), message.content, xid))

    def _sent(self, text: str) -> str:
        """In the client's encoding, which is UTF-8."""
        codec = CHECKED if self.context.is_sql_ascii and self.context.style.reads_utf8 else self.context.codec
        return to_utf8(Texts.of([text]), codec).to_list()[0]


def _texts(messages: Iterable[m.AnyMessage]) -> Texts:
    return Texts.of([write_message(message) for message in messages])


def _truncate(truncation: Truncation, xid: int | None) -> bytes:
    flags = _CASCADE * truncation.cascade | _RESTART_IDENTITY * truncation.restart_sequences
    return write_message(m.Truncate(flags, tuple(relation.oid for relation in truncation.relations), xid))
