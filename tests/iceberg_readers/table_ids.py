"""Reads the column `id` of an Iceberg table, all of it and where `id` lies between two ends, by each of three readers; a line of JSON each."""

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import polars
from pyiceberg.table import StaticTable

table, low, high = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
between = f"id >= {low} AND id <= {high}"
metadata = f"{table}/metadata/v{Path(table, 'metadata/version-hint.text').read_text()}.metadata.json"


def by_duckdb(is_between: bool) -> list[int]:
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        database.execute(f"LOAD '{next(Path(package.__file__).parent.rglob('*.duckdb_extension'))}'")
    where = f" WHERE {between}" if is_between else ""
    return [row[0] for row in database.sql(f"SELECT id FROM iceberg_scan('{table}'){where}").fetchall()]


def by_polars(is_between: bool) -> list[int]:
    scan = polars.scan_iceberg(metadata)
    return (scan.filter(polars.col("id").is_between(low, high)) if is_between else scan).collect()["id"].to_list()


def by_pyiceberg(is_between: bool) -> list[int]:
    found = StaticTable.from_metadata(metadata)
    return (found.scan(row_filter=between) if is_between else found.scan()).to_arrow()["id"].to_pylist()


for name, read in (("DuckDB", by_duckdb), ("polars", by_polars), ("pyiceberg", by_pyiceberg)):
    print(json.dumps([name, sorted(read(False)), sorted(read(True))]))
