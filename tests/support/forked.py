"""A command of ours as a process of its own, forked from one that has imported already what its verbs need: to import it takes each a second of CPU,
and the tests start hundreds. How a command starts by itself is the matter of `tests/cli` and `tests/test_docs.py`.

    with forked(["slot", "receive", "s", "--state", state, "-f", file]) as process: ...

In: words, and a file for what is said. Out: the process, which is what `subprocess.Popen` gives in the methods that there are.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Self

PROCESSES = get_context("forkserver")
"""Processes that run a function of the tests'."""
PROCESSES.set_forkserver_preload(["support.verbs_loaded"])


class Forked:
    """One that runs, or has run."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self._process, self.pid = process, process.pid

    def poll(self) -> int | None:
        """Its status; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (status := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(str(self._process.name), timeout or 0)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()


def forked(words: Sequence[object], log: Path = Path(os.devnull)) -> Forked:
    """What the command says on standard error is added to `log`; it reads nothing, and nobody hears what it prints."""
    given = (list(map(str, words)), log, dict(os.environ), os.getcwd())
    process = PROCESSES.Process(target=_run, args=given, name=f"tailrace {words[0]}")
    process.start()
    return Forked(process)


def _run(words: list[str], log: Path, environment: dict[str, str], folder: str) -> None:
    for number, path, flags in ((1, os.devnull, os.O_WRONLY), (2, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)):
        file = os.open(path, flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    be_command(words, environment, folder)


def be_command(words: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
    """Run the command in this process, which was forked for it and has its standard streams, and end with its status."""
    from tailrace.__main__ import run  # noqa: PLC0415 - it is there already

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - until it ends
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["tailrace", *words]
    run()
