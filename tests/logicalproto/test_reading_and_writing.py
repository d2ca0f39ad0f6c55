"""Messages one by one: as recorded, as worked out by hand, made up, and broken."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.vectors import Recorded, facts_of, recorded_sessions, same_facts
from tailrace.errors import PeerError, UsageError
from tailrace.logicalproto import message as m
from tailrace.logicalproto.formats import read_message, write_message
from tailrace.logicalproto.message import BY_BYTE, MESSAGE_FORMATS
from tailrace.logicalproto.message_flow import MessageReader, MessageWriter
from tailrace.model import Lsn
from tailrace.types.values import as_string


@pytest.mark.parametrize("recorded", recorded_sessions(), ids=lambda each: each.name)
def test_what_servers_sent_reads_as_recorded_and_is_written_again(recorded: Recorded) -> None:
    reader, writer = (make(recorded.proto_version, recorded.streaming) for make in (MessageReader, MessageWriter))
    for payload, facts in zip(recorded.payloads, recorded.facts, strict=True):
        message = reader.read(payload)
        assert same_facts(facts_of(message), facts)
        assert writer.write(message) == payload


def _text(*values: str | None) -> tuple[m.TupleColumn, ...]:
    return tuple(m.TupleColumn("n") if value is None else m.TupleColumn("t", value.encode()) for value in values)


_UNCHANGED = m.TupleColumn("u")
_X = "x" * 10
_NULLS = (None,) * 8
WORKED_OUT = [
    ("420000000001eacbf8000303bcb959271a00000480", m.Begin(Lsn(0x1EACBF8), 848534028494618, 1152)),
    ("43000000000001eacbf80000000001eacc28000303bcb959271a", m.Commit(Lsn(0x1EACBF8), Lsn(0x1EACC28), 848534028494618)),
    ("590000437776006d6f6f6400", m.Type(17271, "v", "mood")),
    ("590000437c00696e743400", m.Type(17276, "", "int4")),
    (
        "5200004381760074006400090169640000000017ffffffff007478740000000019ffffffff006e0000000017ffffffff006a0000000edaffffffff006269670000"
        "000019ffffffff00747300000004a0ffffffff006e756d00000006a400080007006d0000004377ffffffff0064000000437cffffffff",
        m.Relation(17281, "v", "t", "d", (
            m.RelationColumn(1, "id", 23, -1), m.RelationColumn(0, "txt", 25, -1), m.RelationColumn(0, "n", 23, -1),
            m.RelationColumn(0, "j", 3802, -1), m.RelationColumn(0, "big", 25, -1), m.RelationColumn(0, "ts", 1184, -1),
            m.RelationColumn(0, "num", 1700, 524295), m.RelationColumn(0, "m", 17271, -1), m.RelationColumn(0, "d", 17276, -1),
        )),
    ),
    (
        "49000043814e000974000000013174000000036f6e656e74000000087b2261223a20317d740000000a78787878787878787878740000001a323032302d30322d30"
        "332030343a30353a30362e3738392b30307400000005312e35303074000000026f6b740000000137",
        m.Insert(17281, m.TupleData("N", _text("1", "one", None, '{"a": 1}', _X, "2020-02-03 04:05:06.789+00", "1.500", "ok", "7"))),
    ),
    (
        "49000043814e000962000000040000000162000000036f6e656e6200000009017b2261223a20317d620000000a787878787878787878786200000008000240a2cc"
        "1d8a88620000000c00020000000000030001138862000000026f6b620000000400000007",
        m.Insert(17281, m.TupleData("N", tuple(
            m.TupleColumn("n") if value is None else m.TupleColumn("b", value) for value in (
                bytes([0, 0, 0, 1]), b"one", None, b'\1{"a": 1}', _X.encode(), bytes.fromhex("000240a2cc1d8a88"),
                bytes.fromhex("000200000000000300011388"), b"ok", bytes([0, 0, 0, 7]),
            )
        ))),
    ),
    (
        "55000043814e0009740000000133740000000f746f61737420756e6368616e6765646e6e756e6e6e6e",
        m.Update(17281, None, m.TupleData("N", (*_text("3", "toast unchanged", None, None), _UNCHANGED, *_text(None, None, None, None)))),
    ),
    (
        "55000043814b00097400000001336e6e6e6e6e6e6e6e4e0009740000000134740000000f746f61737420756e6368616e6765646e6e756e6e6e6e",
        m.Update(17281, m.TupleData("K", _text("3", *_NULLS)),
                 m.TupleData("N", (*_text("4", "toast unchanged", None, None), _UNCHANGED, *_text(None, None, None, None)))),
    ),
    (
        "55000043894f00037400000001317400000001616e4e00037400000001317400000001636e",
        m.Update(17289, m.TupleData("O", _text("1", "a", None)), m.TupleData("N", _text("1", "c", None))),
    ),
    ("44000043814b00097400000001326e6e6e6e6e6e6e6e", m.Delete(17281, m.TupleData("K", _text("2", *_NULLS)))),
    ("44000043894f00037400000001326e740000000162", m.Delete(17289, m.TupleData("O", _text("2", None, "b")))),
    ("5400000002000000438e00004389", m.Truncate(0, (17294, 17289))),
    ("54000000010300004381", m.Truncate(3, (17281,))),
    ("4d010000000001eb9f60706678000000000d7472616e73616374696f6e616c", m.Message(1, Lsn(0x1EB9F60), "pfx", b"transactional")),
    ("4d000000000001eb9fd070667832000000000200ff", m.Message(0, Lsn(0x1EB9FD0), "pfx2", b"\0\xff")),
    ("4f000000000000abcd6f6700", m.Origin(Lsn(0xABCD), "og")),
    (
        "620000000001ebc2d00000000001ebc3c8000303bcb95df1c5000004a0676964206f6e6500",
        m.BeginPrepare(Lsn(0x1EBC2D0), Lsn(0x1EBC3C8), 848534028808645, 1184, "gid one"),
    ),
    (
        "50000000000001ebc2d00000000001ebc3c8000303bcb95df1c5000004a0676964206f6e6500",
        m.Prepare(Lsn(0x1EBC2D0), Lsn(0x1EBC3C8), 848534028808645, 1184, "gid one"),
    ),
    (
        "4b000000000001ebc3c80000000001ebc408000303bcb95e1b9d000004a0676964206f6e6500",
        m.CommitPrepared(Lsn(0x1EBC3C8), Lsn(0x1EBC408), 848534028819357, 1184, "gid one"),
    ),
    (
        "72000000000001ebc5480000000001ebc588000303bcb95e3e08000303bcb95e638c000004a16769642074776f00",
        m.RollbackPrepared(Lsn(0x1EBC548), Lsn(0x1EBC588), 848534028828168, 848534028837772, 1185, "gid two"),
    ),
    ("53000004a201", m.StreamStart(1186, 1)),
    ("45", m.StreamStop()),
    (
        "52000004a200004389760066756c6c0066000301610000000017ffffffff01620000000019ffffffff01630000000019ffffffff",
        m.Relation(17289, "v", "full", "f", tuple(
            m.RelationColumn(1, name, oid, -1) for name, oid in (("a", 23), ("b", 25), ("c", 25))
        ), 1186),
    ),
    ("54000004a400000001000000438e", m.Truncate(0, (17294,), 1188)),
    ("4d000004a2010000000001ecba98696e73747265616d00000000016d", m.Message(1, Lsn(0x1ECBA98), "instream", b"m", 1186)),
    ("41000004a2000004a3", m.StreamAbort(1186, 1187)),
    ("4100000455000004560000000001eeed80000303bcb98b94ab", m.StreamAbort(1109, 1110, Lsn(0x1EEED80), 848534031799467)),
    ("63000004a2000000000001ede4200000000001ede598000303bcb95e88d2", m.StreamCommit(1186, Lsn(0x1EDE420), Lsn(0x1EDE598), 848534028847314)),
    (
        "70000000000001ef03380000000001ef0430000303bcb95ebf07000004a562696700",
        m.StreamPrepare(Lsn(0x1EF0338), Lsn(0x1EF0430), 848534028861191, 1189, "big"),
    ),
]  # fmt: skip
"""Recorded from 15 and 16, and taken apart by hand."""


@pytest.mark.parametrize(("payload", "message"), WORKED_OUT)
def test_what_was_worked_out_by_hand(payload: str, message: m.AnyMessage) -> None:
    data = bytes.fromhex(payload)
    parallel = "parallel" if getattr(message, "abort_lsn", None) is not None else "on"
    assert read_message(data, in_stream=getattr(message, "xid", None) is not None, streaming=parallel) == message
    assert write_message(message) == data


# -- made up ---------------------------------------------------------------------------------------------------------------------

_u32 = st.integers(0, 2**32 - 1)
_lsn = st.integers(1, 2**64 - 1).map(Lsn)
_time = st.integers(-(2**63), 2**63 - 1)
_name = st.binary(max_size=20).map(lambda raw: as_string(raw.replace(b"\0", b"")))
_column = st.one_of(
    st.just(m.TupleColumn("n")), st.builds(m.TupleColumn, st.sampled_from("tb"), st.binary(max_size=20))
)  # fmt: skip
_maybe_unchanged = st.one_of(_column, st.just(_UNCHANGED))


def _tuple(markers: str, column: st.SearchStrategy[m.TupleColumn] = _column) -> st.SearchStrategy[m.TupleData]:
    return st.builds(m.TupleData, st.sampled_from(markers), st.lists(column, max_size=5).map(tuple))


_new, _old = _tuple("N", _maybe_unchanged), _tuple("KO")
_relation_column = st.builds(m.RelationColumn, st.integers(0, 1), _name, _u32, st.integers(-(2**31), 2**31 - 1))
_two_phase = (_lsn, _lsn, _time, _u32, _name)
MADE_UP = st.one_of(
    st.builds(m.Begin, _lsn, _time, _u32), st.builds(m.Commit, _lsn, _lsn, _time), st.builds(m.Origin, _lsn, _name),
    st.builds(m.Relation, _u32, _name, _name, st.sampled_from("dnfi"), st.lists(_relation_column, max_size=4).map(tuple)),
    st.builds(m.Type, _u32, _name, _name), st.builds(m.Insert, _u32, _new), st.builds(m.Update, _u32, st.none() | _old, _new),
    st.builds(m.Delete, _u32, _old), st.builds(m.Truncate, st.integers(0, 3), st.lists(_u32, max_size=5).map(tuple)),
    st.builds(m.Message, st.integers(0, 1), _lsn, _name, st.binary(max_size=30)),
    st.builds(m.StreamStart, _u32, st.integers(0, 1)), st.builds(m.StreamStop), st.builds(m.StreamCommit, _u32, _lsn, _lsn, _time),
    st.builds(m.StreamAbort, _u32, _u32), st.builds(m.BeginPrepare, *_two_phase), st.builds(m.Prepare, *_two_phase),
    st.builds(m.CommitPrepared, *_two_phase), st.builds(m.RollbackPrepared, _lsn, _lsn, _time, _time, _u32, _name),
    st.builds(m.StreamPrepare, *_two_phase),
)  # fmt: skip


@given(MADE_UP)
@settings(max_examples=400, derandomize=True, deadline=None)
def test_what_is_made_up_comes_back(message: m.AnyMessage) -> None:
    assert read_message(write_message(message), in_stream=False) == message


@given(MADE_UP, st.data())
@settings(max_examples=300, derandomize=True, deadline=None)
def test_every_message_is_refused_cut_and_overlong(message: m.AnyMessage, data: st.DataObject) -> None:
    payload = write_message(message)
    cut = payload[: data.draw(st.integers(0, len(payload) - 1))]
    for broken in (cut, payload + b"\0"):
        with pytest.raises(PeerError) as caught:
            read_message(broken, in_stream=False)
        assert caught.value.sqlstate == "08P01"
        assert "offset" in caught.value.context


@given(st.binary(max_size=60), st.booleans())
@settings(max_examples=500, derandomize=True, deadline=None)
def test_any_bytes_are_a_message_or_a_peers_error(data: bytes, in_stream: bool) -> None:
    try:
        message = read_message(bytes([data[0] % 128]) + data[1:] if data else data, in_stream=in_stream)
    except PeerError:
        return
    assert write_message(message)[1:] == data[1:]


# -- broken ----------------------------------------------------------------------------------------------------------------------

REFUSED = [
    ("58", 'invalid logical replication message type "??? (88)"', "offset 0"),
    ("", "insufficient data left in message", "offset 0"),
    ("420000000000000000000303bcb959271a00000480", "final_lsn not set in begin message", 'offset 1 of message type "BEGIN"'),
    ("43010000000001eacbf80000000001eacc28000303bcb959271a", "unrecognized flags 1 in commit message", "offset 1"),
    ("4f000000000000abcd6f67", "invalid string in message", 'offset 9 of message type "ORIGIN"'),
    ("49000043814b0000", "expected new tuple but got 75", "offset 5"),
    ("55000043815a0000", "expected action 'N', 'O' or 'K', got Z", "offset 5"),
    ("55000043814b00004b0000", "expected action 'N', got K", "offset 8"),
    ("55000043814f00004b0000", "expected action 'N', got K", "offset 8"),
    ("44000043814e0000", "expected action 'O' or 'K', got N", "offset 5"),
    ("49000043814e00017a", "unrecognized data representation type 'z'", "offset 8"),
    ("49000043814e000174ffffffff", "insufficient data left in message", "offset 13"),
    ("44000043814b000175", "an old tuple must not have an unchanged TOAST value", "offset 8"),
    ("54ffffffff0000004381", "insufficient data left in message", "offset 6"),
    ("54000000000400", "unrecognized flags 4 in truncate message", "offset 5"),
    ("4d020000000001eb9f607066780000000000", "unrecognized flags 2 in message message", "offset 1"),
    ("5200004381760074007a0000", "unrecognized replica identity 'z'", "offset 9"),
    ("5200004381760074006400010269640000000017ffffffff", "unrecognized flags 2 in relation message", "offset 12"),
    ("50000000000000000000000000000001ebc3c8000303bcb95df1c5000004a000", "prepare_lsn is not set in prepare message", "offset 2"),
]


@pytest.mark.parametrize(("payload", "message", "context"), REFUSED)
def test_what_is_broken_is_refused_in_the_subscribers_words(payload: str, message: str, context: str) -> None:
    with pytest.raises(PeerError) as caught:
        read_message(bytes.fromhex(payload), in_stream=False)
    assert (caught.value.message, caught.value.context.startswith(context)) == (message, True)


def test_an_abort_says_more_where_streaming_is_parallel() -> None:
    short, long = bytes.fromhex("41000004a2000004a3"), bytes.fromhex("4100000455000004560000000001eeed80000303bcb98b94ab")
    for payload, streaming in ((short, "parallel"), (long, "on")):
        with pytest.raises(PeerError):
            read_message(payload, in_stream=False, streaming=streaming)


# -- order -----------------------------------------------------------------------------------------------------------------------

BEGIN, COMMIT = m.Begin(Lsn(16), 0, 7), m.Commit(Lsn(16), Lsn(32), 0)
RELATION = m.Relation(5, "public", "t", "d", (m.RelationColumn(1, "a", 23, -1),))
INSERT = m.Insert(5, m.TupleData("N", _text("1")))
START, STOP = m.StreamStart(7, 1), m.StreamStop()
PREPARE = m.Prepare(Lsn(16), Lsn(32), 0, 7, "g")
ORIGIN = m.Origin(Lsn(1), "o")
OUT_OF_ORDER = [
    ([COMMIT], "COMMIT message sent out of order"),
    ([BEGIN, BEGIN], "BEGIN message sent out of order"),
    ([INSERT], "INSERT message sent out of order"),
    ([RELATION], "RELATION message sent out of order"),
    ([ORIGIN], "ORIGIN message sent out of order"),
    ([BEGIN, ORIGIN, ORIGIN, RELATION, ORIGIN], "ORIGIN message sent out of order"),
    ([BEGIN, INSERT], "no relation map entry for remote relation ID 5"),
    ([BEGIN, m.Truncate(0, (5,))], "no relation map entry for remote relation ID 5"),
    ([BEGIN, RELATION, m.Insert(5, m.TupleData("N", ()))], "tuple has 0 columns, and relation 5 has 1"),
    ([BEGIN, m.Commit(Lsn(17), Lsn(32), 0)], "incorrect commit LSN 0/11 in commit message (expected 0/10)"),
    ([BEGIN, PREPARE], "PREPARE message sent out of order"),
    ([m.BeginPrepare(Lsn(17), Lsn(32), 0, 7, "g"), PREPARE], "incorrect prepare LSN 0/10 in prepare message (expected 0/11)"),
    ([m.BeginPrepare(Lsn(16), Lsn(32), 0, 7, "g"), COMMIT], "COMMIT message sent out of order"),
    ([BEGIN, m.Message(0, Lsn(1), "p", b"")], "MESSAGE message sent out of order"),
    ([m.Message(1, Lsn(1), "p", b"")], "MESSAGE message sent out of order"),
    ([BEGIN, START], "STREAM START message sent out of order"),
    ([START, START], "duplicate STREAM START message"),
    ([m.StreamStart(0, 1)], "invalid transaction ID in streamed replication transaction"),
    ([m.StreamStart(7, 0)], "STREAM START message for transaction 7, which had no first segment"),
    ([START, STOP, START], "STREAM START message for transaction 7, which had a first segment again"),
    ([STOP], "STREAM STOP message without STREAM START"),
    ([START, m.StreamCommit(7, Lsn(1), Lsn(2), 0)], "STREAM COMMIT message without STREAM STOP"),
    ([START, m.StreamAbort(7, 7)], "STREAM ABORT message without STREAM STOP"),
    ([START, m.StreamPrepare(Lsn(1), Lsn(2), 0, 7, "g")], "STREAM PREPARE message without STREAM STOP"),
    ([m.StreamAbort(7, 7)], "STREAM ABORT message for transaction 7 without STREAM START"),
    ([START, STOP, m.StreamAbort(7, 7), m.StreamCommit(7, Lsn(1), Lsn(2), 0)], "STREAM COMMIT message for transaction 7 without STREAM START"),
    ([START, COMMIT], "COMMIT message sent out of order"),
    ([BEGIN, m.CommitPrepared(Lsn(1), Lsn(2), 0, 7, "g")], "COMMIT PREPARED message sent out of order"),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "words"), OUT_OF_ORDER)
def test_order_is_checked_by_reader_and_writer(messages: list[m.AnyMessage], words: str) -> None:
    reader, writer = MessageReader(4, "on"), MessageWriter(4, "on")
    for message in messages[:-1]:
        assert reader.read(writer.write(message)) == message
    before = deepcopy(vars(reader.flow))
    with pytest.raises(PeerError) as caught:
        reader.read(write_message(messages[-1]))
    assert caught.value.message == words
    assert vars(reader.flow) == before
    with pytest.raises(UsageError) as told:
        writer.write(messages[-1])
    assert told.value.message == words


def test_the_reader_knows_that_it_is_in_a_stream() -> None:
    messages = [START, m.Relation(5, "", "t", "n", (), 8), m.Insert(5, m.TupleData("N", ()), 8), STOP, m.StreamAbort(7, 8), BEGIN]
    reader, writer = MessageReader(4, "on"), MessageWriter(4, "on")
    assert [reader.read(writer.write(message)) for message in messages] == messages
    for place, xid in ((MessageWriter(4, "on"), 8), (writer, 8)):
        with pytest.raises(UsageError, match="INSERT message with an xid"):
            place.write(m.Insert(5, m.TupleData("N", ()), xid))


@pytest.mark.parametrize("known", [each for each in MESSAGE_FORMATS.values() if each.since > 1], ids=lambda each: each.name)
def test_a_message_is_not_of_an_older_version(known) -> None:
    reader = MessageReader(known.since - 1, "off" if known.since == 2 else "on")
    with pytest.raises(PeerError, match=f"{known.name} message in protocol version {known.since - 1}"):
        reader.read(known.byte.encode())
    assert BY_BYTE[ord(known.byte)] is known


def test_streams_come_only_where_they_were_requested() -> None:
    with pytest.raises(PeerError, match="streaming was not requested"):
        MessageReader(3, "off").read(write_message(START))
    with pytest.raises(UsageError, match="requested proto_version=1 does not support streaming, need 2 or higher"):
        MessageReader(1, "on")
