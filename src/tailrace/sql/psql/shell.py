"""psql's manners for `tailrace sql`: statements and backslash commands in, results and errors out.

State: what of a statement has been typed, how results are printed, whether something failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.sql.psql.output import Format, printed
from tailrace.sql.psql.scan import Command, Statement, StatementText, excerpt

if TYPE_CHECKING:  # they load what reads SQL
    from tailrace.sql.postgres_session import PostgresSession
    from tailrace.sql.result import Result
    from tailrace.sql.views.relations import Relations

HELP = """\
General
  \\q                     quit
Input/Output
  \\echo [TEXT]           write text to standard output
Informational
  \\d                     list tables, views, and sequences
  \\d      NAME           describe a table
  \\dt                    list tables
  \\dRp                   list publications
  \\dRp+   [NAME]         describe publications
Formatting
  \\a                     toggle between unaligned and aligned output mode
  \\t [on|off]            show only rows
  \\x [on|off]            toggle expanded output
  \\pset null TEXT        what NULL is printed as
  \\pset fieldsep TEXT    what separates fields of unaligned output
Variables
  \\set ON_ERROR_STOP on  end with status 3 at the first error
  \\set VERBOSITY WORD    how errors are printed: default, verbose, terse or sqlstate

SET tailrace.as_of = 'X/X' has catalogs, and \\d, as they were at that LSN; RESET tailrace.as_of, as they are.
"""
STOPPED, NO_CONNECTION, FAILED = 3, 2, 1
_CONNECTION_FAILURE, _NO_TABLE = "08006", "42P01"
_ON = ("on", "true", "1", "yes")


class Quit(Exception):
    """\\q, or an error where ON_ERROR_STOP is set."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Shell:
    """`file` is the name of what is read, for messages; empty where statements are typed."""

    session: PostgresSession
    form: Format = field(default_factory=Format)
    file: str = ""
    stops: bool = False
    verbosity: str = "default"
    failed: bool = False
    is_quiet: bool = False
    text: StatementText = field(default_factory=StatementText)
    commands: dict[str, Callable[[str], None]] = field(init=False)

    def __post_init__(self) -> None:
        self.commands = {
            "q": self._quit, "?": lambda _: self._write(HELP), "h": lambda _: self._write(HELP), "echo": self._echo, "x": self._expanded,
            "t": self._tuples_only, "a": self._toggle_aligned, "set": self._set, "pset": self._pset, "d": self._describe,
            "dt": lambda _: self._list("rp"), "dRp": self._publications, "dRp+": self._publications_in_full,
        }  # fmt: skip

    def feed(self, line: str) -> None:
        """A line of input; what ends in it is carried out. Raises `Quit`."""
        for each in self.text.feed(line):
            self._do(each)

    def end(self) -> None:
        """Run what the input left open when it ended."""
        for each in self.text.rest():
            self._do(each)

    @property
    def prompt(self) -> str:
        server = self.session.server
        return f"{self.session.database.name}{self.text.mark}{server.transaction if server else ''}# "

    def _do(self, each: Statement | Command) -> None:
        try:
            if isinstance(each, Statement):
                self.run(each)
            else:
                self._command(each)
                sys.stdout.flush()  # who writes to a pipe may wait for it
        except TailraceError as error:
            self._tell(error, each)

    def run(self, statement: Statement) -> None:
        """Carry it out, and print what it gives, before a slot moves."""
        form = self.form
        if statement.expanded:
            form = Format(form.aligned, form.tuples_only, True, form.null, form.separator)
        with self.session.execute(_checked(statement.text)) as result:
            self._print(result, form, statement)
            sys.stdout.flush()

    def _print(self, result: Result, form: Format, statement: Statement) -> None:
        if result.error:
            self._write_error(result.error, statement.line)
            if result.sqlstate == _CONNECTION_FAILURE and not self.text.typed:
                self._write_error("error: connection to server was lost\n", statement.line)
                raise Quit(NO_CONNECTION)
        elif result.columns is not None:
            self._write(printed(result.columns, form, count=result.rows))
        elif result.tag and not self.is_quiet:
            self._write(f"{result.tag}\n")

    # -- errors ------------------------------------------------------------------------------------------------------------------------

    def _tell(self, error: TailraceError, each: Statement | Command) -> None:
        if isinstance(each, Command):
            self._write_error(f"{error.message}\n", each.line)
            return
        if error.sqlstate == _NO_TABLE and self.session.server is None:
            error.hint = (
                "Rows of a database's own tables are with its server. Give --connect DSN, and the statement is sent there."
            )
        lines = _LINES[self.verbosity](error, each.text)
        self._write_error("".join(f"{line}\n" for line in lines), each.line)

    def _write_error(self, text: str, line: int) -> None:
        sys.stdout.flush()
        sys.stderr.write(f"tailrace:{self.file}:{line}: {text}" if self.file else text)
        sys.stderr.flush()
        self.failed = True
        if self.stops:
            raise Quit(STOPPED)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)

    # -- backslash commands ------------------------------------------------------------------------------------------------------------

    def _command(self, command: Command) -> None:
        carry_out = self.commands.get(command.name)
        if carry_out is None:
            self._write_error(f"invalid command \\{command.name}\nTry \\? for help.\n", command.line)
            return
        carry_out(command.rest)

    def _quit(self, rest: str) -> None:
        raise Quit(0)

    def _echo(self, rest: str) -> None:
        self._write(f"{rest.strip(chr(39))}\n")

    def _expanded(self, rest: str) -> None:
        self.form.expanded = _toggled(self.form.expanded, rest)
        self._say(f"Expanded display is {'on' if self.form.expanded else 'off'}.")

    def _tuples_only(self, rest: str) -> None:
        self.form.tuples_only = _toggled(self.form.tuples_only, rest)
        self._say(f"Tuples only is {'on' if self.form.tuples_only else 'off'}.")

    def _toggle_aligned(self, rest: str) -> None:
        self.form.aligned = not self.form.aligned
        self._say(f"Output format is {'aligned' if self.form.aligned else 'unaligned'}.")

    def _say(self, text: str) -> None:
        if not self.is_quiet:
            self._write(f"{text}\n")

    def _set(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        self.set_variable(name, value.strip().strip("'"))

    def set_variable(self, name: str, value: str) -> None:
        """Those that mean something here; others are taken, and mean nothing."""
        if name == "ON_ERROR_STOP":
            self.stops = value.lower() in _ON
        elif name == "VERBOSITY":
            if value.lower() not in _LINES:
                known = ", ".join(_LINES)
                raise TailraceError(f'unrecognized value "{value}" for "VERBOSITY"\nAvailable values are: {known}.')
            self.verbosity = value.lower()
        elif name == "QUIET":
            self.is_quiet = value.lower() in _ON

    def _pset(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        value = value.strip().strip("'")
        if name == "null":
            self.form.null = value
            self._say(f'Null display is "{value}".')
        elif name == "fieldsep":
            self.form.separator = value
            self._say(f'Field separator is "{value}".')
        elif name in ("expanded", "tuples_only"):
            setattr(self.form, name, _toggled(getattr(self.form, name), value))
        else:
            raise TailraceError(f"\\pset: unknown option: {name}")

    @property
    def _relations(self) -> Relations:
        from tailrace.sql.views.relations import Relations  # noqa: PLC0415

        return Relations(self.session.database, self.session.parameters)

    def _list(self, kinds: str) -> None:
        from tailrace.sql.psql.describe import listed  # noqa: PLC0415

        found = listed(self._relations.here.catalogs, kinds)
        if not found.columns[0].cells:
            raise TailraceError("Did not find any relations.")
        self._write(printed(found.columns, self.form, found.title))

    def _describe(self, rest: str) -> None:
        if not rest:
            self._list("rpvmSf")
            return
        from tailrace.sql.psql.describe import described, relation_of  # noqa: PLC0415

        relations = self._relations
        relation = relation_of(relations.here.catalogs, rest)
        published = relations.published_by(relation)
        found = described(relations.here.catalogs, rest, published, relations.here.compiler.facts.style)
        self._write(printed(found.columns, self.form, found.title, found.footers))

    def _publications(self, rest: str) -> None:
        relations = self._relations
        self._write("".join(f"{line}\n" for line in relations.shower.listed(relations.publications())))

    def _publications_in_full(self, rest: str) -> None:
        relations = self._relations
        wanted = [each for each in relations.publications() if not rest or each.name == rest]
        if not wanted:
            raise TailraceError(f'Did not find any publication named "{rest}".' if rest else "Did not find any publications.")
        lines = [line for each in wanted for line in relations.shower.described(each)]
        self._write("".join(f"{line}\n" for line in lines))


def _checked(text: str) -> str:
    """The text of a statement. Raises UsageError, as the server does, for bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) & 0xFF
        raise UsageError(f'invalid byte sequence for encoding "UTF8": 0x{byte:02x}', sqlstate="22021") from None
    return text


def _toggled(now: bool, word: str) -> bool:
    return not now if not word else word.lower() in _ON


def _by_default(error: TailraceError, query: str) -> list[str]:
    lines = [f"ERROR:  {error.message}"]
    if error.position is not None:
        lines += excerpt(query, error.position)
    more = (("DETAIL", error.detail), ("HINT", error.hint), ("CONTEXT", error.context))
    return lines + [f"{word}:  {text}" for word, text in more if text]


def _verbose(error: TailraceError, query: str) -> list[str]:
    first, *lines = _by_default(error, query)
    return [first.replace("ERROR:  ", f"ERROR:  {error.sqlstate}: ", 1), *lines]


def _tersely(error: TailraceError, _: str) -> list[str]:
    return [f"ERROR:  {error.message}" + (f" at character {error.position}" if error.position is not None else "")]


_LINES: Mapping[str, Callable[[TailraceError, str], list[str]]] = {
    "default": _by_default, "verbose": _verbose, "terse": _tersely, "sqlstate": lambda error, _: [f"ERROR:  {error.sqlstate}"],
}  # fmt: skip
"""An error in psql's VERBOSITY (`pqBuildErrorMessage3` of libpq)."""
