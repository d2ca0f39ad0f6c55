"""wal2json: an object for each transaction (format 1), or for each change and what begins and ends transactions (format 2)
(github.com/eulerto/wal2json)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.origins import OriginFilter, among
from tailrace.plugins.lines import Lines
from tailrace.plugins.plugin import Formatter, OutputPlugin
from tailrace.plugins.wal2json.one_a_change import OneAChange
from tailrace.plugins.wal2json.one_a_transaction import OneATransaction
from tailrace.plugins.wal2json.options import FIRST_FORMAT, LATEST_FORMAT, Options, parse_options
from tailrace.transactions.fates import Transactions
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.values import Texts

_FORMATS = {FIRST_FORMAT: OneATransaction, LATEST_FORMAT: OneAChange}


class Wal2Json(OutputPlugin):
    """Options as the original's. It knows neither two phases nor transactions in progress, as the original does not."""

    name = "wal2json"
    may_be_silent = True
    truncates_one_by_one = True

    def __init__(self) -> None:
        super().__init__()
        self.options = Options()
        self._format: OneATransaction | OneAChange = OneATransaction(self, self.options)

    def startup(self, options: Mapping[str, str | None], major: int) -> None:
        self.options = parse_options(options)
        self.style = replace(self.style, major=major)
        self.two_phase = False
        self.needs_commits = self.options.include_xids or self.options.include_timestamp or self.options.include_origin
        self.tells_defaults = self.options.include_default
        self._format = _FORMATS[self.options.format_version](self, self.options)

    @property
    def filter_by_origin(self) -> OriginFilter | None:
        return among(self.options.filter_origins) if self.options.filter_origins else None

    @property
    def formatter(self) -> Formatter:
        return self._format.formatter

    def begin_texts(self, transactions: Transactions) -> Texts:
        return self._format.begin_texts(transactions)

    def commit_texts(self, transactions: Transactions) -> Texts:
        return self._format.commit_texts(transactions)

    def truncate_text(self, truncation: Truncation) -> str:
        return self._format.truncate_text(truncation)

    def message_text(self, message: LogicalMessage) -> bytes:
        if not self.options.tells_prefix(message.prefix):
            return b""
        content = message.content.split(b"\0", 1)[0]
        return to_utf8(Texts.of([self._format.message_text(message, content)]), self.codec).data.tobytes()

    def finished(self, lines: Lines) -> Lines:
        return self._format.finished(lines)
