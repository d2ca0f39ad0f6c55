"""Blocks of transactions in progress, put together again: what a subscriber does with them.

`Streamed` is test_decoding that prints every change in full, in blocks too, with the xid and that of its subtransaction; `reassembled` makes of such
lines what comes where nothing is streamed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tailrace.decode import Batch
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.output_plugin import OutputPluginOptions
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.plugins.test_decoding.formatter import LineFormatter
from tailrace.types.values import Texts

_OPENS = re.compile(r"opening a streamed block for transaction TXN (\d+)")
_CLOSES = re.compile(r"closing a streamed block for transaction TXN (\d+)")
_COMMITS = re.compile(r"committing streamed transaction TXN (\d+)(.*)")
_PREPARES = re.compile(r"preparing streamed transaction TXN (.*), txid (\d+)(.*)")
_ABORTS = re.compile(r"aborting streamed \(sub\)transaction TXN (\d+)")
_ROW = re.compile(r"(\d+)/(\d+) (.*)", re.DOTALL)


@dataclass(frozen=True)
class _InFull(LineFormatter):
    def change_texts(self, batch: Batch) -> Texts:
        lines = self._lines(batch)
        stream, xid = batch.stream, batch.xid
        if stream is None or xid is None:
            return lines
        heads = [f"{top}/{own} ".encode() if top else b"" for top, own in zip(stream.tolist(), xid.tolist(), strict=True)]
        return Texts.of([head + line for head, line in zip(heads, lines.to_bytes(), strict=True)])


class Streamed(TestDecoding):
    """Everything is streamed."""

    def __init__(self) -> None:
        super().__init__()
        self.context.work_mem = 0

    def started(self, options: Mapping[str, str | None], major: int, *, is_init: bool) -> OutputPluginOptions:
        return replace(super().started(options, major, is_init=is_init), streaming=True)

    @property
    def formatter(self) -> LineFormatter:
        return _InFull(self.context.style, self.context.codec, self.major)

    def stream_message_text(self, message: LogicalMessage, xid: int) -> bytes:
        return f"{xid}/{message.xid} ".encode() + self.message_text(message)

    def stream_truncate_text(self, truncation: Truncation, xid: int) -> str:
        return f"{xid}/{truncation.xid} {self.truncate_text(truncation)}"


@dataclass
class _Open:
    rows: list[tuple[str, str, str]]  # LSN, xid of the subtransaction, line


def reassembled(lines: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """(LSN, xid, text) of each row, as if nothing had been streamed. Raises AssertionError where blocks are not as they must be."""
    told: list[tuple[str, str, str]] = []
    waiting: dict[str, _Open] = {}
    block = ""
    for lsn, xid, text in lines:
        if (match := _OPENS.fullmatch(text)) is not None:
            assert not block, "a block in a block"
            block = match[1]
            waiting.setdefault(block, _Open([]))
        elif (match := _CLOSES.fullmatch(text)) is not None:
            assert block == match[1]
            block = ""
        elif block:
            match = _ROW.fullmatch(text)
            assert match is not None, f"in a block of {block}: {text}"
            assert match[1] == block == xid
            waiting[block].rows.append((lsn, match[2], match[3]))
        elif (match := _ABORTS.fullmatch(text)) is not None:
            if waiting.pop(match[1], None) is None:
                for transaction in waiting.values():
                    transaction.rows = [row for row in transaction.rows if row[1] != match[1]]
        elif (match := _COMMITS.fullmatch(text)) is not None:
            told += _whole(waiting.pop(match[1]), match[1], f"COMMIT {match[1]}{match[2]}", lsn)
        elif (match := _PREPARES.fullmatch(text)) is not None:
            told += _whole(waiting.pop(match[2]), match[2], f"PREPARE TRANSACTION {match[1]}, txid {match[2]}{match[3]}", lsn)
        else:
            told.append((lsn, xid, text))
    assert not block, "a block that is not closed"
    return told


def _whole(transaction: _Open, xid: str, end: str, lsn: str) -> list[tuple[str, str, str]]:
    rows = [(row_lsn, xid, text) for row_lsn, _, text in transaction.rows]
    return [("", xid, f"BEGIN {xid}"), *rows, (lsn, xid, end)]


def split_rows(printed: str) -> list[tuple[str, str, str]]:
    """Rows of psql's output, whose texts may have line feeds in them."""
    rows = re.split(r"^([0-9A-F]+/[0-9A-F]+)\t(\d+)\t", printed, flags=re.MULTILINE)[1:]
    return [(lsn, xid, text[:-1]) for lsn, xid, text in zip(*(iter(rows),) * 3, strict=True)]


def without_begin_lsns(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Which LSN is printed with a BEGIN is not known of what was streamed."""
    return [("" if text.startswith("BEGIN ") else lsn, xid, text) for lsn, xid, text in rows]


def number_of_blocks(lines: list[tuple[str, str, str]]) -> int:
    return int(np.sum([_OPENS.fullmatch(text) is not None for _, _, text in lines]))
