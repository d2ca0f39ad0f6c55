"""Columns, as rows of pg_attribute tell them (`include/catalog/pg_attribute.h`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tailrace.catalog.rows.column_values import align_of, length_of, only_element, signed32
from tailrace.model import Column, PgType


class Attribute(NamedTuple):
    """What a row of pg_attribute says that a `Column` is made of."""

    attnum: int
    attname: str
    atttypid: int
    atttypmod: int
    attlen: int
    attalign: int
    attnotnull: int
    atthasmissing: int
    attmissingval: bytes | None
    attgenerated: int
    attisdropped: int


def column_of(attribute: Attribute, type_of: Callable[[], PgType]) -> Column:
    """The column; `type_of` gives its type, and is not asked of a dropped one."""
    length, align = length_of(attribute.attlen), align_of(attribute.attalign)
    typmod, missing = attribute.atttypmod, attribute.attmissingval
    return Column(
        number=attribute.attnum,
        name=attribute.attname,
        type=None if attribute.attisdropped else type_of(),
        typmod=signed32(typmod),
        length=length,
        align=align,
        not_null=bool(attribute.attnotnull),
        generated=chr(attribute.attgenerated).strip("\0"),
        missing=only_element(missing, length) if attribute.atthasmissing and missing is not None else None,
    )
