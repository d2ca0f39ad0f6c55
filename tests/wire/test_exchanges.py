"""Both ends of a connection on what real clients and servers said: every message is read, written to the same bytes, and allowed where it came."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.wire_exchanges import Exchange, Said, recorded_exchanges
from tailrace.errors import PeerError
from tailrace.wire import messages as m
from tailrace.wire.connection import Connection, State
from tailrace.wire.formats import LAYOUTS, Side, read_message, write_message
from tailrace.wire.startup import GSSENCRequest, SSLRequest
from tailrace.wire.stream import (
    FromReceiver,
    read_from_receiver,
    read_from_walsender,
    write_to_receiver,
    write_to_walsender,
)

NAMES = sorted(name for name in recorded_exchanges() if not name.startswith("pg_basebackup"))
"""Of those the recorder has left out runs of messages."""
PIECES = random.Random(10)


@pytest.mark.parametrize("name", NAMES)
def test_both_ends(name: str) -> None:
    for exchange in recorded_exchanges()[name]:
        ends = {side: Connection(side) for side in Side}
        for said in exchange:
            _pass(said, ends)


def _pass(said: Said, ends: dict[Side, Connection]) -> None:
    """The message from one end to the other, in pieces."""
    sender, receiver = ends[said.side], ends[said.side.other]
    if said.data is None:  # too long to have been kept
        message = _of_type(said)
        sender.state = receiver.state = _next_state(sender, message)
        return
    if sender.state is State.ENCRYPTION:
        for end in ends.values():
            end.encryption_answered()
    message = None
    for start, stop in _cuts(len(said.data)):
        assert message is None
        receiver.receive(said.data[start:stop])
        message = receiver.next_message()
    assert message is not None
    assert sender.send(message) == said.data
    assert receiver.next_message() is None
    assert not receiver.received
    if isinstance(message, m.CopyData):
        _check_copied(said.side, sender.state, message.data)


def _cuts(length: int) -> list[tuple[int, int]]:
    at = sorted({0, length, *(PIECES.randrange(length) for _ in range(3))})
    return list(zip(at, at[1:], strict=False))


def _of_type(said: Said) -> type:
    [layout] = [each for each in LAYOUTS[said.side] if each.byte == said.type]
    return layout.value


def _next_state(end: Connection, kind: type) -> State:
    assert kind in (m.CopyData, m.ErrorResponse, m.DataRow, m.Query, m.RowDescription), kind
    return {m.CopyData: end.state, m.DataRow: end.state, m.RowDescription: end.state, m.Query: State.BUSY}[kind]


def _check_copied(side: Side, state: State, data: bytes) -> None:
    if state is not State.COPY_BOTH:
        return
    if side is Side.BACKEND:
        assert write_to_receiver(read_from_walsender(data)) == data
    else:
        reply: FromReceiver = read_from_receiver(data)
        assert write_to_walsender(reply) == data


def test_every_kind_of_message_was_met() -> None:
    """But for those that no client of replication sends, and no such server."""
    met = {(each.side, each.type) for all_of in recorded_exchanges().values() for exchange in all_of for each in exchange}
    known = {(side, layout.byte) for side, layouts in LAYOUTS.items() for layout in layouts}
    assert {(side.value, byte) for side, byte in known - met} == {
        *(("backend", byte) for byte in "vANGI123nst"),
        *(("frontend", byte) for byte in "pPBDECHSFf"),
    }


@pytest.mark.parametrize(
    "message",
    [
        (Side.FRONTEND, m.Parse("s", "SELECT $1", (23, 0))),
        (Side.FRONTEND, m.Bind("p", "s", (0, 1), (b"1", None), (1,))),
        (Side.FRONTEND, m.Describe("P", "p")),
        (Side.FRONTEND, m.Execute("p", 10)),
        (Side.FRONTEND, m.Close("S", "s")),
        (Side.FRONTEND, m.CopyFail("no more")),
        (Side.FRONTEND, m.AuthenticationAnswer(b"SCRAM-SHA-256\0\0\0\0\x03n,,")),
        (Side.BACKEND, m.NegotiateProtocolVersion(196610, ("_pq_.x",))),
        (Side.BACKEND, m.NotificationResponse(7, "c", "p")),
        (Side.BACKEND, m.ParameterDescription((25, 23))),
        (Side.BACKEND, m.CopyInResponse(1, (1, 1))),
        *((Side.FRONTEND, kind()) for kind in (m.Flush, m.Sync)),
        *((Side.BACKEND, kind()) for kind in (m.ParseComplete, m.BindComplete, m.CloseComplete, m.NoData, m.PortalSuspended)),
    ],
    ids=lambda given: type(given[1]).__name__,
)
def test_the_others_come_back(message: tuple[Side, Any]) -> None:
    side, value = message
    data = write_message(side, value)
    assert read_message(side, data[0], data[5:]) == value


def _server_in(state: State, data: bytes) -> Connection:
    end = Connection(Side.BACKEND)
    end.state = state
    end.receive(data)
    return end


def test_a_message_cut_short_says_so() -> None:
    """Whichever of its fields is cut: as pq_getmsg… do, without a traceback."""
    kept: Exchange = tuple(said for all_of in recorded_exchanges().values() for exchange in all_of for said in exchange)
    told = set()
    for said in {each for each in kept if each.data and each.type and len(each.data) < 200}:
        assert said.data is not None
        for stop in range(5, len(said.data)):
            try:
                read_message(said.side, said.data[0], said.data[5:stop])
            except PeerError as error:
                told.add((error.sqlstate, error.message))
    assert told == {("08P01", "insufficient data left in message"), ("08P01", "invalid string in message")}


@pytest.mark.parametrize(
    ("state", "data", "message"),
    [
        (State.IDLE, b"Q\x00\x00\x00\x03", "invalid message length"),
        (State.IDLE, b"Q\x7f\xff\xff\xff", "invalid message length"),
        (State.IDLE, b"\x01\x00\x00\x00\x05x", "invalid frontend message type 1"),
        (State.AUTHENTICATION, b"p\x00\x01\x00\x00", "invalid message length"),
        (State.AUTHENTICATION, b"Q\x00\x00\x00\x06;\x00", "expected password response, got message type 81"),
        (State.COPY_BOTH, b"Q\x00\x00\x00\x06;\x00", 'invalid standby message type "Q"'),
        (State.COPY_BOTH, b"S\x00\x00\x00\x04", 'invalid standby message type "S"'),
        (State.STARTUP, b"\x00\x00\x00\x04", "invalid length of startup packet"),
        (State.STARTUP, b"\x00\x01\x00\x00", "invalid length of startup packet"),
        (State.STARTUP, b"\x00\x00\x00\x08\x00\x02\x00\x00", "unsupported frontend protocol 2.0: server supports 3.0 to 3.2"),
        (State.STARTUP, b"\x00\x00\x00\x0a\x00\x03\x00\x00a\x00", "invalid string in message"),
        (State.STARTUP, b"\x00\x00\x00\x08\x04\xd2\x16\x2fQ", "received unencrypted data after SSL request"),
    ],
)
def test_what_a_client_may_not_send(state: State, data: bytes, message: str) -> None:
    with pytest.raises(PeerError) as raised:
        _server_in(state, data).next_message()
    assert raised.value.message == message


def test_what_a_server_may_not_send() -> None:
    end = Connection(Side.BACKEND)
    with pytest.raises(RuntimeError, match="CopyData cannot be sent before the startup packet"):
        end.send(m.CopyData(b""))
    assert isinstance(_server_in(State.STARTUP, b"\x00\x00\x00\x08\x04\xd2\x16\x2f").next_message(), SSLRequest)
    assert isinstance(_server_in(State.STARTUP, b"\x00\x00\x00\x08\x04\xd2\x16\x30").next_message(), GSSENCRequest)
