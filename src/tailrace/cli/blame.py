"""`tailrace blame`: who made a row what it is, version by version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tailrace.catalog.names.qualified_names import read_table_name, write_table_name
from tailrace.cli.choice import On
from tailrace.cli.past_log import open_log, time_text
from tailrace.cli.progress import counted, warn
from tailrace.cli.tables import Listing, printable, write_json, write_listing
from tailrace.decode import DELETE, INSERT, UPDATE
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.past.blame import OF_ROWS, Blame, blame
from tailrace.past.row_changes import TRUNCATE, Absent, Cell
from tailrace.past.trails import Numbering, Row, Version
from tailrace.types.quoting import quote_identifier, quote_literal
from tailrace.window import WindowSize

_WORDS = {INSERT: "INSERT", UPDATE: "UPDATE", DELETE: "DELETE", TRUNCATE: "TRUNCATE"}
_COLUMNS = ("row", "time", "commit", "record", "xid", "change", "values")
_LONGEST = 60


def print_versions(
    source: str, table: str, key: str, database: str, *, catalog: str | None, index: Path | None, window: WindowSize | None, on: On,
    as_json: bool,
) -> None:  # fmt: skip
    """A line a version, row by row. Raises UsageError if there never was such a row."""
    named = read_table_name(table)
    with counted("versions") as progress:
        feed = open_log(source, database, catalog=catalog, index=index, window=window, on=on, progress=progress, demand=OF_ROWS)
        found = blame(feed, *named, key)
        progress.add(sum(len(trail.versions) for trail in found.trails))
    if feed.warning:
        warn(feed.warning)
    if found.unidentified:
        warn(
            f"{found.unidentified} changes of the table do not tell of which row they are: its replica identity did not have these columns"
        )
    if not found.trails:
        raise UsageError(
            f"no row of table {found.relation} with the key {key} is in the log",
            context=f"in the log from {feed.catalogs_from} to {feed.span.stop}", sqlstate="02000",
        )  # fmt: skip
    if as_json:
        for told in _objects(found):
            write_json(told)
        return
    rows: list[tuple[str | int | float, ...]] = [
        (str(number), *_place(version), _word(version), _shown(version, found))
        for number, trail in enumerate(found.trails, 1)
        for version in trail.versions
    ]
    write_listing(Listing(_COLUMNS, rows))


def _place(version: Version) -> tuple[str, str, str, str]:
    change = version.change
    return time_text(change.time), str(Lsn(change.commit_lsn)), str(Lsn(change.lsn)), str(change.xid)


def _word(version: Version) -> str:
    return "ALTER TABLE" if version.is_rewrite else _WORDS[version.change.kind]


def _names(version: Version, found: Blame) -> dict[int, str]:
    """The columns as they were called then."""
    relation = version.change.relation
    return dict(zip(Numbering(found.relation).of(relation), (column.name for column in relation.live_columns), strict=True))


def _shown(version: Version, found: Blame) -> str:
    """`name=value` for each column; what was changed stands first, with what it was before."""
    before, names = version.before or {}, _names(version, found)
    if version.after is None:
        return " ".join(_pair(names, number, cell) for number, cell in before.items() if cell is not Absent.UNKNOWN)
    changed = version.changed if version.before is not None else frozenset()
    marked = [
        f"{_pair(names, number, version.after[number])} (was {_text(before.get(number, Absent.UNKNOWN))})"
        for number in version.after
        if number in changed
    ]
    others = [_pair(names, number, cell) for number, cell in version.after.items() if number not in changed]
    return " ".join([*(f"*{each}" for each in marked), *others])


def _pair(names: dict[int, str], number: int, cell: Cell) -> str:
    return f"{quote_identifier(names.get(number, '?'))}={_text(cell)}"


def _text(cell: Cell) -> str:
    if isinstance(cell, Absent):
        return f"<{cell.value}>"
    if cell is None:
        return "NULL"
    quoted = quote_literal(cell if len(cell) <= _LONGEST else cell[:_LONGEST] + "…")
    shown = printable(quoted)
    return shown if shown == quoted or quoted.startswith("E") else f"E{shown}"


def _objects(found: Blame) -> Iterator[dict[str, Any]]:
    for number, trail in enumerate(found.trails, 1):
        for version in trail.versions:
            names, relation = _names(version, found), version.change.relation
            time, commit, record, xid = _place(version)
            yield {
                "row": number, "time": time, "commit": commit, "record": record, "xid": int(xid),
                "table": write_table_name(relation.schema, relation.name), "change": _word(version),
                "before": _values(version.before, names), "after": _values(version.after, names),
                "changed": [names[each] for each in sorted(version.changed) if each in names] if version.before and version.after else None,
            }  # fmt: skip


def _values(row: Row | None, names: dict[int, str]) -> dict[str, str | None] | None:
    """What is known of a row; a column that is not there is not known."""
    if row is None:
        return None
    return {names[number]: cell for number, cell in row.items() if number in names and not isinstance(cell, Absent)}
