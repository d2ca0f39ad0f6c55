"""Two sessions side by side: psql on a server, and `tailrace sql` on its data directory with slots of its own.

In: the steps of a story (`support.stories`). Everything is sent to psql; what calls a function of slots, looks at the view of slots or sets a
parameter is carried out by ours as well, at the same moment. Out: what each printed of those, errors with their SQLSTATEs included.
"""

from __future__ import annotations

import io
import re
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from support.servers import Server
from support.stories import ENDS, Step
from tailrace.cli.shell import Shell
from tailrace.pipeline import LocalRunner
from tailrace.statements.engine import run
from tailrace.statements.place import Place
from tailrace.statements.session import Session

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


class _Psql:
    """A process of psql whose errors stand among its output."""

    def __init__(self, server: Server, dbname: str) -> None:
        command = [str(server.bin("psql")), "-X", server.dsn(dbname)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.say(_VERBOSE)
        self.pid = int(self.say("SELECT pg_backend_pid();\n").splitlines()[2])

    def say(self, text: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{text}\n\\echo {_MARK}\n")
        self._process.stdin.flush()
        lines = []
        while (line := self._process.stdout.readline()) != f"{_MARK}\n":
            assert line, f"psql ended: {''.join(lines)}"
            if not line.startswith("LOCATION:"):
                lines.append(line)
        return "".join(lines)

    def close(self) -> None:
        self._process.communicate()


class _Ours:
    """A session of `tailrace sql` whose errors stand among its output."""

    def __init__(self, server: Server, dbname: str, state: Path) -> None:
        self._out = io.StringIO()
        place = Place(server.data_dir, dbname or server.dbname, state, lambda _: LocalRunner(), self._warn)
        self.shell = Shell(Session(place, run))
        self.say(_VERBOSE)

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
    """The sessions of a story, by name. `state` is the state location."""

    def __init__(self, server: Server, state: Path) -> None:
        self._server, self._state = server, state
        self._sessions: dict[str, tuple[_Psql, _Ours]] = {}

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
                dbname = step.dbname or ""
                self._sessions[step.session] = (_Psql(self._server, dbname), _Ours(self._server, dbname, self._state))
            psql, ours = self._sessions[step.session]
            theirs = psql.say(step.sql if step.data is None else f"{step.sql}\n{step.data}\\.")
            yield Told(step, theirs, ours.say(step.sql) if _OURS.search(step.sql) else None)

    def _end(self, name: str) -> None:
        psql, ours = self._sessions.pop(name)
        psql.close()
        while self._server.sql("SELECT FROM pg_stat_activity WHERE pid = %s", [psql.pid]):
            pass
        ours.shell.session.close()


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
    """What stands outside of blocks, as it does; then what is streamed, transaction by transaction, and nothing of where blocks begin and end. Of those
    that are still open it is only the first."""
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
