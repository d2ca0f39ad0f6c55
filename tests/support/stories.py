"""Stories: SQL files that are told to a server over several named connections, always in the same order.

In: `tests/stories/*.sql`. Out: the same statements run, one after another, on the connections they name. A story reads like a
psql script and, but for concurrency, is one. What is more than SQL stands in comments on lines of their own:

    -- session b               what follows is run on connection `b` (opened when first named; a story begins on `main`)
    -- session b in other      the same, opened in the database `other`
    -- session b ends          the connection `b` is closed, and with it what belonged to it
    -- session b waits         its statements run behind our back, since the first will block; the story goes on once it does,
                               and the next `-- session b` waits until they are done
    -- fails                   the next statement must fail
    -- since 15, -- until 16   the next statement is for these majors only
    -- needs lz4               the next statement is for builds that have lz4
    -- refused 0A000           what the next statement asks of a slot is refused outside of the server, with this SQLSTATE
    -- story since 15          all of it is, and it says so in its first lines
    -- story of one cluster    what comes out depends on where records lie; two clusters, told the same, may differ

`COPY ... FROM STDIN;` is followed by its data and `\\.`, as in a dump. Statements run in autocommit; a session that says BEGIN
keeps its transaction open while others go on. Telling is deterministic: nothing here depends on the time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from support.servers import Server

STORIES = Path(__file__).parents[1] / "stories"
BLOCK_SECONDS = 20
ENDS = ""
"""Stands for the statement of a step that closes its connection."""

_TOKEN = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
      | --[^\n]* | /\*.*?\*/ | ; | .""",
    re.VERBOSE | re.DOTALL,
)
_COPY = re.compile(r"COPY\b.*\bFROM\s+STDIN\b", re.IGNORECASE | re.DOTALL)
_SESSION = re.compile(r"-- session (?P<name>\w+)(?: in (?P<dbname>\w+))?(?P<waits> waits)?(?P<ends> ends)?$")
_CONDITION = re.compile(r"-- (?P<what>fails|since|until|needs|refused)(?: (?P<value>\w+))?$")


@dataclass(frozen=True, slots=True)
class Step:
    """One statement, where it is run, and on what condition."""

    line: int
    sql: str
    session: str = "main"
    dbname: str | None = None
    waits: bool = False
    fails: bool = False
    since: int = 0
    until: int = 99
    needs: str | None = None
    refused: str = ""
    data: str | None = None

    def is_for(self, major: int, features: set[str]) -> bool:
        return self.since <= major <= self.until and (self.needs is None or self.needs in features)


def stories(major: int = 99) -> list[str]:
    """The names of the stories for this major; a leading underscore marks what is not one."""
    return sorted(path.stem for path in STORIES.glob("*.sql") if not path.stem.startswith("_") and _since(path) <= major)


def is_of_one_cluster(name: str) -> bool:
    return "\n-- story of one cluster\n" in (STORIES / f"{name}.sql").read_text()


def _since(path: Path) -> int:
    found = re.search(r"^-- story since (\d+)$", path.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def read_story(name: str) -> list[Step]:
    return list(parse((STORIES / f"{name}.sql").read_text()))


def parse(text: str) -> Iterator[Step]:
    """SQL text to steps. Unknown directives are left alone: they are comments."""
    where: dict[str, Any] = {}
    conditions: dict[str, Any] = {}
    at, start = 0, None
    while token := _TOKEN.match(text, at):
        said, at = token.group(), token.end()
        if start is None and said.startswith("--"):
            if found := _SESSION.match(said):
                where = {"session": found["name"], "dbname": found["dbname"], "waits": bool(found["waits"])}
                if found["ends"]:
                    yield Step(text.count("\n", 0, token.start()) + 1, ENDS, found["name"])
            elif found := _CONDITION.match(said):
                conditions[found["what"]] = _condition(found["what"], found["value"])
        elif said == ";" and start is not None:
            sql, data = text[start:at], None
            if _COPY.match(sql):
                data, at = _copy_data(text, at)
            yield Step(text.count("\n", 0, start) + 1, sql, data=data, **where, **conditions)
            start, conditions = None, {}
        elif start is None and not said.isspace() and not said.startswith("/*"):
            start = token.start()
    if start is not None:
        raise ValueError(f"the last statement has no end: {text[start : start + 60]!r}")


def _condition(what: str, value: str | None) -> Any:
    if what == "fails":
        return True
    if value is None:
        raise ValueError(f"`-- {what}` wants a value")
    return value if what in ("needs", "refused") else int(value)


def _copy_data(text: str, at: int) -> tuple[str, int]:
    start = text.index("\n", at) + 1
    end = text.index("\\.\n", start)
    return text[start:end], end + 3


def tell(steps: list[Step], server: Server) -> None:
    """Run the steps in their order; any surprise is an error that names the line."""
    with _Telling(server) as telling:
        for step in steps:
            telling.run(step)


@dataclass
class _Session:
    connection: psycopg.Connection[Any]
    hand: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    behind: list[Future[None]] = field(default_factory=list)

    def join(self) -> None:
        for future in self.behind:
            future.result(timeout=BLOCK_SECONDS)
        self.behind.clear()

    def close(self) -> None:
        self.connection.close()
        self.hand.shutdown(wait=False, cancel_futures=True)


class _Telling:
    """The connections of one telling. A session has statements `behind` only while its block `waits`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sessions: dict[str, _Session] = {}
        self._features = {method for (found,) in server.sql(_COMPRESSION) for method in found}

    def __enter__(self) -> _Telling:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            for session in self._sessions.values() if kind is None else ():
                session.join()
        finally:
            for session in self._sessions.values():
                session.close()

    def run(self, step: Step) -> None:
        if not step.is_for(self._server.major, self._features):
            return
        session = self._session(step)
        if step.sql == ENDS:
            self._end(step.session)
            return
        if not step.waits:
            session.join()
            _execute(session.connection, step)
            return
        first = not session.behind
        session.behind.append(session.hand.submit(_execute, session.connection, step))
        if first:
            self._wait_until_blocked(session, step)

    def _session(self, step: Step) -> _Session:
        if step.session not in self._sessions:
            connection = self._server.connect(step.dbname or "", prepare_threshold=None)
            self._sessions[step.session] = _Session(connection)
        return self._sessions[step.session]

    def _end(self, name: str) -> None:
        session = self._sessions.pop(name)
        session.join()
        pid = session.connection.info.backend_pid
        session.close()
        while self._server.sql("SELECT FROM pg_stat_activity WHERE pid = %s", [pid]):
            time.sleep(0.01)

    def _wait_until_blocked(self, session: _Session, step: Step) -> None:
        deadline = time.monotonic() + BLOCK_SECONDS
        pid = session.connection.info.backend_pid
        while not self._server.value(_IS_BLOCKED, [pid]):
            if time.monotonic() > deadline or session.behind[0].done():
                raise AssertionError(f"line {step.line}: `{step.sql}` was to wait for a lock, and did not")
            time.sleep(0.01)


_COMPRESSION = "SELECT enumvals FROM pg_settings WHERE name = 'default_toast_compression'"
_IS_BLOCKED = "SELECT wait_event_type IS NOT DISTINCT FROM 'Lock' FROM pg_stat_activity WHERE pid = %s"


def _execute(connection: psycopg.Connection[Any], step: Step) -> None:
    try:
        if step.data is None:
            connection.execute(step.sql.encode())
        else:
            with connection.cursor().copy(step.sql.encode()) as copy:
                copy.write(step.data)
    except psycopg.Error as error:
        if not step.fails:
            raise AssertionError(f"line {step.line}: `{step.sql}`: {error}") from error
    else:
        if step.fails:
            raise AssertionError(f"line {step.line}: `{step.sql}` was to fail, and did not")
