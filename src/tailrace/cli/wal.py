"""`tailrace wal ls | stat | verify`: look at the log itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tailrace.model import Lsn
from tailrace.river import LocalRunner, Source, scan_log
from tailrace.wal.statistics import count_records

app = typer.Typer(help="Look at write-ahead log.", no_args_is_help=True)
Where = Annotated[Path, typer.Argument(help="Data directory, pg_wal, or directory of archived segments.")]


@app.command("ls")
def list_segments(source: Where) -> None:
    """Segments in order, with timelines and gaps."""
    segments = Source.open(source).segments
    table = Table("segment", "timeline", "from", "kind", title=f"system {segments.system}, PostgreSQL {segments.major}")
    gaps = dict(segments.gaps)
    for number, segment in sorted(segments.by_number.items()):
        kind = segment.compression.removeprefix(".") or ("partial" if segment.partial else "")
        table.add_row(Path(segment.path).name, str(segment.timeline), str(Lsn(number * segments.segment_size)), kind)
        if number + 1 in gaps:
            table.add_row(f"[red]{gaps[number + 1] - number - 1} missing[/red]", "", str(Lsn((number + 1) * segments.segment_size)), "")
    Console().print(table)


@app.command()
def stat(source: Where) -> None:
    """Counts and bytes per resource manager, and the files and transactions that take the most."""
    counts = count_records(Source.open(source).segments)
    for title, rows in (("resource managers", counts.managers), ("relations", counts.files), ("transactions", counts.transactions)):
        table = Table(title.removesuffix("s"), "records", "bytes", title=title)
        for name, records, size in rows:
            table.add_row(name, f"{records:,}", f"{size:,}")
        Console().print(table)


@app.command()
def verify(source: Where) -> None:
    """Check every record: checksum, chain, page headers. Names the file and the record's LSN where the log is damaged."""
    found = scan_log(Source.open(source).segments, LocalRunner())
    records = sum(part.records for part in found)
    typer.echo(f"{records:,} records from {found[0].first} to {found[-1].next_lsn}, all sound")
