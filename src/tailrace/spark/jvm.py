"""The Java process behind a session: started here, so that it can be ended from here at any moment.

PySpark starts one as well, but shows it to nobody before it answers, and forgets it where the wait is interrupted: what is left then waits for ever
for a driver. And it lets it go on until after the driver has ended. Ours has a process group of its own (Ctrl-C in a terminal does not reach it, and
all that its launcher begins ends with it), ends before this process does, and is taken over by PySpark as if `spark-submit` had made it.

Should this process be killed, Java finds its standard input closed and goes too, and with it Spark's Python processes, which watch theirs.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.serializers import UTF8Deserializer, read_int

from tailrace.errors import PeerError

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_POLL = 0.02
_PATIENCE = 5.0
"""Seconds that Java has to remove its files and go."""


class Jvm:
    """At most one for this process, as PySpark has it. State: not started, running, or ended, which is for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def start(self, settings: Mapping[str, str], *, quiet: bool) -> None:
        """Start Java with these settings, and have PySpark use it. Does nothing where PySpark has a JVM, or was given one.

        With `quiet`, what it says on standard error is kept, and told only if it does not start. Raises PeerError then.
        """
        if SparkContext._gateway is not None or _PORT in os.environ:
            return
        meeting = Path(tempfile.mkdtemp(prefix="tailrace-"))
        said: IO[bytes] | None = tempfile.TemporaryFile() if quiet else None  # noqa: SIM115 - Java keeps it
        try:
            process = self._launch(settings, meeting / "connection", said)
            while process.poll() is None and not (meeting / "connection").exists():
                time.sleep(_POLL)
            if not (meeting / "connection").exists():
                raise PeerError("Spark's Java process did not start", context=_words(said))
            with (meeting / "connection").open("rb") as connection:
                _take_over(read_int(connection), UTF8Deserializer().loads(connection))
        except BaseException:
            self._finish()
            raise
        finally:
            shutil.rmtree(meeting, ignore_errors=True)

    def _launch(self, settings: Mapping[str, str], connection: Path, said: IO[bytes] | None) -> subprocess.Popen[bytes]:
        options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        rest = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        environment = os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection)}
        with self._lock:
            if self._ended:
                raise PeerError("Spark was ended")
            self._process = subprocess.Popen(
                [Path(_find_spark_home()) / "bin" / "spark-submit", *options, *rest],
                stdin=subprocess.PIPE, stderr=said, env=environment, start_new_session=True,
            )  # fmt: skip
        atexit.register(self.end)
        return self._process

    def end(self) -> None:
        """Stop the session, ask Java to go, now and for good, and see that it does."""
        context = SparkContext._active_spark_context
        if context is not None and not self._ended:
            context.stop()  # else PySpark's own threads would find it gone, and say so
        if SparkContext._gateway is not None:
            SparkContext._gateway._gateway_client.is_connected = False  # as would py4j's, which lets go of Java's objects
        self.stop()
        self._finish()

    def stop(self) -> None:
        """Ask it to go, now and for good; returns at once."""
        with self._lock:
            self._ended = True
            self._signal(signal.SIGTERM)

    def _finish(self) -> None:
        self._signal(signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


JVM = Jvm()


def _take_over(port: int, secret: str) -> None:
    """PySpark's way to a JVM that it did not start: what it connects to is in the environment."""
    os.environ.update({_PORT: str(port), _SECRET: secret})
    try:
        SparkContext._ensure_initialized()
    finally:
        del os.environ[_PORT], os.environ[_SECRET]


def _words(said: IO[bytes] | None) -> str:
    if said is None:
        return ""
    said.seek(0)
    return said.read().decode(errors="replace").strip()
