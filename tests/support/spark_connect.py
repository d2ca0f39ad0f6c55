"""A Spark Connect server on this machine, for the length of a `with`: a process of its own, from pyspark's own jars, on a port that was free.

Out: `url`, where a client finds it (`support.spark_driver.Driver`). It stands in a folder of its own, finds tailrace on its PYTHONPATH and nothing of
the tests: what these send there travels by value. The kernel kills it when the thread that started it is gone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]
import pyspark

import tailrace
from support.spark_cluster import Daemon
from tailrace.spark.session import java_home, settings_for

_STARTED = re.compile(r"Spark Connect server started at: \S*?:(\d+)\s")
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """State: the server that runs."""

    def __enter__(self) -> Self:
        self.home = Path(tempfile.mkdtemp(prefix="tailrace-connect-", dir="/tmp"))
        settings = settings_for("local[2]", short=True) | {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.log.level": "INFO",
            "spark.python.unix.domain.socket.dir": str(self.home),
        }
        package = Path(pyspark.__file__).parent
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
        environment = kept | {
            "JAVA_HOME": java_home(), "SPARK_HOME": str(package), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(self.home),
            "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(tailrace.__file__).parents[1]),
            "TAILRACE_SPOOL": str(self.home / "spool"),
        }  # fmt: skip
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        spark_class = str(package / "bin" / "spark-class")
        command = [
            "setpriv", "--pdeathsig", "KILL", spark_class, "org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", *words,
            "--class", _CLASS, "spark-internal",
        ]  # fmt: skip
        log = self.home / "log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                command,
                cwd=self.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.daemon = Daemon(process, log)
        try:
            self.url = f"sc://127.0.0.1:{self.daemon.said(_STARTED)[1]}"
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        family = self.daemon.family()
        self.daemon.process.terminate()
        _, left = psutil.wait_procs(family, timeout=5)
        for process in left:
            process.kill()
        self.daemon.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)
