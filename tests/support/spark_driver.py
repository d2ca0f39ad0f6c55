"""A Spark driver in a process of its own, which is asked to call functions: a process has one session at a time, and that of the tests is local.

In: what a session is started with (`tailrace.spark.session.session`), a function, and its arguments; what cannot be imported there travels by value.
The function is given the session first. Out: what it returned, and how many tasks each executor began meanwhile; or RuntimeError with the traceback.
Where a session of another kind is asked for than before, that one is stopped.

Questions and answers are pickles on standard input and output. The driver ends when its input does.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import psutil
from pyspark import cloudpickle

_MAIN = "from support.spark_driver import main; main()"
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """`tasks` has a number for each executor that was at work."""

    value: Any
    tasks: Mapping[str, int]


class Driver:
    """State: a question that was asked and not answered, or none. With `remote` it is the client of that Connect server, and counts no tasks."""

    def __init__(self, remote: str = "") -> None:
        self._remote = {"SPARK_REMOTE": remote} if remote else {}

    def __enter__(self) -> Self:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | self._remote
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE if kind is None else 0.1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """End it where it stands, with its JVM and its workers."""
        driver = psutil.Process(self._process.pid)
        for process in [driver, *driver.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()

    def ask(self, settings: Mapping[str, str], function: Callable[..., Any], *arguments: Any) -> None:
        """Have it begin."""
        assert self._process.stdin is not None
        pickle.dump((dict(settings), cloudpickle.dumps((function, arguments))), self._process.stdin)
        self._process.stdin.flush()

    def answer(self) -> Answer:
        """Wait for what was asked."""
        assert self._process.stdout is not None
        fine, value, tasks = pickle.load(self._process.stdout)
        if not fine:
            raise RuntimeError(value)
        return Answer(value, tasks)

    def call(self, settings: Mapping[str, str], function: Callable[..., Any], *arguments: Any) -> Answer:
        """Ask, and wait."""
        self.ask(settings, function, *arguments)
        return self.answer()


def main() -> None:
    """The process itself. What others print on its standard output goes to its standard error."""
    from support.spark_cluster import tasks_by_executor  # noqa: PLC0415 - only here
    from tailrace.spark.session import session  # noqa: PLC0415
    from tailrace.spark.spark_conf import is_connect  # noqa: PLC0415

    counted: Callable[[Any], Mapping[str, int]] = (lambda _: {}) if is_connect() else tasks_by_executor
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    spark, current = None, None
    while True:
        try:
            settings, packed = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        try:
            if spark is None or settings != current:
                if spark is not None:
                    spark.stop()
                spark, current = session(short=True, **settings), settings
            before = counted(spark)
            function, arguments = pickle.loads(packed)
            value = function(spark, *arguments)
            after = counted(spark)
            tasks = {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}
            pickle.dump((True, value, tasks), answers)
        except Exception:
            pickle.dump((False, traceback.format_exc(), {}), answers)
        answers.flush()
