"""Writes docs/types.md: every type that a column may have, and what becomes of it.

    python tests/types/table.py          (starts the wheel's PostgreSQL 18, which judges)

A row says `yes` for a form only after the values of the type came out of it as the server's own, byte for byte.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "types.md"
if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]

import pyarrow as pa  # noqa: E402
from deltalake import Schema  # noqa: E402
from live_types import NO_VALUES, Tried, is_array, try_all  # type: ignore[import-not-found]  # noqa: E402

from support.servers import Server  # noqa: E402
from tailrace.types.registry import arrow_type  # noqa: E402

HEAD = """# Types

Every type that a column may have in a fresh PostgreSQL 18, and what becomes of its values. Written by
`tests/types/table.py`, which has a server store, print and send values of every type, and compares; do not edit.

- *text* is what the type's output function prints, under any DateStyle, TimeZone, IntervalStyle, bytea_output and extra_float_digits.
- *binary* is what its send function sends; `none` where the server has no such function, so the type travels as text.
- *Arrow* and *Delta* are the types of a column in data frames and in tables of the lake.

What the table cannot say:

- `numeric(p,s)` with 0 ≤ s ≤ p ≤ 38 becomes `decimal128(p, s)`; without a precision, or with a greater one, it is a string. NaN and
  the infinities do not fit a decimal and are refused, unless `numeric=text`.
- Arrays become lists, whose elements are as the element's type. Several dimensions, or a lower bound other than 1, do not fit a
  list and are refused, unless `arrays=text`.
- Dates and timestamps keep the years before Christ and after 9999. The infinities stay the greatest and the least number of the
  column's type. A timestamp after 294247-01-10 does not fit and is refused, unless `times=text`.
- `24:00:00` is a time of day in PostgreSQL and in no Arrow type, so times of day are strings; so are intervals.
- A name in a value (regclass and its kin, the roles in an aclitem) is in the catalogs, not in the value. Where these are not at
  hand, the oid is printed.
- Extensions' types are known by name: citext, hstore, ltree, lquery, ltxtquery, cube, vector and halfvec (lists of float), sparsevec.
  For any other, `registry.register` takes a codec; without one a column is refused, or with `unknown_types=hex` has the stored bytes.
- A base type whose functions are the server's own (`CREATE FUNCTION … LANGUAGE internal AS 'textout'`) prints, and is sent in binary, as
  the built-in type that has them, by what pg_proc said at the moment. In Arrow it is a string.
- Domains are as their base, enums are strings, composite types, ranges and multiranges are strings of their text.
- A virtual generated column (18) is no column of a DataFrame or of a lake: its values are stored nowhere, and so are in no log.
"""


def render(tried: Sequence[Tried]) -> str:
    """The document."""
    parts = [HEAD]
    for title, chosen in (
        ("Base types", [each for each in tried if each.type.kind not in "dcrm" and not is_array(each.type)]),
        ("Ranges and multiranges", [each for each in tried if each.type.kind in "rm"]),
        ("Domains", [each for each in tried if each.type.kind == "d"]),
        ("Arrays of these", [each for each in tried if is_array(each.type) and each.type.element.kind != "c"]),
        ("Row types of catalogs and views", [each for each in tried if each.type.kind == "c"]),
        ("Arrays of row types", [each for each in tried if is_array(each.type) and each.type.element.kind == "c"]),
    ):
        parts.append(f"\n## {title}\n\n| type | text | binary | Arrow | Delta |\n|---|---|---|---|---|\n")
        parts += [_row(each) for each in sorted(chosen, key=lambda each: each.type.label)]
    return "".join(parts)


def _row(each: Tried) -> str:
    text = "yes" if each.text == each.rows else "NO"
    if each.type.name in NO_VALUES:
        text = "no value reaches a table"
    binary = "none" if each.binary is None else "yes" if each.binary == each.rows else "NO"
    kind = arrow_type(each.type)
    return f"| {each.type.label} | {text} | {binary} | {_shown(kind)} | {_delta(kind)} |\n"


def _shown(kind: pa.DataType) -> str:
    return f"list<{_shown(kind.value_type)}>" if pa.types.is_list(kind) else str(kind)


def _delta(kind: pa.DataType) -> str:
    field = Schema.from_arrow(pa.schema([pa.field("v", kind)])).fields[0]
    return _plain(field.type)


def _plain(kind: object) -> str:
    element = getattr(kind, "element_type", None)
    return f"array<{_plain(element)}>" if element is not None else str(getattr(kind, "type", kind))


def main() -> None:
    with Server(18, test_decoding=False) as server, server.connect() as connection:
        DOCUMENT.write_text(render(try_all(connection, server.data_dir)))


if __name__ == "__main__":
    main()
