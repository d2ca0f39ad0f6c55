"""`tailrace spool ls | clean`: the copies of WAL of running servers."""

from __future__ import annotations

import sys

from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.storage.spool import clean, look, spool_directory


def ls(*, as_json: bool) -> None:
    """Print what is there."""
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


def clean_up() -> None:
    """Remove what nobody reads, and say how much that was."""
    place = spool_directory()
    sys.stdout.write(f"{place}: {clean(place):,} bytes removed\n")
