"""inet, cidr, macaddr and macaddr8 (`adt/network.c`, `adt/mac.c`, `adt/mac8.c`), as their stored bytes: family, bits, address; or the address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate.comparison import type_comparison
from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter, refused
from tailrace.types import oids
from tailrace.types.built_in import built_in_type
from tailrace.types.registry import format_values
from tailrace.types.values import Values

IPV4 = 2


def _parts(value: bytes) -> tuple[int, int, int, int]:
    """(family, bits of the mask, the address as a number, how many bits it has)."""
    return value[0], value[1], int.from_bytes(value[2:], "big"), 8 * (len(value) - 2)


def _made(family: int, bits: int, number: int, width: int) -> bytes:
    return bytes([family, bits]) + number.to_bytes(width // 8, "big")


def _mask(bits: int, width: int) -> int:
    return (1 << width) - (1 << width - bits)


def compare(left: bytes, right: bytes) -> int:
    """IPv4 first; then the bits that both masks have, then the masks, then the whole address (`network_cmp_internal`)."""
    family, bits, number, width = _parts(left)
    family2, bits2, number2, _ = _parts(right)
    if family != family2:
        return type_comparison.plain(family, family2)
    common = width - min(bits, bits2)
    return (
        type_comparison.plain(number >> common, number2 >> common)
        or type_comparison.plain(bits, bits2)
        or type_comparison.plain(number, number2)
    )


for _oid in (oids.INET, oids.CIDR):
    type_comparison.register_order(_oid, lambda facts: compare)


def _compared(test: Callable[[int], Any]) -> Implementation:
    return rows(lambda left, right: test(compare(left, right)), True)


def _within(left: bytes, right: bytes, test: Callable[[int, int], bool]) -> bool:
    """Whether the left one's network is in the right one's, and the masks' lengths pass a test."""
    family, bits, number, width = _parts(left)
    family2, bits2, number2, _ = _parts(right)
    if family != family2 or not test(bits, bits2):
        return False
    common = width - min(bits, bits2)
    return number >> common == number2 >> common


def _printed(value: bytes, type_oid: int) -> str:
    pg_type = built_in_type(type_oid)
    assert pg_type is not None
    (text,) = format_values(Values.of_payloads([value], -1), pg_type).to_list()
    return text


def _host(value: bytes) -> str:
    """The address, without the mask."""
    return _printed(bytes([value[0], 8 * (len(value) - 2)]) + value[2:], oids.INET)


def _show(value: bytes) -> str:
    return f"{_host(value)}/{value[1]}"


def _abbreviated_cidr(value: bytes) -> str:
    """Without zeros at the end of an IPv4 network (`pg_inet_cidr_ntop`)."""
    family, bits, _, _ = _parts(value)
    if family != IPV4:
        raise refused("function abbrev of an IPv6 network")
    count = max((bits + 7) // 8, 1)
    return ".".join(str(byte) for byte in value[2 : 2 + count]) + f"/{bits}" if bits else "0/0"


def _masked(how: Callable[[int, int, int], tuple[int, int]]) -> Callable[[bytes], bytes]:
    """A new value of (bits, address), made of bits, address and width."""

    def run(value: bytes) -> bytes:
        family, bits, number, width = _parts(value)
        new_bits, new_number = how(bits, number, width)
        return _made(family, new_bits, new_number & (1 << width) - 1, width)

    return run


_network = _masked(lambda bits, number, width: (bits, number & _mask(bits, width)))


def _bitwise(name: str, how: Callable[[int, int], int]) -> Callable[[bytes, bytes], bytes]:
    def run(left: bytes, right: bytes) -> bytes:
        family, bits, number, width = _parts(left)
        family2, bits2, number2, _ = _parts(right)
        if family != family2:
            raise invalid_parameter(f"cannot {name} inet values of different sizes")
        return _made(family, max(bits, bits2), how(number, number2), width)

    return run


def _plus(value: bytes, distance: int) -> bytes:
    family, bits, number, width = _parts(value)
    if not 0 <= number + distance < 1 << width:
        raise evaluation_error("result is out of range", "22003")
    return _made(family, bits, number + distance, width)


def _minus(value: bytes, distance: int) -> bytes:
    """The opposite of the least bigint is itself."""
    return _plus(value, distance if distance == -(1 << 63) else -distance)


def _difference(left: bytes, right: bytes) -> int:
    family, _, number, width = _parts(left)
    family2, _, number2, _ = _parts(right)
    if family != family2:
        raise invalid_parameter("cannot subtract inet values of different sizes")
    found = number - number2
    if width == 128:  # more would not fit, so it comes round
        found = (found + (1 << 127)) % (1 << 128) - (1 << 127)
    if not -(1 << 63) <= found < 1 << 63:
        raise evaluation_error("result is out of range", "22003")
    return found


def _with_mask(clear: bool) -> Callable[[bytes, int], bytes]:
    def run(value: bytes, bits: int) -> bytes:
        family, _, number, width = _parts(value)
        if bits == -1:
            bits = width
        if not 0 <= bits <= width:
            raise invalid_parameter(f"invalid mask length: {bits}")
        return _made(family, bits, number & _mask(bits, width) if clear else number, width)

    return run


def _merged(left: bytes, right: bytes) -> bytes:
    """The smallest network that holds both."""
    family, bits, number, width = _parts(left)
    family2, bits2, number2, _ = _parts(right)
    if family != family2:
        raise invalid_parameter("cannot merge addresses from different families")
    common = min(bits, bits2, width - (number ^ number2).bit_length())
    return _made(family, common, number & _mask(common, width), width)


def _to_cidr(value: bytes) -> bytes:
    return _network(value)


def _larger(left: bytes, right: bytes) -> bytes:
    return left if compare(left, right) > 0 else right


def _smaller(left: bytes, right: bytes) -> bytes:
    return left if compare(left, right) < 0 else right


def _mac8(value: bytes) -> bytes:
    return value[:3] + b"\xff\xfe" + value[3:]


def _mac(value: bytes) -> bytes:
    if value[3:5] != b"\xff\xfe":
        hint = "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr."  # noqa: E501
        raise evaluation_error("macaddr8 data out of range to convert to macaddr", "22003", hint)
    return value[:3] + value[5:]


def _of_bytes(how: Callable[[int, int], int]) -> Callable[[bytes, bytes], bytes]:
    return lambda left, right: bytes(map(how, left, right))


FUNCTIONS: dict[str, Implementation] = {
    "network_eq": _compared(lambda found: found == 0), "network_ne": _compared(lambda found: found != 0),
    "network_lt": _compared(lambda found: found < 0),
    "network_le": _compared(lambda found: found <= 0), "network_gt": _compared(lambda found: found > 0),
    "network_ge": _compared(lambda found: found >= 0),
    "network_larger": rows(_larger, True), "network_smaller": rows(_smaller, True),
    "network_sub": rows(lambda left, right: _within(left, right, lambda bits, other: bits > other), True),
    "network_subeq": rows(lambda left, right: _within(left, right, lambda bits, other: bits >= other), True),
    "network_sup": rows(lambda left, right: _within(left, right, lambda bits, other: bits < other), True),
    "network_supeq": rows(lambda left, right: _within(left, right, lambda bits, other: bits <= other), True),
    "network_overlap": rows(lambda left, right: _within(left, right, lambda bits, other: True), True),
    "network_host": rows(_host, True), "network_show": rows(_show, True),
    "inet_abbrev": rows(lambda value: _printed(value, oids.INET), True),
    "cidr_abbrev": rows(_abbreviated_cidr), "network_family": rows(lambda value: 4 if value[0] == IPV4 else 6, True),
    "network_masklen": rows(lambda value: value[1], True), "network_network": rows(_network, True), "inet_to_cidr": rows(_to_cidr, True),
    "network_netmask": rows(_masked(lambda bits, number, width: (width, _mask(bits, width))), True),
    "network_hostmask": rows(_masked(lambda bits, number, width: (width, ~_mask(bits, width))), True),
    "network_broadcast": rows(_masked(lambda bits, number, width: (bits, number | ~_mask(bits, width) & (1 << width) - 1)), True),
    "inetnot": rows(_masked(lambda bits, number, width: (bits, ~number)), True), "inetand": rows(_bitwise("AND", lambda left, right: left & right)),
    "inetor": rows(_bitwise("OR", lambda left, right: left | right)), "inetpl": rows(_plus), "inetmi_int8": rows(_minus),
    "int8pl_inet(bigint, inet)": rows(lambda distance, value: _plus(value, distance)), "inetmi": rows(_difference),
    "inet_set_masklen": rows(_with_mask(False)), "cidr_set_masklen": rows(_with_mask(True)),
    "inet_same_family": rows(lambda left, right: left[0] == right[0], True), "inet_merge": rows(_merged),
    "macaddr_trunc": rows(lambda value: value[:3] + bytes(3), True), "macaddr8_trunc": rows(lambda value: value[:3] + bytes(5), True),
    "macaddr8_set7bit": rows(lambda value: bytes([value[0] | 2]) + value[1:], True), "macaddrtomacaddr8": rows(_mac8, True),
    "macaddr8tomacaddr": rows(_mac),
}  # fmt: skip
for _prefix in ("macaddr_", "macaddr8_"):
    FUNCTIONS.update(
        {
            _prefix + "eq": rows(lambda left, right: left == right, True), _prefix + "ne": rows(lambda left, right: left != right, True),
            _prefix + "lt": rows(lambda left, right: left < right, True), _prefix + "le": rows(lambda left, right: left <= right, True),
            _prefix + "gt": rows(lambda left, right: left > right, True), _prefix + "ge": rows(lambda left, right: left >= right, True),
            _prefix + "cmp": rows(type_comparison.plain, True), _prefix + "not": rows(lambda value: bytes(byte ^ 0xFF for byte in value), True),
            _prefix + "and": rows(_of_bytes(lambda left, right: left & right), True), _prefix + "or": rows(_of_bytes(lambda left,
            right: left | right), True),
        }
    )  # fmt: skip
