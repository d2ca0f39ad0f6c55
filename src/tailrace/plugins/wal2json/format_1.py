"""Format 1: an object for each transaction, `{"change":[{"kind":"insert",…},{"kind":"update",…}]}`, in one row, or in a row for
each part of it (`write-in-chunks`). A TRUNCATE is not written."""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.json_text.strings import json_string
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import DecodingContext
from tailrace.plugins.wal2json.format_1_formatter import Format1Formatter, PrettyPrint
from tailrace.plugins.wal2json.format_2_formatter import positions
from tailrace.plugins.wal2json.options import Wal2JsonOptions
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.codec.ascii import LEFT_BRACE
from tailrace.types.times.text import timestamptz_to_str
from tailrace.types.values import Texts, as_string


@dataclass(slots=True)
class Format1:
    """`context` has the style. State: what has been given of a transaction that goes on in the next lines, of which the row comes
    at its end; and whether that has a change yet, since all but the first have a comma before them."""

    context: DecodingContext
    options: Wal2JsonOptions
    _pending: list[NDArray[np.uint8]] = field(default_factory=list)
    _has_change: bool = False

    @property
    def layout(self) -> PrettyPrint:
        return PrettyPrint.of(self.options)

    @property
    def formatter(self) -> Format1Formatter:
        return Format1Formatter(self.context.style, self.context.codec, self.options)

    def begin_texts(self, transactions: Transactions) -> Texts:
        tab, line, space = self.layout.tab, self.layout.line, self.layout.space
        style, rows = self.context.style, len(transactions)
        parts: list[str | NDArray[np.integer] | Texts] = ["{" + line]
        if self.options.include_xids:
            parts += [f'{tab}"xid":{space}', transactions.xid, f",{line}"]
        if self.options.include_lsn:
            parts += [f'{tab}"nextlsn":{space}"', positions(transactions.end_lsn, style), f'",{line}']
        if self.options.include_timestamp:
            times = timestamptz_to_str(transactions.time, style)
            parts += [f'{tab}"timestamp":{space}"', times, f'",{line}']
        if self.options.include_origin:
            parts += [f'{tab}"origin":{space}', transactions.origin, f",{line}"]
        return Texts.joined(*parts, f'{tab}"change":{space}[', rows=rows)

    def commit_texts(self, transactions: Transactions) -> Texts:
        layout = self.layout
        return Texts.joined(f"{layout.before}{layout.tab}]{layout.line}}}", rows=len(transactions))

    def truncate_text(self, truncation: Truncation) -> str:
        return ""

    def message_text(self, message: LogicalMessage, content: bytes) -> str:
        is_transactional = message.ordinal >= 0
        layout = self.layout
        tab, line, space = layout.tab, layout.line, layout.space
        facts = (
            '"kind":' + space + '"message"', f'"transactional":{space}{"true" if is_transactional else "false"}',
            f'"prefix":{space}{json_string(message.prefix)}', f'"content":{space}{json_string(as_string(content))}',
        )  # fmt: skip
        written = f"{{{line}{f',{line}'.join(3 * tab + fact for fact in facts)}{line}{2 * tab}}}"
        if is_transactional:
            return f"{layout.before}{2 * tab},{written}"
        return f'{{{line}{tab}"change":{space}[{line}{2 * tab}{written}{line}{tab}]{line}}}'

    def finished(self, lines: Lines) -> Lines:
        """Without the comma before a transaction's first change; and, unless it is written in chunks, a row for each transaction,
        at its end."""
        if not len(lines):
            return lines
        is_end = np.zeros(len(lines), np.bool_)
        is_end[lines.ends[lines.ends > 0] - 1] = True
        begins = (lines.texts.data[lines.texts.offsets[:-1]] == LEFT_BRACE) & ~is_end
        changes = ~is_end & ~begins
        follows = np.append(not self._has_change, begins[:-1])
        self._has_change = bool(changes[-1])
        texts = _without(lines.texts, np.flatnonzero(changes & follows), self.layout.comma_at)
        lines = replace(lines, texts=texts)
        return lines if self.options.write_in_chunks else self._joined(lines, is_end)

    def _joined(self, lines: Lines, is_end: NDArray[np.bool_]) -> Lines:
        """What ends among the lines, a row each. The rest waits."""
        texts = lines.texts
        stops = texts.offsets[1:][is_end]
        upto = int(stops[-1]) if len(stops) else 0
        data = texts.data[:upto]
        if len(stops) and self._pending:
            before = sum(map(len, self._pending))
            data, stops = np.concatenate([*self._pending, data]), stops + before
            self._pending = []
        if upto < len(texts.data):
            self._pending.append(texts.data[upto:].copy())
        rows = np.append(0, np.cumsum(is_end))
        return Lines(
            lines.lsn[is_end], lines.xid[is_end], Texts(np.append(0, stops), data), rows[lines.ends], rows[lines.stops], lines.ended
        )  # fmt: skip


def _without(texts: Texts, rows: NDArray[np.int64], at: int) -> Texts:
    """The texts, of these rows without the byte at `at`."""
    if not len(rows):
        return texts
    fewer = np.zeros(len(texts) + 1, np.int64)
    fewer[rows + 1] = 1
    return Texts(texts.offsets - np.cumsum(fewer), np.delete(texts.data, texts.offsets[rows] + at))
