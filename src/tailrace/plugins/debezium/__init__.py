"""debezium: the events that Debezium's PostgreSQL connector makes of changes, as its documentation shows them ("Data change
events"), in JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.stretch_plan import Commits, commits_of
from tailrace.plugins.debezium.events import EventFormatter, SourceInfo, end_texts, micros_of, source_texts, times_texts
from tailrace.plugins.debezium.options import BYTES, HEX, DebeziumOptions, parse_options
from tailrace.plugins.debezium.schemas import envelope_schema, message_schema
from tailrace.plugins.debezium.values import ValueConverters
from tailrace.plugins.json_text.strings import json_string
from tailrace.plugins.output_plugin import OutputPlugin, OutputPluginOptions
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.values import Texts
from tailrace.version import __version__


class Debezium(OutputPlugin):
    """An event for each change, TRUNCATE of a table, and message; none for a transaction."""

    name = "debezium"

    def __init__(self) -> None:
        super().__init__()
        self.options = DebeziumOptions()

    def started(self, options: Mapping[str, str | None], major: int, *, is_init: bool) -> OutputPluginOptions:
        self.options = parse_options(options)
        return OutputPluginOptions(truncate_each=True, may_write_nothing=True, commits=True)

    @property
    def formatter(self) -> EventFormatter:
        return EventFormatter(self.context.style, self.context.codec, self.options, self._origin)

    @property
    def _origin(self) -> SourceInfo:
        return SourceInfo(__version__, self.context.database)

    def begin_texts(self, transactions: Transactions) -> Texts:
        return Texts.of([""] * len(transactions))

    commit_texts = begin_texts

    def truncate_text(self, truncation: Truncation) -> str:
        if "t" in self.options.skipped:
            return ""
        (relation,) = truncation.relations
        converters = ValueConverters(self.options, self.context.style, self.context.codec)
        columns = [(column, converters.of(column)) for column in relation.live_columns]
        schema = envelope_schema(self.options.topic_prefix, relation, columns) if self.options.with_schemas else ""
        at, commits = np.array([truncation.lsn], np.int64), self._commits(truncation.ordinal)
        source, (times,) = self._source(commits, at, relation.schema, relation.name), times_texts(commits, 1).to_list()
        payload = f'"before":null,"after":null{source},"op":"t{times}'
        return self._enveloped(schema, payload)

    def message_text(self, message: LogicalMessage) -> bytes:
        content = message.content.hex() if self.options.binaries == HEX else base64.b64encode(message.content).decode()
        prefix = to_utf8(Texts.of([message.prefix]), self.context.codec).to_list()[0]
        schema = message_schema("bytes" if self.options.binaries == BYTES else "string") if self.options.with_schemas else ""
        at, commits = np.array([message.end_lsn], np.int64), self._commits(message.ordinal)
        source, (millis,) = self._source(commits, at, "", ""), micros_of(commits, 1) // 1000
        written = f'"message":{{"prefix":{json_string(prefix)},"content":"{content}"}}'
        return self._enveloped(schema, f'"op":"m","ts_ms":{millis}{source},{written}').encode("utf-8", "surrogateescape")

    def _source(self, commits: Commits | None, at: NDArray[np.int64], schema: str, table: str) -> str:
        """The event's `source`, with the transaction."""
        (source,), (end,) = source_texts(self.options, self._origin, commits, at).to_list(), end_texts(commits, at).to_list()
        return f'{source},"schema":{json_string(schema)},"table":{json_string(table)}{end}'

    def _commits(self, ordinal: int) -> Commits | None:
        if ordinal < 0:
            return None
        assert self.context.transactions is not None, "the driver sets them"
        return commits_of(self.context.transactions, np.array([ordinal]))

    @staticmethod
    def _enveloped(schema: str, payload: str) -> str:
        return f'{{"schema":{schema},"payload":{{{payload}}}}}' if schema else f"{{{payload}}}"
