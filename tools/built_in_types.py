"""Write built_in.tsv, internal_functions.tsv and the names in oids.py of src/tailrace/types from live servers of all majors:
`PYTHONPATH=tests python tools/built_in_types.py`.

In the first, one line a type that initdb makes, row types of catalogs apart: what pg_type and pg_range say of it, and its name as format_type()
prints it. In the second, one line a base type that is no array: how its values are passed, and what its functions are called in the server's own
code (pg_proc.prosrc), empty where it has none. In the third, a constant a type of the first. Majors must agree; a type that only
some of them have is there too, as an oid is never given to another.
"""

from __future__ import annotations

from pathlib import Path

from support.servers import Server
from tailrace.majors import MAJORS

MARKERS = ("# written by tools/built_in_types.py: start\n", "# written by tools/built_in_types.py: end\n")
"""What stands between them in oids.py is written anew."""
TYPES = Path(__file__).parents[1] / "src/tailrace/types"
GREW = {1033, 1034}
"""aclitem is wider since 16; the table has its newest form, and that of its array."""
HEADER = ("oid", "name", "kind", "length", "align", "delimiter", "element", "label")
ROWS = """
SELECT t.oid::int, typname::text,
       CASE WHEN typsubscript = 'array_subscript_handler'::regproc AND typlen = -1 THEN 'a' ELSE typtype::text END,
       typlen::int, CASE typalign WHEN 'c' THEN 1 WHEN 's' THEN 2 WHEN 'i' THEN 4 ELSE 8 END, typdelim::text,
       CASE WHEN typsubscript = 'array_subscript_handler'::regproc AND typlen = -1 THEN typelem::int
            WHEN typtype = 'r' THEN (SELECT rngsubtype::int FROM pg_range WHERE rngtypid = t.oid)
            WHEN typtype = 'm' THEN (SELECT rngtypid::int FROM pg_range WHERE rngmultitypid = t.oid) ELSE 0 END,
       format_type(t.oid, NULL)
FROM pg_type t
WHERE t.oid < 10000 AND typtype <> 'c'
  AND typelem NOT IN (SELECT oid FROM pg_type WHERE typtype = 'c')
ORDER BY t.oid
"""
"""Oids from 10000 on (`access/transam.h`, FirstGenbkiObjectId) are another type's in another major; only arrays of row types have them."""
FUNCTIONS_HEADER = ("oid", "length", "byval", "output", "send", "input", "receive")
FUNCTIONS = """
SELECT t.oid::int, typlen::int, typbyval::int, o.prosrc, coalesce(s.prosrc, ''), i.prosrc, coalesce(r.prosrc, '')
FROM pg_type t JOIN pg_proc o ON o.oid = typoutput JOIN pg_proc i ON i.oid = typinput
     LEFT JOIN pg_proc s ON s.oid = typsend LEFT JOIN pg_proc r ON r.oid = typreceive
WHERE t.oid < 10000 AND typtype = 'b' AND typsubscript <> 'array_subscript_handler'::regproc AND o.prolang = 12
  AND typname <> 'aclitem' AND typname NOT LIKE 'reg%'
ORDER BY t.oid
"""
"""Without those that print names of the catalogs, which are looked up by the oids of these types."""


def symbol(name: str) -> str:
    """What `catalog/pg_type_d.h` calls the oid of a type, without OID behind it: `_bool` is BOOLARRAY (form_pg_type_symbol)."""
    return f"{name[1:]}array".upper() if name.startswith("_") else name.upper()


def main() -> None:
    for name, header, query in (("built_in.tsv", HEADER, ROWS), ("internal_functions.tsv", FUNCTIONS_HEADER, FUNCTIONS)):
        rows: dict[int, tuple[object, ...]] = {}
        for major in MAJORS:
            with Server(major) as server, server.connect() as connection:
                for row in connection.execute(query.encode()).fetchall():
                    known = rows.get(row[0], row)
                    if known != row and row[0] not in GREW:
                        raise SystemExit(f"PostgreSQL {major} says {row}, an older one says {known}")
                    rows[row[0]] = row
        lines = ["\t".join(map(str, row)) for row in (header, *sorted(rows.values()))]
        (TYPES / name).write_text("".join(f"{line}\n" for line in lines))
        if header is HEADER:
            write_oids([(int(str(oid)), str(name)) for oid, name, *_ in sorted(rows.values())])


def write_oids(types: list[tuple[int, str]]) -> None:
    path = TYPES / "oids.py"
    start, end = MARKERS
    before, rest = path.read_text().split(start)
    names = "".join(f"{symbol(name)} = {oid}\n" for oid, name in types)
    path.write_text(before + start + names + end + rest.split(end)[1])


if __name__ == "__main__":
    main()
