"""Network addresses: inet, cidr, macaddr, macaddr8. In Arrow they are strings of their text.

inet and cidr are stored as u8 family (2: IPv4, 3: IPv6), u8 bits of the mask, address (`utils/inet.h`); of macaddr and macaddr8 the bytes.
"""

from __future__ import annotations

import ipaddress

from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec import Codec, format_each, format_error, parse_each, receive_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.uuid import hex_groups
from tailrace.types.values import Mask, Texts, Values

IPV4, IPV6 = 2, 3


def format_inets(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As inet_out and cidr_out: cidr always with the mask, inet where the mask is shorter than the address."""

    def text_of(payload: bytes) -> str:
        bits, address = payload[1], payload[2:]
        text = _address(address)
        return text if pg_type.oid != oids.CIDR and bits == 8 * len(address) else f"{text}/{bits}"

    return format_each(values, text_of)


def _address(raw: bytes) -> str:
    if len(raw) == 4:
        return ".".join(map(str, raw))
    # An IPv4 address inside an IPv6 one keeps its dots: ::1.2.3.4 and ::ffff:1.2.3.4, but ::1 and ::2:1 stay what they are.
    mapped = raw[:10] == bytes(10) and raw[10:12] == b"\xff\xff"
    compatible = raw[:12] == bytes(12) and raw[12:14] != bytes(2)
    if mapped or compatible:
        return ("::ffff:" if mapped else "::") + _address(raw[12:])
    return ipaddress.IPv6Address(raw).compressed


def parse_inets(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As inet_in and cidr_in, of whole addresses."""

    def parse_one(text: str) -> bytes:
        address, slash, bits = text.strip().partition("/")
        try:
            raw = ipaddress.ip_address(address).packed
            mask = int(bits) if slash else 8 * len(raw)
        except ValueError:
            raise syntax_error(pg_type.name, text) from None
        if not 0 <= mask <= 8 * len(raw):
            raise syntax_error(pg_type.name, text)
        return bytes([IPV4 if len(raw) == 4 else IPV6, mask]) + raw

    return parse_each(texts, valid, pg_type, parse_one)


def send_inets(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As inet_send and cidr_send: family, bits of the mask, whether it is a cidr, length of the address, address."""
    flag = int(pg_type.oid == oids.CIDR)
    return format_each(values, lambda payload: payload[:2] + bytes((flag, len(payload) - 2)) + payload[2:])


def receive_inets(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As inet_recv and cidr_recv."""

    def read_one(sent: bytes) -> bytes:
        family, bits, length = sent[0], sent[1], sent[3]
        if length != {IPV4: 4, IPV6: 16}.get(family) or len(sent) != 4 + length or bits > 8 * length:
            raise format_error(pg_type.label)
        return sent[:2] + sent[4:]

    return receive_each(texts, valid, pg_type, read_one)


INET = CIDR = Codec(format=format_inets, parse=parse_inets, send=send_inets, receive=receive_inets)
MACADDR, MACADDR8 = hex_groups(":", (1,) * 6), hex_groups(":", (1,) * 8)
