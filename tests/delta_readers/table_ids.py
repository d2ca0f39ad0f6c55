"""Reads the column `id` of a Delta table, all of it and where `id` lies between two ends, by each of three readers; a line of JSON each."""

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_delta
import polars
from deltalake import DeltaTable, QueryBuilder

table, low, high = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
between = f"id BETWEEN {low} AND {high}"
extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))


def by_polars(is_between: bool) -> list[int]:
    scan = polars.scan_delta(table)
    return (scan.filter(polars.col("id").is_between(low, high)) if is_between else scan).collect()["id"].to_list()


def by_duckdb(is_between: bool) -> list[int]:
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    database.execute(f"LOAD '{extension}'")
    where = f" WHERE {between}" if is_between else ""
    return [row[0] for row in database.sql(f"SELECT id FROM delta_scan('file://{table}'){where}").fetchall()]


def by_delta_rs(is_between: bool) -> list[int]:
    where = f" WHERE {between}" if is_between else ""
    rows = QueryBuilder().register("t", DeltaTable(table)).execute(f"SELECT id FROM t{where}").read_all()
    return rows["id"].to_pylist()


for name, read in (("polars", by_polars), ("DuckDB", by_duckdb), ("delta-rs", by_delta_rs)):
    print(json.dumps([name, sorted(read(False)), sorted(read(True))]))
