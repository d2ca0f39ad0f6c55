"""Qualified names as people write them, by PostgreSQL's rules (`SplitIdentifierString`, `makeRangeVarFromNameList`).

In: `orders`, `public.orders`, `"My Schema"."do.t"`. Out: schema and name, as the catalogs have them: what stands in double quotes is taken as
it is, a doubled quote for one; the rest is folded to lower case. And back: what, read so, names a table again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tailrace.errors import UsageError
from tailrace.types.quoting import quote_identifier, split_identifiers

_LISTED = re.compile(r'(?:"[^"]*"|[^",])+')


def read_identifiers(text: str) -> tuple[str, ...]:
    """The parts of a dotted name. Raises UsageError, in PostgreSQL's words, for what is no name. Nothing is cut to 63 bytes: a longer name is
    nobody's."""
    parts = split_identifiers(text, ".")
    if not parts:
        raise UsageError("invalid name syntax", context=f'name "{text}"', sqlstate="42602")
    return tuple(parts)


def read_table_name(text: str, default_schema: str = "public") -> tuple[str, str]:
    """Schema and name of a table; a name alone is in `default_schema`."""
    match read_identifiers(text):
        case (name,):
            return default_schema, name
        case (schema, name):
            return schema, name
        case (_, _, _):
            raise UsageError(f"cross-database references are not implemented: {text}", sqlstate="0A000")
        case _:
            raise UsageError(f"improper relation name (too many dotted names): {text}", sqlstate="42601")


def read_table_names(text: str) -> list[tuple[str, str]]:
    """Read a list of table names with commas between them."""
    return [read_table_name(part) for part in _LISTED.findall(text)]


def tables_named(names: Iterable[str], there: Collection[tuple[str, str]], context: str = "") -> list[tuple[str, str]]:
    """Schemas and names of these tables, all of which are to be `there`. Raises UsageError (42P01) for one that is not."""
    found = []
    for text in names:
        if (named := read_table_name(text)) not in there:
            raise UsageError(f'relation "{text}" does not exist', context=context, sqlstate="42P01")
        found.append(named)
    return found


def write_table_name(schema: str, name: str) -> str:
    """What `read_table_name` reads as this schema and name."""
    return f"{quote_identifier(schema)}.{quote_identifier(name)}"
