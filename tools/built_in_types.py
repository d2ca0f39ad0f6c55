"""Write src/tailrace/types/built_in.tsv from live servers of all majors: `PYTHONPATH=tests python tools/built_in_types.py`.

One line a type that initdb makes, row types of catalogs apart: what pg_type and pg_range say of it, and its name as format_type() prints it. Majors
must agree; a type that only some of them have is there too, as an oid is never given to another.
"""

from __future__ import annotations

from pathlib import Path

from support.servers import Server

FILE = Path(__file__).parents[1] / "src/tailrace/types/built_in.tsv"
MAJORS = (14, 15, 16, 17, 18)
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


def main() -> None:
    rows: dict[int, tuple[object, ...]] = {}
    for major in MAJORS:
        with Server(major) as server, server.connect() as connection:
            for row in connection.execute(ROWS).fetchall():
                known = rows.get(row[0], row)
                if known != row and row[0] not in GREW:
                    raise SystemExit(f"PostgreSQL {major} says {row}, an older one says {known}")
                rows[row[0]] = row
    lines = ["\t".join(map(str, row)) for row in (HEADER, *sorted(rows.values()))]
    FILE.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
