"""`tailrace wal ls | stat | dump | verify`: look at the log itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tailrace.cli.decode import parse_lsn
from tailrace.errors import UsageError
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.river import LocalRunner, Source, scan_log
from tailrace.storage.directory import DataDirectory
from tailrace.storage.segments import Segment, Segments, list_segments, open_segments
from tailrace.wal.loads import number
from tailrace.wal.resource_managers import NAMES
from tailrace.wal.statistics import Counted, count_records, walk

app = typer.Typer(help="Look at write-ahead log.", no_args_is_help=True)
Where = Annotated[Path, typer.Argument(help="Data directory, pg_wal, or directory of archived segments.")]
_PAGE_ADDRESS = 8


@app.command("ls")
def list_files(source: Where) -> None:
    """Segments in order, with timelines, sizes and gaps."""
    directory = DataDirectory.at(source)
    segments = open_segments(directory.wal if directory else source)
    table = Table("segment", "timeline", "from", "file size", "")
    table.columns[3].justify = "right"
    gaps = dict(segments.gaps)
    for position, segment in sorted(segments.by_number.items()):
        start = Lsn(position * segments.segment_size)
        table.add_row(Path(segment.path).name, str(segment.timeline), str(start), _size(segment), _note(segments, segment, start))
        if position + 1 in gaps:
            gap = Lsn((position + 1) * segments.segment_size)
            table.add_row("…", "", str(gap), "", f"[red]{gaps[position + 1] - position - 1} missing[/red]")
    chosen = {segment.path for segment in segments.by_number.values()}
    for segment in list_segments(segments.directory):
        if segment.path not in chosen:
            table.add_row(
                Path(segment.path).name, str(segment.timeline), "", _size(segment), "other history, or a second copy",
            )  # fmt: skip
    console = Console()
    console.print(f"system {segments.system}, PostgreSQL {segments.major}, segments of {segments.segment_size >> 20} MB")
    for timeline, left in segments.history:
        console.print(f"timeline {timeline} was left at {left}")
    console.print(table)


def _size(segment: Segment) -> str:
    return f"{Path(segment.path).stat().st_size:,}"


def _note(segments: Segments, segment: Segment, start: Lsn) -> str:
    """What is special about a segment. A server makes segments ahead, from old files: their first page is from elsewhere."""
    notes = [segment.compression.removeprefix(".")] if segment.compression else []
    if segment.partial:
        notes.append("partial")
    if not segment.compression:
        page = segments.read(start, start + PAGE_SIZE)
        if not page.raw or number(page.buf, _PAGE_ADDRESS, 8) != start:
            notes.append("not written yet")
    return ", ".join(notes)


@app.command()
def stat(source: Where, top: Annotated[int, typer.Option(help="How many relations and transactions to show.")] = 20) -> None:
    """Counts and bytes per resource manager, and the relations and transactions that take the most."""
    segments = Source.open(source).segments
    counts = count_records(segments)
    console = Console()
    console.print(_table("resource manager", counts.managers, len(counts.managers)))
    console.print(_table("tablespace/database/file", counts.files, top))
    console.print(_table("transaction", counts.transactions, top))
    total = f"{counts.managers.total_records:,} records from {counts.first} to {counts.stop}"
    console.print(f"{total}, where the walk ended: {counts.reason}", soft_wrap=True)
    _check_end(segments, counts.stop - 1)


def _table(noun: str, counted: Counted, top: int) -> Table:
    shown = counted.largest(top)
    rest = "" if len(shown) == len(counted) else f"the largest {len(shown)} of {len(counted):,}"
    table = Table(noun, "records", "bytes", "%", caption=rest)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, records, size in shown:
        table.add_row(name, f"{records:,}", f"{size:,}", f"{100 * size / counted.total_bytes:.1f}")
    return table


@app.command()
def dump(
    source: Where,
    start: Annotated[str, typer.Option(help="Begin with the first record at or after this LSN.")] = "",
    end: Annotated[str, typer.Option(help="Stop before records that start here or later.")] = "",
    rmgr: Annotated[list[str] | None, typer.Option(help="Only these resource managers, by name.")] = None,
    xid: Annotated[int | None, typer.Option(help="Only this transaction's.")] = None,
    relation: Annotated[str, typer.Option(help="Only records on this file: TABLESPACE/DATABASE/FILE.")] = "",
    limit: Annotated[int | None, typer.Option("-n", "--limit", help="At most so many.")] = None,
) -> None:
    """Records with their fields and block references, as pg_waldump prints them."""
    segments = Source.open(source).segments
    managers = {_manager_named(name) for name in rmgr or ()}
    printed = 0
    if relation and not re.fullmatch(r"\d+/\d+/\d+", relation):
        raise UsageError(
            f'invalid relation specification: "{relation}"', hint='Expecting "tablespace OID/database OID/relation filenode".'
        )
    begin, stop = parse_lsn(start), parse_lsn(end)
    last = int(begin or segments.first_lsn)
    for record in walk(segments, begin, stop):
        if limit is not None and printed >= limit:
            return
        last = record.lsn
        if managers and record.manager not in managers:
            continue
        if (xid is None or record.xid == xid) and (not relation or relation in map(str, record.files)):
            sys.stdout.write(f"{record}\n")
            printed += 1
    _check_end(segments, last, stop)


def _check_end(segments: Segments, last: int, stop: Lsn | None = None) -> None:
    """Raise if that is not where the log ends, but damage: `last` lies in the last record that was read."""
    scan_log(segments, LocalRunner(), Lsn(max(last, segments.first_lsn)), stop=stop)


def _manager_named(name: str) -> int:
    for number_of, known in enumerate(NAMES):
        if known.lower() == name.lower():
            return number_of
    if re.fullmatch(r"custom\d{3}", name):
        return int(name.removeprefix("custom"))
    raise UsageError(
        f'resource manager "{name}" does not exist', hint=f"There are {', '.join(NAMES)}, and custom128 to custom255."
    )


@app.command()
def verify(source: Where) -> None:
    """Check every record: checksum, chain, page headers. Names the file and the record's LSN where the log is damaged."""
    found = scan_log(Source.open(source).segments, LocalRunner())
    records = sum(part.records for part in found)
    end = f"; the log ends there: {found[-1].reason}" if found[-1].reason else ""
    typer.echo(f"{records:,} records from {found[0].first} to {found[-1].next_lsn}, all sound{end}")
