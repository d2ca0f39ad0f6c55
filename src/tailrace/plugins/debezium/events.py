"""EventRows as Debezium's events: `{"before":…,"after":{"id":1},"source":{…},"transaction":null,"op":"c","ts_ms":…}`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, INSERT, OLD_KEY, OLD_ROW, UPDATE, Batch
from tailrace.kernels import inner_kernel, kernel
from tailrace.plan.stretch_plan import Commits
from tailrace.plugins.column_texts import UNCHANGED, Words, put, put_word
from tailrace.plugins.debezium.options import DebeziumOptions
from tailrace.plugins.debezium.schemas import envelope_schema
from tailrace.plugins.debezium.values import FieldConverter, ValueConverters
from tailrace.plugins.formatter import Formatter
from tailrace.plugins.json_text.columns import LONGEST_LITERAL, literal_columns, put_literal
from tailrace.plugins.json_text.strings import json_string
from tailrace.types.codec.ascii import COMMA
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS
from tailrace.types.values import Texts

CONNECTOR = "postgresql"
_OPERATIONS = {INSERT: "c", UPDATE: "u", DELETE: "d"}


@dataclass(frozen=True)
class SourceInfo:
    """What all events have in common: of which `version` they are, and of which database."""

    version: str
    database: str


@dataclass(frozen=True)
class EventFormatter(Formatter):
    """An event a change; nothing of a change that is skipped."""

    options: DebeziumOptions
    origin: SourceInfo

    @property
    def checks_values(self) -> bool:
        return self.style.reads_utf8

    def change_texts(self, batch: Batch) -> Texts:
        rows, columns = len(batch), batch.columns
        assert batch.commits is not None, "the plugin asks for them"
        converters = ValueConverters(self.options, self.style, self.codec)
        how = {column.number: converters.of(column) for column in columns}
        new, old = (
            literal_columns(values, columns, rows, lambda stored, column: how[column.number].text_of(stored))
            for values in (batch.new, batch.old)
        )
        words = EventWords(
            Words.of([self._opening(batch, i, how) for i in range(len(batch.relations))]),
            Words.of([f"{json_string(column.name)}:" for column in columns]),
            Words.of([how[column.number].unavailable(self.options.unavailable) for column in columns]),
            Words.of([how[column.number].absent(optional=not column.not_null) for column in columns]),
            Words.of([f',"schema":{json_string(each.schema)},"table":{json_string(each.name)}' for each in batch.published_as]),
            Words.of(["}}" if self.options.with_schemas else "}"]),
        )
        source = source_texts(self.options, self.origin, batch.commits, batch.lsn)
        end, times = end_texts(batch.commits, batch.lsn), times_texts(batch.commits, rows)
        written = ~np.isin(batch.kind, [kind for kind, letter in _OPERATIONS.items() if letter in self.options.skipped])
        around = Words.of(source), Words.of(end), Words.of(times)
        changes = EventRows(written, batch.number, batch.kind, batch.old_kind, *around, self._key_columns(batch))
        a_row = (
            words.openings.longest + words.tables.longest + _FIXED + 2 * len(words.names.data)
            + 2 * (len(words.unavailable.data) + len(words.absent.data)) + 2 * len(columns) * (LONGEST_LITERAL + 1)
        )  # fmt: skip
        room = a_row * int(written.sum()) + len(source.data) + len(end.data) + len(times.data) + new.room + 2 * old.room
        out, offsets = np.empty(room, np.uint8), np.zeros(rows + 1, np.int64)
        write_events(changes, words, new, old, offsets, out)
        return Texts(offsets, out[: offsets[-1]])

    def _opening(self, batch: Batch, i: int, how: dict[int, FieldConverter]) -> str:
        if not self.options.with_schemas:
            return "{"
        columns = [(column, how[column.number]) for column in batch.columns]
        return f'{{"schema":{envelope_schema(self.options.topic_prefix, batch.published_as[i], columns)},"payload":{{'

    def _key_columns(self, batch: Batch) -> NDArray[np.bool_]:
        """By table and column, whether an old key has it."""
        numbers = np.array([column.number for column in batch.columns], np.int64)
        return np.array([np.isin(numbers, relation.identity) for relation in batch.published_as])


def micros_of(commits: Commits | None, rows: int) -> NDArray[np.int64]:
    """When transactions committed, in microseconds since 1970; of what is outside of transactions 0."""
    return commits.time + UNIX_TO_POSTGRES_USECS if commits is not None else np.zeros(rows, np.int64)


def source_texts(options: DebeziumOptions, origin: SourceInfo, commits: Commits | None, lsn: NDArray[np.int64]) -> Texts:
    """`,"source":{…` up to the name of the schema; of what is outside of transactions without a time, which the log does not
    have."""
    head = f',"source":{{"version":{json_string(origin.version)},"connector":"{CONNECTOR}","name":{json_string(options.topic_prefix)},"ts_ms":'
    micros = micros_of(commits, len(lsn))
    before: tuple[str | NDArray[np.int64], ...] = ('\\"', commits.lsn, '\\"') if commits is not None else ("null",)
    return Texts.joined(
        head, micros // 1000, f',"snapshot":"false","db":{json_string(origin.database)},"sequence":"[', *before, ',\\"', lsn, '\\"]","ts_us":',
        micros, ',"ts_ns":', micros * 1000, rows=len(lsn),
    )  # fmt: skip


def end_texts(commits: Commits | None, lsn: NDArray[np.int64]) -> Texts:
    """From behind the name of the table to behind the transaction."""
    xid: tuple[str | NDArray[np.integer], ...] = (commits.xid,) if commits is not None else ("null",)
    return Texts.joined(',"txId":', *xid, ',"lsn":', lsn, ',"xmin":null},"transaction":null', rows=len(lsn))


def times_texts(commits: Commits | None, rows: int) -> Texts:
    """What stands behind the operation: when the transaction committed, and not when it was decoded, so that every run gives the
    same."""
    micros = micros_of(commits, rows)
    return Texts.joined('","ts_ms":', micros // 1000, ',"ts_us":', micros, ',"ts_ns":', micros * 1000, rows=rows)


class EventWords(NamedTuple):
    """By table what an event begins with, and how its source names the table; by column its name, and what stands for a value
    that is not known, and for one that an old key lacks; what an event ends with."""

    openings: Words
    names: Words
    unavailable: Words
    absent: Words
    tables: Words
    closing: Words


class EventRows(NamedTuple):
    """By row: whether it is written, which of the tables it is of, what happened, what the old tuple is, the texts around the
    table's name and behind the operation; and by table and column, whether an old key has it."""

    written: NDArray[np.bool_]
    number: NDArray[np.int64]
    kind: NDArray[np.uint8]
    old_kind: NDArray[np.uint8]
    source: Words
    end: Words
    times: Words
    key: NDArray[np.bool_]


_BEFORE, _AFTER, _NULL, _OPERATION, _LETTERS, _BRACE = (
    np.frombuffer(word, np.uint8) for word in (b'"before":', b',"after":', b"null", b',"op":"', b"cud", b"}")
)
_FIXED = 160


@kernel
def write_events(changes, words, new, old, offsets, out):  # type: ignore[no-untyped-def]
    """The events of a batch, one after another; offsets[i + 1] becomes the end of row i."""
    to = np.int64(0)
    every = np.ones(len(new.form), np.bool_)
    for row in range(len(changes.kind)):
        if changes.written[row]:
            kind, number, old_kind = changes.kind[row], changes.number[row], changes.old_kind[row]
            to = put_word(out, to, words.openings, number)
            to = put(out, to, _BEFORE, 0, len(_BEFORE))
            if kind != INSERT and old_kind:
                to = put_row(out, to, words, old, row, changes.key[number] if old_kind == OLD_KEY else every, old)
            else:
                to = put(out, to, _NULL, 0, len(_NULL))
            to = put(out, to, _AFTER, 0, len(_AFTER))
            if kind != DELETE:
                to = put_row(out, to, words, new, row, every, old if old_kind == OLD_ROW else new)
            else:
                to = put(out, to, _NULL, 0, len(_NULL))
            to = put_word(out, to, changes.source, row)
            to = put_word(out, to, words.tables, number)
            to = put_word(out, to, changes.end, row)
            to = put(out, to, _OPERATION, 0, len(_OPERATION))
            out[to] = _LETTERS[kind - 1]
            to = put_word(out, to + 1, changes.times, row)
            to = put_word(out, to, words.closing, 0)
        offsets[row + 1] = to


@inner_kernel
def put_row(out, to, words, side, row, wanted, other):  # type: ignore[no-untyped-def]
    """Append the columns of one side of a row; those that are not wanted as absent, and a value that did not change, and is not
    there, as the other side has it."""
    out[to] = ord("{")
    to += 1
    for column in range(len(side.form)):
        if column:
            out[to] = COMMA
            to += 1
        to = put_word(out, to, words.names, column)
        if not wanted[column]:
            to = put_word(out, to, words.absent, column)
        elif side.state[column, row] != UNCHANGED:
            to = put_literal(out, to, side, column, row)
        elif other.state[column, row] != UNCHANGED:
            to = put_literal(out, to, other, column, row)
        else:
            to = put_word(out, to, words.unavailable, column)
    return put(out, to, _BRACE, 0, 1)
