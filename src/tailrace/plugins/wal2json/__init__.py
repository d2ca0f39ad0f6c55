"""wal2json: an object for each transaction (format 1), or for each change and what begins and ends transactions (format 2)
(github.com/eulerto/wal2json)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.origin_filter import OriginFilter, among
from tailrace.plugins.formatter import Formatter
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, OutputPluginOptions
from tailrace.plugins.wal2json.format_1 import Format1
from tailrace.plugins.wal2json.format_2 import Format2
from tailrace.plugins.wal2json.options import FIRST_FORMAT, LATEST_FORMAT, Wal2JsonOptions, parse_options
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.values import Texts

_FORMATS = {FIRST_FORMAT: Format1, LATEST_FORMAT: Format2}


class Wal2Json(OutputPlugin):
    """Options as the original's. It knows neither two phases nor transactions in progress, as the original does not."""

    name = "wal2json"

    def __init__(self) -> None:
        super().__init__()
        self.options = Wal2JsonOptions()
        self._format: Format1 | Format2 = Format1(self.context, self.options)

    def started(self, options: Mapping[str, str | None], major: int, *, is_init: bool) -> OutputPluginOptions:
        self.options = given = parse_options(options)
        self._format = _FORMATS[given.format_version](self.context, given)
        return OutputPluginOptions(
            truncate_each=True, may_write_nothing=True, column_defaults=given.include_default,
            commits=given.include_xids or given.include_timestamp or given.include_origin,
        )  # fmt: skip

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
        if not self.options.writes_prefix(message.prefix):
            return b""
        content = message.content.split(b"\0", 1)[0]
        return to_utf8(Texts.of([self._format.message_text(message, content)]), self.context.codec).data.tobytes()

    def header_lsns(self, lines: Lines) -> NDArray[np.int64]:
        """An object for a whole transaction is begun in its begin callback, whose position a walsender gives it."""
        transactions = self.context.transactions
        if self.options.format_version != FIRST_FORMAT or self.options.write_in_chunks or transactions is None:
            return lines.lsn
        places = np.searchsorted(transactions.end_lsn, lines.lsn)
        ends = np.append(transactions.end_lsn, -1)[places] == lines.lsn
        return np.where(ends, np.append(transactions.first_lsn, 0)[places], lines.lsn)

    def finished(self, lines: Lines) -> Lines:
        return self._format.finished(lines)
