"""Writes src/tailrace/expressions/analysis/catalog/*.tsv: what parse analysis asks of PostgreSQL's catalogs, of objects that every cluster has.

    PYTHONPATH=tests python tools/catalog_tables.py          (starts PostgreSQL 15 to 18, one after the other)

A line is a row, sorted by oid; its last two fields are the first major that has it so, and the last (empty: still there). Objects that initdb makes
of scripts (the information schema, system views, collations of the machine) have other oids in other clusters and are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.servers import Server  # noqa: E402
from tailrace import majors  # noqa: E402

FOLDER = ROOT / "src/tailrace/expressions/analysis/catalog"
MAJORS = [major for major in majors.MAJORS if majors.supports(major, majors.ROW_FILTERS)]
FIRST_UNPINNED = 12000

QUERIES = {
    "types": "SELECT t.oid, typname, typtype, typcategory, typispreferred, typcollation, typlen, typbyval, typelem, typarray, typmodin <> 0, "
    "typsubscript::oid, coalesce(rngsubtype, 0), coalesce(rngmultitypid, 0), coalesce(rngcollation, 0) "
    "FROM pg_type t LEFT JOIN pg_range r ON rngtypid = t.oid WHERE t.oid < {limit} ORDER BY t.oid",
    "functions": "SELECT oid, proname, proargtypes, prorettype, prokind, provolatile, proretset, provariadic, pronargdefaults, "
    "CASE WHEN proargmodes IS NULL THEN array_to_string(proargnames, ' ') ELSE (SELECT string_agg(n, ' ' ORDER BY i) FROM "
    "unnest(proargnames, proargmodes) WITH ORDINALITY AS u(n, m, i) WHERE m IN ('i', 'b', 'v')) END "
    "FROM pg_proc WHERE oid < {limit} ORDER BY oid",
    "operators": "SELECT oid, oprname, oprleft, oprright, oprresult, oprcode::oid, oprnegate FROM pg_operator WHERE oid < {limit} ORDER BY oid",
    "casts": "SELECT castsource, casttarget, castfunc, castcontext, castmethod FROM pg_cast WHERE oid < {limit} ORDER BY 1, 2",
    "btree_operators": "SELECT amopopr, amopfamily, amopstrategy, amoplefttype, amoprighttype FROM pg_amop "
    "WHERE amopmethod = 403 AND amoppurpose = 's' AND amopopr < {limit} ORDER BY 1, 2, 3",
    "collations": "SELECT oid, collname FROM pg_collation WHERE oid < {limit} ORDER BY oid",
}  # fmt: skip


def main() -> None:
    seen: dict[str, dict[tuple[str, ...], list[int]]] = {name: {} for name in QUERIES}
    for major in MAJORS:
        with Server(major) as server:
            for name, query in QUERIES.items():
                for row in server.sql(query.format(limit=FIRST_UNPINNED)):
                    seen[name].setdefault(tuple(map(_text, row)), []).append(major)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, rows in seen.items():
        lines = sorted((_key(row), "\t".join((*row, *_span(majors)))) for row, majors in rows.items())
        (FOLDER / f"{name}.tsv").write_text("".join(f"{line}\n" for _, line in lines))


def _text(value: object) -> str:
    return "" if value is None else ("f", "t")[value] if isinstance(value, bool) else str(value)


def _key(row: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(int(field) for field in row[:2] if field.isdecimal())


def _span(majors: list[int]) -> tuple[str, str]:
    """The first major, empty if it is the first of all; and the last, empty if it is the last of all."""
    assert majors == list(range(majors[0], majors[-1] + 1)), "there, gone, and there again"
    return "" if majors[0] == MAJORS[0] else str(majors[0]), "" if majors[-1] == MAJORS[-1] else str(majors[-1])


if __name__ == "__main__":
    main()
