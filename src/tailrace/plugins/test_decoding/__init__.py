"""test_decoding: the readable form, in PostgreSQL's exact words (manual, appendix F, "test_decoding")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.majors import MESSAGES_BEGIN_TRANSACTIONS, NEWEST, supports
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.origin_filter import OriginFilter, from_elsewhere
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, OutputPluginOptions, StreamingCallbacks, TwoPhaseCallbacks
from tailrace.plugins.test_decoding.formatter import LineFormatter, qualified_name
from tailrace.settings import bool_option
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.quoting import quote_literal
from tailrace.types.times.text import timestamptz_to_str
from tailrace.types.values import Texts

OPTIONS = {
    "include-xids": "xids after BEGIN and COMMIT (on)",
    "include-timestamp": "when the transaction committed, in TimeZone (off)",
    "skip-empty-xacts": "no BEGIN and COMMIT around nothing (off)",
    "only-local": "nothing that was replicated from elsewhere, as its origin says (off)",
    "include-rewrites": "rows that ALTER TABLE or REFRESH MATERIALIZED VIEW write anew (off)",
    "stream-changes": "large transactions in blocks before they end, one line a change (off)",
    "force-binary": "the output is declared binary, and is printed in hex (off)",
}
"""What each does."""


class TestDecoding(OutputPlugin, TwoPhaseCallbacks, StreamingCallbacks):
    """Options as the original's. Time stamps print in UTC unless the session's parameters say otherwise."""

    name = "test_decoding"
    __test__ = False  # pytest: not a test

    def __init__(self) -> None:
        super().__init__()
        self.include_xids = True
        self.include_timestamp = False
        self.only_local = False
        self.major = NEWEST

    def started(self, options: Mapping[str, str | None], major: int, *, is_init: bool) -> OutputPluginOptions:
        given = dict.fromkeys(OPTIONS, False) | {"include-xids": True}
        for name, value in options.items():
            if name not in OPTIONS:
                raise UsageError(f'option "{name}" = "{value if value is not None else "(null)"}" is unknown', sqlstate="22023")
            given[name] = bool_option(name, value)
        self.major = major
        self.include_xids, self.include_timestamp = given["include-xids"], given["include-timestamp"]
        self.only_local = given["only-local"]
        return OutputPluginOptions(
            binary_output=given["force-binary"], receive_rewrites=given["include-rewrites"], streaming=given["stream-changes"],
            skip_empty_xacts=given["skip-empty-xacts"], messages_begin=supports(major, MESSAGES_BEGIN_TRANSACTIONS),
        )  # fmt: skip

    @property
    def filter_by_origin(self) -> OriginFilter | None:
        return from_elsewhere if self.only_local else None

    @property
    def formatter(self) -> LineFormatter:
        return LineFormatter(self.context.style, self.context.codec, self.major, self.include_xids)

    def begin_texts(self, transactions: Transactions) -> Texts:
        xids = (" ", transactions.xid) if self.include_xids else ()
        return Texts.joined("BEGIN", *xids, rows=len(transactions))

    def commit_texts(self, transactions: Transactions) -> Texts:
        xids = (" ", transactions.xid) if self.include_xids else ()
        return Texts.joined("COMMIT", *xids, *self._times(transactions), rows=len(transactions))

    def header_lsns(self, lines: Lines) -> NDArray[np.int64]:
        """Where empty transactions are skipped, BEGIN is written with the first change (`pg_output_begin`)."""
        if not self.wants.skip_empty_xacts or not len(lines):
            return lines.lsn
        return np.where(
            _starts_with(lines.texts, b"BEGIN") | _starts_with(lines.texts, b"opening a streamed block"), 0, lines.lsn
        )

    # -- two phases --------------------------------------------------------------------------------------------------------------

    @staticmethod
    def filter_prepare(xid: int, gid: str) -> bool:
        return "_nodecode" in gid

    begin_prepare_texts = begin_texts

    def prepare_texts(self, transactions: Transactions) -> Texts:
        return self._phase("PREPARE TRANSACTION", transactions)

    def commit_prepared_texts(self, transactions: Transactions) -> Texts:
        return self._phase("COMMIT PREPARED", transactions)

    def rollback_prepared_texts(self, transactions: Transactions) -> Texts:
        return self._phase("ROLLBACK PREPARED", transactions)

    def _phase(self, what: str, transactions: Transactions) -> Texts:
        gids = to_utf8(Texts.of([quote_literal(gid) for gid in transactions.gids]), self.context.codec)
        xids = (", txid ", transactions.xid) if self.include_xids else ()
        return Texts.joined(f"{what} ", gids, *xids, *self._times(transactions), rows=len(transactions))

    def _times(self, transactions: Transactions) -> tuple[str | Texts, ...]:
        if not self.include_timestamp:
            return ()
        return " (at ", timestamptz_to_str(transactions.time, self.context.style), ")"

    def truncate_text(self, truncation: Truncation) -> str:
        names = ", ".join(qualified_name(relation, self.major) for relation in truncation.relations)
        flags = " restart_seqs" * truncation.restart_sequences + " cascade" * truncation.cascade
        return f"table {names}: TRUNCATE:{flags or ' (no-flags)'}"

    def message_text(self, message: LogicalMessage) -> bytes:
        head = (
            f"message: transactional: {int(message.ordinal >= 0)} prefix: {message.prefix}, sz: {len(message.content)} content:"
        )
        return to_utf8(Texts.of([head.encode("utf-8", "surrogateescape") + message.content]), self.context.codec).data.tobytes()

    # -- blocks of transactions in progress --------------------------------------------------------------------------------------

    def stream_start_texts(self, transactions: Transactions, first: NDArray[np.bool_]) -> Texts:
        return self._of_stream("opening a streamed block for transaction", transactions)

    def stream_stop_texts(self, transactions: Transactions) -> Texts:
        return self._of_stream("closing a streamed block for transaction", transactions)

    def stream_commit_texts(self, transactions: Transactions) -> Texts:
        return self._of_stream("committing streamed transaction", transactions, *self._times(transactions))

    def stream_prepare_texts(self, transactions: Transactions) -> Texts:
        gids = to_utf8(Texts.of([quote_literal(gid) for gid in transactions.gids]), self.context.codec)
        xids = (" TXN ", gids, ", txid ", transactions.xid) if self.include_xids else (" ", gids)
        return Texts.joined("preparing streamed transaction", *xids, *self._times(transactions), rows=len(transactions))

    def stream_abort_texts(self, transactions: Transactions, tops: Sequence[int]) -> Texts:
        return self._of_stream("aborting streamed (sub)transaction", transactions)

    def stream_truncate_text(self, truncation: Truncation, xid: int) -> str:
        return f"streaming truncate for {f'TXN {xid}' if self.include_xids else 'transaction'}"

    def stream_message_text(self, message: LogicalMessage, xid: int) -> bytes:
        head = f"streaming message: transactional: 1 prefix: {message.prefix}, sz: {len(message.content)}"
        return to_utf8(Texts.of([head]), self.context.codec).data.tobytes()

    def _of_stream(self, what: str, transactions: Transactions, *more: str | Texts) -> Texts:
        xids = (" TXN ", transactions.xid) if self.include_xids else ()
        return Texts.joined(what, *xids, *more, rows=len(transactions))


def _starts_with(texts: Texts, word: bytes) -> NDArray[np.bool_]:
    """Which of the texts begin so."""
    begin, end = texts.offsets[:-1], texts.offsets[1:]
    found = end - begin >= len(word)
    for at, byte in enumerate(word):
        found[found] = texts.data[begin[found] + at] == byte
    return found
