"""`tailrace spool ls | clean`: the copies of WAL of running servers."""

from __future__ import annotations

import sys

import typer

from tailrace.cli.tables import JsonOption, Listing, write_json, write_listing
from tailrace.storage.spool import clean, look, spool_directory

app = typer.Typer(help="Copies of the WAL of running servers.", no_args_is_help=True, add_completion=False)


@app.command("ls")
def list_copies(as_json: JsonOption = False) -> None:
    """Where WAL of running servers is copied to, and how much lies there, by system, timeline and pg_wal."""
    place = spool_directory()
    spooled = look(place)
    if as_json:
        spools = [
            {
                "system": each.system,
                "source": each.source,
                "timeline": each.timeline,
                "files": each.files,
                "bytes": each.size,
                "is_read": each.is_read,
            }
            for each in spooled
        ]
        write_json({"directory": str(place), "bytes": sum(each.size for each in spooled), "spools": spools})
        return
    sys.stdout.write(f"{place}: {sum(each.size for each in spooled):,} bytes\n")
    if spooled:
        rows: list[tuple[str | int | float, ...]] = [
            (each.system, each.timeline, each.files, each.size, "being read" if each.is_read else "", each.source)
            for each in spooled
        ]
        write_listing(Listing(("system", "timeline", "files", "bytes", "notes", "source"), rows))


@app.command("clean")
def remove_copies() -> None:
    """Remove the copies that nobody is reading."""
    place = spool_directory()
    sys.stdout.write(f"{place}: {clean(place):,} bytes removed\n")
