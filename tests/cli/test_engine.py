"""Where a verb works is kept to, and told."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.cases import DBNAME, Case, open_case


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
    words = [sys.executable, "-m", "tailrace", "decode", case.data_dir, "--database", DBNAME, "--on", "spark"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **java}) as run:
        while run.poll() is None and not (tmp_path / "java").exists():
            time.sleep(0.02)
        run.terminate()
    assert (tmp_path / "java").exists(), "the trap does not work"


@pytest.mark.spark
@pytest.mark.marathon
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
        DBNAME,
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
