"""Runs SQL in Spark with Iceberg's own library, whose catalog `lake` is a directory of tables: statements come as JSON, a list; what each gives goes
out as a line of JSON, every value as a text."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

jars = ",".join(str(path) for path in sorted(Path(__file__).parent.glob("lib/*.jar")))
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", jars)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "hadoop")
    .config("spark.sql.catalog.lake.warehouse", sys.argv[1])
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
for statement in json.load(sys.stdin):
    rows = spark.sql(statement).collect()
    print(json.dumps([[None if value is None else str(value) for value in row] for row in rows]), flush=True)
spark.stop()
