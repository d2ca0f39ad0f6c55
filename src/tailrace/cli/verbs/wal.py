"""`tailrace wal ls | stat | dump | verify | receive`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import give_source_options, parse_lsn
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import (
    JsonOption,
    LogRestoreOption,
    OnOption,
    RestoreCommandOption,
    SourceArgument,
    SourceOptions,
    SynchronousOption,
    WalKeepOption,
)
from tailrace.client.restore_command import RestoreCommand
from tailrace.errors import UsageError
from tailrace.slots.wal_keep import parse_wal_keep
from tailrace.sources.named import restore_with
from tailrace.storage.location_folder import check_is_location

app = typer.Typer(help="Look at write-ahead log, and receive it.", no_args_is_help=True)


@app.command()
def ls(
    source: SourceArgument,
    as_json: JsonOption = False,
    restore_command: LogRestoreOption = "",
    source_option: SourceOptions = None,
) -> None:
    """Segments in order, with timelines, sizes and gaps."""
    give_source_options(source_option, source)
    restore_with(source, restore_command)
    with loading():
        from tailrace.cli import segments

    segments.ls(source, as_json=as_json)


@app.command()
def stat(
    source: SourceArgument,
    top: Annotated[int, typer.Option(help="How many relations and transactions to show.")] = 20,
    as_json: JsonOption = False,
    on: OnOption = On.AUTO,
    restore_command: LogRestoreOption = "",
    source_option: SourceOptions = None,
) -> None:
    """Counts and bytes per resource manager, and the relations and transactions that take the most."""
    give_source_options(source_option, source)
    restore_with(source, restore_command)
    with loading():
        from tailrace.cli import wal

    wal.stat(source, top, on, as_json=as_json)


@app.command()
def dump(
    source: SourceArgument,
    start: Annotated[str, typer.Option(help="Begin with the first record at or after this LSN.")] = "",
    end: Annotated[str, typer.Option(help="Stop before records that start here or later.")] = "",
    rmgr: Annotated[list[str] | None, typer.Option(help="Only these resource managers, by name.")] = None,
    xid: Annotated[int | None, typer.Option(help="Only this transaction's.")] = None,
    relation: Annotated[str, typer.Option(help="Only records on this file: TABLESPACE/DATABASE/FILE.")] = "",
    limit: Annotated[int | None, typer.Option("-n", "--limit", help="At most so many.")] = None,
    as_json: JsonOption = False,
    restore_command: LogRestoreOption = "",
    source_option: SourceOptions = None,
) -> None:
    """Records with their fields and block references, as pg_waldump prints them."""
    from tailrace.wal.resource_managers import manager_named

    managers = frozenset(manager_named(name) for name in rmgr or ())
    if relation and not re.fullmatch(r"\d+/\d+/\d+", relation):
        raise UsageError(
            f'invalid relation specification: "{relation}"', hint='Expecting "tablespace OID/database OID/relation filenode".'
        )
    begin, stop = parse_lsn(start), parse_lsn(end)
    give_source_options(source_option, source)
    restore_with(source, restore_command)
    with loading():
        from tailrace.cli import wal

    wal.dump(source, begin, stop, wal.RecordFilter(managers, xid, relation), limit, as_json=as_json)


@app.command()
def verify(
    source: SourceArgument,
    as_json: JsonOption = False,
    on: OnOption = On.AUTO,
    restore_command: LogRestoreOption = "",
    source_option: SourceOptions = None,
) -> None:
    """Check every record: checksum, chain, page headers. Names the file and the record's LSN where the log is damaged."""
    give_source_options(source_option, source)
    restore_with(source, restore_command)
    with loading():
        from tailrace.cli import wal

    wal.verify(source, on, as_json=as_json)


@app.command()
def receive(
    server: Annotated[str, typer.Argument(help="Connection string or URI of the server.")],
    to: Annotated[Path, typer.Option("--to", help="Directory to receive into; made if there is none.")],
    slot: Annotated[
        str, typer.Option("--physical-slot", help="Physical replication slot to use: the server keeps WAL for it.")
    ] = "",
    create: Annotated[bool, typer.Option("--create-slot", help="Create that slot first.")] = False,
    drop: Annotated[bool, typer.Option("--drop-slot", help="Drop that slot, and end.")] = False,
    endpos: Annotated[str, typer.Option(help="End once all is there up to this LSN.")] = "",
    once: Annotated[bool, typer.Option("--no-loop", help="Do not connect again when the connection fails.")] = False,
    keep: WalKeepOption = "",
    state: Annotated[
        list[Path] | None,
        typer.Option(
            "--state",
            help="State location whose slots read the directory: what none of them needs is removed, and a server waits for those that it says.",
        ),
    ] = None,
    synchronous_standby_names: SynchronousOption = None,
    restore_command: RestoreCommandOption = "",
) -> None:
    """Receive a server's log into a directory, as a standby does. The directory is a SOURCE."""
    if (create or drop) and not slot:
        raise UsageError("no slot specified", hint="Name it: --physical-slot NAME.")
    if synchronous_standby_names is not None and len(state or ()) != 1:
        raise UsageError(
            "no state location specified",
            hint="--synchronous-standby-names names slots of one: --state DIRECTORY.",
            sqlstate="42601",
        )
    upto, kept = parse_lsn(endpos), parse_wal_keep(keep)
    restore = RestoreCommand.parse(restore_command) if restore_command else None
    for each in state or ():
        check_is_location(each)
    with loading():
        from tailrace.cli.receive import Consumers, PhysicalSlot, receive_wal

    consumers = Consumers(state or (), kept, synchronous_standby_names)
    receive_wal(server, to, PhysicalSlot(slot, create, drop), upto, consumers, restore, retries=not once)
