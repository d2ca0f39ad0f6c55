"""`tailrace lake quarantine | replay`: what could not be applied, and what can by now."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tailrace.catalog.names.qualified_names import tables_named, write_table_name
from tailrace.changes import ORDER
from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.errors import count_of
from tailrace.lake.catalog import LakeTable, no_lake
from tailrace.lake.lake import Lake
from tailrace.lake.replay import TableReplayed
from tailrace.lake.replay import replay as apply_again
from tailrace.model import Lsn
from tailrace.storage.open_store import open_store
from tailrace.types.registry import ArrowStyle

_COLUMNS = ("table", "commit_lsn", "lsn", "xid", "kind", "new", "old", "reason")
_MOST_TEXT = 60
"""Characters of a row that a listing shows; --json has all of it."""
_READ = ("oid", "batch", *ORDER, "commit_timestamp", "xid", "kind", "new", "old", "reason", "sqlstate", "quarantined_at")


def show(url: str, options: Mapping[str, str], tables: Sequence[str], *, as_json: bool) -> None:
    """Print the changes in quarantine of these tables, or of all, in their order."""
    lake = _opened(url, options, ArrowStyle())
    rows = [row for table in _chosen(lake, tables) for row in _rows(lake, table)]
    if as_json:
        write_json({"quarantined": rows})
        return
    shown: list[tuple[str | int | float, ...]] = [tuple(_short(row[name]) for name in _COLUMNS) for row in rows]
    write_listing(Listing(_COLUMNS, shown, note=f"{count_of(len(rows), 'change')} in quarantine"))


def replay(
    url: str, options: Mapping[str, str], tables: Sequence[str], style: ArrowStyle, *, discard: bool, as_json: bool
) -> None:
    """Apply what can be applied by now, and say what was done and what is left."""
    lake = _opened(url, options, style)
    done = apply_again(lake, tables or None, discard=discard)
    if as_json:
        write_json({"tables": [_done(each) for each in done]})
        return
    columns = ("table", "applied", "needless", "discarded", "left", "reason")
    if done:
        write_listing(Listing(columns, [tuple(_done(each)[name] or "" for name in columns) for each in done]))
    applied, left = sum(each.applied for each in done), sum(each.left for each in done)
    sys.stdout.write(f"{count_of(applied, 'change')} applied, {left:,} left in quarantine\n")


def _opened(url: str, options: Mapping[str, str], style: ArrowStyle) -> Lake:
    store = open_store(url, options)
    lake = Lake.open(store, style)
    if lake.catalog is None:
        raise no_lake(store.url)
    return lake


def _chosen(lake: Lake, names: Sequence[str]) -> list[LakeTable]:
    tables = sorted((lake.catalog.tables if lake.catalog else {}).values(), key=lambda each: (each.schema, each.name, each.oid))
    if not names:
        return tables
    wanted = tables_named(names, {(each.schema, each.name) for each in tables}, f"lake {lake.store.url}")
    return [each for each in tables if (each.schema, each.name) in wanted]


def _rows(lake: Lake, table: LakeTable) -> list[dict[str, Any]]:
    names = lake.names_of(table.oid)
    if names is None or not names.all:
        return []
    parts = list(lake.quarantine.rows(table.oid, names.all, _READ))
    if not parts:
        return []
    found = pa.concat_tables(parts).sort_by([(name, "ascending") for name in ORDER]).to_pylist()
    name = write_table_name(table.schema, table.name)
    return [_row(name, each) for each in found]


def _row(table: str, row: dict[str, Any]) -> dict[str, Any]:
    times = {name: row[name].isoformat(sep=" ") for name in ("commit_timestamp", "quarantined_at")}
    lsns = {name: str(Lsn(row[name])) for name in ("commit_lsn", "lsn")}
    rest = {name: row[name] for name in ("sequence", "xid", "kind", "new", "old", "reason", "sqlstate")}
    return {"table": table, **lsns, **times, **rest}


def _short(value: Any) -> str | int:
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        return f"{value[:_MOST_TEXT]}…"
    return "" if value is None else value


def _done(each: TableReplayed) -> dict[str, Any]:
    return {
        "table": each.table, "applied": each.applied, "needless": each.needless, "discarded": each.discarded, "left": each.left,
        "reason": each.reason or None,
    }  # fmt: skip
