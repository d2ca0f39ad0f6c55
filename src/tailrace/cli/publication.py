"""`tailrace publication`: publications that the server knows nothing of, kept in a state location, in PostgreSQL's own statements; and its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.catalog.statefile import read_state
from tailrace.cli.choice import On
from tailrace.cli.decode import parse_lsn
from tailrace.cli.engine import OnOption, runner_for
from tailrace.cli.progress import counted, warn
from tailrace.cli.tables import JsonOption, write_json
from tailrace.errors import UsageError
from tailrace.publications.publication import Publication
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.segment_files import open_segments
from tailrace.storage.source import wal_of

if TYPE_CHECKING:  # what reads SQL and evaluates it takes a while to load, and no other verb needs it
    from tailrace.pipeline.defining import SourceMoment
    from tailrace.publications.commands.statements import Statement
    from tailrace.publications.describe import PublicationDescriber

app = typer.Typer(help="Publications.", no_args_is_help=True, add_completion=False)
StateOption = Annotated[Path, typer.Option("--state", help="State location: the directory in which publications are kept.")]
SourceArgument = Annotated[Path, typer.Argument(help="Data directory, base backup, pg_wal, or directory of archived segments.")]
DatabaseOption = Annotated[str, typer.Option(help="Database whose tables are published.")]
CatalogOption = Annotated[Path | None, typer.Option(help="Captured catalog state, for WAL alone.")]
AtOption = Annotated[
    str, typer.Option(help="For transactions that commit here or later, instead of behind the end of the log.", metavar="LSN")
]
CREATE, ALTER, DROP = "CREATE", "ALTER", "DROP"
_MOST_WARNINGS = 10


@app.command()
def create(
    statement: Annotated[str, typer.Argument(help="What stands behind CREATE PUBLICATION, or all of it.", metavar="STATEMENT")],
    source: SourceArgument, database: DatabaseOption, state: StateOption, catalog: CatalogOption = None, at: AtOption = "",
    on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Define a publication, as CREATE PUBLICATION does."""
    from tailrace.pipeline.defining import refused_changes  # noqa: PLC0415

    text, parsed = _parsed(statement, CREATE)
    here = _opened(source, database, catalog, at, on)
    publication = _carry_out(state, here, parsed, text, as_json=as_json)
    assert publication is not None
    refused = [f"{error.message} ({error.detail or error.hint})" for error in refused_changes(here, publication)]
    for each in refused[:_MOST_WARNINGS]:
        warn(each)
    if len(refused) > _MOST_WARNINGS:
        warn(f"there are {len(refused) - _MOST_WARNINGS} more of these")


@app.command()
def alter(
    statement: Annotated[str, typer.Argument(help="What stands behind ALTER PUBLICATION, or all of it.", metavar="STATEMENT")],
    source: SourceArgument, database: DatabaseOption, state: StateOption, catalog: CatalogOption = None, at: AtOption = "",
    on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Change a publication that is defined here, as ALTER PUBLICATION does."""
    text, parsed = _parsed(statement, ALTER)
    _carry_out(state, _opened(source, database, catalog, at, on), parsed, text, as_json=as_json)


@app.command()
def drop(
    names: Annotated[str, typer.Argument(help="What stands behind DROP PUBLICATION, or all of it.", metavar="STATEMENT")],
    source: SourceArgument, database: DatabaseOption, state: StateOption, catalog: CatalogOption = None, at: AtOption = "",
    on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Drop publications that are defined here, as DROP PUBLICATION does. What a log was told with before stays."""
    text, parsed = _parsed(names, DROP)
    _carry_out(state, _opened(source, database, catalog, at, on), parsed, text, as_json=as_json)


@app.command("ls")
def list_all(
    source: SourceArgument, database: DatabaseOption, state: StateOption, catalog: CatalogOption = None, at: AtOption = "",
    on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """List publications, those defined here and the source's own, as \\dRp of psql does."""
    here = _opened(source, database, catalog, at, on)
    publications = _all(here, state, at)
    shower = _shower(here)
    if as_json:
        write_json([shower.value(each) for each in publications])
    else:
        _write(shower.listed(publications))


@app.command()
def show(
    source: SourceArgument, database: DatabaseOption, state: StateOption,
    name: Annotated[list[str] | None, typer.Option("--name", help="Only this one; may be given more than once.")] = None,
    catalog: CatalogOption = None, at: AtOption = "", on: OnOption = On.AUTO, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Show publications with their tables, as \\dRp+ of psql does."""
    here = _opened(source, database, catalog, at, on)
    publications = _all(here, state, at)
    for each in name or ():
        if each not in {publication.name for publication in publications}:
            raise UsageError(f'publication "{each}" does not exist', sqlstate="42704")
    wanted = [publication for publication in publications if not name or publication.name in name]
    shower = _shower(here)
    if as_json:
        write_json([shower.value(each) for each in wanted])
    else:
        _write([line for each in wanted for line in shower.described(each)])


def _parsed(text: str, verb: str) -> tuple[str, Statement]:
    """The whole statement, which may have been given without its first two words, and what it says."""
    from tailrace.publications.commands.statements import CreatePublication, DropPublication, parse_statement  # noqa: PLC0415

    words = text.split(None, 2)
    is_whole = len(words) > 1 and words[0].upper() in (CREATE, ALTER, DROP) and words[1].upper() == "PUBLICATION"
    whole = text if is_whole else f"{verb} PUBLICATION {text}"
    parsed = parse_statement(whole)
    is_verb = {CreatePublication: CREATE, DropPublication: DROP}.get(type(parsed), ALTER)
    if is_verb != verb:
        raise UsageError(f"this is {is_verb} PUBLICATION, not {verb} PUBLICATION", sqlstate="42601")
    return whole, parsed


def _opened(source: Path, database: str, catalog: Path | None, at: str, on: On) -> SourceMoment:
    from tailrace.pipeline.defining import source_moment  # noqa: PLC0415

    captured = read_state(catalog.read_bytes(), str(catalog)) if catalog else None
    with counted("records") as progress:
        segments = open_segments(wal_of(source))
        runner = runner_for(on, segments.stop_lsn - segments.first_lsn, progress.tell)
        return source_moment(source, database, runner, catalog=captured, at=parse_lsn(at))


def _carry_out(state: Path, here: SourceMoment, statement: Statement, text: str, *, as_json: bool) -> Publication | None:
    """Do it, and say so; the publication that it made or changed, as it is then."""
    from tailrace.pipeline.defining import define  # noqa: PLC0415

    location = SlotLocation.open_or_create(state, here.system, warn=warn)
    done = define(location.publications, here, statement, text)
    for notice in done.notices:
        typer.echo(f"NOTICE:  {notice}", err=True)
    name = getattr(statement, "new", getattr(statement, "name", ""))
    found = next((each for each in done.definitions.current if each.name == name), None)
    if as_json:
        write_json({"command": done.tag, "since": str(here.lsn)} | ({"publication": _shower(here).value(found)} if found else {}))
    else:
        _write([done.tag])
    return found


def _all(here: SourceMoment, state: Path, at: str) -> list[Publication]:
    """By name, those defined here before the source's own of the same name."""
    location = SlotLocation.open(state, warn=warn)
    location.check_system(here.system)
    definitions = here.defined(location.publications)
    defined = definitions.at(here.lsn) if at else definitions.current
    names = {publication.name for publication in defined}
    own = [publication for publication in here.of_source if publication.name not in names]
    return sorted([*defined, *own], key=lambda publication: publication.name)


def _shower(here: SourceMoment) -> PublicationDescriber:
    from tailrace.publications.describe import PublicationDescriber  # noqa: PLC0415
    from tailrace.publications.publishing.filter_compiler import filter_text  # noqa: PLC0415

    return PublicationDescriber(here.moment, here.major, lambda found, table: filter_text(here.compiler, found, table))


def _write(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
