"""Two sessions side by side: psql on a server, and `tailrace sql` on its data directory with slots of its own.

In: the steps of a story (`support.stories`). Everything is sent to psql; what calls a function of slots, looks at the view of slots or sets a
parameter is carried out by ours as well, at the same moment. Out: what each printed of those, errors with their SQLSTATEs included.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from support.servers import Server
from support.stories import ENDS, Step
from tailrace.pipeline import LocalRunner
from tailrace.sql.postgres_session import PostgresSession
from tailrace.sql.psql.shell import Shell
from tailrace.sql.query.duckdb_engine import DuckDbEngine
from tailrace.sql.source_database import SourceDatabase

_OURS = re.compile(r"\b(pg_logical_slot_\w+|pg_\w+_replication_slots?|pg_replication_slots?(_advance)?)\b|^(SET|RESET|SHOW)\b")
_NAMES_POSITIONS = re.compile(r"pg_(create|copy)_\w+_slot|pg_replication_slot")
_VERBOSE = "\\set VERBOSITY verbose\n"
_MARK = "-- that is all of it --"


@dataclass(frozen=True, slots=True)
class Told:
    """A step, and what the two printed. Ours is empty where it was not asked."""

    step: Step
    theirs: str
    ours: str | None

    @property
    def failed(self) -> bool:
        return self.theirs.startswith("ERROR:")


class _Process:
    """A shell that reads its standard input, and whose errors stand among its output."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.say(_VERBOSE)

    def say(self, text: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{text}\n\\echo {_MARK}\n")
        self._process.stdin.flush()
        lines = []
        while (line := self._process.stdout.readline()) != f"{_MARK}\n":
            assert line, f"it ended: {''.join(lines)}"
            if not line.startswith("LOCATION:"):
                lines.append(line)
        return "".join(lines)

    def close(self) -> None:
        self._process.communicate()


class _InProcess:
    """A session of `tailrace sql` whose errors stand among its output."""

    def __init__(self, server: Server, dbname: str, state: Path) -> None:
        self._out = io.StringIO()
        database = SourceDatabase(server.data_dir, dbname, state, lambda _: LocalRunner(), self._warn)
        self.shell = Shell(PostgresSession(database, DuckDbEngine().run))
        self.say(_VERBOSE)

    def close(self) -> None:
        self.shell.session.close()

    def _warn(self, text: str) -> None:
        self._out.write(f"WARNING:  {text}\n")

    def say(self, text: str) -> str:
        self._out.seek(0)
        self._out.truncate()
        with redirect_stdout(self._out), redirect_stderr(self._out):
            for line in text.splitlines():
                self.shell.feed(line)
        return self._out.getvalue()


class BothSides:
    """The sessions of a story, by name. `state` is the state location. `as_command`: ours is a process, as it is for who types."""

    def __init__(self, server: Server, state: Path, *, as_command: bool = False) -> None:
        self._server, self._state, self._as_command = server, state, as_command
        self._sessions: dict[str, tuple[_Process, _Process | _InProcess]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in list(self._sessions):
            self._end(name)

    def tell(self, steps: list[Step]) -> Iterator[Told]:
        for step in steps:
            if not step.is_for(self._server.major, set()):
                continue
            if step.sql == ENDS:
                self._end(step.session)
                continue
            if step.session not in self._sessions:
                self._begin(step.session, step.dbname or self._server.dbname)
            psql, ours = self._sessions[step.session]
            theirs = psql.say(step.sql if step.data is None else f"{step.sql}\n{step.data}\\.")
            yield Told(step, theirs, ours.say(step.sql) if _OURS.search(step.sql) else None)

    def _begin(self, name: str, dbname: str) -> None:
        psql = _Process(str(self._server.bin("psql")), "-X", f"{self._server.dsn(dbname)} application_name={name}")
        place = ("--database", dbname, "--state", str(self._state))
        ours = (
            _Process(sys.executable, "-m", "tailrace", "sql", str(self._server.data_dir), *place)
            if self._as_command
            else _InProcess(self._server, dbname, self._state)
        )
        self._sessions[name] = (psql, ours)

    def _end(self, name: str) -> None:
        """On the server, too, it has ended with all that was its own."""
        psql, ours = self._sessions.pop(name)
        psql.close()
        ours.close()
        while self._server.sql("SELECT FROM pg_stat_activity WHERE application_name = %s", [name]):
            time.sleep(0.01)


def comparable(step: Step, printed: str) -> str:
    """Without what cannot be the same: the positions of the slots themselves, with the widths that come of them, and process ids. What is streamed
    is put together, since blocks end elsewhere."""
    printed = re.sub(r"\bPID \d+", "PID", printed)
    if "stream-changes" in step.sql:
        printed = _put_together(printed)
    if not _NAMES_POSITIONS.search(step.sql):
        return printed
    return re.sub(r" +|-+", lambda met: met[0][0], re.sub(r"\b[0-9A-F]+/[0-9A-F]+\b", "L", printed))


def _put_together(printed: str) -> str:
    """What stands outside of blocks, as it does; then what is streamed, transaction by transaction, and nothing of where blocks begin and end. Of
    those that are still open it is only the first."""
    outside: list[str] = []
    streamed: dict[str, list[str]] = {}
    for line in printed.splitlines():
        xid = found[1] if (found := re.match(r" *\S+ \| +(\d+) \|", line)) else ""
        if re.search(r"\b(opening|closing) a streamed block for transaction|^\(\d+ rows?\)$", line):
            continue
        if re.search(r"\bstreaming (change|message|truncate)\b", line):
            streamed.setdefault(xid, []).append(line)
            continue
        outside.append(line)
        if re.search(r"\b(committing|preparing) streamed transaction\b", line):
            streamed[f"{xid}, ended"] = streamed.pop(xid)
    told = [line for xid, lines in sorted(streamed.items()) for line in (lines if "ended" in xid else lines[:1])]
    return "\n".join([*outside, *told])
