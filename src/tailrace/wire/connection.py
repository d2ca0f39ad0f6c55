"""A connection as both of its ends see it, without a socket: bytes in, messages out, and which side may say what when (manual,
"Message Flow").

In: `receive` takes bytes as they come, cut anywhere. Out: `next_message`, one at a time, None until there is a whole one; `send`
gives the bytes of a message. The table `_FLOW` says, for every state, which messages a side may send in it and which state
follows. What a peer sends against it is a PeerError in the server's words; what we would send against it is an error of ours.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from tailrace.errors import PeerError
from tailrace.wire import messages as m
from tailrace.wire.fields import VIOLATION, Body, read_u32
from tailrace.wire.formats import Side, is_known, read_message, write_message
from tailrace.wire.startup import (
    LONGEST_PACKET,
    CancelRequest,
    GSSENCRequest,
    SSLRequest,
    StartupMessage,
    StartupPacket,
    read_startup,
    write_startup,
)

LONGEST_ANSWER = 65_535
"""PG_MAX_AUTH_TOKEN_LENGTH: who has not said yet who he is may not send more at once."""
LONGEST_MESSAGE = (1 << 30) - 1
"""PQ_LARGE_MESSAGE_LIMIT: what PostgreSQL takes of anybody."""


class State(Enum):
    """Of a connection, for both sides."""

    STARTUP = "before the startup packet"
    ENCRYPTION = "after a request to encrypt, before its answer of one byte"
    AUTHENTICATION = "until the first ReadyForQuery"
    IDLE = "after ReadyForQuery"
    BUSY = "while a command is carried out"
    COPY_IN = "while the frontend copies"
    COPY_OUT = "while the backend copies"
    COPY_BOTH = "while both may"
    CLOSED = "after Terminate, or a FATAL error"


_CONVERSATION = frozenset({m.Query, m.Parse, m.Bind, m.Describe, m.Execute, m.Close, m.Flush, m.Sync, m.FastpathCall})
_ANSWERED = frozenset({m.Query, m.Sync, m.FastpathCall})
"""What ReadyForQuery comes behind."""
_STRAY = frozenset({m.CopyData, m.CopyDone, m.CopyFail})
"""What a frontend may still send when a copy has ended without it."""
_AT_ANY_TIME = frozenset({m.NoticeResponse, m.ParameterStatus, m.NotificationResponse})
_RESULTS = frozenset(
    {
        m.RowDescription, m.DataRow, m.CommandComplete, m.EmptyQueryResponse, m.ParseComplete, m.BindComplete, m.CloseComplete,
        m.NoData, m.PortalSuspended, m.ParameterDescription,
    }
)  # fmt: skip


def _same(kinds: frozenset[type], state: State) -> dict[type, State]:
    return dict.fromkeys(kinds, state)


_FLOW: dict[tuple[State, Side], dict[type, State]] = {
    (State.STARTUP, Side.FRONTEND): {
        StartupMessage: State.AUTHENTICATION, SSLRequest: State.ENCRYPTION, GSSENCRequest: State.ENCRYPTION,
        CancelRequest: State.CLOSED,
    },
    (State.STARTUP, Side.BACKEND): {m.ErrorResponse: State.CLOSED},
    (State.ENCRYPTION, Side.FRONTEND): {},
    (State.ENCRYPTION, Side.BACKEND): {m.ErrorResponse: State.CLOSED},
    (State.AUTHENTICATION, Side.FRONTEND): _same(frozenset({m.AuthenticationAnswer}), State.AUTHENTICATION)
    | {m.Terminate: State.CLOSED},
    (State.AUTHENTICATION, Side.BACKEND): _same(
        _AT_ANY_TIME | {m.Authentication, m.NegotiateProtocolVersion, m.BackendKeyData}, State.AUTHENTICATION
    )
    | {m.ReadyForQuery: State.IDLE, m.ErrorResponse: State.CLOSED},
    (State.IDLE, Side.FRONTEND): _same(_CONVERSATION, State.BUSY) | _same(_STRAY, State.IDLE) | {m.Terminate: State.CLOSED},
    (State.IDLE, Side.BACKEND): _same(_AT_ANY_TIME, State.IDLE) | {m.ErrorResponse: State.IDLE},
    (State.BUSY, Side.FRONTEND): _same(_CONVERSATION | _STRAY, State.BUSY) | {m.Terminate: State.CLOSED},
    (State.BUSY, Side.BACKEND): _same(_AT_ANY_TIME | _RESULTS | {m.ErrorResponse}, State.BUSY)
    | {
        m.ReadyForQuery: State.IDLE, m.CopyInResponse: State.COPY_IN, m.CopyOutResponse: State.COPY_OUT,
        m.CopyBothResponse: State.COPY_BOTH,
    },
    (State.COPY_IN, Side.FRONTEND): {
        m.CopyData: State.COPY_IN, m.CopyDone: State.BUSY, m.CopyFail: State.BUSY, m.Flush: State.COPY_IN, m.Sync: State.COPY_IN,
        m.Terminate: State.CLOSED,
    },
    (State.COPY_IN, Side.BACKEND): _same(_AT_ANY_TIME, State.COPY_IN) | {m.ErrorResponse: State.BUSY},
    (State.COPY_OUT, Side.FRONTEND): _same(_CONVERSATION | _STRAY, State.COPY_OUT) | {m.Terminate: State.CLOSED},
    (State.COPY_OUT, Side.BACKEND): _same(_AT_ANY_TIME | {m.CopyData}, State.COPY_OUT)
    | {m.CopyDone: State.BUSY, m.ErrorResponse: State.BUSY},
    (State.COPY_BOTH, Side.FRONTEND): _same(frozenset({m.CopyData, m.CopyDone}), State.COPY_BOTH) | {m.Terminate: State.CLOSED},
    # Behind its CopyDone a walsender may still send what it was decoding; and where it shuts down it sends none.
    (State.COPY_BOTH, Side.BACKEND): _same(_AT_ANY_TIME | {m.CopyData, m.CopyDone}, State.COPY_BOTH)
    | {m.CommandComplete: State.BUSY, m.ErrorResponse: State.BUSY},
    (State.CLOSED, Side.FRONTEND): {},
    (State.CLOSED, Side.BACKEND): _same(_AT_ANY_TIME | _RESULTS | {m.ErrorResponse, m.CopyData}, State.CLOSED),
}  # fmt: skip


class Connection:
    """One end. `side` is which. State: `state`, and bytes that were received and make no message yet."""

    def __init__(self, side: Side, longest: int = LONGEST_MESSAGE) -> None:
        self.side = side
        self.state = State.STARTUP
        self._longest = longest
        self._received = bytearray()
        self._owed, self._is_begun = 0, False

    @property
    def received(self) -> int:
        """How many bytes there are that nobody has asked for yet."""
        return len(self._received)

    @property
    def has_message(self) -> bool:
        """Whether the next message is there as a whole. What the next bytes mean depends on the state, so this is known once it has been settled."""
        at = 0 if self.state is State.STARTUP and self.side is Side.BACKEND else 1
        return len(self._received) >= at + 4 and len(self._received) >= at + read_u32(Body(bytes(self._received[at : at + 4])))

    def receive(self, data: bytes) -> None:
        self._received += data

    # -- what the other side says ----------------------------------------------------------------------------------------------

    def next_message(self) -> Any:
        """The next message of the other side, None if it is not there as a whole yet."""
        if self.state is State.STARTUP and self.side is Side.BACKEND:
            return self._next_startup()
        if self.state is State.ENCRYPTION or len(self._received) < 5:
            return None
        byte, length = self._received[0], read_u32(Body(bytes(self._received[1:5])))
        self._check(byte, length)
        if len(self._received) < length + 1:
            return None
        data = bytes(self._received[5 : length + 1])
        del self._received[: length + 1]
        message = read_message(self.side.other, byte, data)
        self._go(self.side.other, message, byte)
        return message

    def _next_startup(self) -> StartupPacket | None:
        if len(self._received) < 4:
            return None
        length = read_u32(Body(bytes(self._received[:4])))
        if not 8 <= length <= LONGEST_PACKET:
            raise PeerError("invalid length of startup packet", sqlstate=VIOLATION)
        if len(self._received) < length:
            return None
        packet = read_startup(bytes(self._received[4:length]))
        del self._received[:length]
        self.state = _FLOW[State.STARTUP, Side.FRONTEND][type(packet)]
        if self.state is State.ENCRYPTION and self._received:
            # Somebody in between put it there, to be taken for what came encrypted (CVE-2021-23214).
            raise PeerError("received unencrypted data after SSL request", sqlstate=VIOLATION)
        return packet

    def encryption_answered(self) -> None:
        """The byte that answers a request to encrypt was sent, or received."""
        self.state = State.STARTUP

    def _check(self, byte: int, length: int) -> None:
        """Raise before anything is waited for that will not be taken."""
        is_answer = self.state is State.AUTHENTICATION and self.side is Side.BACKEND
        if not is_known(self.side.other, byte):
            raise PeerError(self._unexpected(byte), sqlstate=VIOLATION)
        if not 4 <= length <= (LONGEST_ANSWER if is_answer else self._longest):
            raise PeerError("invalid message length", sqlstate=VIOLATION)

    def _go(self, side: Side, message: Any, byte: int) -> None:
        following = _FLOW[self.state, side].get(type(message))
        if following is None:
            raise PeerError(self._unexpected(byte), sqlstate=VIOLATION)
        self._settle(side, message, following)

    def _settle(self, side: Side, message: Any, following: State) -> None:
        """The state behind a message. A frontend may send more before it is answered: so many times the backend owes it ReadyForQuery, and what it
        has begun behind that is still to be carried out."""
        kind = type(message)
        if side is Side.FRONTEND and kind in _CONVERSATION:
            self._owed += kind in _ANSWERED
            self._is_begun = kind not in _ANSWERED
        if kind is m.ReadyForQuery:
            self._owed = max(0, self._owed - 1)
            following = State.BUSY if self._owed or self._is_begun else State.IDLE
        self.state = following

    def _unexpected(self, byte: int) -> str:
        if self.side is Side.FRONTEND:
            return f"unexpected message type 0x{byte:02x} from the server {self.state.value}"
        if self.state is State.COPY_BOTH:
            return f'invalid standby message type "{chr(byte)}"'
        if self.state is State.AUTHENTICATION:
            return f"expected password response, got message type {byte}"
        return f"invalid frontend message type {byte}"

    # -- what this side says ---------------------------------------------------------------------------------------------------

    def send(self, message: Any) -> bytes:
        """The bytes of a message. Raises RuntimeError for one that is not ours to send now."""
        following = _FLOW[self.state, self.side].get(type(message))
        if following is None:
            raise RuntimeError(f"{type(message).__name__} cannot be sent {self.state.value}")
        self._settle(self.side, message, following)
        if isinstance(message, StartupPacket):
            return write_startup(message)
        return write_message(self.side, message)
