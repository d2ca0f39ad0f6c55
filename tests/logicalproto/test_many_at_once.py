"""Many messages at once: read as one by one, written as one by one, and as typed Arrow."""

from __future__ import annotations

import random
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from support.message_sessions import check, check_rows, damaged, made_up, written_again
from support.vectors import Recorded, recorded_sessions
from tailrace.errors import PeerError, UsageError
from tailrace.logicalproto import message as m
from tailrace.logicalproto.change_columns import change_batches
from tailrace.logicalproto.change_reader import COMMITTED, OPEN, PREPARED, ROLLED_BACK, ChangeReader
from tailrace.logicalproto.change_writer import NO_XID, ChangeHeads, write_changes
from tailrace.logicalproto.formats import write_message
from tailrace.logicalproto.message_flow import MessageReader, MessageWriter
from tailrace.logicalproto.tuple_columns import TupleColumns, tuple_columns
from tailrace.model import Column, Lsn
from tailrace.types.built_in import built_in_type
from tailrace.types.registry import parse_texts
from tailrace.types.values import Texts

SEED = 11


def _texts(payloads: list[bytes] | tuple[bytes, ...]) -> Texts:
    return Texts.of(list(payloads))


@pytest.mark.parametrize("recorded", recorded_sessions(), ids=lambda each: each.name)
def test_what_servers_sent_is_read_and_written_at_once(recorded: Recorded) -> None:
    reader = MessageReader(recorded.proto_version, recorded.streaming)
    messages = [reader.read(payload) for payload in recorded.payloads]
    texts = _texts(recorded.payloads)
    scanned = ChangeReader(recorded.proto_version, recorded.streaming).read(texts.data, texts.offsets)
    check_rows(scanned, messages)
    changes = [payload for payload, message in zip(recorded.payloads, messages, strict=True) if isinstance(message, m.Change)]
    assert sorted(written_again(recorded)) == sorted(changes)
    for _, batch in change_batches(scanned):
        batch.validate(full=True)


def test_made_up_sessions_are_read_alike() -> None:
    dice = random.Random(SEED)
    said = set()
    for _ in range(60):
        payloads = made_up(dice)
        said.add(check(payloads, cut=dice.randrange(len(payloads) + 1) if dice.random() < 0.5 else None)[:7])
    assert said == {"", "values:"}


def test_damaged_sessions_are_refused_alike() -> None:
    """`python tests/fuzz_messages.py` does more of the same."""
    dice = random.Random(SEED)
    said = []
    for _ in range(400):
        payloads = damaged(made_up(dice, 4), dice)
        said.append(check(payloads, cut=dice.randrange(len(payloads) + 1) if dice.random() < 0.3 else None))
    refused = {each.splitlines()[0] for each in said if each and not each.startswith("values")}
    assert len(refused) > 20
    assert said.count("") > 10


def test_the_check_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary: a kernel that accepted what the session does not."""
    payloads = [write_message(m.Begin(Lsn(1), 0, 7)), write_message(m.Begin(Lsn(1), 0, 7))]
    assert "BEGIN message sent out of order" in check(payloads)
    monkeypatch.setattr("tailrace.logicalproto.change_reader._scan", lambda data, offsets, start, *rest: len(offsets) - 1)
    with pytest.raises(AssertionError):
        check(payloads)


# -- written ---------------------------------------------------------------------------------------------------------------------


def _side(dice: np.random.Generator, rows: int, columns: int, kinds: bytes) -> TupleColumns:
    side = TupleColumns.absent(rows, columns)
    side.kind[:] = dice.choice(np.frombuffer(kinds, np.uint8), side.kind.shape)
    sizes = np.where(np.isin(side.kind, list(b"tb")), dice.integers(0, 12, side.kind.shape), 0)
    flat = side.bounds.reshape(-1)
    side.bounds[:, 1:] = sizes
    np.cumsum(flat, out=flat)
    return side._replace(data=dice.integers(0, 256, int(flat[-1])).astype(np.uint8))


def _tuple(side: TupleColumns, marker: str, row: int, in_key: np.ndarray) -> m.TupleData:
    columns = []
    for column in range(len(side.kind)):
        kind = chr(side.kind[column, row])
        if marker == "K" and not in_key[column]:
            kind = "n"
        start, stop = side.bounds[column, row], side.bounds[column, row + 1]
        columns.append(m.TupleColumn(kind, side.data[start:stop].tobytes() if kind in "tb" else None))
    return m.TupleData(marker, tuple(columns))


@pytest.mark.parametrize("in_stream", [False, True])
def test_a_batch_is_written_as_one_by_one(in_stream: bool) -> None:
    dice = np.random.default_rng(SEED)
    rows, in_key = 500, np.array([True, False, True, False])
    new, old = _side(dice, rows, 4, b"nttbu"), _side(dice, rows, 4, b"nttb")
    kind = dice.integers(1, 4, rows).astype(np.uint8)
    old_kind = np.where(kind == 3, dice.integers(1, 3, rows), np.where(kind == 1, 0, dice.integers(0, 3, rows))).astype(np.uint8)
    oid, xid = dice.integers(0, 2**32, rows).astype(np.uint32), dice.integers(0, 2**32, rows).astype(np.uint32)
    written = write_changes(ChangeHeads(kind, oid, old_kind, xid if in_stream else NO_XID), new, old, in_key)
    for row, payload in enumerate(written.to_bytes()):
        before = None if old_kind[row] == 0 else _tuple(old, "KO"[old_kind[row] - 1], row, in_key)
        after = _tuple(new, "N", row, in_key)
        number, its_xid = int(oid[row]), int(xid[row]) if in_stream else None
        if kind[row] == 1:
            assert payload == write_message(m.Insert(number, after, its_xid))
        elif kind[row] == 2:
            assert payload == write_message(m.Update(number, before, after, its_xid))
        else:
            assert before is not None
            assert payload == write_message(m.Delete(number, before, its_xid))


def test_what_no_message_can_tell_is_refused() -> None:
    one, in_key = np.ones(1, np.uint8), np.ones(1, np.bool_)
    absent = TupleColumns.absent(1, 1)
    with pytest.raises(UsageError, match="a DELETE message needs a key or an old tuple"):
        write_changes(ChangeHeads(one * 3, one.astype(np.uint32), one * 0), absent, absent, in_key)
    unchanged = absent._replace(kind=np.full((1, 1), ord("u"), np.uint8))
    with pytest.raises(UsageError, match="unchanged TOAST value"):
        write_changes(ChangeHeads(one * 2, one.astype(np.uint32), one), absent, unchanged, in_key)


def _column(number: int, oid: int) -> Column:
    pg_type = built_in_type(oid)
    assert pg_type is not None
    return Column(number, f"c{number}", pg_type, -1, pg_type.length, pg_type.align)


def test_values_travel_in_utf8_and_in_binary_where_they_can() -> None:
    columns = (_column(1, 23), _column(2, 25), _column(3, 1009), _column(4, 114))
    texts = ([b"7", b""], [b"\xe4", b"b"], [b"{a}", b"{\xe4}"], [b'{"a": "\xe4"}', b"1"])
    valid = np.array([True, True])
    stored = [
        parse_texts(Texts.of(rows), np.array([True, False]) if column.number == 1 else valid, column.type)
        for column, rows in zip(columns, texts, strict=True)
        if column.type is not None
    ]

    def sent(codec: str, binary: bool) -> list[list[tuple[str, bytes]]]:
        side = tuple_columns(stored, columns, codec=codec, binary=binary)
        cells = [[(chr(side.kind[c, i]), side.bounds[c, i : i + 2]) for i in range(2)] for c in range(4)]
        return [[(kind, side.data[at[0] : at[1]].tobytes()) for kind, at in row] for row in cells]

    assert sent("iso8859_1", False)[:2] == [[("t", b"7"), ("n", b"")], [("t", "ä".encode()), ("t", b"b")]]
    in_binary = sent("iso8859_1", True)
    assert in_binary[0] == [("b", b"\0\0\0\7"), ("n", b"")]
    assert in_binary[1] == [("b", "ä".encode()), ("b", b"b")]
    head = struct.pack(">iiiii", 1, 0, 25, 1, 1)
    assert in_binary[2] == [("b", head + b"\0\0\0\1a"), ("b", head + b"\0\0\0\2" + "ä".encode())]
    assert in_binary[3] == [("b", '{"a": "ä"}'.encode()), ("b", b"1")]
    assert sent("", True)[2][0][0] == "b"


# -- as Arrow ----------------------------------------------------------------------------------------------------------------------


def _row(*values: str | bytes | None) -> tuple[m.TupleColumn, ...]:
    return tuple(
        m.TupleColumn("n")
        if each is None
        else m.TupleColumn("b", each)
        if isinstance(each, bytes)
        else m.TupleColumn("t", each.encode())
        for each in values
    )


TABLE = m.Relation(
    5, "public", "t", "d",
    (
        m.RelationColumn(1, "id", 23, -1), m.RelationColumn(0, "price", 1700, (8 << 16 | 2) + 4), m.RelationColumn(0, "note", 25, -1),
        m.RelationColumn(0, "mood", 16400, -1), m.RelationColumn(0, "small", 16401, -1),
    ),
)  # fmt: skip


def _batches(*messages: m.AnyMessage, cut: int | None = None) -> list[dict[str, object]]:
    writer, reader = MessageWriter(4, "on"), ChangeReader(4, "on")
    payloads = [writer.write(message) for message in messages]
    found: list[dict[str, object]] = []
    for part in (payloads,) if cut is None else (payloads[:cut], payloads[cut:]):
        texts = _texts(part)
        for _, batch in change_batches(reader.read(texts.data, texts.offsets)):
            found += batch.to_pylist()
    return found


def test_rows_are_typed_where_types_are_known() -> None:
    new = m.TupleData("N", _row("7", "1.5", "x", "sad", "3"))
    binary = m.TupleData("N", _row(b"\0\0\0\x09", b"\0\1\0\0\0\0\0\0\0\2", b"y", b"ok", b"\0\4"))
    toasted = m.TupleData("N", (*_row("7", None), m.TupleColumn("u"), *_row("sad", None)))
    before = m.TupleData("K", _row("7", None, None, None, None))
    found = _batches(
        m.Begin(Lsn(16), 0, 7), m.Type(16401, "", "int2"), TABLE, m.Insert(5, new), m.Insert(5, binary), m.Update(5, before, toasted),
        m.Delete(5, before), m.Commit(Lsn(16), Lsn(32), 0),
    )  # fmt: skip
    nothing = {"id": 7, "price": None, "note": None, "mood": None, "small": None}
    assert [row["new"] for row in found] == [
        {"id": 7, "price": Decimal("1.50"), "note": "x", "mood": "sad", "small": 3},
        {"id": 9, "price": Decimal("2.00"), "note": "y", "mood": "\\x6f6b", "small": 4},
        {**nothing, "mood": "sad"},
        None,
    ]
    assert [row["old"] for row in found] == [None, None, nothing, nothing]
    assert [row["unchanged"] for row in found] == [[], [], ["note"], []]
    assert [row["kind"] for row in found] == ["insert", "insert", "update", "delete"]
    assert {(row["xid"], row["commit_lsn"], row["end_lsn"]) for row in found} == {(7, 16, 32)}
    assert [row["number"] for row in found] == [3, 4, 5, 6]


def test_a_relation_may_change_and_each_of_its_versions_is_a_batch() -> None:
    narrow = m.Relation(5, "", "t", "n", TABLE.columns[:1])
    texts = _texts(
        [
            write_message(each)
            for each in (
                m.Begin(Lsn(16), 0, 7), narrow, m.Insert(5, m.TupleData("N", _row("1"))), TABLE, m.Insert(5, m.TupleData("N", _row(*"1" * 5))),
                narrow, m.Commit(Lsn(16), Lsn(32), 0),
            )
        ]
    )  # fmt: skip
    found = list(change_batches(ChangeReader(1, "off").read(texts.data, texts.offsets)))
    assert [(relation, len(batch)) for relation, batch in found] == [(narrow, 1), (TABLE, 1)]
    assert found[0][1].schema.field("new").type == pa.struct([("id", pa.int32())])


def test_what_was_rolled_back_is_not_there_and_what_is_open_has_no_commit() -> None:
    table = m.Relation(5, "public", "t", "d", TABLE.columns[:1], 7)

    def insert(number: int, xid: int | None) -> m.Insert:
        return m.Insert(5, m.TupleData("N", _row(str(number))), xid)

    messages = (
        m.StreamStart(7, 1), table, insert(1, 7), insert(2, 8), insert(3, 7), m.StreamStop(),
        m.StreamStart(20, 1), insert(30, 20), m.StreamStop(),
        m.StreamAbort(7, 8), m.StreamAbort(20, 20),
        m.StreamStart(7, 0), insert(4, 9), m.StreamStop(), m.StreamCommit(7, Lsn(64), Lsn(80), 5),
        m.BeginPrepare(Lsn(96), Lsn(97), 0, 21, "one"), insert(5, None), m.Prepare(Lsn(96), Lsn(97), 0, 21, "one"),
        m.BeginPrepare(Lsn(98), Lsn(99), 0, 22, "two"), insert(6, None), m.Prepare(Lsn(98), Lsn(99), 0, 22, "two"),
        m.BeginPrepare(Lsn(100), Lsn(101), 0, 23, "three"), insert(7, None), m.Prepare(Lsn(100), Lsn(101), 0, 23, "three"),
        m.CommitPrepared(Lsn(110), Lsn(111), 0, 21, "one"), m.RollbackPrepared(Lsn(99), Lsn(120), 0, 0, 22, "two"),
        m.StreamStart(24, 1), insert(8, 24), m.StreamStop(),
        m.Begin(Lsn(128), 0, 25), insert(9, None),
    )  # fmt: skip
    found = [(row["new"]["id"], row["xid"], row["commit_lsn"]) for row in _batches(*messages)]  # type: ignore[index]
    assert found == [(1, 7, 64), (4, 7, 64), (5, 21, 110), (7, 23, None), (8, 24, None), (9, 25, None)]
    writer = MessageWriter(4, "on")
    texts = _texts([writer.write(message) for message in messages])
    states = ChangeReader(4, "on").read(texts.data, texts.offsets).transactions.state.tolist()
    assert states == [COMMITTED, ROLLED_BACK, COMMITTED, ROLLED_BACK, PREPARED, OPEN, OPEN]


@pytest.mark.parametrize("cut", range(9))
def test_a_session_may_come_in_parts(cut: int) -> None:
    insert = m.Insert(5, m.TupleData("N", _row("1")))
    table = m.Relation(5, "public", "t", "d", TABLE.columns[:1])
    streamed = m.Insert(5, insert.new, 8)
    messages = (
        m.Begin(Lsn(16), 0, 7), table, insert, insert, m.Commit(Lsn(16), Lsn(32), 0), m.StreamStart(8, 1), streamed, streamed, m.StreamStop()
    )  # fmt: skip
    assert [row["xid"] for row in _batches(*messages, cut=cut)] == [7, 7, 8, 8]


def test_a_transaction_that_is_streamed_across_parts_is_one_in_each() -> None:
    table = m.Relation(5, "public", "t", "d", TABLE.columns[:1], 8)
    streamed = m.Insert(5, m.TupleData("N", _row("1")), 8)
    messages = (
        m.StreamStart(8, 1), table, streamed, streamed, m.StreamStop(), m.StreamStart(8, 0), streamed, m.StreamStop(),
        m.StreamCommit(8, Lsn(16), Lsn(32), 5),
    )  # fmt: skip
    assert [row["commit_lsn"] for row in _batches(*messages, cut=3)] == [None, 16, 16]


BROKEN_VALUES = [
    ("t", b"x", 23, 'invalid input syntax for type integer: "x"', "22P02"),
    ("t", b"\xff", 25, 'invalid byte sequence for encoding "UTF8"', "22021"),
    ("t", b"a\0", 25, 'invalid byte sequence for encoding "UTF8": 0x00', "22021"),
    ("b", b"\0\0", 23, "insufficient data left in message", "08P01"),
    ("b", b"\0\0\0\0\0", 23, "incorrect binary data format", "22P03"),
    ("t", b"2020-02-30", 1082, 'date/time field value out of range: "2020-02-30"', "22008"),
]


@pytest.mark.parametrize(("kind", "value", "oid", "words", "sqlstate"), BROKEN_VALUES)
def test_values_that_are_none_of_their_types_are_the_peers_fault(
    kind: str, value: bytes, oid: int, words: str, sqlstate: str
) -> None:
    relation = m.Relation(5, "public", "t", "d", (m.RelationColumn(1, "id", oid, -1),))
    with pytest.raises(PeerError) as caught:
        _batches(m.Begin(Lsn(16), 0, 7), relation, m.Insert(5, m.TupleData("N", (m.TupleColumn(kind, value),))))
    assert (caught.value.message, caught.value.sqlstate) == (words, sqlstate)
    assert caught.value.context == 'replication target relation "public.t" column "id"'
