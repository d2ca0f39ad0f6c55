"""regclass, regproc, regtype and their kin: an oid that prints as a name (`adt/regproc.c`). In Arrow they are strings of that name.

The name is not in the value: TextStyle.names is asked (`catalog/names` has them), and where it does not know the digits stand, as the server
prints an oid that its own catalogs lack.
"""

from __future__ import annotations

import numpy as np

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec import Codec, parse_each, range_error
from tailrace.types.codec.binary_forms import receive_swapped, send_swapped
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

OID_ALIASES = (
    oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE, oids.REGCONFIG,
    oids.REGDICTIONARY, oids.REGNAMESPACE, oids.REGROLE, oids.REGCOLLATION,
)  # fmt: skip
BY_ZERO = {oids.REGOPER: "0", oids.REGOPERATOR: "0"}
"""regoper and regoperator print 0 where all others print -, for lack of a name that could not be an operator."""


def format_oid_aliases(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As regclassout and its kin. Each oid is looked up once."""
    oids = values.as_dtype("<u4")
    known = {oid: _name_of(oid, pg_type.oid, style) for oid in np.unique(oids[values.valid]).tolist()}
    return Texts.of([known[oid] if there else "" for oid, there in zip(oids.tolist(), values.valid.tolist(), strict=True)])


def _name_of(oid: int, reg_type: int, style: TextStyle) -> str:
    if oid == 0:
        return BY_ZERO.get(reg_type, "-")
    return style.name_of(reg_type, oid) or str(oid)


def parse_oid_aliases(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Digits, and - for 0. A name cannot be read without a catalog."""

    def parse_one(text: str) -> bytes:
        word = "0" if text.strip() == "-" else text.strip()
        if not word.isdecimal():
            raise UsageError(f'cannot look up "{text}" for type {pg_type.name}', hint="Give the oid.", sqlstate="22P02")
        if int(word) >> 32:
            raise range_error("oid", text)
        return int(word).to_bytes(4, "little")

    return parse_each(texts, valid, pg_type, parse_one)


OID_ALIAS = Codec(format=format_oid_aliases, parse=parse_oid_aliases, send=send_swapped(4), receive=receive_swapped(4))
