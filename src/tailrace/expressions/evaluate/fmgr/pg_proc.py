"""The built-in functions that a row filter may use, by oid: which C function carries each out, and what PostgreSQL knows of it.

The table (`pg_proc.tsv`) is what pg_proc of 15 to 18 says (tools/filter_functions.py writes it). Several functions may share one symbol, as
`abs(integer)` and what is behind `@ integer` do; a function that is written in SQL has its own name with its arguments for a symbol.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache

from tailrace.dataclass import dataclass
from tailrace.majors import Compared

COMPARED = Compared(__name__, "pg_proc of a server (tools/filter_functions.py)", upto=18)


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A row of pg_proc; types are oids. `variadic` is the element type of an argument list without end, or 0."""

    oid: int
    symbol: str
    strict: bool
    result: int
    arguments: tuple[int, ...]
    variadic: int
    label: str


@cache
def built_in_functions() -> Mapping[int, BuiltIn]:
    """All of them."""
    table = pkgutil.get_data("tailrace.expressions.evaluate.fmgr", "pg_proc.tsv")
    assert table is not None
    found = {}
    for line in table.decode().splitlines()[1:]:
        oid, symbol, strict, result, arguments, variadic, label = line.split("\t")
        oids = tuple(int(word) for word in arguments.split(",") if word)
        found[int(oid)] = BuiltIn(int(oid), symbol, strict == "strict", int(result), oids, int(variadic), label)
    return found
