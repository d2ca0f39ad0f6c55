"""The verbs, their arguments, options and help, as typer knows them: one file a verb, or a group of them.

Nobody should wait to be told what there is, or that a word is wrong: these files import what takes no time, read what the words mean
(`cli/arguments.py`), and only then import the file of `cli/` that does the work.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tailrace.cli.ending import WriteFailed
from tailrace.cli.verbs import archive, catalog, publication, slot, spool, wal
from tailrace.cli.verbs.blame import blame
from tailrace.cli.verbs.decode import decode
from tailrace.cli.verbs.demo import demo
from tailrace.cli.verbs.history import history
from tailrace.cli.verbs.messages import messages
from tailrace.cli.verbs.sql import sql
from tailrace.cli.verbs.undo import undo
from tailrace.version import __version__

COMMANDS = (decode, history, blame, undo, messages, sql, demo)
GROUPS = {
    "wal": wal.app, "catalog": catalog.app, "slot": slot.app, "publication": publication.app, "archive": archive.app,
    "spool": spool.app,
}  # fmt: skip


class _Verbs(TyperGroup):
    """Shows commands before groups, and lets a failed write through: typer would end with status 1 where a reader has gone."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*(each.__name__ for each in COMMANDS), *GROUPS]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            raise WriteFailed(error) from None


app = typer.Typer(
    cls=_Verbs, name="tailrace", help="PostgreSQL's logical decoding on Apache Spark.", no_args_is_help=True,
    pretty_exceptions_enable=False,
)  # fmt: skip
for _command in COMMANDS:
    app.command()(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"tailrace {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)] = False,
) -> None:
    """PostgreSQL's logical decoding on Apache Spark."""
