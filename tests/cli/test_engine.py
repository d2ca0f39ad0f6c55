"""Where a verb works: the choice, what it is made from, and that it is kept to."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from support.cases import Case, open_case
from tailrace.errors import UsageError
from tailrace.pipeline.choice import On, choose
from tailrace.spark.configured import configured_master, is_connect

SMALL, LARGE, FEW, MANY = 400_000, 8 << 30, 2, 64
CHOICES = [
    # WAL, cores, configured, asked, installed; on Spark?, why
    (SMALL, FEW, "", On.AUTO, True, False, "0.4 MB of WAL, 2 cores, no Spark master configured"),
    (LARGE, MANY, "", On.AUTO, True, False, "8.6 GB of WAL, 64 cores, no Spark master configured"),
    (LARGE, MANY, "", On.AUTO, False, False, "8.6 GB of WAL, 64 cores, no Spark master configured"),
    (SMALL, FEW, "MASTER is yarn", On.AUTO, True, True, "MASTER is yarn"),
    (LARGE, MANY, "MASTER is yarn", On.AUTO, True, True, "MASTER is yarn"),
    (SMALL, FEW, "MASTER is yarn", On.AUTO, False, False, "MASTER is yarn, but pyspark is not installed"),
    (LARGE, MANY, "MASTER is yarn", On.LOCAL, True, False, "--on local"),
    (SMALL, FEW, "", On.SPARK, True, True, "--on spark"),
]


@pytest.mark.parametrize(("size", "cores", "configured", "asked", "installed", "on_spark", "reason"), CHOICES)
def test_the_choice(size: int, cores: int, configured: str, asked: On, installed: bool, on_spark: bool, reason: str) -> None:
    chosen = choose(size, cores, configured, asked, installed=installed)
    assert (chosen.on_spark, chosen.reason) == (on_spark, reason)


def test_spark_is_asked_for_and_not_there() -> None:
    with pytest.raises(UsageError, match="Spark is not installed"):
        choose(SMALL, FEW, "", On.SPARK, installed=False)


CONFIGURED = [
    ({}, ""),
    ({"SPARK_REMOTE": "sc://there"}, "SPARK_REMOTE is sc://there"),
    ({"MASTER": "local[2]"}, "MASTER is local[2]"),
    ({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, "PYSPARK_SUBMIT_ARGS names a master"),
    ({"PYSPARK_SUBMIT_ARGS": "--remote=sc://there pyspark-shell"}, "PYSPARK_SUBMIT_ARGS names a master"),
    ({"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"}, "PYSPARK_SUBMIT_ARGS names a master"),
    ({"PYSPARK_SUBMIT_ARGS": "--conf 'spark.app.name=the --master' pyspark-shell"}, ""),
    ({"PYSPARK_SUBMIT_ARGS": "--properties-file CONF/spark-defaults.conf pyspark-shell"}, "PYSPARK_SUBMIT_ARGS names a master"),
    ({"SPARK_CONF_DIR": "CONF"}, "CONF/spark-defaults.conf names a master"),
    ({"SPARK_HOME": "CONF/.."}, "CONF/../conf/spark-defaults.conf names a master"),
    ({"SPARK_CONF_DIR": "nowhere"}, ""),
    ({"SPARK_CONF_DIR": "CONF/other"}, ""),
]


@pytest.mark.parametrize(("environment", "said"), CONFIGURED)
def test_where_a_master_is_configured(environment: dict[str, str], said: str, tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    (conf / "other").mkdir(parents=True)
    (conf / "spark-defaults.conf").write_text("# ours\nspark.app.name x\n  spark.master = spark://there:7077\n")
    (conf / "other/spark-defaults.conf").write_text("#spark.master yarn\nspark.masters yarn\n")
    placed = {name: value.replace("CONF", str(conf)) for name, value in environment.items()}
    assert configured_master(placed).replace(str(conf), "CONF") == said
    assert is_connect(placed) == ("sc://" in str(environment))


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("xact", 16, "with_slot", tmp_path)


def test_a_small_log_starts_no_jvm(case: Case, tmp_path: Path) -> None:
    """A Java that would tell that it was started."""
    trap = tmp_path / "trap" / "bin" / "java"
    trap.parent.mkdir(parents=True)
    trap.write_text(f"#!/bin/sh\necho started >> {tmp_path}/java\nexit 1\n")
    trap.chmod(0o755)
    java = {"JAVA_HOME": str(trap.parents[1]), "PATH": f"{trap.parent}:{os.environ['PATH']}"}
    why = f"in this process ({_megabytes(case)} MB of WAL, {os.cpu_count()} cores, no Spark master configured)"
    assert _decoded(case, "--on", "auto", **java) == (case.expected, why)
    assert not (tmp_path / "java").exists()
    _decoded(case, "--on", "spark", **java)
    assert (tmp_path / "java").exists(), "the trap does not work"


@pytest.mark.spark
def test_a_configured_master_is_used(case: Case) -> None:
    assert _decoded(case, MASTER="local[2]") == (case.expected, "on Spark (MASTER is local[2])")


def _megabytes(case: Case) -> str:
    sizes = (path.stat().st_size for path in case.wal_dir.iterdir() if len(path.name) == 24)
    return f"{sum(sizes) / 1e6:.1f}"


def _decoded(case: Case, *words: str, **environment: str) -> tuple[str, str]:
    """What is printed, and the first line that a terminal shows beside it."""
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "tailrace",
        "decode",
        case.data_dir,
        "--database",
        "app",
        "--start-lsn",
        case.meta["start_lsn"],
        *words,
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "MASTER"))}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, text=True, env={**kept, "TERM": "dumb", **environment}
    ) as run:
        os.close(theirs)
        assert run.stdout is not None
        out = run.stdout.read()
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:  # what reading gives once nobody holds the other end
            os.close(ours)
    lines = said.decode().splitlines()
    return out, next((line for line in lines if line.startswith(("in this", "on Spark"))), "")
