"""A command line of ours, run in this process: status, standard output and standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable

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
