"""A standalone Spark cluster on this machine, for the length of a `with`: a master and workers, as processes of their own, from pyspark's own jars.

In: how many workers. Out: the master's URL, settings for a session on it (`tailrace.spark.session.session`), and ways to kill a worker and to start
another. Everything listens on 127.0.0.1, on ports that were free, and lies in one temporary directory.

Each worker has a core and room for one executor. Workers find tailrace on their PYTHONPATH, and nothing of the tests: what a test or a benchmark
sends there travels by value, as it would to machines that have no checkout.

A master or a worker is killed by the kernel when the thread that started it is gone; an executor ends when it loses its worker.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psutil  # type: ignore[import-untyped]
import pyspark

import tailrace
from tailrace.spark.session import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles what it runs once and simply: for what does not run long."""
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")
_PATIENCE = 60.0
_EXECUTOR_MB = 1024


@dataclass(frozen=True, slots=True)
class Daemon:
    """A master or a worker, and the file to which it says what it does."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, words: re.Pattern[str]) -> re.Match[str]:
        """Wait until it says so. Raises RuntimeError with all that it said if it ends before, or within a minute does not."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            if match := words.search(self.log.read_text()):
                return match
            time.sleep(0.05)
        raise RuntimeError(f"Spark did not say {words.pattern!r}:\n{self.log.read_text()}")

    def family(self) -> list[psutil.Process]:
        """It, its executors, and their Python processes."""
        try:
            process = psutil.Process(self.process.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


class Cluster:
    """State: the master and the workers that run."""

    def __init__(self, workers: int = 2, hidden: Sequence[Path] = ()) -> None:
        """Workers, each in a mount namespace of its own, find nothing in the directories that are `hidden`, nor the temporary files of others."""
        self._wanted = workers
        self._hidden = hidden
        self._started = 0
        self._java = ""
        self._everybody: list[psutil.Process] = []
        self.workers: list[Daemon] = []

    def __enter__(self) -> Self:
        # The path of a socket may be 108 bytes long (unix(7)).
        self.home = Path(tempfile.mkdtemp(prefix="tailrace-spark-", dir="/tmp"))
        (self.home / "local").mkdir()
        try:
            self.master = self._start("Master", "--port", "0")
            self.url = self.master.said(_STARTED)[1]
            for worker in [self._start_worker() for _ in range(self._wanted)]:
                worker.said(_REGISTERED)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def settings(self, executors: int | None = None) -> dict[str, str]:
        """What a session on so many executors (else one for each worker) is started with; it waits until they are there."""
        return {
            "spark.cores.max": str(executors or len(self.workers)),
            "spark.executor.memory": f"{_EXECUTOR_MB}m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{_PATIENCE:.0f}s",
            # Those of an executor that was killed would stay behind.
            "spark.python.unix.domain.socket.dir": str(self.home / "local"),
            "spark.ui.liveUpdate.period": "0",
        }

    def kill_worker_of(self, pid: int) -> None:
        """SIGKILL for the worker below which this process runs, and for all that runs below it."""
        for worker in self.workers:
            family = worker.family()
            if pid in {process.pid for process in family}:
                self.workers.remove(worker)
                self._everybody += family
                _kill(family)
                worker.process.wait()
                return
        raise ValueError(f"no worker has a process {pid}")

    def executor_folders(self) -> list[Path]:
        """Where executors stood, those that are gone included: below their workers' folders, one by application."""
        return sorted(self.home.glob("worker-*/app-*/*"))

    def complete(self) -> None:
        """Start workers in the place of those that were killed."""
        for worker in [self._start_worker() for _ in range(self._wanted - len(self.workers))]:
            worker.said(_REGISTERED)

    def _start_worker(self) -> Daemon:
        folder = self.home / f"worker-{self._started}"
        words = ("--port", "0", "--cores", "1", "--memory", f"{_EXECUTOR_MB}m", "--work-dir", str(folder), self.url)
        self.workers.append(self._start("Worker", *words))
        return self.workers[-1]

    def _start(self, what: str, *words: str) -> Daemon:
        home = Path(pyspark.__file__).parent
        java = self._java = self._java or java_home()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
        environment = kept | {
            "JAVA_HOME": java,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.home / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_START} -Dspark.master.rest.enabled=false -Djava.io.tmpdir={self.home / 'local'}",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(tailrace.__file__).parents[1]),
        }
        log = self.home / f"{what}-{self._started}.log"
        self._started += 1
        hidden = [*self._hidden, self.home / "local"] if self._hidden and what == "Worker" else []
        command = [
            "setpriv", "--pdeathsig", "KILL", *_without(hidden), str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what.lower()}.{what}",
            "--host", "127.0.0.1", "--webui-port", "0", *words,
        ]  # fmt: skip
        with log.open("wb") as said:
            process = subprocess.Popen(
                command, cwd=self.home, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        return Daemon(process, log)

    def _end(self) -> None:
        daemons = [*self.workers, *([self.master] if hasattr(self, "master") else [])]
        self._everybody += [process for daemon in daemons for process in daemon.family()]
        for daemon in daemons:
            daemon.process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(self._everybody, timeout=5)
        _kill(left)
        for daemon in daemons:
            daemon.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def left_behind(self) -> list[psutil.Process]:
        """Which of its processes still run, once it has ended."""
        return [process for process in self._everybody if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def _without(hidden: Sequence[Path]) -> list[str]:
    """What a command is put behind to be run where these directories are empty ones of its own (`unshare`)."""
    if not hidden:
        return []
    mounts = " && ".join(f"mount -t tmpfs tmpfs {shlex.quote(str(each))}" for each in hidden)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mounts} && exec "$0" "$@"']


def can_be_apart() -> bool:
    """Whether this user may make mount namespaces."""
    return subprocess.run([*_without([Path("/mnt")]), "true"], capture_output=True, check=False).returncode == 0


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=5)


def tasks_by_executor(spark: SparkSession) -> dict[str, int]:
    """How many tasks each executor has begun since the session was; `driver` is the driver."""
    return {executor.id(): executor.totalTasks() for executor in _executors(spark)}


def lost_executors(spark: SparkSession) -> list[str]:
    """Which are gone."""
    return [executor.id() for executor in _executors(spark) if not executor.isActive()]


def _executors(spark: SparkSession) -> Iterator[Any]:
    """What Spark's status store has of each (`org.apache.spark.status.api.v1.ExecutorSummary`)."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    found = context.statusStore().executorList(False)
    return (found.apply(number) for number in range(found.size()))
