"""Base types that somebody made with functions of the server's own: `CREATE FUNCTION … LANGUAGE internal AS 'textout'`.

In: what pg_proc says of a type's functions. Out: the built-in types that have the same ones, as which its values print and travel. The table
(`internal_functions.tsv`) is what PostgreSQL 14 to 18 say (tools/built_in_types.py writes it).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache

from tailrace.majors import Compared
from tailrace.model import InternalFunctions

COMPARED = Compared(__name__, "pg_type and pg_proc of a server (tools/built_in_types.py)", upto=18)
INTERNAL_LANGUAGE = 12
"""The oid of LANGUAGE internal (`catalog/pg_language.dat`)."""
UNKNOWN = -1


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
