"""`tailrace mirror`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import (
    database_of,
    give_source_options,
    parse_moment,
    parse_rate,
    parse_seconds,
    parse_store_options,
    parse_window,
    source_of,
)
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import (
    ArraysOption,
    CopyAgainOption,
    CopyRateOption,
    CopyStrategyOption,
    LakeFormatOption,
    LakeLayoutOption,
    LakeOption,
    LakeUntilOption,
    LiveSourceArgument,
    NoCopyOption,
    NumericOption,
    OnErrorOption,
    OnOption,
    RestoreCommandOption,
    ResyncOption,
    SourceOptions,
    StoreOptions,
    SynchronousOption,
    TimesOption,
    WalCatalogOption,
    WindowOption,
)
from tailrace.client.copy_options import CopyOptions, CopyStrategy
from tailrace.errors import UsageError


def mirror(
    source: LiveSourceArgument,
    to: LakeOption,
    state: Annotated[Path, typer.Option("--state", help="State location: the directory in which the slot is kept.")],
    database: Annotated[str, typer.Option(help="Database whose tables are mirrored, if the connection string names none.")] = "",
    slot: Annotated[str, typer.Option(help="The slot that says how far the lake is; made if there is none.", metavar="NAME")] = "mirror",
    publication: Annotated[
        list[str] | None, typer.Option("--publication", help="Mirror what these publications publish; may be repeated.", metavar="NAME,…")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on where the log ends, until a signal comes.")] = False,
    once: Annotated[bool, typer.Option("--once", help="End where the log ends, which is so without --follow.")] = False,
    every: Annotated[str, typer.Option(help="With --follow: gather changes for so long before they are committed.", metavar="TIME")] = "10s",
    until: LakeUntilOption = "",
    catalog: WalCatalogOption = None,
    restore_command: RestoreCommandOption = "",
    layout: LakeLayoutOption = "",
    format: LakeFormatOption = "",
    no_copy: NoCopyOption = False,
    copy_rate: CopyRateOption = "",
    copy_strategy: CopyStrategyOption = CopyStrategy.AUTO,
    copy_again: CopyAgainOption = None,
    resync: ResyncOption = False,
    numeric: NumericOption = "decimal",
    arrays: ArraysOption = "list",
    times: TimesOption = "native",
    on_error: OnErrorOption = "stop",
    no_deletion_vectors: Annotated[
        bool, typer.Option("--no-deletion-vectors", help="Make tables for readers that know none: files of which a row goes are written anew.")
    ] = False,
    option: StoreOptions = None,
    source_option: SourceOptions = None,
    synchronous_standby_names: SynchronousOption = None,
    window: WindowOption = "",
    on: OnOption = On.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each commit.")] = False,
) -> None:  # fmt: skip
    """Keep tables of Delta or Iceberg equal to PostgreSQL's: once, or as the log grows. It goes on where the lake is, and changes nothing twice."""
    database = database_of(source, database)
    if follow and once:
        raise UsageError("--follow and --once contradict each other", sqlstate="42601")
    moment, seconds, size, options = parse_moment(until), parse_seconds(every), parse_window(window), parse_store_options(option)
    give_source_options(source_option, source, catalog)
    with loading():
        from tailrace.cli import mirror as work
        from tailrace.cli.new_slot import captured
    from tailrace.slots.syncrep import parse_synchronous_standby_names

    parse_synchronous_standby_names(synchronous_standby_names or "")
    copy_options = CopyOptions(parse_rate(copy_rate), copy_strategy)
    slot_asked = work.AskedSlot(
        source=source_of(source), database=database, state=state, name=slot, captured=captured(catalog),
        standbys=synchronous_standby_names, on=on, copies=not no_copy, restore_command=restore_command, copy_options=copy_options,
        copy_again=copy_again or (), resync=resync,
    )  # fmt: skip
    lake_asked = work.AskedLake(
        url=to, options=options, numeric=numeric, arrays=arrays, times=times, deletion_vectors=not no_deletion_vectors,
        publications=publication or [], layout=layout, format=format, on_error=on_error,
    )  # fmt: skip
    pace = work.pace_of(size, seconds, follows=follow)
    raise typer.Exit(work.mirror(slot_asked, lake_asked, pace, work.until_of(moment), as_json=as_json))
