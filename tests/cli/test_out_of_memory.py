"""A process that may not have the memory that it needs says so in one error, wherever it was when it asked for more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.cases import DBNAME, open_case

LIMITED = """
import resource, sys
import numba, numpy, pyarrow
from tailrace.cli import main
has = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (has + int(sys.argv.pop(1)),) * 2)
main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc how large the process is")
@pytest.mark.parametrize("megabytes", [1, 16, 32])
def test_a_limit_on_memory_is_one_error(megabytes: int, tmp_path: Path) -> None:
    """Where our modules are loaded, threads are started, or arrays are made. Libraries in C++ and Fortran are there by then: for want of memory
    they end the process themselves while they are loaded, in their own words."""
    case = open_case("xact", 16, "with_slot", tmp_path)
    words = ("decode", case.data_dir, "--database", DBNAME)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(megabytes << 20), *words], capture_output=True, text=True, check=False
    )
    message, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout, message) == (1, "", "tailrace: error: out of memory")
    assert hint.startswith("HINT:  Give this process more (ulimit -v")


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory"), RuntimeError("can't start new thread")])
def test_an_allocation_that_fails_is_out_of_memory(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    from tailrace.cli import main, verbs  # noqa: PLC0415

    def fails() -> None:
        raise error

    monkeypatch.setattr(verbs, "app", fails)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith("tailrace: error: out of memory\nHINT:")
