"""All verbs, as typer knows them. The module of a verb is loaded when it is called: help of all, --version and a verb that is not there need none."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tailrace.cli.ending import WriteFailed
from tailrace.version import __version__

VERBS = {
    "decode": "Print committed changes in commit order: LSN, xid and text, separated by tabs.",
    "history": "Tell what became of the tables that were ever called so: created, altered, renamed, rewritten, truncated, dropped.",
    "blame": "Show every version of the rows that once had this key: when, by which transaction, what was done, and which columns it changed.",
    "undo": "Print the SQL that would take a committed transaction back, to be read and run by whoever wants it. Status 1 if some of it cannot be.",
    "messages": (
        "Show messages of pgoutput: rows of pg_logical_slot_get_binary_changes as psql -At prints them, or JSON lines with a payload in hex."
    ),
    "sql": "Carry out SQL as psql does: the functions and views of logical decoding, on slots that are kept outside of the server.",
    "demo": "A small shop on an embedded PostgreSQL, decoded on Spark, mirrored into Delta, compared row by row.",
    "wal": "Look at write-ahead log.",
    "catalog": "Catalog states.",
    "slot": "Replication slots.",
    "publication": "Publications.",
    "archive": "Archives of write-ahead log.",
    "spool": "Copies of the WAL of running servers.",
}
"""By the name of the verb, and of its module, what help says first of it; a test holds it to what the module says."""


class Verb(TyperCommand):
    """Stands for a verb, or a group of them, until it is called."""

    def load(self) -> Any:
        name = str(self.name)
        module = import_module(f"tailrace.cli.{name}")
        verb = getattr(module, "app", None)
        if verb is None:
            verb = typer.Typer(add_completion=False)
            verb.command(name)(getattr(module, name))
        command = typer.main.get_command(verb)
        command.name = name
        return command

    def make_context(self, *words: Any, **more: Any) -> Any:
        return self.load().make_context(*words, **more)


class _Verbs(TyperGroup):
    """Lets a failed write through: typer would end with status 1 where a reader has gone."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {name: Verb(name, help=told) for name, told in VERBS.items()}

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            raise WriteFailed(error) from None


app = typer.Typer(
    cls=_Verbs, name="tailrace", help="PostgreSQL's logical decoding on Apache Spark.", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False,
)  # fmt: skip


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"tailrace {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)] = False,
) -> None:
    """PostgreSQL's logical decoding on Apache Spark."""
