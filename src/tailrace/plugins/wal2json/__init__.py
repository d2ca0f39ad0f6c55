"""wal2json, in its format 2: an object for each change, and for what begins and ends transactions (github.com/eulerto/wal2json)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.origins import OriginFilter, among
from tailrace.plan.stretch import commits_of
from tailrace.plugins.json_text.strings import json_string
from tailrace.plugins.plugin import OutputPlugin
from tailrace.plugins.wal2json.objects import ObjectFormatter, facts_of
from tailrace.plugins.wal2json.options import Options, parse_options
from tailrace.transactions.fates import Transactions
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.values import Texts, as_string

_INSIDE_ONLY = ("include_xids", "include_timestamp", "include_origin")
_NAMES = ("xid", "timestamp", "origin")


class Wal2Json(OutputPlugin):
    """Options as the original's. It knows neither two phases nor transactions in progress, as the original does not."""

    name = "wal2json"
    may_be_silent = True
    truncates_one_by_one = True

    def __init__(self) -> None:
        super().__init__()
        self.options = Options()

    def startup(self, options: Mapping[str, str | None], major: int) -> None:
        self.options = parse_options(options)
        self.style = replace(self.style, major=major)
        self.two_phase = False
        self.needs_commits = self.options.include_xids or self.options.include_timestamp or self.options.include_origin

    def created(self, options: Mapping[str, str | None], major: int) -> None:
        # Which format is read may be said later, as on a server.
        self.startup({"format-version": "2", **options}, major)

    @property
    def filter_by_origin(self) -> OriginFilter | None:
        return among(self.options.filter_origins) if self.options.filter_origins else None

    @property
    def formatter(self) -> ObjectFormatter:
        return ObjectFormatter(self.options, self.style, self.codec)

    def begin_texts(self, transactions: Transactions) -> Texts:
        return self._transaction("B", transactions)

    def commit_texts(self, transactions: Transactions) -> Texts:
        return self._transaction("C", transactions)

    def _transaction(self, action: str, transactions: Transactions) -> Texts:
        rows = len(transactions)
        if not self.options.include_transaction:
            return Texts.of([""] * rows)
        commits = commits_of(transactions, np.arange(rows))
        facts = facts_of(self.options, self.style, rows, commits, transactions.commit_lsn, transactions.end_lsn)
        return Texts.joined(f'{{"action":"{action}"', facts, "}", rows=rows)

    def truncate_text(self, truncation: Truncation) -> str | bytes:
        (relation,) = truncation.relations
        if "truncate" not in self.options.actions or not self.options.tells_table(relation.schema, relation.name):
            return ""
        schema = f',"schema":{json_string(relation.schema)}' if self.options.include_schemas else ""
        return f'{{"action":"T"{self._facts(truncation.ordinal, truncation.lsn)}{schema},"table":{json_string(relation.name)}}}'

    def message_text(self, message: LogicalMessage) -> bytes:
        if not self.options.tells_prefix(message.prefix):
            return b""
        is_transactional = message.ordinal >= 0
        content = message.content.split(b"\0", 1)[0]
        text = (
            f'{{"action":"M"{self._facts(message.ordinal, message.end_lsn)},"transactional":{"true" if is_transactional else "false"}'
            f',"prefix":{json_string(message.prefix)},"content":{json_string(as_string(content))}}}'
        )
        return to_utf8(Texts.of([text]), self.codec).data.tobytes()

    def _facts(self, ordinal: int, lsn: int) -> str:
        """Of a transaction; of what is outside of one, only the position."""
        at = np.array([lsn], np.int64)
        if ordinal >= 0:
            assert self.transactions is not None, "the driver sets them"
            commits = commits_of(self.transactions, np.array([ordinal]))
            return facts_of(self.options, self.style, 1, commits, at).to_list()[0]
        unknown = (f',"{name}":null' for name, option in zip(_NAMES, _INSIDE_ONLY, strict=True) if getattr(self.options, option))
        return "".join(unknown) + facts_of(self.options, self.style, 1, None, at).to_list()[0]
