"""Runs SQL in Spark with Delta's own library: statements come as JSON, a list; what each gives goes out as a line of JSON, every value as a text."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

jars = ",".join(str(path) for path in sorted(Path(__file__).parent.glob("lib/*.jar")))
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", jars)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.databricks.delta.snapshotPartitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.warehouse.dir", sys.argv[1])
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
for statement in json.load(sys.stdin):
    rows = spark.sql(statement).collect()
    print(json.dumps([[None if value is None else str(value) for value in row] for row in rows]), flush=True)
spark.stop()
