"""How far a lake table is, and which table of the source it is, kept in the table itself: written in the same commit as its rows, so they never
differ.

Twice in each commit: as an application transaction (`tailrace/<system>/<timeline>` -> LSN), which Delta's own protocol keeps
forever, and as metadata, which people see in the table's history: the database and the oid, which are the table's identity whatever folder it lies
in, its name and columns, and whether it was dropped since. State of a table: absent, ours at a position, or somebody else's (left alone).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction

from tailrace.changes import DEFAULT, row_schema
from tailrace.errors import MissingHistory
from tailrace.feed import Span
from tailrace.model import Lsn, Relation
from tailrace.types.registry import ArrowStyle

METADATA = "tailrace"
STYLES = ("numeric", "arrays", "times")
"""Settings of ArrowStyle that a table is written with, and keeps."""
_RECENT = 20
"""Commits that are looked through before all are: others may compact a table, but seldom more often than it changes."""


@dataclass(frozen=True, slots=True)
class Position:
    """What a commit says of a table: its position, which relation it follows, the columns it had then, as (attribute number, name, type), and
    whether a DROP TABLE is behind it."""

    lsn: Lsn
    oid: int
    schema: str
    name: str
    columns: tuple[tuple[int, str, str], ...]
    unbounded: frozenset[str] = frozenset()
    """Columns that hold, or once held, 'infinity' or times as far away: Delta's statistics cannot say that."""
    style: Mapping[str, str] = field(default_factory=dict)
    dropped: Lsn | None = None


def _app_id(span: Span) -> str:
    return f"{METADATA}/{span.system}/{span.timeline}"


def columns_of(relation: Relation, style: ArrowStyle = DEFAULT) -> tuple[tuple[int, str, str], ...]:
    fields = row_schema(relation, style)
    return tuple((column.number, column.name, str(fields.field(column.name).type)) for column in relation.live_columns)


def commit_properties(
    span: Span,
    relation: Relation,
    *,
    style: ArrowStyle = DEFAULT,
    unbounded: frozenset[str] = frozenset(),
    dropped: Lsn | None = None,
) -> CommitProperties:
    """What makes a commit say: now at `span.stop`."""
    said = {
        "system": str(span.system), "timeline": span.timeline, "database": span.database, "from": str(span.start), "to": str(span.stop),
        "oid": relation.oid, "schema": relation.schema, "table": relation.name, "columns": columns_of(relation, style),
        "unbounded": sorted(unbounded), "style": {name: getattr(style, name) for name in STYLES},
        "dropped": str(dropped) if dropped is not None else None, "publications": list(span.publications),
    }  # fmt: skip
    return CommitProperties(
        custom_metadata={METADATA: json.dumps(said)}, app_transactions=[Transaction(_app_id(span), int(span.stop))]
    )


def position_of(table: DeltaTable, span: Span) -> Position | None:
    """Where `table` is on the line of `span`; None if it was not written from there, or of other publications."""
    lsn = table.transaction_version(_app_id(span))
    said = _said_of(table) if lsn is not None else None
    if said is None or said["database"] != span.database or set(said.get("publications", ())) != set(span.publications):
        return None
    columns = tuple((number, name, kind) for number, name, kind in said["columns"])
    dropped = Lsn.parse(said["dropped"]) if said["dropped"] else None
    return Position(
        Lsn(lsn), said["oid"], said["schema"], said["table"], columns, frozenset(said["unbounded"]), said["style"], dropped
    )


def _said_of(table: DeltaTable) -> dict[str, Any] | None:
    """The metadata of the last commit of ours."""
    for commit in chain(table.history(_RECENT), table.history()):
        if METADATA in commit:
            said: dict[str, Any] = json.loads(commit[METADATA])
            return said
    return None


def check_reaches(span: Span, position: Lsn, name: str) -> Span:
    """The part of `span` that a table at `position` still lacks. Raises MissingHistory if there is a hole between them."""
    if position < span.start:
        raise MissingHistory(
            f"table {name} is at {position}, but changes are at hand only from {span.start}",
            hint="Give the WAL in between, or make the table anew.",
            lsn=position,
        )
    return replace(span, start=position)


def tables_in(directory: Path) -> Iterator[tuple[Path, Callable[[], DeltaTable]]]:
    """The folders right below `directory` that are Delta tables, with what opens them."""
    for log in sorted(directory.glob("*/_delta_log")):
        yield log.parent, partial(DeltaTable, log.parent)
