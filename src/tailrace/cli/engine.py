"""What verbs run their stages on: threads of this process, or Spark."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.river import LocalRunner, Runner


def runner_for(*, local: bool) -> Runner:
    """This process, or Spark on this machine (or wherever the environment's Spark configuration points)."""
    if local:
        return LocalRunner()
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - without Spark installed, --local still works
    from tailrace.spark.session import session  # noqa: PLC0415

    with _jvm_kept_quiet():
        return SparkRunner(session())


@contextmanager
def _jvm_kept_quiet() -> Iterator[None]:
    """Java greets on the standard error that it inherits. It gets a file instead, which is shown only if Spark does not start."""
    sys.stderr.flush()
    ours = os.dup(2)
    with tempfile.TemporaryFile() as greetings:
        os.dup2(greetings.fileno(), 2)
        try:
            yield
        except BaseException:
            greetings.seek(0)
            os.write(ours, greetings.read())
            raise
        finally:
            os.dup2(ours, 2)
            os.close(ours)
