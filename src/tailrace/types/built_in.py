"""The types that every cluster has, by oid: what pg_type says of them without a catalog at hand.

In: a type's oid. Out: its `PgType`, with the types that it is made of. The table (`built_in.tsv`) is what PostgreSQL 14 to 18 say
(tools/built_in_types.py writes it); oids below 10000 mean the same in all of them (`access/transam.h`, FirstGenbkiObjectId). aclitem, which is
wider since 16, has its newest form. Row types of catalogs, whose columns differ from major to major, are not in it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tailrace.majors import Compared
from tailrace.model import PgType

COMPARED = Compared(__name__, "pg_type of a server (tools/built_in_types.py)", upto=18)
_SCHEMA = "pg_catalog"


def built_in_type(oid: int) -> PgType | None:
    """The type that initdb makes with this oid; None if there is none, or it is not the same in every major."""
    return built_in_types().get(oid)


@cache
def built_in_types() -> Mapping[int, PgType]:
    """All of them."""
    table = pkgutil.get_data("tailrace.types", "built_in.tsv")
    assert table is not None
    lines = [line.split("\t") for line in table.decode().splitlines()[1:]]
    fields = {int(line[0]): line for line in lines}
    known: dict[int, PgType] = {}

    def resolve(oid: int) -> PgType:
        if oid not in known:
            _, name, kind, length, align, delimiter, element, label = fields[oid]
            inner = resolve(int(element)) if int(element) else None
            known[oid] = PgType(oid, _SCHEMA, name, label, kind, int(length), int(align), delimiter, inner)
        return known[oid]

    return MappingProxyType({oid: resolve(oid) for oid in fields})
