"""What other readers of Delta see of a table: polars, DuckDB, delta-rs, and Delta's own library on Spark, each of a fixed version, in an environment
of their own in the cache."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from support.fetched_programs import SECONDS, made, needed, run

SOURCES = Path(__file__).parents[1] / "delta_readers"
WHOLE_TABLES = Path(__file__).parents[1] / "table_readers/every_row.py"
DELTA = ":".join(re.findall(r"<(?:groupId|artifactId|version)>(.*)</", (SOURCES / "pom.xml").read_text())[3:])
"""As `spark.jars.packages` names Delta's own library."""
_OF_DELTA = "io.delta,io.unitycatalog,org.roaringbitmap"
"""Spark brings the rest."""


def ids_by_others(table: Path, low: int, high: int) -> dict[str, tuple[list[int], list[int]]]:
    """By reader, the column `id` of the table, and that of what lies between. Raises MissingProgram."""
    return {
        name: (every, between)
        for name, every, between in map(json.loads, told(_environment(), "table_ids.py", [str(table), str(low), str(high)]))
    }


def spark_sql(statements: Sequence[str], scratch: Path) -> list[list[list[str | None]]]:
    """The rows that each statement gives. Raises MissingProgram."""
    return [json.loads(line) for line in told(_environment(), "spark_sql.py", [str(scratch)], json.dumps(statements))]


def read_whole(tables: Sequence[str], lake: Path, folder: Path) -> list[list[str]]:
    """As `read_tables`, of Delta. Raises MissingProgram."""
    return read_tables(_environment(), "delta", tables, lake, folder)


def read_tables(home: Path, table_format: str, tables: Sequence[str], lake: Path, folder: Path) -> list[list[str]]:
    """Have each reader of an environment read these tables, by their folders below the lake, and write what it gives, as Arrow, into `folder`, as
    READER-TABLE.arrow. What each said: reader, table, and its error, empty if there is none."""
    jars = ",".join(str(path) for path in sorted((home / "lib").glob("*.jar")))
    words = [table_format, str(lake), jars, str(folder), *tables]
    return [json.loads(line) for line in told(home, str(WHOLE_TABLES), words)]


def delta_jars() -> str:
    """Delta's own library, and what it needs beside Spark, as `spark.jars` names them. Raises MissingProgram."""
    return ",".join(str(path) for path in sorted((_environment() / "lib").glob("*.jar")))


def told(home: Path, script: str, words: Sequence[str], given: str = "") -> list[str]:
    """The lines of JSON that a script prints which lies in an environment."""
    command: list[Any] = [home / "venv/bin/python", home / script, *words]
    ran = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=SECONDS, check=False, env=_plain_environment()
    )
    assert ran.returncode == 0, f"{script}: {ran.stderr[-3000:]}"
    return [line for line in ran.stdout.splitlines() if line.startswith("[")]


def _plain_environment() -> dict[str, str]:
    """Without the paths of the tests' own packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}


@cache
def _environment() -> Path:
    return readers_environment(SOURCES, "Delta's library", _OF_DELTA)


def readers_environment(sources: Path, what: str, groups: str) -> Path:
    """The folder with the readers that the requirements in `sources` name, and the jars of these groups. Raises MissingProgram, which says that it is
    for `what`."""
    mvn = needed("mvn", what)
    needed("java", "Spark")

    def make(home: Path) -> None:
        run(
            home, mvn, "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime",
            f"-DincludeGroupIds={groups}",
        )  # fmt: skip
        run(home, sys.executable, "-m", "venv", "venv")
        run(home, "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt")

    return made(sources, make)
