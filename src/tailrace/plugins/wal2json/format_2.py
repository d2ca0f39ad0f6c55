"""Format 2: an object for each change, and for what begins and ends transactions."""

from __future__ import annotations

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.stretch_plan import commits_of
from tailrace.plugins.json_text.strings import json_string
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import DecodingContext
from tailrace.plugins.wal2json.format_2_formatter import Format2Formatter, facts_of
from tailrace.plugins.wal2json.options import Wal2JsonOptions
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.values import Texts, as_string

_INSIDE_ONLY = ("include_xids", "include_timestamp", "include_origin")
_NAMES = ("xid", "timestamp", "origin")


@dataclass(frozen=True, slots=True)
class Format2:
    """`context` has the style, and the transactions that are being written."""

    context: DecodingContext
    options: Wal2JsonOptions

    @property
    def formatter(self) -> Format2Formatter:
        return Format2Formatter(self.context.style, self.context.codec, self.options)

    def begin_texts(self, transactions: Transactions) -> Texts:
        return self._transaction("B", transactions)

    def commit_texts(self, transactions: Transactions) -> Texts:
        return self._transaction("C", transactions)

    def _transaction(self, action: str, transactions: Transactions) -> Texts:
        rows = len(transactions)
        if not self.options.include_transaction:
            return Texts.of([""] * rows)
        commits = commits_of(transactions, np.arange(rows))
        facts = facts_of(self.options, self.context.style, rows, commits, transactions.commit_lsn, transactions.end_lsn)
        return Texts.joined(f'{{"action":"{action}"', facts, "}", rows=rows)

    def truncate_text(self, truncation: Truncation) -> str:
        (relation,) = truncation.relations
        if "truncate" not in self.options.actions or not self.options.writes_table(relation.schema, relation.name):
            return ""
        schema = f',"schema":{json_string(relation.schema)}' if self.options.include_schemas else ""
        return f'{{"action":"T"{self._facts(truncation.ordinal, truncation.lsn)}{schema},"table":{json_string(relation.name)}}}'

    def message_text(self, message: LogicalMessage, content: bytes) -> str:
        is_transactional = message.ordinal >= 0
        return (
            f'{{"action":"M"{self._facts(message.ordinal, message.end_lsn)},"transactional":{"true" if is_transactional else "false"}'
            f',"prefix":{json_string(message.prefix)},"content":{json_string(as_string(content))}}}'
        )

    def finished(self, lines: Lines) -> Lines:
        """As they are."""
        return lines

    def _facts(self, ordinal: int, lsn: int) -> str:
        """Of a transaction; of what is outside of one, only the position."""
        at, style = np.array([lsn], np.int64), self.context.style
        if ordinal >= 0:
            assert self.context.transactions is not None, "the driver sets them"
            commits = commits_of(self.context.transactions, np.array([ordinal]))
            return facts_of(self.options, style, 1, commits, at).to_list()[0]
        unknown = (f',"{name}":null' for name, option in zip(_NAMES, _INSIDE_ONLY, strict=True) if getattr(self.options, option))
        return "".join(unknown) + facts_of(self.options, style, 1, None, at).to_list()[0]
