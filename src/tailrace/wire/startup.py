"""The packets with which a frontend begins, which have no type byte (`libpq/pqcomm.h`, `ProcessStartupPacket` in
`tcop/backend_startup.c`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.wire.fields import VIOLATION, Body, read_rest, read_string, read_u32, write_string, write_u32

LONGEST_PACKET = 10_000
"""MAX_STARTUP_PACKET_LENGTH."""
PROTOCOL_3_0, PROTOCOL_3_2 = 3 << 16, (3 << 16) | 2
_SSL, _GSSENC, _CANCEL = 80877103, 80877104, 80877102
_OPTION = "_pq_."
"""What a protocol's own options begin with."""


@dataclass(frozen=True, slots=True)
class SSLRequest:
    pass


@dataclass(frozen=True, slots=True)
class GSSENCRequest:
    pass


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """As BackendKeyData gave them."""

    pid: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class StartupMessage:
    """`protocol` is major << 16 | minor."""

    protocol: int
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def unknown_options(self) -> tuple[str, ...]:
        """Options of the protocol itself, of which there are none yet."""
        return tuple(name for name in self.parameters if name.startswith(_OPTION))


StartupPacket = SSLRequest | GSSENCRequest | CancelRequest | StartupMessage


def read_startup(data: bytes) -> StartupPacket:
    """The packet that has these bytes behind its length. Raises PeerError (08P01, or 0A000 for a protocol that is not ours)."""
    body = Body(data)
    code = read_u32(body)
    if code == _SSL:
        body.end()
        return SSLRequest()
    if code == _GSSENC:
        body.end()
        return GSSENCRequest()
    if code == _CANCEL:
        return CancelRequest(read_u32(body), read_rest(body))
    if code >> 16 != PROTOCOL_3_0 >> 16:
        raise PeerError(
            f"unsupported frontend protocol {code >> 16}.{code & 0xFFFF}: server supports 3.0 to 3.2", sqlstate="0A000"
        )
    parameters = {}
    while name := read_string(body):
        parameters[name] = read_string(body)
    if body.at != len(data):
        raise PeerError("invalid startup packet layout: expected terminator as last byte", sqlstate=VIOLATION)
    return StartupMessage(code, parameters)


def write_startup(packet: StartupPacket) -> bytes:
    """With its length."""
    body = bytearray()
    if isinstance(packet, StartupMessage):
        write_u32(body, packet.protocol)
        for name, value in packet.parameters.items():
            write_string(body, name)
            write_string(body, value)
        body += b"\0"
    elif isinstance(packet, CancelRequest):
        write_u32(body, _CANCEL)
        write_u32(body, packet.pid)
        body += packet.secret
    else:
        write_u32(body, _SSL if isinstance(packet, SSLRequest) else _GSSENC)
    out = bytearray()
    write_u32(out, len(body) + 4)
    return bytes(out + body)
