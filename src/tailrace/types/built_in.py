"""The types that every cluster has, by oid: what pg_type says of them without a catalog at hand.

In: a type's oid. Out: its `PgType`, with the types that it is made of. The table (`built_in.tsv`) is what PostgreSQL 14 to 18 say
(tools/built_in_types.py writes it); oids below 10000 mean the same in all of them (`access/transam.h`, FirstGenbkiObjectId). aclitem, which is
wider since 16, has its newest form. Row types of catalogs, whose columns differ from major to major, are not in it.

Base types that somebody made with functions of the server's own (`CREATE FUNCTION … LANGUAGE internal AS 'textout'`) print and travel as the built-in
types that have these functions: `internal_functions` finds them by what pg_proc says, in `internal_functions.tsv`, which the same tool writes.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from tailrace.majors import Compared
from tailrace.model import InternalFunctions, PgType

COMPARED = Compared(__name__, "pg_type and pg_proc of a server (tools/built_in_types.py)", upto=18)
INTERNAL_LANGUAGE = 12
"""The oid of LANGUAGE internal (`catalog/pg_language.dat`)."""
UNKNOWN = -1
_SCHEMA = "pg_catalog"


def built_in_type(oid: int) -> PgType | None:
    """The type that initdb makes with this oid; None if there is none, or it is not the same in every major."""
    return built_in_types().get(oid)


@cache
def built_in_types() -> Mapping[int, PgType]:
    """All of them, by oid."""
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


def internal_functions(length: int, byval: bool, names: Sequence[str | None]) -> InternalFunctions | None:
    """Whose functions these are: `names` (pg_proc.prosrc) of the output, send, input and receive function, empty for one that the type does not have,
    None for one in another language. None if the output function is of no built-in type, or takes values that are passed otherwise."""
    known = _by_name()
    output, send, source, receive = (
        0 if name == "" else known.get((role, str(name), length, byval), UNKNOWN) for role, name in enumerate(names)
    )
    return InternalFunctions(output, send, source, receive) if output > 0 else None


@cache
def _by_name() -> Mapping[tuple[int, str, int, bool], int]:
    """(Which of a type's functions, its name, typlen, typbyval) -> the oldest of the built-in types that have it."""
    table = pkgutil.get_data("tailrace.types", "internal_functions.tsv")
    assert table is not None
    found: dict[tuple[int, str, int, bool], int] = {}
    for line in table.decode().splitlines()[1:]:
        oid, length, byval, *names = line.split("\t")
        for role, name in enumerate(names):
            if name:
                found.setdefault((role, name, int(length), byval == "1"), int(oid))
    return found
