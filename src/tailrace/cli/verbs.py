"""All verbs, as typer knows them."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tailrace.cli import archive, blame, catalog, decode, demo, history, messages, publication, slot, spool, sql, undo, wal
from tailrace.cli.ending import WriteFailed
from tailrace.version import __version__


class _Verbs(TyperGroup):
    """Lets a failed write through: typer would end with status 1 where a reader has gone."""

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


app.command("decode")(decode.decode)
app.command("history")(history.history)
app.command("blame")(blame.blame)
app.command("undo")(undo.undo)
app.command("messages")(messages.messages)
app.command("sql")(sql.sql)
app.command("demo")(demo.demo)
app.add_typer(wal.app, name="wal")
app.add_typer(catalog.app, name="catalog")
app.add_typer(slot.app, name="slot")
app.add_typer(publication.app, name="publication")
app.add_typer(archive.app, name="archive")
app.add_typer(spool.app, name="spool")
