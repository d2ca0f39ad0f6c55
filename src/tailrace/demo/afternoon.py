"""The shop's afternoon: what a person types to have a running server in a lake, `tailrace replicate` and `tailrace verify`, run as commands.

In: the demo's server, which has its tables full. Out: whether every row of the lake is the server's, as `verify` finds it.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tailrace.demo.server import Server
from tailrace.demo.workload import AFTERNOON, run_script
from tailrace.errors import PeerError

_TAILRACE = (sys.executable, "-m", "tailrace")
_PATIENCE = 120.0
"""Seconds for what takes a few."""


def replicate_and_verify(console: Console, server: Server, home: Path, publication: str) -> bool:
    """Copy the server's tables, follow while they change, and compare every row; whether all are equal. `home` gets `replica` and `state`."""
    lake, state = home / "replica", home / "state"
    words = ("replicate", server.dsn(), "--publication", publication, "--to", str(lake), "--state", str(state), "--every", "1s")
    with _running(console, words) as process:
        began = time.monotonic()
        rows = _first_commit(process)
        console.print(f"  {rows:,} rows copied: {time.monotonic() - began:.2f} s")
        with server.connect() as connection:
            run_script(connection, AFTERNOON)
        began, end = time.monotonic(), server.value("SELECT pg_current_wal_flush_lsn()")
        _done(("lake", "wait", str(lake), end, "--timeout", f"{_PATIENCE:.0f}s"))
        console.print(f"  what the shop did meanwhile is in the lake, {time.monotonic() - began:.2f} s behind its last COMMIT")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_PATIENCE)
    compared = ("verify", server.dsn(), "--to", str(lake))
    _show(console, compared)
    found = subprocess.run([*_TAILRACE, *compared], capture_output=True, text=True, timeout=_PATIENCE, check=False)
    console.print(f"  {(found.stdout or found.stderr).strip()}", highlight=False, markup=False)
    return found.returncode == 0


@contextmanager
def _running(console: Console, words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """The command, until the block ends at the latest; it tells each commit as JSON."""
    _show(console, words)
    command = [*_TAILRACE, *words, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _first_commit(process: subprocess.Popen[str]) -> int:
    """How many rows the first copy has, once it is there. Raises PeerError where the command ends before that."""
    assert process.stdout is not None, "it is a pipe"
    line = process.stdout.readline()
    if not line:
        raise PeerError("tailrace replicate ended before it had copied the tables")
    return int(json.loads(line)["changes"])


def _done(words: Sequence[str]) -> None:
    done = subprocess.run([*_TAILRACE, *words], capture_output=True, text=True, timeout=2 * _PATIENCE, check=False)
    if done.returncode:
        raise PeerError(f"tailrace {words[0]} {words[1]} failed", context=done.stderr.strip())


def _show(console: Console, words: Sequence[str]) -> None:
    console.print(f"  $ tailrace {shlex.join(words)}", highlight=False, markup=False, soft_wrap=True)
