"""Values that point into catalogs, and snapshots: regclass and its kin, aclitem, pg_snapshot.

A reg value is an oid that prints as a name. Names are not in the value: TextStyle.names is asked, and where it does not know the
digits stand, as the server prints an oid that its own catalogs lack.

aclitem (`utils/acl.h`) is u32 grantee, u32 grantor, then the privileges in the low half and the right to grant them in the high
half of a word of 32 bits, since 16 of 64. pg_snapshot (`adt/xid8funcs.c`) is u32 how many, u64 xmin, u64 xmax, u64 each xid.
"""

from __future__ import annotations

import re
import struct

import numpy as np

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_each, format_error, parse_each, range_error, receive_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

REGROLE = 4096
BY_ZERO = {2203: "0", 2204: "0"}
"""regoper and regoperator print 0 where all others print -, for lack of a name that could not be an operator."""
PRIVILEGES = "arwdDxtXUCTcsAm"
"""The letter of each bit, from the lowest (`utils/acl.h`, ACL_ALL_RIGHTS_STR)."""


def format_references(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As regclassout and its kin. Each oid is looked up once."""
    oids = values.as_dtype("<u4")
    known = {oid: _reference(oid, pg_type.oid, style) for oid in np.unique(oids[values.valid]).tolist()}
    return Texts.of([known[oid] if there else "" for oid, there in zip(oids.tolist(), values.valid.tolist(), strict=True)])


def _reference(oid: int, reg_type: int, style: TextStyle) -> str:
    if oid == 0:
        return BY_ZERO.get(reg_type, "-")
    return style.name_of(reg_type, oid) or str(oid)


def parse_references(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Digits, and - for 0. A name cannot be read without a catalog."""

    def parse_one(text: str) -> bytes:
        word = "0" if text.strip() == "-" else text.strip()
        if not word.isdecimal():
            raise UsageError(f'cannot look up "{text}" for type {pg_type.name}', hint="Give the oid.", sqlstate="22P02")
        if int(word) >> 32:
            raise range_error("oid", text)
        return int(word).to_bytes(4, "little")

    return parse_each(texts, valid, pg_type, parse_one)


def format_aclitems(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As aclitemout: joe=ar*w/postgres, without a name before the = for everybody."""

    def text_of(payload: bytes) -> str:
        grantee, grantor = struct.unpack_from("<II", payload)
        half = 4 * (len(payload) - 8)
        both = int.from_bytes(payload[8:], "little")
        granted, grantable = both & (1 << half) - 1, both >> half
        letters = "".join(
            letter + ("*" if grantable >> bit & 1 else "") for bit, letter in enumerate(PRIVILEGES) if granted >> bit & 1
        )
        return f"{_role(grantee, style) if grantee else ''}={letters}/{_role(grantor, style)}"

    return format_each(values, text_of)


def _role(oid: int, style: TextStyle) -> str:
    """In double quotes unless it is letters, digits and underscores; regrole's own quotes, of another rule, are taken off."""
    name = style.name_of(REGROLE, oid)
    if name is None:
        return str(oid)
    if name.startswith('"'):
        name = name[1:-1].replace('""', '"')
    if re.fullmatch(r"[A-Za-z0-9_]+", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def parse_aclitems(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """The same with the oids of roles in place of their names."""

    def parse_one(text: str) -> bytes:
        found = re.fullmatch(rf"(\d*)=((?:[{PRIVILEGES}]\*?)*)/(\d+)", text)
        if found is None:
            raise syntax_error("aclitem", text)
        half = 4 * (pg_type.length - 8)
        privileges = 0
        for letter, grantable in re.findall(r"(.)(\*?)", found[2]):
            bit = 1 << PRIVILEGES.index(letter)
            privileges |= bit | (bit << half if grantable else 0)
        return struct.pack("<II", int(found[1] or 0), int(found[3])) + privileges.to_bytes(half // 4, "little")

    return parse_each(texts, valid, pg_type, parse_one)


def format_snapshots(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As pg_snapshot_out: xmin:xmax:xid,xid."""

    def text_of(payload: bytes) -> str:
        xmin, xmax, *running = struct.unpack_from(f"<{(len(payload) - 4) // 8}Q", payload, 4)
        return f"{xmin}:{xmax}:{','.join(map(str, running))}"

    return format_each(values, text_of)


def parse_snapshots(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As pg_snapshot_in."""

    def parse_one(text: str) -> bytes:
        found = re.fullmatch(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)", text)
        if found is None:
            raise syntax_error(pg_type.name, text)
        running = [int(word) for word in found[3].split(",") if word]
        numbers = [int(found[1]), int(found[2]), *dict.fromkeys(running)]
        # An xid whose 32 lower bits are zero is none, in whatever epoch.
        ordered = (
            numbers[0] <= numbers[1] and running == sorted(running) and all(numbers[0] <= xid < numbers[1] for xid in running)
        )
        if not ordered or max(numbers) >> 64 or not all(number & 0xFFFFFFFF for number in numbers):
            raise syntax_error(pg_type.name, text)
        return struct.pack(f"<I{len(numbers)}Q", len(numbers) - 2, *numbers)

    return parse_each(texts, valid, pg_type, parse_one)


def send_snapshots(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    return format_each(values, lambda payload: payload[3::-1] + _turned(payload[4:]))


def receive_snapshots(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    def read_one(sent: bytes) -> bytes:
        if len(sent) != 20 + 8 * int.from_bytes(sent[:4], "big"):
            raise format_error(pg_type.name)
        return sent[3::-1] + _turned(sent[4:])

    return receive_each(texts, valid, pg_type, read_one)


def _turned(numbers: bytes) -> bytes:
    return np.frombuffer(numbers, "<u8").byteswap().tobytes()
