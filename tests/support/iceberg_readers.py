"""What other readers of Iceberg see of a table: DuckDB, polars, pyiceberg, and Iceberg's own library on Spark, each of a fixed version, in an
environment of their own in the cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from support.delta_readers import read_tables, readers_environment, told

SOURCES = Path(__file__).parents[1] / "iceberg_readers"


def ids_by_others(table: Path, low: int, high: int) -> dict[str, tuple[list[int], list[int]]]:
    """By reader, the column `id` of the table, and that of what lies between. Raises MissingProgram."""
    lines = told(_environment(), "table_ids.py", [str(table), str(low), str(high)])
    return {name: (every, between) for name, every, between in map(json.loads, lines)}


def spark_sql(statements: Sequence[str], warehouse: Path) -> list[list[list[str | None]]]:
    """The rows that each statement gives, where `lake` is a catalog of the directory. Raises MissingProgram."""
    return [json.loads(line) for line in told(_environment(), "spark_sql.py", [str(warehouse)], json.dumps(statements))]


def read_whole(tables: Sequence[str], lake: Path, folder: Path) -> list[list[str]]:
    """As `read_tables`, of Iceberg. Raises MissingProgram."""
    return read_tables(_environment(), "iceberg", tables, lake, folder)


@cache
def _environment() -> Path:
    return readers_environment(SOURCES, "Iceberg's library", "org.apache.iceberg")
