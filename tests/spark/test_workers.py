"""Spark's Python processes that ran work of ours end without a word, in a session of anybody's."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.cases import open_case

NOTEBOOK = """
import sys, time
import psutil
from pyspark.sql import SparkSession
from tailrace.spark.session import java_home
import os
os.environ |= {"JAVA_HOME": java_home(), "PYSPARK_PYTHON": sys.executable}
settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": sys.argv[2], "spark.python.worker.idleTimeoutSeconds": "1"}
builder = SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
read = spark.read.format("tailrace").option("database", "app").option("table", "public.a").load(sys.argv[1])
assert read.count()
assert read.limit(1).collect()

def is_worker(process):
    try:
        return process.status() != "zombie" and "pyspark.daemon" in process.parent().cmdline()
    except (psutil.NoSuchProcess, AttributeError):  # it, or its parent, has left since it was listed
        return False

def workers():
    return [each for each in psutil.Process().children(recursive=True) if is_worker(each)]

begun = len(workers())
end = time.monotonic() + 240
while workers() and time.monotonic() < end:
    time.sleep(0.2)
print(begun, len(workers()))
"""


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.marathon
def test_idle_processes_leave_without_a_word(tmp_path: Path) -> None:
    case = open_case("xact", 16, "with_slot", tmp_path)
    with tempfile.TemporaryDirectory(dir="/tmp") as sockets:  # their paths may be 108 bytes long
        words = [sys.executable, "-c", NOTEBOOK, str(case.data_dir), sockets]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
    begun, left = map(int, done.stdout.split())
    assert begun > 2
    assert left == 0, "Spark let none go: nothing was tried"
    assert "Traceback" not in done.stderr, done.stderr
