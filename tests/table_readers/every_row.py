"""Reads tables of a lake whole by each of four readers, and writes what each gives as Arrow: `every_row.py FORMAT LAKE JARS FOLDER TABLE …`, with a
table's folder below the lake. A line of JSON for each, with what the reader said if it could not."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
from pyspark.sql import SparkSession

table_format, lake, jars, folder, *tables = sys.argv[1:]
IS_DELTA = table_format == "delta"
PLACES = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop", "spark.sql.catalog.lake.warehouse": str(Path(lake).parent),
    },
}  # fmt: skip


def metadata(table: str) -> str:
    place = Path(lake, table, "metadata")
    return str(place / f"v{(place / 'version-hint.text').read_text()}.metadata.json")


def by_polars(table: str) -> pa.Table:
    scan = polars.scan_delta(f"{lake}/{table}") if IS_DELTA else polars.scan_iceberg(metadata(table))
    return scan.collect().to_arrow()


def by_duckdb(table: str) -> pa.Table:
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    database.execute("SET TimeZone = 'UTC'")
    for name in ("delta",) if IS_DELTA else ("avro", "iceberg"):
        package = __import__(f"duckdb_extension_{name}")
        database.execute(f"LOAD '{next(Path(package.__file__).parent.rglob('*.duckdb_extension'))}'")
    scan = f"delta_scan('file://{lake}/{table}')" if IS_DELTA else f"iceberg_scan('{lake}/{table}')"
    return database.sql(f"SELECT * FROM {scan}").to_arrow_table()


def by_library(table: str) -> pa.Table:
    """delta-rs, or pyiceberg."""
    if IS_DELTA:
        from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415 - it is in one of the two environments

        return pa.table(QueryBuilder().register("t", DeltaTable(f"{lake}/{table}")).execute("SELECT * FROM t").read_all())
    from pyiceberg.table import StaticTable  # noqa: PLC0415

    return StaticTable.from_metadata(metadata(table)).scan().to_arrow()


builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
for name, value in {**PLACES[table_format], "spark.sql.session.timeZone": "UTC"}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def by_spark(table: str) -> pa.Table:
    name = f"delta.`{lake}/{table}`" if IS_DELTA else f"lake.{Path(lake).name}.`{table}`"
    return spark.table(name).toArrow() if not IS_DELTA else spark.sql(f"SELECT * FROM {name}").toArrow()


READERS: dict[str, Callable[[str], pa.Table]] = {
    "Spark": by_spark,
    "DuckDB": by_duckdb,
    "polars": by_polars,
    "library": by_library,
}
for reader, read in READERS.items():
    for table in tables:
        try:
            rows = read(table)
            with pa.OSFile(f"{folder}/{reader}-{table}.arrow", "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
            print(json.dumps([reader, table, ""]), flush=True)
        except Exception as error:
            print(json.dumps([reader, table, f"{type(error).__name__}: {error}"[:600]]), flush=True)
spark.stop()
