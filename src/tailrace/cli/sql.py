"""`tailrace sql`: the manual's SQL interface on slots of a state location, with psql's manners."""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.log_at_hand import log_at_hand
from tailrace.cli.progress import Progress, warn
from tailrace.cli.signals import handling
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.pipeline.runner import Runner
from tailrace.sources.source_name import SourceName
from tailrace.sql.connected_server import ConnectedServer
from tailrace.sql.functions.signatures import functions_of
from tailrace.sql.postgres_session import PostgresSession
from tailrace.sql.psql.output import Format
from tailrace.sql.psql.shell import FAILED, NO_CONNECTION, STOPPED, Quit, Shell
from tailrace.sql.query.duckdb_engine import DuckDbEngine
from tailrace.sql.source_database import SourceDatabase
from tailrace.sql.views.view_columns import views_of
from tailrace.user_cache import user_cache

_HISTORY = 2000
NO_DATABASE = "3D000"


@dataclass(frozen=True, slots=True)
class Input:
    """What to run: commands and files, or, if there are none, standard input; and variables that are set before."""

    commands: list[str]
    files: list[Path]
    variables: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """psql's switches of the same names."""

    unaligned: bool
    tuples_only: bool
    expanded: bool
    quiet: bool
    separator: str


def run_session(source: str, database: str, state: Path, given: Input, *, connect: str, on: On, output: Output) -> int:
    """Carry out what is given; psql's exit status. With a DSN, `connect`, there is a server for what is not the interface's."""
    with log_at_hand(source, state, warn) as (path, _):
        return _run_session(path, database, state, given, connect=connect, on=on, output=output)


def _run_session(source: SourceName, database: str, state: Path, given: Input, *, connect: str, on: On, output: Output) -> int:
    progress = Progress("rows", shown=False)

    def runner(size: int) -> Runner:
        return runner_for(on, size, progress.tell)

    connected_to = SourceDatabase(source, database, state, runner, warn, notice=lambda text: _notice(f"NOTICE:  {text}\n"))
    if not _has_database(connected_to):
        return NO_CONNECTION
    server = ConnectedServer(connect, _notice) if connect else None
    session = PostgresSession(connected_to, DuckDbEngine().run, server)
    shell = Shell(
        session,
        Format(not output.unaligned, output.tuples_only, output.expanded, separator=output.separator),
        is_quiet=output.quiet,
    )
    for each in given.variables:
        name, _, value = each.partition("=")
        shell.set_variable(name, value)
    try:
        return _run(shell, given)
    finally:
        session.close()


def _has_database(database: SourceDatabase) -> bool:
    """Whether there is one to connect to; if not, that has been said."""
    try:
        database.check_exists()
        return True
    except UsageError as error:
        if error.sqlstate != NO_DATABASE:
            raise
        sys.stderr.write(f"tailrace: error: {error}\n")
        return False


def _notice(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(text)


def _run(shell: Shell, given: Input) -> int:
    """The exit status, as psql's: 0, 1 if the last command of -c failed, or one at which ON_ERROR_STOP ended it, 3 where it ended a script, 2 where
    the server's connection was lost."""
    status = 0
    try:
        for text in given.commands:
            status = _run_command(shell, text)
            if status and shell.stops:
                return status
        for path in given.files:
            shell.file = str(path)
            with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
                _feed(shell, lines)
        if not given.commands and not given.files:
            if sys.stdin.isatty():
                _typed(shell)
            else:
                _feed(shell, sys.stdin)
    except Quit as ended:
        return ended.status
    return 0 if given.files else status


def _run_command(shell: Shell, text: str) -> int:
    shell.failed = False
    try:
        for line in text.split("\n"):
            shell.feed(line)
        shell.end()
    except Quit as ended:
        if ended.status != STOPPED:
            raise
    return FAILED if shell.failed else 0


def _feed(shell: Shell, lines: Iterable[str]) -> None:
    for line in lines:
        shell.feed(line.rstrip("\r\n"))
    shell.end()


def _typed(shell: Shell) -> None:
    """At a terminal: a prompt, history and completion; Ctrl-C drops what is typed, or cancels what runs."""
    with handling({signal.SIGINT: signal.default_int_handler}):
        _ready_readline(shell)
        shell.text.typed = True
        while True:
            try:
                line = input(shell.prompt)
            except EOFError:
                sys.stdout.write("\\q\n")
                return
            except KeyboardInterrupt:
                shell.text.drop()
                sys.stdout.write("\n")
                continue
            try:
                shell.feed(line)
            except KeyboardInterrupt:
                shell.text.drop()
                sys.stderr.write("ERROR:  canceling statement due to user request\n")


def _ready_readline(shell: Shell) -> None:
    try:
        import readline  # noqa: PLC0415 - not every Python has it
    except ImportError:
        return
    major = shell.session.database.major
    words = [*functions_of(major), *views_of(major), *_KEYWORDS, *(f"\\{name}" for name in shell.commands)]

    def complete(text: str, state: int) -> str | None:
        found = sorted(word for word in words if text and word.lower().startswith(text.lower()))
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,;()=<>'\"")
    readline.parse_and_bind("tab: complete")
    history = user_cache() / "sql_history"
    if history.exists():
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY)
    atexit.register(_keep_history, history)


def _keep_history(path: Path) -> None:
    import readline  # noqa: PLC0415

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        readline.write_history_file(path)
    except OSError:
        pass


_KEYWORDS = ("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "SET", "RESET", "SHOW", "count(*)")
