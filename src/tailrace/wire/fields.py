"""What messages are made of: numbers in network byte order, strings that end with a zero byte, values with their length. For each
kind `read_x` beside `write_x` (`libpq/pqformat.c`).

In: a `Body`, which is a message's bytes and how far they are read. Out: a value; or PeerError (08P01), in the words of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.errors import PeerError
from tailrace.logicalproto.numbers import read_number, write_number
from tailrace.logicalproto.payload import Payload

if TYPE_CHECKING:
    from tailrace.wire.messages import FieldDescription

VIOLATION = "08P01"
"""ERRCODE_PROTOCOL_VIOLATION."""


class Body(Payload):
    """A payload of the frontend/backend protocol, whose errors violate it."""

    __slots__ = ()

    def refused(self, message: str, at: int | None = None) -> PeerError:
        return PeerError(message, sqlstate=VIOLATION)

    def end(self) -> None:
        """Raise unless all has been read."""
        if self.at != len(self.data):
            raise PeerError("invalid message format", sqlstate=VIOLATION)


read_u8, write_u8 = read_number(1), write_number(1)
read_u16, write_u16 = read_number(2), write_number(2)
read_i16, write_i16 = read_number(2, signed=True), write_number(2, signed=True)
read_u32, write_u32 = read_number(4), write_number(4)
read_i32, write_i32 = read_number(4, signed=True), write_number(4, signed=True)
read_u64, write_u64 = read_number(8), write_number(8)
read_i64, write_i64 = read_number(8, signed=True), write_number(8, signed=True)


def read_letter(body: Body) -> str:
    return body.take(1).decode("latin-1")


def write_letter(out: bytearray, value: str) -> None:
    out += value.encode("latin-1")


def read_string(body: Body) -> str:
    """What is no UTF-8 stays as it is (PEP 383), for whoever refuses it by its name."""
    stop = body.data.find(b"\0", body.at)
    if stop < 0:
        raise PeerError("invalid string in message", sqlstate=VIOLATION)
    return body.take(stop + 1 - body.at)[:-1].decode("utf-8", "surrogateescape")


def write_string(out: bytearray, value: str) -> None:
    out += value.encode("utf-8", "surrogateescape") + b"\0"


def read_rest(body: Body) -> bytes:
    return body.take(len(body.data) - body.at)


def write_rest(out: bytearray, value: bytes) -> None:
    out += value


def read_value(body: Body) -> bytes | None:
    """A length and as many bytes; -1 is NULL."""
    length = read_i32(body)
    return None if length == -1 else body.take(length)


def write_value(out: bytearray, value: bytes | None) -> None:
    write_i32(out, -1 if value is None else len(value))
    out += value or b""


def read_field(body: Body) -> FieldDescription:
    from tailrace.wire.messages import FieldDescription  # noqa: PLC0415 - who receives a log has no other use for messages

    name, table, attnum, kind = read_string(body), read_u32(body), read_i16(body), read_u32(body)
    typlen, typmod, layout = read_i16(body), read_i32(body), read_u16(body)
    return FieldDescription(name, kind, typlen, typmod, layout, table, attnum)


def write_field(out: bytearray, value: FieldDescription) -> None:
    write_string(out, value.name)
    write_u32(out, value.table)
    write_i16(out, value.attnum)
    write_u32(out, value.type)
    write_i16(out, value.typlen)
    write_i32(out, value.typmod)
    write_u16(out, value.format)


def read_coded_texts(body: Body) -> dict[str, str]:
    """A letter and a text, again and again, up to a zero byte."""
    texts = {}
    while (code := read_letter(body)) != "\0":
        texts[code] = read_string(body)
    return texts


def write_coded_texts(out: bytearray, value: Mapping[str, str]) -> None:
    for code, text in value.items():
        write_letter(out, code)
        write_string(out, text)
    out += b"\0"


def _read_many(
    count: Callable[[Body], int], one: Callable[[Body], Any]
) -> Callable[[Body], tuple[Any, ...]]:  # fmt: skip
    return lambda body: tuple(one(body) for _ in range(count(body)))


def _write_many(
    count: Callable[[bytearray, int], None], one: Callable[[bytearray, Any], None]
) -> Callable[[bytearray, tuple[Any, ...]], None]:  # fmt: skip
    def write(out: bytearray, values: tuple[Any, ...]) -> None:
        count(out, len(values))
        for value in values:
            one(out, value)

    return write


class WireKind(NamedTuple):
    """Both directions of one."""

    read: Callable[[Body], Any]
    write: Callable[[bytearray, Any], None]


WIRE_KINDS = {
    "u8": WireKind(read_u8, write_u8),
    "u32": WireKind(read_u32, write_u32),
    "i32": WireKind(read_i32, write_i32),
    "letter": WireKind(read_letter, write_letter),
    "string": WireKind(read_string, write_string),
    "rest": WireKind(read_rest, write_rest),
    "formats": WireKind(_read_many(read_u16, read_u16), _write_many(write_u16, write_u16)),
    "oids": WireKind(_read_many(read_u16, read_u32), _write_many(write_u16, write_u32)),
    "values": WireKind(_read_many(read_u16, read_value), _write_many(write_u16, write_value)),
    "fields": WireKind(_read_many(read_u16, read_field), _write_many(write_u16, write_field)),
    "strings": WireKind(_read_many(read_u32, read_string), _write_many(write_u32, write_string)),
    "coded_texts": WireKind(read_coded_texts, write_coded_texts),
}
