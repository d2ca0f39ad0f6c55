"""How messages are read and written, by the formats that stand above their classes in `message`.

In: a message's bytes, and whether it stands in a stream, which its bytes do not tell. Out: its value; or PeerError, as
PostgreSQL's subscriber says it, but stricter: trailing bytes and flags without a meaning are refused. Order is no matter of this
module, but of `message_flow`.
"""

from __future__ import annotations

from typing import Any

from tailrace.errors import PeerError, UsageError
from tailrace.logicalproto import message as m
from tailrace.logicalproto.fields import KINDS, read_u8, read_u32, shown, write_u32
from tailrace.logicalproto.payload import Payload
from tailrace.logicalproto.protocol import EITHER, PARALLEL


def format_of(data: bytes) -> m.MessageFormat:
    """Which message it is. Raises PeerError for one that nobody knows."""
    byte = read_u8(Payload(data))
    known = m.BY_BYTE.get(byte)
    if known is None:
        raise PeerError(
            f'invalid logical replication message type "??? ({byte})"', context=f"offset 0 of message type {shown(byte)!r}"
        )
    return known


def read_message(data: bytes, *, in_stream: bool, streaming: str = "on") -> m.AnyMessage:
    """The message that `data` is, from the first byte to the last."""
    known = format_of(data)
    payload = Payload(data, known.name)
    payload.at = 1
    found: dict[str, Any] = {}
    if in_stream and known.carries_xid:
        found["xid"] = read_u32(payload)
    _read_fields(known, known.fields, payload, found)
    if streaming == PARALLEL or (streaming == EITHER and payload.at < len(data)):
        _read_fields(known, known.in_parallel, payload, found)
    if payload.at != len(data):
        raise payload.refused("invalid message format")
    return known.value(**found)


def _read_fields(known: m.MessageFormat, fields: tuple[tuple[str, str], ...], payload: Payload, found: dict[str, Any]) -> None:
    for names, kind in fields:
        at = payload.at
        value = KINDS[kind].read(payload)
        if kind == "set_lsn" and not value:
            raise payload.refused(_not_set(names, known), at)
        if "+" in names:
            found.update(zip(names.split("+"), value, strict=True))
        else:
            found[names] = value


def write_message(message: m.AnyMessage) -> bytes:
    """The bytes that `read_message` reads; with the xid where the message has one. Raises UsageError for what has no bytes."""
    known = m.MESSAGE_FORMATS[type(message)]
    out = bytearray(known.byte.encode())
    try:
        if known.carries_xid and getattr(message, "xid") is not None:  # noqa: B009 - not all messages have it
            write_u32(out, getattr(message, "xid"))  # noqa: B009
        rest = [(names, kind) for names, kind in known.in_parallel if getattr(message, names) is not None]
        for names, kind in (*known.fields, *rest):
            KINDS[kind].write(out, *(getattr(message, name) for name in names.split("+")))
    except OverflowError as error:
        raise UsageError(f"{known.name} message: {error}", sqlstate="22003") from None
    return bytes(out)


def _not_set(field: str, known: m.MessageFormat) -> str:
    return f"{field} {'' if known.name.startswith('BEGIN') else 'is '}not set in {known.name.lower()} message"
