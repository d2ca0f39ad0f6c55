"""A DataFrame of a long log on a cluster: its executors scan, then Spark plans the read from the indexes (`tailrace.spark.changes`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tailrace.catalog.statefile import read_state
from tailrace.pipeline import STRETCH_BYTES, Scanning, opened
from tailrace.pipeline.scanning import scanned
from tailrace.spark.jobs import SparkRunner
from tailrace.storage.index_store import IndexStore
from tailrace.user_cache import user_cache


def indexed_changes(spark: SparkSession, source: str, options: Mapping[str, str]) -> DataFrame:
    """Scan what is not indexed, and read."""
    index = str(Path(options.get("index") or user_cache() / "indexes").absolute())
    catalog = options.get("catalog")
    state = read_state(Path(catalog).read_bytes(), catalog) if catalog else None
    log, scan_from = opened(source, options.get("database", ""), state)
    how = Scanning(STRETCH_BYTES, IndexStore(Path(index)))
    deque(scanned(log.segments, SparkRunner(spark), scan_from, how), maxlen=0)
    return spark.read.format("tailrace").options(**{**options, "source": source, "index": index}).load()
