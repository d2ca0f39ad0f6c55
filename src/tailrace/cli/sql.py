"""`tailrace sql`: the manual's SQL interface on slots of a state location, with psql's manners."""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.choice import On
from tailrace.cli.engine import OnOption, runner_for
from tailrace.cli.progress import Progress, warn
from tailrace.errors import UsageError
from tailrace.sql.psql.output import Format
from tailrace.sql.psql.shell import FAILED, NO_CONNECTION, STOPPED, Quit, Shell
from tailrace.user_cache import user_cache

if TYPE_CHECKING:
    from tailrace.pipeline.runner import Runner
    from tailrace.sql.place import Place as StatementPlace

_HISTORY = 2000
NO_DATABASE = "3D000"


def sql(
    source: Annotated[
        Path, typer.Argument(help="Data directory, running or stopped, its pg_wal, or a directory of archived segments.")
    ],
    database: Annotated[str, typer.Option("--database", "-d", help="Database of the session.")],
    state: Annotated[
        Path, typer.Option("--state", help="State location: the directory in which slots are kept. Made with the first.")
    ],
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", help="Run this instead of standard input; may be repeated.", metavar="QUERY"),
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="Run what this file holds; may be repeated.", metavar="FILE")
    ] = None,
    connect: Annotated[
        str, typer.Option("--connect", help="Send what is not the interface's to this server.", metavar="DSN")
    ] = "",
    unaligned: Annotated[bool, typer.Option("--no-align", "-A", help="Unaligned output.")] = False,
    tuples_only: Annotated[bool, typer.Option("--tuples-only", "-t", help="Rows alone.")] = False,
    expanded: Annotated[bool, typer.Option("--expanded", "-x", help="One line a value.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No command tags.")] = False,
    separator: Annotated[str, typer.Option("--field-separator", "-F", help="What separates fields of unaligned output.")] = "|",
    variable: Annotated[
        list[str] | None, typer.Option("--set", "-v", help="A variable of psql's: ON_ERROR_STOP=1.", metavar="NAME=VALUE")
    ] = None,
    on: OnOption = On.AUTO,
) -> None:
    """Carry out SQL as psql does: the functions and views of logical decoding, on slots that are kept outside of the server."""
    from tailrace.sql.place import Place  # noqa: PLC0415 - what reads SQL takes a moment to load
    from tailrace.sql.query.duckdb_engine import run  # noqa: PLC0415 - only this verb needs DuckDB
    from tailrace.sql.server import ConnectedServer  # noqa: PLC0415
    from tailrace.sql.session import PostgresSession  # noqa: PLC0415

    if not source.is_dir():
        raise UsageError(f'source directory "{source}" does not exist')
    progress = Progress("rows", shown=False)

    def runner(size: int) -> Runner:
        return runner_for(on, size, progress.tell)

    place = Place(source, database, state, runner, warn)
    _check_database(place)
    server = ConnectedServer(connect, _notice) if connect else None
    session = PostgresSession(place, run, server)
    shell = Shell(session, Format(not unaligned, tuples_only, expanded, separator=separator), is_quiet=quiet)
    for each in variable or ():
        name, _, value = each.partition("=")
        shell.set_variable(name, value)
    try:
        status = _run(shell, command or [], file or [])
    finally:
        session.close()
    if status:
        raise typer.Exit(status)


def _check_database(place: StatementPlace) -> None:
    """Ends as psql does that cannot connect."""
    try:
        place.check_database()
    except UsageError as error:
        if error.sqlstate != NO_DATABASE:
            raise
        sys.stderr.write(f"tailrace: error: {error}\n")
        raise typer.Exit(NO_CONNECTION) from None


def _notice(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(text)


def _run(shell: Shell, commands: list[str], files: list[Path]) -> int:
    """The exit status, as psql's: 0, 1 if the last command of -c failed, or one at which ON_ERROR_STOP ended it, 3 where it ended a script, 2 where
    the server's connection was lost."""
    status = 0
    try:
        for text in commands:
            status = _run_command(shell, text)
            if status and shell.stops:
                return status
        for path in files:
            shell.file = str(path)
            with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
                _feed(shell, lines)
        if not commands and not files:
            if sys.stdin.isatty():
                _typed(shell)
            else:
                _feed(shell, sys.stdin)
    except Quit as ended:
        return ended.status
    return 0 if files else status


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
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    _ready_readline(shell)
    shell.text.typed = True
    try:
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
    finally:
        signal.signal(signal.SIGINT, before)


def _ready_readline(shell: Shell) -> None:
    try:
        import readline  # noqa: PLC0415 - not every Python has it
    except ImportError:
        return
    from tailrace.sql.functions.signatures import functions_of  # noqa: PLC0415
    from tailrace.sql.views.view_columns import views_of  # noqa: PLC0415

    major = shell.session.place.major
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
