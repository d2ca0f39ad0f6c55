"""`tailrace lake maintain`: small files gathered, and what nobody needs removed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.errors import UsageError, count_of
from tailrace.lake.lake import Lake
from tailrace.lake.upkeep import TableMaintained
from tailrace.storage.open_store import open_store


def maintain(url: str, options: Mapping[str, str], tables: Sequence[str], orphans_older_than: float, *, as_json: bool) -> None:
    """Maintain these tables, or all, and say what was done. Raises the error of a table that could not be maintained, once all others were."""
    store = open_store(url, options)
    lake = Lake.open(store)
    if lake.catalog is None:
        raise UsageError(f'there is no lake in "{store.url}"', sqlstate="42704")
    done = lake.maintain(tables=tables or None, everything=True, orphans_older_than=orphans_older_than)
    if as_json:
        write_json({"tables": [_row(each) for each in done]})
    else:
        _write(done)
    troubles = [each for each in done if each.trouble is not None]
    if troubles:
        assert troubles[0].trouble is not None
        raise troubles[0].trouble


def _write(done: Sequence[TableMaintained]) -> None:
    busy = [each for each in done if each.gathered.files or each.removed.objects or each.trouble is not None]
    if busy:
        rows: list[tuple[str | int | float, ...]] = [
            (each.table, each.gathered.files, each.gathered.into, each.removed.objects, each.removed.bytes, _note(each))
            for each in busy
        ]
        write_listing(Listing(("table", "gathered", "into", "removed", "bytes", "notes"), rows))
    size = sum(each.removed.bytes for each in done)
    objects = sum(each.removed.objects for each in done)
    sys.stdout.write(f"{count_of(len(done), 'table')} maintained, {count_of(objects, 'object')}, {size:,} bytes, removed\n")


def _note(each: TableMaintained) -> str:
    return each.trouble.message if each.trouble is not None else ""


def _row(each: TableMaintained) -> dict[str, Any]:
    return {
        "table": each.table, "folder": each.folder, "gathered": each.gathered.files, "into": each.gathered.into,
        "removed": each.removed.objects, "bytes": each.removed.bytes, "trouble": _note(each) or None,
    }  # fmt: skip
