"""A command line of ours, run in this process: status, standard output and standard error. To start one of its own takes a second of CPU."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

import pytest

from tailrace.cli import main
from tailrace.cli.progress import COMPILING

_COMPILING = f"tailrace: {COMPILING}\n"
"""It is said once on each machine, by whatever test happens to be the first."""
Run = Callable[..., tuple[int, str, str]]


def run_in(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """What runs it, for as long as the test lasts."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tailrace", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        if isinstance(err, bytes):  # of a test that captures bytes
            return int(ended.value.code or 0), out, err.replace(_COMPILING.encode(), b"")
        return int(ended.value.code or 0), out, err.replace(_COMPILING, "")

    return run


def ran(*words: object) -> subprocess.CompletedProcess[str]:
    """As subprocess.run has it: for tests whose fixtures run commands, too."""
    given, sys.argv = sys.argv, ["tailrace", *map(str, words)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _written_to(out, err):
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            sys.argv = given
            sys.stdout.flush()
            sys.stderr.flush()
        printed = [_all_of(each).decode() for each in (out, err)]
    code = ended.value.code
    return subprocess.CompletedProcess(list(map(str, words)), int(code or 0), printed[0], printed[1].replace(_COMPILING, ""))


@contextmanager
def _written_to(out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    """What Python writes, and what libraries do."""
    with ExitStack() as stack:
        for number, name, file in ((1, "stdout", out), (2, "stderr", err)):
            kept = os.dup(number)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, number)
            os.dup2(file.fileno(), number)
            stack.callback(setattr, sys, name, getattr(sys, name))
            setattr(sys, name, io.TextIOWrapper(io.FileIO(number, "w", closefd=False), write_through=True, encoding="utf-8"))
        yield


def _all_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
