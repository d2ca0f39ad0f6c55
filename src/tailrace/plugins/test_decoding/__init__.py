"""test_decoding: the readable form, in PostgreSQL's exact words (manual, appendix F, "test_decoding")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.quoting import quote_literal
from tailrace.errors import UsageError
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.plugin import OutputPlugin
from tailrace.plugins.test_decoding.lines import LineFormatter, qualified_name
from tailrace.settings import bool_option
from tailrace.transactions.fates import Transactions
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.times.moments import format_moments
from tailrace.types.values import Texts

OPTIONS = {
    "include-xids": ("include_xids", "xids after BEGIN and COMMIT (on)"),
    "include-timestamp": ("include_timestamp", "when the transaction committed, in TimeZone (off)"),
    "skip-empty-xacts": ("skips_empty_transactions", "no BEGIN and COMMIT around nothing (off)"),
    "only-local": ("only_local", "nothing that was replicated from elsewhere, as its origin says (off)"),
    "include-rewrites": ("receives_rewrites", "rows that ALTER TABLE or REFRESH MATERIALIZED VIEW write anew (off)"),
    "stream-changes": ("streams", "large transactions in blocks before they end, one line a change (off)"),
    "force-binary": ("writes_binary", "the output is declared binary, and is printed in hex (off)"),
}
"""Name -> our attribute, and what it does."""


class TestDecoding(OutputPlugin):
    """Options as the original's. Time stamps print in UTC unless `style` says otherwise."""

    name = "test_decoding"
    __test__ = False  # pytest: not a test

    def __init__(self) -> None:
        super().__init__()
        self.include_xids = True
        self.include_timestamp = False
        self.skips_empty_transactions = False
        self.only_local = False
        self.major = 18

    def startup(self, options: Mapping[str, str | None], major: int) -> None:
        self.major = major
        self.style = replace(self.style, major=major)
        self.messages_begin = major >= 17
        for name, value in options.items():
            if name not in OPTIONS:
                raise UsageError(f'option "{name}" = "{value if value is not None else "(null)"}" is unknown', sqlstate="22023")
            setattr(self, OPTIONS[name][0], bool_option(name, value))

    @property
    def formatter(self) -> LineFormatter:
        return LineFormatter(self.major, self.style, self.include_xids)

    def begin_texts(self, transactions: Transactions) -> Texts:
        xids = (" ", transactions.xid) if self.include_xids else ()
        return Texts.joined("BEGIN", *xids, rows=len(transactions))

    def commit_texts(self, transactions: Transactions) -> Texts:
        xids = (" ", transactions.xid) if self.include_xids else ()
        return Texts.joined("COMMIT", *xids, *self._times(transactions), rows=len(transactions))

    # -- two phases ------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def filter_prepare(xid: int, gid: str) -> bool:
        return "_nodecode" in gid

    def prepare_texts(self, transactions: Transactions) -> Texts:
        return self._phase("PREPARE TRANSACTION", transactions)

    def commit_prepared_texts(self, transactions: Transactions) -> Texts:
        return self._phase("COMMIT PREPARED", transactions)

    def rollback_prepared_texts(self, transactions: Transactions) -> Texts:
        return self._phase("ROLLBACK PREPARED", transactions)

    def _phase(self, what: str, transactions: Transactions) -> Texts:
        gids = to_utf8(Texts.of([quote_literal(gid) for gid in transactions.gids]), self.codec)
        xids = (", txid ", transactions.xid) if self.include_xids else ()
        return Texts.joined(f"{what} ", gids, *xids, *self._times(transactions), rows=len(transactions))

    def _times(self, transactions: Transactions) -> tuple[str | Texts, ...]:
        if not self.include_timestamp:
            return ()
        return " (at ", format_moments(transactions.time, self.style), ")"

    def truncate_text(self, truncation: Truncation) -> str:
        names = ", ".join(qualified_name(relation, self.major) for relation in truncation.relations)
        flags = " restart_seqs" * truncation.restart_sequences + " cascade" * truncation.cascade
        return f"table {names}: TRUNCATE:{flags or ' (no-flags)'}"

    def message_text(self, message: LogicalMessage) -> bytes:
        head = (
            f"message: transactional: {int(message.ordinal >= 0)} prefix: {message.prefix}, sz: {len(message.content)} content:"
        )
        return to_utf8(Texts.of([head.encode("utf-8", "surrogateescape") + message.content]), self.codec).data.tobytes()

    # -- blocks of transactions in progress --------------------------------------------------------------------------------------------

    def stream_start_texts(self, transactions: Transactions, first: NDArray[np.bool_]) -> Texts:
        return self._of_stream("opening a streamed block for transaction", transactions)

    def stream_stop_texts(self, transactions: Transactions) -> Texts:
        return self._of_stream("closing a streamed block for transaction", transactions)

    def stream_commit_texts(self, transactions: Transactions) -> Texts:
        return self._of_stream("committing streamed transaction", transactions, *self._times(transactions))

    def stream_prepare_texts(self, transactions: Transactions) -> Texts:
        gids = to_utf8(Texts.of([quote_literal(gid) for gid in transactions.gids]), self.codec)
        xids = (" TXN ", gids, ", txid ", transactions.xid) if self.include_xids else (" ", gids)
        return Texts.joined("preparing streamed transaction", *xids, *self._times(transactions), rows=len(transactions))

    def stream_abort_texts(self, transactions: Transactions, tops: Sequence[int]) -> Texts:
        return self._of_stream("aborting streamed (sub)transaction", transactions)

    def stream_truncate_text(self, truncation: Truncation, xid: int) -> str:
        return f"streaming truncate for {f'TXN {xid}' if self.include_xids else 'transaction'}"

    def stream_message_text(self, message: LogicalMessage, xid: int) -> bytes:
        head = f"streaming message: transactional: 1 prefix: {message.prefix}, sz: {len(message.content)}"
        return to_utf8(Texts.of([head]), self.codec).data.tobytes()

    def _of_stream(self, what: str, transactions: Transactions, *more: str | Texts) -> Texts:
        xids = (" TXN ", transactions.xid) if self.include_xids else ()
        return Texts.joined(what, *xids, *more, rows=len(transactions))
