"""Write which functions a row filter may use, from live servers of 15 to 18: `PYTHONPATH=tests python tools/filter_functions.py`.

Out: fmgr/pg_proc.tsv and executor/orderings.tsv in src/tailrace/expressions/evaluate,
what the evaluator must know of each by its oid; and tests/cases/row_filters/functions.tsv, the list of
those of 15, by family,
against which coverage is counted. A family is named for the types of the arguments. What PostgreSQL has for itself (support of
indexes, aggregates and windows) can be called in a filter, too; it is on the list with the reason why it is counted apart.
"""

from __future__ import annotations

import re
from pathlib import Path

from support.servers import Server
from tailrace import majors

ROOT = Path(__file__).parents[1]
FUNCTIONS = ROOT / "src/tailrace/expressions/evaluate/fmgr/pg_proc.tsv"
COUNTED = ROOT / "tests/cases/row_filters/functions.tsv"
ORDERINGS = ROOT / "src/tailrace/expressions/evaluate/executor/orderings.tsv"
MAJORS = [major for major in majors.MAJORS if majors.supports(major, majors.ROW_FILTERS)]
ORDERS = """
SELECT DISTINCT a.amopopr::int, less.oprcode::int, equal.oprcode::int
FROM pg_amop a
JOIN pg_amop l ON l.amopfamily = a.amopfamily AND l.amoplefttype = a.amoplefttype AND l.amoprighttype = a.amoprighttype AND l.amopstrategy = 1
JOIN pg_amop e ON e.amopfamily = a.amopfamily AND e.amoplefttype = a.amoplefttype AND e.amoprighttype = a.amoprighttype AND e.amopstrategy = 3
JOIN pg_operator less ON less.oid = l.amopopr JOIN pg_operator equal ON equal.oid = e.amopopr
WHERE a.amopmethod = 403 AND a.amopstrategy <> 3 AND a.amopopr < 10000 AND a.amoppurpose = 's' ORDER BY 1
"""
"""Of each operator that sorts, the functions behind < and = of its family: what a comparison of rows goes by."""
ROWS = """
SELECT p.oid::int, proname::text, CASE WHEN prolang = 14 THEN proname || '(' || pg_get_function_identity_arguments(p.oid) || ')' ELSE prosrc END,
       proisstrict, prorettype::int, array_to_string(proargtypes::int[], ','), provariadic::int,
       coalesce((SELECT string_agg(oprname, ' ' ORDER BY oprname) FROM pg_operator o WHERE oprcode = p.oid), ''),
       array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes::oid[]) t), ', '), format_type(prorettype, NULL)
FROM pg_proc p
WHERE provolatile = 'i' AND prokind = 'f' AND NOT proretset AND p.oid < 10000
  AND NOT proargtypes::oid[] && ARRAY['internal', 'cstring', 'cstring[]', 'pg_ddl_command', 'unknown', 'void']::regtype[]::oid[]
  AND prorettype NOT IN ('internal'::regtype, 'cstring'::regtype, 'void'::regtype)
ORDER BY p.oid
"""
"""Without those that cannot be called with values at all: arguments or results of type internal or cstring."""

APART = {
    "hash support": r"hash|.*_hash$|.*_hash_extended$",
    "binary output": r".*send$",
    "support of window frames": r"in_range_",
    "support of aggregates": r"(float|int|interval).*_(accum|accum_inv|avg|combine|sum|finalfn|corr|covar_\w+|regr_\w+|stddev_\w+|var_\w+)$",
    "types that a filter cannot have": r"enum_|pg_attribute|pg_type",
    "catalogs and access": r"pg_partition_root|pg_indexam|postgresql_fdw_validator|satisfies_hash_partition|btequalimage|btvarstrequalimage"
    r"|acldefault_sql|makeaclitem|gin_|spg_|acl|aclitem|pg_encoding_max_length",
}
FAMILIES = (
    ("multiranges", "multirange"), ("ranges", "range"), ("rows", "record"), ("text search", "tsvector tsquery regconfig regdictionary"),
    ("json", "jsonb jsonpath json"), ("xml", "xml"), ("arrays", r"[]  anyarray anycompatiblearray int2vector oidvector"),
    ("shapes", "point box lseg line path polygon circle"), ("network addresses", "inet cidr macaddr"), ("bit strings", "bit"), ("uuid", "uuid"),
    ("intervals", "interval"), ("dates and times", "timestamp date time"), ("money", "money"), ("system identifiers",
    "pg_lsn xid cid tid oid snapshot reg"),
    ("numeric", "numeric"), ("bytea", "bytea"), ("text", "text name character char"), ("floating point", "double real"),
    ("integers", "bigint integer smallint"), ("boolean", "boolean"),
)  # fmt: skip


def family_of(arguments: str, result: str) -> str:
    described = arguments or result
    for family, words in FAMILIES:
        if any(word in described for word in words.split()):
            return family
    return "any type"


def main() -> None:
    known: dict[int, list[object]] = {}
    orderings: set[tuple[int, ...]] = set()
    counted = []
    for major in MAJORS:
        with Server(major) as server, server.connect() as connection:
            orderings.update(connection.execute(ORDERS).fetchall())
            for oid, name, symbol, strict, result, args, variadic, operators, arguments, gives in connection.execute(
                ROWS
            ).fetchall():
                row = [oid, symbol, "strict" if strict else "", result, args, variadic, f"{name}({arguments})"]
                if oid in known and known[oid] != row:
                    print(f"PostgreSQL {major} says {row}, an older one says {known[oid]}")
                known.setdefault(oid, row)
                if major == MAJORS[0]:
                    apart = next(
                        (why for why, pattern in APART.items() if re.match(pattern, symbol) or re.search(rf"^({pattern})", name)),
                        "",
                    )
                    counted.append([oid, f"{name}({arguments})", operators, gives, family_of(arguments, gives), apart])
    write(
        FUNCTIONS,
        ["oid", "symbol", "strict", "result", "arguments", "variadic", "name"],
        sorted(known.values(), key=lambda row: row[0]),
    )
    write(ORDERINGS, ["operator", "less", "equal"], [list(each) for each in sorted(orderings)])
    write(COUNTED, ["oid", "function", "operators", "result", "family", "counted apart because"], counted)


def write(path: Path, header: list[str], rows: list[list[object]]) -> None:
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in [header, *rows]))


if __name__ == "__main__":
    main()
