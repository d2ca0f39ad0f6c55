"""What messages are made of: numbers in network byte order, strings that end with a zero byte, tuples. For each kind `read_x`
beside `write_x`.

In: a `Payload`, which is a message's bytes and how far they are read. Out: a value; or PeerError, in the words of PostgreSQL's
subscriber, with the message's type and the offset in it. Writers append to a bytearray. Layouts: manual, "Logical Replication
Message Formats".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tailrace.errors import UsageError
from tailrace.logicalproto.message import BINARY, KEY, NEW, NULL, OLD, TEXT, UNCHANGED, RelationColumn, TupleColumn, TupleData
from tailrace.logicalproto.numbers import read_number, write_number
from tailrace.logicalproto.payload import Payload
from tailrace.model import Lsn
from tailrace.types.values import as_string

REPLICA_IDENTITIES = "dnfi"
"""pg_class.relreplident (`catalog/pg_class.h`)."""


def shown(byte: int) -> str:
    """A byte as C's %c prints it, if that can be printed."""
    return chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}"


# -- numbers ---------------------------------------------------------------------------------------------------------------


read_u8, write_u8 = read_number(1), write_number(1)
read_u16, write_u16 = read_number(2), write_number(2)
read_u32, write_u32 = read_number(4), write_number(4)
read_i32, write_i32 = read_number(4, signed=True), write_number(4, signed=True)
read_i64, write_i64 = read_number(8, signed=True), write_number(8, signed=True)
write_lsn = write_number(8)


def read_lsn(payload: Payload) -> Lsn:
    return Lsn(int.from_bytes(payload.take(8), "big"))


# -- flags: bits that mean nothing must be zero ------------------------------------------------------------------------------


def _flags(known: int) -> Callable[[Payload], int]:
    def read(payload: Payload) -> int:
        flags = read_u8(payload)
        if flags & ~known:
            # PostgreSQL calls a Stream Commit so, too.
            name = "commit" if payload.name == "STREAM COMMIT" else payload.name.lower()
            raise payload.refused(f"unrecognized flags {flags} in {name} message", payload.at - 1)
        return flags

    return read


# -- strings and bytes -------------------------------------------------------------------------------------------------------


def read_string(payload: Payload) -> str:
    stop = payload.data.find(b"\0", payload.at)
    if stop < 0:
        raise payload.refused("invalid string in message")
    text = payload.data[payload.at : stop]
    payload.at = stop + 1
    return as_string(text)


def write_string(out: bytearray, value: str) -> None:
    encoded = value.encode("utf-8", "surrogateescape")
    if b"\0" in encoded:
        raise UsageError(f"a string of a message must not contain a zero byte: {value!r}", sqlstate="22021")
    out += encoded + b"\0"


def read_content(payload: Payload) -> bytes:
    """A length and so many bytes."""
    return payload.take(read_u32(payload))


def write_content(out: bytearray, value: bytes) -> None:
    write_u32(out, len(value))
    out += value


# -- a Relation's parts ------------------------------------------------------------------------------------------------------


def read_identity(payload: Payload) -> str:
    letter = shown(read_u8(payload))
    if letter not in REPLICA_IDENTITIES:
        raise payload.refused(f"unrecognized replica identity '{letter}'", payload.at - 1)
    return letter


def write_identity(out: bytearray, value: str) -> None:
    if value not in tuple(REPLICA_IDENTITIES):
        raise UsageError(f'unrecognized replica identity "{value}"')
    out += value.encode()


_read_column_flags = _flags(1)


def read_columns(payload: Payload) -> tuple[RelationColumn, ...]:
    return tuple(
        RelationColumn(_read_column_flags(payload), read_string(payload), read_u32(payload), read_i32(payload))
        for _ in range(read_u16(payload))
    )


def write_columns(out: bytearray, value: tuple[RelationColumn, ...]) -> None:
    write_u16(out, len(value))
    for column in value:
        write_u8(out, column.flags)
        write_string(out, column.name)
        write_u32(out, column.type_oid)
        write_i32(out, column.type_modifier)


# -- a Truncate's -------------------------------------------------------------------------------------------------------------


def read_truncated(payload: Payload) -> tuple[int, tuple[int, ...]]:
    """The number of relations stands before the options, and their oids behind."""
    count = read_u32(payload)
    options = _read_truncate_options(payload)
    if 4 * count > len(payload.data) - payload.at:
        raise payload.refused("insufficient data left in message")
    return options, tuple(read_u32(payload) for _ in range(count))


def write_truncated(out: bytearray, options: int, relation_oids: tuple[int, ...]) -> None:
    write_u32(out, len(relation_oids))
    write_u8(out, options)
    for oid in relation_oids:
        write_u32(out, oid)


_read_truncate_options = _flags(3)


# -- tuples --------------------------------------------------------------------------------------------------------------------


def read_tuple(payload: Payload, marker: str) -> TupleData:
    """What stands behind the marker. An old tuple has all its values."""
    columns = []
    for _ in range(read_u16(payload)):
        kind = shown(read_u8(payload))
        if kind in (TEXT, BINARY):
            columns.append(TupleColumn(kind, read_content(payload)))
        elif kind == NULL:
            columns.append(_NULL)
        elif kind == UNCHANGED and marker == NEW:
            columns.append(_UNCHANGED)
        elif kind == UNCHANGED:
            raise payload.refused("an old tuple must not have an unchanged TOAST value", payload.at - 1)
        else:
            raise payload.refused(f"unrecognized data representation type '{kind}'", payload.at - 1)
    return TupleData(marker, tuple(columns))


_NULL, _UNCHANGED = TupleColumn(NULL), TupleColumn(UNCHANGED)


def write_tuple(out: bytearray, value: TupleData) -> None:
    out += value.marker.encode()
    write_u16(out, len(value.columns))
    for column in value.columns:
        if column.kind not in (TEXT, BINARY, NULL) and (column.kind, value.marker) != (UNCHANGED, NEW):
            raise UsageError(f'a column of kind "{column.kind}" cannot be in a tuple marked "{value.marker}"')
        out += column.kind.encode()
        if column.kind in (TEXT, BINARY):
            write_content(out, column.value or b"")


def read_new(payload: Payload) -> TupleData:
    marker = read_u8(payload)
    if marker != ord(NEW):
        insert = f"expected new tuple but got {marker}"
        raise payload.refused(insert if payload.name == "INSERT" else f"expected action 'N', got {shown(marker)}", payload.at - 1)
    return read_tuple(payload, NEW)


def write_new(out: bytearray, value: TupleData) -> None:
    _check_marker(value, NEW)
    write_tuple(out, value)


def read_optional_old(payload: Payload) -> TupleData | None:
    """An Update's key or old tuple, or nothing."""
    marker = shown(read_u8(payload))
    if marker == NEW:
        payload.at -= 1
        return None
    if marker not in (KEY, OLD):
        raise payload.refused(f"expected action 'N', 'O' or 'K', got {marker}", payload.at - 1)
    return read_tuple(payload, marker)


def write_optional_old(out: bytearray, value: TupleData | None) -> None:
    if value is not None:
        write_old(out, value)


def read_old(payload: Payload) -> TupleData:
    marker = shown(read_u8(payload))
    if marker not in (KEY, OLD):
        raise payload.refused(f"expected action 'O' or 'K', got {marker}", payload.at - 1)
    return read_tuple(payload, marker)


def write_old(out: bytearray, value: TupleData) -> None:
    _check_marker(value, KEY, OLD)
    write_tuple(out, value)


def _check_marker(value: TupleData, *allowed: str) -> None:
    if value.marker not in allowed:
        raise UsageError(f'a tuple marked "{value.marker}" cannot stand here')


class FieldKind(NamedTuple):
    """Of a field: how it is read and written, and what the manual calls it."""

    read: Callable[[Payload], Any]
    write: Callable[..., None]
    called: str


KINDS = {
    "byte": FieldKind(read_u8, write_u8, "Int8"),
    "no_flags": FieldKind(_flags(0), write_u8, "Int8(0)"),
    "flag": FieldKind(_flags(1), write_u8, "Int8"),
    "oid": FieldKind(read_u32, write_u32, "Int32"),
    "xid": FieldKind(read_u32, write_u32, "Int32"),
    "lsn": FieldKind(read_lsn, write_lsn, "Int64"),
    "set_lsn": FieldKind(read_lsn, write_lsn, "Int64"),
    "timestamp": FieldKind(read_i64, write_i64, "Int64"),
    "string": FieldKind(read_string, write_string, "String"),
    "content": FieldKind(read_content, write_content, "Int32, bytes"),
    "identity": FieldKind(read_identity, write_identity, "Int8"),
    "columns": FieldKind(read_columns, write_columns, "Int16, columns"),
    "truncated": FieldKind(read_truncated, write_truncated, "Int32, Int8, Int32[]"),
    "new": FieldKind(read_new, write_new, "Byte1('N'), TupleData"),
    "old": FieldKind(read_old, write_old, "Byte1('K' or 'O'), TupleData"),
    "optional_old": FieldKind(read_optional_old, write_optional_old, "nothing, or Byte1('K' or 'O'), TupleData"),
}
"""All kinds of fields that messages have."""
