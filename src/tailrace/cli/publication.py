"""`tailrace publication`: publications that the server knows nothing of, kept in a state location, in PostgreSQL's own statements; and its own."""

from __future__ import annotations

import sys
from pathlib import Path

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.new_slot import open_or_make
from tailrace.cli.progress import counted, warn
from tailrace.cli.tables import write_json
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline.open_snapshot import define, open_snapshot
from tailrace.publications.commands.carry_out import refused_changes
from tailrace.publications.commands.statements import CreatePublication, DropPublication, Statement, parse_statement
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.describe import PublicationDescriber
from tailrace.publications.publication import Publication
from tailrace.publications.publishing.filter_compiler import filter_text
from tailrace.replication.slot_location import SlotLocation
from tailrace.sources.captured import read_captured
from tailrace.sources.source import Source

CREATE, ALTER, DROP = "CREATE", "ALTER", "DROP"
_MOST_WARNINGS = 10


@dataclass(frozen=True, slots=True)
class AskedSource:
    """Whose publications, as of which LSN (the end of the log if it is None)."""

    name: str
    database: str
    catalog: str | None
    at: Lsn | None
    on: On


def create(statement: str, asked: AskedSource, state: Path, *, as_json: bool) -> None:
    """Carry out CREATE PUBLICATION, and warn of what the server would refuse to send."""
    text, parsed = _parsed(statement, CREATE)
    here = _opened(asked)
    publication = _carry_out(state, here, parsed, text, as_json=as_json)
    assert publication is not None
    refused = [f"{error.message} ({error.detail or error.hint})" for error in refused_changes(here, publication)]
    for each in refused[:_MOST_WARNINGS]:
        warn(each)
    if len(refused) > _MOST_WARNINGS:
        warn(f"there are {len(refused) - _MOST_WARNINGS} more of these")


def alter(statement: str, asked: AskedSource, state: Path, *, as_json: bool) -> None:
    """Carry out ALTER PUBLICATION."""
    text, parsed = _parsed(statement, ALTER)
    _carry_out(state, _opened(asked), parsed, text, as_json=as_json)


def drop(names: str, asked: AskedSource, state: Path, *, as_json: bool) -> None:
    """Carry out DROP PUBLICATION."""
    text, parsed = _parsed(names, DROP)
    _carry_out(state, _opened(asked), parsed, text, as_json=as_json)


def ls(asked: AskedSource, state: Path, *, as_json: bool) -> None:
    """Print what there is, in a line each."""
    here = _opened(asked)
    publications = _all(here, state, asked.at)
    shower = _shower(here)
    if as_json:
        write_json([shower.value(each) for each in publications])
    else:
        _write(shower.listed(publications))


def show(asked: AskedSource, state: Path, names: list[str], *, as_json: bool) -> None:
    """Print those of these names, or all, with their tables."""
    here = _opened(asked)
    publications = _all(here, state, asked.at)
    for each in names:
        if each not in {publication.name for publication in publications}:
            raise UsageError(f'publication "{each}" does not exist', sqlstate="42704")
    wanted = [publication for publication in publications if not names or publication.name in names]
    shower = _shower(here)
    if as_json:
        write_json([shower.value(each) for each in wanted])
    else:
        _write([line for each in wanted for line in shower.described(each)])


def _parsed(text: str, verb: str) -> tuple[str, Statement]:
    """The whole statement, which may have been given without its first two words, and what it says."""
    words = text.split(None, 2)
    is_whole = len(words) > 1 and words[0].upper() in (CREATE, ALTER, DROP) and words[1].upper() == "PUBLICATION"
    whole = text if is_whole else f"{verb} PUBLICATION {text}"
    parsed = parse_statement(whole)
    is_verb = {CreatePublication: CREATE, DropPublication: DROP}.get(type(parsed), ALTER)
    if is_verb != verb:
        raise UsageError(f"this is {is_verb} PUBLICATION, not {verb} PUBLICATION", sqlstate="42601")
    return whole, parsed


def _opened(asked: AskedSource) -> DatabaseSnapshot:
    captured = read_captured(asked.catalog) if asked.catalog else None
    with counted("records") as progress:
        source = Source.open(
            asked.name, captured.needs_wal_from if captured else None, database=asked.database, tell=progress.tell
        )
        segments = source.segments
        runner = runner_for(asked.on, segments.stop_lsn - segments.first_lsn, progress.tell)
        return open_snapshot(source, asked.database, runner, catalog=captured, at=asked.at)


def _carry_out(state: Path, here: DatabaseSnapshot, statement: Statement, text: str, *, as_json: bool) -> Publication | None:
    """Do it, and say so; the publication that it made or changed, as it is then. Only what creates one makes a state location."""
    creates = isinstance(statement, CreatePublication)
    location = open_or_make(state, here.system) if creates else SlotLocation.open(state, warn=warn)
    location.check_system(here.system)
    done = define(location.publications, here, statement, text)
    for notice in done.notices:
        sys.stderr.write(f"NOTICE:  {notice}\n")
    name = getattr(statement, "new", getattr(statement, "name", ""))
    found = next((each for each in done.definitions.current if each.name == name), None)
    if as_json:
        write_json({"command": done.tag, "since": str(here.lsn)} | ({"publication": _shower(here).value(found)} if found else {}))
    else:
        _write([done.tag])
    return found


def _all(here: DatabaseSnapshot, state: Path, at: Lsn | None) -> list[Publication]:
    """By name, those defined here before the source's own of the same name."""
    location = SlotLocation.open(state, warn=warn)
    location.check_system(here.system)
    definitions = location.publications.read(here.system, here.database_oid, here.database)
    defined = definitions.at(here.lsn) if at is not None else definitions.current
    names = {publication.name for publication in defined}
    own = [publication for publication in here.of_source if publication.name not in names]
    return sorted([*defined, *own], key=lambda publication: publication.name)


def _shower(here: DatabaseSnapshot) -> PublicationDescriber:
    return PublicationDescriber(here.catalogs, here.major, lambda found, table: filter_text(here.compiler, found, table))


def _write(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
