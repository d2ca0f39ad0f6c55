"""`tailrace wal ls | stat | dump | verify`: look at the log itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tailrace.cli.choice import On
from tailrace.cli.decode import parse_lsn
from tailrace.cli.engine import OnOption, runner_for
from tailrace.cli.progress import counted
from tailrace.cli.tables import JsonOption, Listing, write_json, write_listing
from tailrace.errors import TailraceError, UsageError, count_of
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Runner, Source, check_reaches, count_log, scan_log
from tailrace.storage.directory import DataDirectory
from tailrace.storage.segment_files import arrange, identity_of, list_segments
from tailrace.storage.segments import Segment, Segments
from tailrace.wal.page_header import SHORT_PAGE_HEADER, page_address
from tailrace.wal.resource_managers import NAMES
from tailrace.wal.statistics import Counted, walk

app = typer.Typer(help="Look at write-ahead log.", no_args_is_help=True, add_completion=False)
Where = Annotated[Path, typer.Argument(help="Data directory, pg_wal, or directory of archived segments.")]


@app.command("ls")
def list_files(source: Where, as_json: JsonOption = False) -> None:
    """Segments in order, with timelines, sizes and gaps."""
    directory = DataDirectory.at(source)
    segments = arrange(directory.wal if directory else source)
    files = list(_files(segments))
    if as_json:
        write_json(
            {
                "system": str(segments.system), "major": segments.major, "segment_size": segments.segment_size,
                "timelines_left": [{"timeline": timeline, "at": str(left)} for timeline, left in segments.history], "files": files,
            }
        )  # fmt: skip
        return
    sys.stdout.write(f"system {segments.system}, PostgreSQL {segments.major}, segments of {segments.segment_size >> 20} MB\n")
    for timeline, left in segments.history:
        sys.stdout.write(f"timeline {timeline} was left at {left}\n")
    columns = ("segment", "timeline", "from", "file size", "notes")
    rows = [(file["name"], file["timeline"], file["from"], file["size"], ", ".join(file["notes"])) for file in files]
    write_listing(Listing(columns, [tuple("" if cell is None else cell for cell in row) for row in rows]))


def _files(segments: Segments) -> Iterator[dict[str, Any]]:
    """Every segment file, in the order of the log, and where some are missing; those that are not read come last."""
    gaps = dict(segments.gaps)
    for position, segment in sorted(segments.by_number.items()):
        start = Lsn(position * segments.segment_size)
        yield _file(segment, str(start), _notes(segments, segment, start))
        if position + 1 in gaps:
            missing, gap = gaps[position + 1] - position - 1, Lsn((position + 1) * segments.segment_size)
            yield {"name": "…", "timeline": None, "from": str(gap), "size": None, "notes": [f"{missing} missing"]}
    chosen = {segment.path for segment in segments.by_number.values()}
    for segment in list_segments(segments.directory):
        if segment.path not in chosen:
            notes = ["other history, or a second copy"] if segment.size is not None else ["not a regular file"]
            yield _file(segment, None, notes)


def _file(segment: Segment, start: str | None, notes: list[str]) -> dict[str, Any]:
    return {
        "name": Path(segment.path).name, "timeline": segment.timeline, "from": start, "size": segment.size, "notes": notes
    }  # fmt: skip


def _notes(segments: Segments, segment: Segment, start: Lsn) -> list[str]:
    """What is special about a segment. A server makes segments ahead, from old files: their first page is from elsewhere."""
    if segment.size is None:
        return ["not a regular file"]
    notes = [segment.compression.removeprefix(".")] if segment.compression else []
    if segment.partial:
        notes.append("partial")
    elif not segment.compression and segment.size != segments.segment_size:
        notes.append(f"not {segments.segment_size} bytes long")
    try:
        identity = identity_of(segment)
    except TailraceError as error:
        return [*notes, error.message]
    if identity is None or page_address(segment.read(SHORT_PAGE_HEADER)) != start:
        notes.append("not written yet")
    if identity is not None and identity.system != segments.system:
        notes.append(f"of system {identity.system}")
    if identity is not None and identity.form.major != segments.major:
        notes.append(f"of PostgreSQL {identity.form.major}")
    return notes


@app.command()
def stat(
    source: Where,
    top: Annotated[int, typer.Option(help="How many relations and transactions to show.")] = 20,
    as_json: JsonOption = False,
    on: OnOption = On.AUTO,
) -> None:
    """Counts and bytes per resource manager, and the relations and transactions that take the most."""
    opened = Source.open(source)
    segments = opened.segments
    runner = _runner(on, segments)
    counts = count_log(segments, runner)
    parts = {
        "resource manager": (counts.managers, len(counts.managers)), "tablespace/database/file": (counts.files, top),
        "transaction": (counts.transactions, top),
    }  # fmt: skip
    if as_json:
        document: dict[str, Any] = {"from": str(counts.first), "to": str(counts.stop), "reason": counts.reason}
        for name, (part, most) in parts.items():
            document[name] = [{"name": each, "records": records, "bytes": size} for each, records, size in part.largest(most)]
        write_json({"records": counts.managers.total_records, **document})
    else:
        for name, (part, most) in parts.items():
            write_listing(_listing(name, part, most))
        total = f"{count_of(counts.managers.total_records, 'record')} from {counts.first} to {counts.stop}"
        sys.stdout.write(f"{total}, where the walk ended: {counts.reason or 'no file follows'}\n")
    _check_end(segments, counts.stop - 1, runner=runner)


def _listing(noun: str, counted: Counted, top: int) -> Listing:
    shown = counted.largest(top)
    rows = [(name, records, size, round(100 * size / counted.total_bytes, 1)) for name, records, size in shown]
    rest = "" if len(shown) == len(counted) else f"the largest {len(shown)} of {len(counted):,}"
    return Listing((noun, "records", "bytes", "%"), [*rows], rest)


@app.command()
def dump(
    source: Where,
    start: Annotated[str, typer.Option(help="Begin with the first record at or after this LSN.")] = "",
    end: Annotated[str, typer.Option(help="Stop before records that start here or later.")] = "",
    rmgr: Annotated[list[str] | None, typer.Option(help="Only these resource managers, by name.")] = None,
    xid: Annotated[int | None, typer.Option(help="Only this transaction's.")] = None,
    relation: Annotated[str, typer.Option(help="Only records on this file: TABLESPACE/DATABASE/FILE.")] = "",
    limit: Annotated[int | None, typer.Option("-n", "--limit", help="At most so many.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Records with their fields and block references, as pg_waldump prints them."""
    managers = {_manager_named(name) for name in rmgr or ()}
    printed = 0
    if relation and not re.fullmatch(r"\d+/\d+/\d+", relation):
        raise UsageError(
            f'invalid relation specification: "{relation}"', hint='Expecting "tablespace OID/database OID/relation filenode".'
        )
    begin, stop = parse_lsn(start), parse_lsn(end)
    opened = Source.open(source, begin)
    segments = opened.segments
    last = int(begin or segments.first_lsn)
    for record in walk(segments, begin, stop):
        if limit is not None and printed >= limit:
            return
        last = record.lsn
        if managers and record.manager not in managers:
            continue
        if (xid is None or record.xid == xid) and (not relation or relation in map(str, record.files)):
            if as_json:
                write_json(record.as_dict())
            else:
                sys.stdout.write(f"{record}\n")
            printed += 1
    _check_end(segments, last, stop)


def _check_end(segments: Segments, last: int, stop: Lsn | None = None, runner: Runner | None = None) -> None:
    """Raise if that is not where the log ends, but damage: `last` lies in the last record that was read."""
    scan_log(segments, runner or LocalRunner(), Lsn(max(last, segments.first_lsn)), stop=stop)


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
def verify(source: Where, as_json: JsonOption = False, on: OnOption = On.AUTO) -> None:
    """Check every record: checksum, chain, page headers. Names the file and the record's LSN where the log is damaged."""
    opened = Source.open(source)
    segments = opened.segments
    indexes = scan_log(segments, _runner(on, segments))
    check_reaches(indexes, opened.control)
    records, last = sum(part.records for part in indexes), indexes[-1]
    chosen = {segment.path for segment in segments.by_number.values()}
    others = [Path(each.path).name for each in list_segments(segments.directory) if each.path not in chosen]
    if as_json:
        end = (
            {"reason": last.reason, "at": str(last.place), "file": segments.name_at(last.place), "torn": last.torn}
            if last.reason
            else None
        )
        write_json(
            {"records": records, "from": str(indexes[0].first), "to": str(last.next_lsn), "end": end, "not_checked": others}
        )
        return
    sound = f"{count_of(records, 'record')} from {indexes[0].first} to {last.next_lsn}, all sound"
    ends = "the log ends at a record that is not whole, or damaged" if last.torn else "the log ends there"
    end_words = f'; {ends}: {last.reason}, file "{segments.name_at(last.place)}"' if last.reason else ""
    sys.stdout.write(f"{sound}{end_words}\n")
    if others:
        sys.stdout.write(f"not checked, since of other history or second copies: {', '.join(others)}\n")


def _runner(on: On, segments: Segments) -> Runner:
    with counted("records") as progress:
        return runner_for(on, segments.stop_lsn - segments.first_lsn, progress.tell)
