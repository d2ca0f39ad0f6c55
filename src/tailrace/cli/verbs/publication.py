"""`tailrace publication create | alter | drop | ls | show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import database_of, parse_lsn
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import JsonOption, OnOption, SourceArgument, WalCatalogOption

app = typer.Typer(help="Publications.", no_args_is_help=True)
StateOption = Annotated[Path, typer.Option("--state", help="State location: the directory in which publications are kept.")]
DatabaseOption = Annotated[
    str, typer.Option("--database", help="Database whose tables are published, if the connection string names none.")
]
AtOption = Annotated[
    str,
    typer.Option("--at", help="For transactions that commit here or later, instead of behind the end of the log.", metavar="LSN"),
]


@app.command()
def create(
    statement: Annotated[str, typer.Argument(help="What stands behind CREATE PUBLICATION, or all of it.", metavar="STATEMENT")],
    source: SourceArgument, state: StateOption, database: DatabaseOption = "", catalog: WalCatalogOption = None, at: AtOption = "",
    on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Define a publication, as CREATE PUBLICATION does."""
    database, lsn = database_of(source, database), parse_lsn(at)
    with loading():
        from tailrace.cli import publication

    publication.create(statement, publication.AskedSource(source, database, catalog, lsn, on), state, as_json=as_json)


@app.command()
def alter(
    statement: Annotated[str, typer.Argument(help="What stands behind ALTER PUBLICATION, or all of it.", metavar="STATEMENT")],
    source: SourceArgument, state: StateOption, database: DatabaseOption = "", catalog: WalCatalogOption = None, at: AtOption = "",
    on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Change a publication that is defined here, as ALTER PUBLICATION does."""
    database, lsn = database_of(source, database), parse_lsn(at)
    with loading():
        from tailrace.cli import publication

    publication.alter(statement, publication.AskedSource(source, database, catalog, lsn, on), state, as_json=as_json)


@app.command()
def drop(
    names: Annotated[str, typer.Argument(help="What stands behind DROP PUBLICATION, or all of it.", metavar="STATEMENT")],
    source: SourceArgument, state: StateOption, database: DatabaseOption = "", catalog: WalCatalogOption = None, at: AtOption = "",
    on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Drop publications that are defined here, as DROP PUBLICATION does. What a log was told with before stays."""
    database, lsn = database_of(source, database), parse_lsn(at)
    with loading():
        from tailrace.cli import publication

    publication.drop(names, publication.AskedSource(source, database, catalog, lsn, on), state, as_json=as_json)


@app.command()
def ls(
    source: SourceArgument, state: StateOption, database: DatabaseOption = "", catalog: WalCatalogOption = None, at: AtOption = "",
    on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """List publications, those defined here and the source's own, as \\dRp of psql does."""
    database, lsn = database_of(source, database), parse_lsn(at)
    with loading():
        from tailrace.cli import publication

    publication.ls(publication.AskedSource(source, database, catalog, lsn, on), state, as_json=as_json)


@app.command()
def show(
    source: SourceArgument, state: StateOption, database: DatabaseOption = "",
    name: Annotated[list[str] | None, typer.Option("--name", help="Only this one; may be given more than once.")] = None,
    catalog: WalCatalogOption = None, at: AtOption = "", on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Show publications with their tables, as \\dRp+ of psql does."""
    database, lsn = database_of(source, database), parse_lsn(at)
    with loading():
        from tailrace.cli import publication

    publication.show(publication.AskedSource(source, database, catalog, lsn, on), state, name or [], as_json=as_json)
