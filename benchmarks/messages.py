"""Reading pgoutput's messages in bulk, and one by one as one would write it: `python benchmarks/messages.py [--rows 200000]`.

The same bytes are read twice: by a loop over `struct`, which makes a dict of strings of each row, and by `tailrace.logicalproto`, which makes typed
Arrow. Also printed is how fast the messages are written from columns, next to test_decoding's text of them.
"""

from __future__ import annotations

import argparse
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tailrace.decode import INSERT, Batch
from tailrace.logicalproto import message as m
from tailrace.logicalproto.change_columns import change_batches
from tailrace.logicalproto.change_reader import ChangeReader
from tailrace.logicalproto.change_writer import ChangeHeads, write_changes
from tailrace.logicalproto.formats import write_message
from tailrace.logicalproto.tuple_columns import TupleColumns, tuple_columns
from tailrace.model import Column, Lsn, Relation
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.types.built_in import built_in_type
from tailrace.types.registry import parse_texts
from tailrace.types.values import Texts, Values
from tailrace.wal.heap import NO_OLD

OID = 16385
COLUMNS = (("id", 20), ("customer", 23), ("name", 25), ("price", 1700), ("paid", 16), ("at", 1184))
ROWS_PER_TRANSACTION = (1, 100)
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    print_writing(rows)
    for reading in readings(rows):
        print(reading)


@dataclass(frozen=True, slots=True)
class Reading:
    """The same bytes read in two ways: the seconds of both, and of what."""

    form: str
    size: int
    rows: int
    megabytes: float
    loop: float
    bulk: float

    @property
    def ratio(self) -> float:
        return self.loop / self.bulk

    def __str__(self) -> str:
        loop, bulk = self.megabytes / self.loop, self.megabytes / self.bulk
        return (
            f"{self.form:6} {self.size:3} rows a transaction: loop {loop:6.0f} MB/s, bulk {bulk:6.0f} MB/s, "
            f"{self.rows / self.bulk / 1e6:.2f} M rows/s, {self.ratio:.1f} times as fast"
        )


def readings(rows: int) -> Iterator[Reading]:
    """So many changes, read in bulk and plainly: in text and in binary form, in short transactions and in longer ones."""
    columns, stored, changes = table(), made_up(rows), inserted(rows)
    absent, in_key = TupleColumns.absent(rows, len(columns)), np.arange(len(columns)) == 0
    for form in ("text", "binary"):
        written = write_changes(changes, tuple_columns(stored, columns, binary=form == "binary"), absent, in_key)
        for size in ROWS_PER_TRANSACTION:
            session = as_session(written, size)
            loop = best_of(partial(read_plainly, session))
            bulk = best_of(partial(read_in_bulk, session))
            yield Reading(form, size, rows, len(session.data) / 1e6, loop, bulk)


def best_of(run: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs; the first, which may compile, does not count."""
    run()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


# -- what is read ------------------------------------------------------------------------------------------------------------


def table() -> tuple[Column, ...]:
    found = [(name, built_in_type(oid)) for name, oid in COLUMNS]
    return tuple(
        Column(i, name, pg_type, -1, pg_type.length, pg_type.align) for i, (name, pg_type) in enumerate(found, 1) if pg_type
    )


def made_up(rows: int) -> list[Values]:
    """An order each, as a shop would have them."""
    dice = np.random.default_rng(1)
    present = np.ones(rows, np.bool_)
    names = [f"customer number {number}" for number in dice.integers(0, 10**6, rows).tolist()]
    prices = [f"{number / 100:.2f}" for number in dice.integers(0, 10**7, rows).tolist()]
    at = np.arange(rows) * 1_000_003 + 7 * 10**14

    def numbers(values: np.ndarray) -> Values:
        return Values(present, fixed=values.view(np.uint8).reshape(rows, -1))

    numeric, text = built_in_type(1700), built_in_type(25)
    assert numeric is not None
    assert text is not None
    return [
        numbers(np.arange(rows, dtype=np.int64)),
        numbers(dice.integers(0, 2**31, rows).astype(np.int32)),
        parse_texts(Texts.of(names), present, text),
        parse_texts(Texts.of(prices), present, numeric),
        numbers(dice.integers(0, 2, rows).astype(np.uint8)),
        numbers(at.astype(np.int64)),
    ]


def inserted(rows: int) -> ChangeHeads:
    return ChangeHeads(np.full(rows, INSERT, np.uint8), np.full(rows, OID, np.uint32), np.full(rows, NO_OLD, np.uint8))


def as_session(changes: Texts, size: int) -> Texts:
    """The changes in transactions of so many, behind the relation's description."""
    relation = m.Relation(OID, "public", "orders", "d", tuple(m.RelationColumn(0, name, oid, -1) for name, oid in COLUMNS))
    messages = []
    for number, payload in enumerate(changes.to_bytes()):
        if number % size == 0:
            messages.append(write_message(m.Begin(Lsn(number + 1), number, number)))
        if number == 0:
            messages.append(write_message(relation))
        messages.append(payload)
        if number % size == size - 1:
            messages.append(write_message(m.Commit(Lsn(number + 2 - size), Lsn(number + 2), number)))
    return Texts.of(messages)


def read_in_bulk(session: Texts) -> int:
    return sum(len(batch) for _, batch in change_batches(ChangeReader(1, "off").read(session.data, session.offsets)))


# -- as one would write it -----------------------------------------------------------------------------------------------------

_U16, _U32, _COLUMN = struct.Struct("!H"), struct.Struct("!I"), struct.Struct("!Ii")
_BEGIN, _COMMIT = struct.Struct("!QqI"), struct.Struct("!BQQq")


def read_plainly(session: Texts) -> list[dict[str, Any]]:
    """Every change as a dict, with its row as a dict of strings, or of bytes where they are in binary form."""
    data, offsets = session.data.tobytes(), session.offsets.tolist()
    relations: dict[int, list[str]] = {}
    found = []
    begun = (0, 0, 0)
    for i in range(len(offsets) - 1):
        payload = data[offsets[i] : offsets[i + 1]]
        kind = payload[0]
        if kind == 73:  # I
            (oid,) = _U32.unpack_from(payload, 1)
            found.append({"kind": "insert", "begin": begun, "new": read_row(payload, 6, relations[oid])})
        elif kind == 66:  # B
            begun = _BEGIN.unpack_from(payload, 1)
        elif kind == 67:  # C
            _COMMIT.unpack_from(payload, 1)
        elif kind == 82:  # R
            relations.update(read_relation(payload))
    return found


def read_row(payload: bytes, at: int, names: list[str]) -> dict[str, str | bytes | None]:
    row: dict[str, str | bytes | None] = {}
    at += 2
    for name in names:
        kind = payload[at]
        at += 1
        if kind in (116, 98):  # t, b
            (size,) = _U32.unpack_from(payload, at)
            at += 4
            value = payload[at : at + size]
            row[name] = value.decode() if kind == 116 else value
            at += size
        else:
            row[name] = None
    return row


def read_relation(payload: bytes) -> dict[int, list[str]]:
    (oid,) = _U32.unpack_from(payload, 1)
    at = payload.index(0, payload.index(0, 5) + 1) + 2
    (count,) = _U16.unpack_from(payload, at)
    at += 2
    names = []
    for _ in range(count):
        end = payload.index(0, at + 1)
        names.append(payload[at + 1 : end].decode())
        at = end + 1 + _COLUMN.size
    return {oid: names}


# -- writing -------------------------------------------------------------------------------------------------------------------


def print_writing(rows: int) -> None:
    columns, stored, changes = table(), made_up(rows), inserted(rows)
    absent, in_key = TupleColumns.absent(rows, len(columns)), np.arange(len(columns)) == 0
    relation = Relation(OID, "public", "orders", "r", "p", "d", 0, columns, (1,), (1,))
    zeros = np.zeros(rows, np.int64)
    batch = Batch(
        relations=(relation,), published_as=(relation,), number=zeros, columns=columns, ordinal=zeros, lsn=zeros, sequence=zeros, kind=changes.kind,
        old_kind=changes.old_kind, new=stored, old=None,
    )  # fmt: skip
    plugin = TestDecoding()
    plugin.startup({}, 18)
    side = tuple_columns(stored, columns)
    ways: dict[str, Callable[[], Texts]] = {
        "test_decoding, lines from stored values": lambda: plugin.formatter.change_texts(batch),
        "pgoutput, messages from stored values": lambda: write_changes(changes, tuple_columns(stored, columns), absent, in_key),
        "pgoutput, binary": lambda: write_changes(changes, tuple_columns(stored, columns, binary=True), absent, in_key),
        "pgoutput, messages from texts": lambda: write_changes(changes, side, absent, in_key),
    }
    for name, write in ways.items():
        seconds = best_of(write)
        print(f"{name:40} {len(write().data) / seconds / 1e6:6.0f} MB/s, {rows / seconds / 1e6:.2f} M rows/s")


if __name__ == "__main__":
    main()
