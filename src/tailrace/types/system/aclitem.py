"""aclitem (`utils/acl.h`): u32 grantee, u32 grantor, then the privileges in the low half and the right to grant them in the high
half of a word of 32 bits, since 16 of 64. It has no binary form; in Arrow it is a string of its text.
"""

from __future__ import annotations

import re
import struct

from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec import format_each, parse_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

ROLES = struct.Struct("<II")
PRIVILEGES = "arwdDxtXUCTcsAm"
"""The letter of each bit, from the lowest (`utils/acl.h`, ACL_ALL_RIGHTS_STR)."""


def format_aclitems(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As aclitemout: joe=ar*w/postgres, without a name before the = for everybody."""

    def text_of(payload: bytes) -> str:
        grantee, grantor = ROLES.unpack_from(payload)
        both = int.from_bytes(payload[ROLES.size :], "little")
        half = _half(len(payload))
        granted, grantable = both & (1 << half) - 1, both >> half
        letters = "".join(
            letter + ("*" if grantable >> bit & 1 else "") for bit, letter in enumerate(PRIVILEGES) if granted >> bit & 1
        )
        return f"{_role(grantee, style) if grantee else ''}={letters}/{_role(grantor, style)}"

    return format_each(values, text_of)


def _half(length: int) -> int:
    """The bits of half the privileges of an aclitem of `length` bytes."""
    return 8 * (length - ROLES.size) // 2


def _role(oid: int, style: TextStyle) -> str:
    """In double quotes unless it is letters, digits and underscores; regrole's own quotes, of another rule, are taken off."""
    name = style.name_of(oids.REGROLE, oid)
    if name is None:
        return str(oid)
    if name.startswith('"'):
        name = name[1:-1].replace('""', '"')
    if re.fullmatch(r"[A-Za-z0-9_]+", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def parse_aclitems(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As aclitemin, with the oids of roles in place of their names."""

    def parse_one(text: str) -> bytes:
        item = re.fullmatch(rf"(\d*)=((?:[{PRIVILEGES}]\*?)*)/(\d+)", text)
        if item is None:
            raise syntax_error("aclitem", text)
        grantee, letters, grantor = item.groups()
        half, privileges = _half(pg_type.length), 0
        for letter, grantable in re.findall(r"(.)(\*?)", letters):
            bit = 1 << PRIVILEGES.index(letter)
            privileges |= bit | (bit << half if grantable else 0)
        return ROLES.pack(int(grantee or 0), int(grantor)) + privileges.to_bytes(2 * half // 8, "little")

    return parse_each(texts, valid, pg_type, parse_one)
