"""A DataFrame of a long log on a cluster: its executors scan, then Spark plans the read from the indexes (`tailrace.spark.changes`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tailrace.model import STRETCH_BYTES
from tailrace.pipeline.open_log import open_log
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.pipeline.scanning import Scanning
from tailrace.sources.captured import read_captured
from tailrace.sources.dsn import is_dsn
from tailrace.sources.stored import take_options
from tailrace.spark.jobs import SparkRunner
from tailrace.spark.spark_connect import in_one_task, is_client, path_of
from tailrace.storage.index_store import IndexStore
from tailrace.user_cache import user_cache

_PATHS = ("catalog", "state", "index")
_UNUSED_DAYS, _MOST_BYTES = 30, 4 << 30
"""What the user's cache keeps of indexes. Of a directory that is named nothing is removed."""


def indexed_changes(spark: SparkSession, source: str, options: Mapping[str, str]) -> DataFrame:
    """Scan what is not indexed, and read. A client of Spark Connect has neither the log nor the indexes: its server scans in one task."""
    if is_client(spark):
        source, index = path_of(spark, source), in_one_task(spark, partial(_index_there, source, dict(options)))
        return _read(spark, source, options, index)
    # Spark reads in a process that stands where its JVM was started, wherever this one has gone since.
    source = path_of(spark, source)
    if is_dsn(source):  # what is received goes with its reader, and so would its index
        return _read(spark, source, options, "")
    options = {name: path_of(spark, value) if name in _PATHS and value else value for name, value in options.items()}
    index = _index_of(options)
    _scan(source, options, index, SparkRunner(spark))
    return _read(spark, source, options, index)


def _index_of(options: Mapping[str, str]) -> str:
    return str(Path(options.get("index") or user_cache() / "indexes").absolute())


def _index_there(source: str, options: Mapping[str, str]) -> str:
    index = _index_of(options)
    _scan(source, options, index, LocalRunner())
    return index


def _scan(source: str, options: Mapping[str, str], index: str, runner: Runner) -> None:
    catalog = take_options({**options, "source": source}, "source", "catalog").get("catalog")
    state = read_captured(catalog) if catalog else None
    store = IndexStore(Path(index))
    if not options.get("index"):
        store.forget_unused(_UNUSED_DAYS, _MOST_BYTES)
    how = Scanning(STRETCH_BYTES, store)
    deque(open_log(source, options.get("database", ""), runner=runner, catalog=state, scanning=how).scanned(), maxlen=0)


def _read(spark: SparkSession, source: str, options: Mapping[str, str], index: str) -> DataFrame:
    return spark.read.format("tailrace").options(**{**options, "source": source, "index": index}).load()
