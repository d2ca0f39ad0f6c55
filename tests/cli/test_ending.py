"""A command that ends before its time takes along all that it started, and says no more than it must."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from support.cases import DBNAME, Case, open_case
from support.sampling import some_of

Family = dict[int, psutil.Process]
COMMAND = (sys.executable, "-m", "tailrace", "decode")
PATIENCE = 120.0


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return open_case("big", 18, "with_slot", tmp_path_factory.mktemp("case"))


def _told(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _children(command: subprocess.Popen[bytes]) -> Family:
    try:
        return {child.pid: child for child in psutil.Process(command.pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return {}


def _wait(until: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _is_running(process: psutil.Process) -> bool:
    """psutil tells a process from a later one of the same number."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.spark
@pytest.mark.parametrize(
    ("moment", "number", "status"),
    some_of([
        pytest.param(*each) for each in (
            ("bin/spark", signal.SIGINT, 130), ("-Xmx2g", signal.SIGINT, 130), ("pyspark.daemon", signal.SIGINT, 130),
            ("-Xmx2g", signal.SIGTERM, 143), ("pyspark.daemon", signal.SIGKILL, -9), ("bin/spark", signal.SIGKILL, -9),
        )
    ], 3),
)  # fmt: skip
def test_nothing_survives_a_signal(case: Case, moment: str, number: signal.Signals, status: int, tmp_path: Path) -> None:
    """While the launcher starts Java, while Java starts, while Python workers run."""
    words = [*COMMAND, str(case.data_dir), "--database", DBNAME, "--on", "spark"]
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)}
    ) as command:
        seen: Family = {}

        def met() -> bool:
            seen.update(_children(command))
            return command.poll() is not None or any(moment in _told(process) for process in seen.values())

        assert _wait(met)
        assert command.poll() is None, "it ended before it was told to"
        command.send_signal(number)
        while command.poll() is None:
            seen.update(_children(command))
            time.sleep(0.01)
        assert command.stderr is not None
        said = command.stderr.read().decode()
    assert (command.returncode, said) == (status, "")
    assert _wait(lambda: not any(map(_is_running, seen.values())), 30), [
        _told(each) for each in seen.values() if _is_running(each)
    ]
    if number != signal.SIGKILL:
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tailrace-")] == []


@pytest.mark.spark
@pytest.mark.marathon
def test_nothing_survives_the_end(case: Case, tmp_path: Path) -> None:
    """And nothing but rows is printed before it."""
    words = [*COMMAND, str(case.data_dir), "--database", DBNAME, "--on", "spark", "--start-lsn", case.meta["start_lsn"]]
    with (tmp_path / "out").open("wb") as out, subprocess.Popen(words, stdout=out, stderr=subprocess.PIPE) as command:
        seen: Family = {}
        told: set[str] = set()
        while command.poll() is None:
            seen.update(_children(command))
            told.update(map(_told, seen.values()))
            time.sleep(0.02)
        assert command.stderr is not None
        assert (command.returncode, command.stderr.read()) == (0, b"")
    assert (tmp_path / "out").read_text() == case.expected
    assert any("pyspark.daemon" in words for words in told), "no Python workers were there to survive"
    assert _wait(lambda: not any(map(_is_running, seen.values())), 2)


def test_ctrl_c_in_this_process(case: Case) -> None:
    """The pipe is full and nobody reads: it ends all the same."""
    words = [*COMMAND, str(case.data_dir), "--database", DBNAME, "--on", "local"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        assert command.stdout.read(1)
        command.send_signal(signal.SIGINT)
        assert command.wait(PATIENCE) == 130
        assert command.stderr.read() == b""


def _shell(case: Case, redirected: str, **environment: str) -> tuple[str, str]:
    script = f'"{sys.executable}" -m tailrace decode "{case.data_dir}" --database {DBNAME} --on local {redirected}; echo "${{PIPESTATUS[0]}}" >&3'
    read, write = os.pipe()
    done = subprocess.run(
        ["bash", "-c", f"exec 3>&{write}; {script}"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=False,
        pass_fds=[write], env=os.environ | environment, timeout=300,
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as status:
        return status.read().strip(), done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_seen_enough(case: Case, unbuffered: str) -> None:
    assert _shell(case, "| head -1", PYTHONUNBUFFERED=unbuffered) == ("141", "")


def test_a_closed_standard_output(case: Case) -> None:
    assert _shell(case, ">&-") == ("1", "tailrace: error: could not write output: Bad file descriptor\n")


def test_all_is_closed(case: Case) -> None:
    assert _shell(case, "<&- >&- 2>&-") == ("1", "")


ENDS = """
import atexit, sys, threading, time, weakref
from tailrace import __main__ as process
class Thing: pass
thing = Thing()
def late():
    time.sleep(0.2)
    print("a thread")
def verb():
    atexit.register(print, "at the end")
    weakref.finalize(thing, print, "let go")
    threading.Thread(target=late).start()
    print("a verb")
    sys.exit(STATUS)
process.main = verb
process.run()
"""


@pytest.mark.parametrize(("status", "expected"), [("0", 0), ("3", 3), ("None", 0), ("'words'", 1)])
def test_the_end_leaves_out_nothing_that_python_does(status: str, expected: int) -> None:
    """But for objects, which are not taken apart one by one."""
    done = subprocess.run([sys.executable, "-c", ENDS.replace("STATUS", status)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (expected, "a verb\na thread\nlet go\nat the end\n")
    assert done.stderr == ("words\n" if expected == 1 else "")


UNHEARD = """
import ctypes, signal, time
from tailrace.cli.ending import ending
class Thing:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0)
def of_others():
    signal.raise_signal(signal.SIGTERM)
    time.sleep(0)
    return 7
def _raw_object_cache_getbuffer():
    signal.raise_signal(signal.SIGTERM)
    time.sleep(0)
    print("whole", flush=True)
    return 7
with ending():
    WAY
    print("goes on", flush=True)
    time.sleep(20)
print("has gone on")
"""
WAYS = {
    "Thing()": "goes on\n",
    "ctypes.CFUNCTYPE(ctypes.c_int)(of_others)()": "goes on\n",
    "assert ctypes.CFUNCTYPE(ctypes.c_int)(_raw_object_cache_getbuffer)() == 7": "whole\ngoes on\n",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_that_comes_where_nobody_hears_what_is_raised(way: str) -> None:
    """In a finalizer, or in a function that C calls: LLVM asks for a kernel's code by one, and would crash without."""
    done = subprocess.run(
        [sys.executable, "-c", UNHEARD.replace("WAY", way)], capture_output=True, text=True, check=False, timeout=15
    )
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, WAYS[way]), done
