"""The one table of messages: who sends it, its type byte, and its fields in their order; `read_message` and `write_message` go by
it (manual, "Message Formats").

In: a message's type and body. Out: its value; or PeerError (08P01), as the server says it.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.wire import messages as m
from tailrace.wire.fields import VIOLATION, WIRE_KINDS, Body, write_u32


class Side(Enum):
    """The two sides of a connection."""

    FRONTEND = "frontend"
    BACKEND = "backend"

    @property
    def other(self) -> Side:
        return Side.BACKEND if self is Side.FRONTEND else Side.FRONTEND


@dataclass(frozen=True, slots=True)
class MessageLayout:
    """`fields` are (name, kind of `wire.fields`)."""

    value: type
    byte: str
    fields: tuple[tuple[str, str], ...]


def _layouts(rows: str) -> tuple[MessageLayout, ...]:
    """Of lines of a class, its byte, and its fields."""
    layouts = []
    for row in rows.strip().splitlines():
        name, byte, *fields = row.split()
        pairs = (each.partition(":") for each in fields)
        layouts.append(MessageLayout(getattr(m, name), byte, tuple((field, kind) for field, _, kind in pairs)))
    return tuple(layouts)


LAYOUTS = {
    Side.FRONTEND: _layouts("""
        AuthenticationAnswer p data:rest
        Query Q text:string
        Parse P name:string text:string types:oids
        Bind B portal:string statement:string formats:formats values:values result_formats:formats
        Describe D kind:letter name:string
        Execute E portal:string limit:i32
        Close C kind:letter name:string
        Flush H
        Sync S
        FastpathCall F data:rest
        CopyData d data:rest
        CopyDone c
        CopyFail f reason:string
        Terminate X
    """),
    Side.BACKEND: _layouts("""
        Authentication R kind:u32 data:rest
        NegotiateProtocolVersion v newest:u32 options:strings
        BackendKeyData K pid:u32 secret:rest
        ParameterStatus S name:string value:string
        ReadyForQuery Z status:letter
        RowDescription T fields:fields
        DataRow D values:values
        CommandComplete C tag:string
        EmptyQueryResponse I
        ErrorResponse E fields:coded_texts
        NoticeResponse N fields:coded_texts
        NotificationResponse A pid:u32 channel:string payload:string
        CopyInResponse G format:u8 formats:formats
        CopyOutResponse H format:u8 formats:formats
        CopyBothResponse W format:u8 formats:formats
        CopyData d data:rest
        CopyDone c
        ParseComplete 1
        BindComplete 2
        CloseComplete 3
        NoData n
        PortalSuspended s
        ParameterDescription t types:oids
    """),
}
_BY_BYTE = {side: {ord(each.byte): each for each in layouts} for side, layouts in LAYOUTS.items()}
_BY_CLASS = {side: {each.value: each for each in layouts} for side, layouts in LAYOUTS.items()}


def is_known(side: Side, byte: int) -> bool:
    """Whether this side has a message of this type."""
    return byte in _BY_BYTE[side]


def read_message(side: Side, byte: int, data: bytes) -> Any:
    """The message of this type that a side has sent, with these bytes behind its length."""
    layout = _BY_BYTE[side].get(byte)
    if layout is None:
        raise PeerError(f"invalid {side.value} message type {byte}", sqlstate=VIOLATION)
    body = Body(data)
    values = {name: WIRE_KINDS[kind].read(body) for name, kind in layout.fields}
    body.end()
    return layout.value(**values)


def write_message(side: Side, message: Any) -> bytes:
    """As that side sends it: type, length, and the rest."""
    layout = _BY_CLASS[side][type(message)]
    body = bytearray()
    for name, kind in layout.fields:
        WIRE_KINDS[kind].write(body, getattr(message, name))
    out = bytearray(layout.byte, "ascii")
    write_u32(out, len(body) + 4)
    return bytes(out + body)
