"""How far a lake table is, kept in the table itself: written in the same commit as its rows, so the two never differ.

Twice in each commit: as an application transaction (`tailrace/<system>/<timeline>` -> LSN), which Delta's own protocol keeps
forever, and as metadata, which people see in the table's history and which says what its columns are. State of a table:
absent, ours at a position, or somebody else's (refused).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, Transaction

from tailrace.changes import row_schema
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Lsn, Relation
from tailrace.river import River
from tailrace.transactions.fates import NEVER

METADATA = "tailrace"
_RECENT = 20
"""Commits that are looked through before all are: others may compact a table, but seldom more often than it changes."""


@dataclass(frozen=True, slots=True)
class Range:
    """The transactions of one system and timeline that commit in `[start, stop)`. What runs are made of, and positions are
    compared in."""

    system: int
    timeline: int
    start: Lsn
    stop: Lsn

    @property
    def app_id(self) -> str:
        return f"{METADATA}/{self.system}/{self.timeline}"

    @classmethod
    def of(cls, river: River) -> Range:
        segments = river.source.segments
        stop = min(int(river.plan.upto_lsn), int(river.indexes[-1].next_lsn), int(NEVER) - 1)
        return cls(segments.system, segments.timeline, river.plan.start_lsn, Lsn(stop))


@dataclass(frozen=True, slots=True)
class Position:
    """What a commit says of a table: its position, which relation it follows, and the columns it had then, as (attribute
    number, name, type)."""

    lsn: Lsn
    oid: int
    columns: tuple[tuple[int, str, str], ...]
    unbounded: frozenset[str] = frozenset()
    """Columns that hold, or once held, 'infinity' or times as far away: Delta's statistics cannot say that."""


def columns_of(relation: Relation) -> tuple[tuple[int, str, str], ...]:
    fields = row_schema(relation)
    return tuple((column.number, column.name, str(fields.field(column.name).type)) for column in relation.live_columns)


def commit_properties(span: Range, relation: Relation, unbounded: frozenset[str] = frozenset()) -> CommitProperties:
    """What makes a commit say: now at `span.stop`."""
    said = {
        "system": str(span.system), "timeline": span.timeline, "from": str(span.start), "to": str(span.stop),
        "table": str(relation), "oid": relation.oid, "columns": columns_of(relation),
        "unbounded": sorted(unbounded),
    }  # fmt: skip
    return CommitProperties(
        custom_metadata={METADATA: json.dumps(said)}, app_transactions=[Transaction(span.app_id, int(span.stop))]
    )


def position_of(table: DeltaTable, span: Range) -> Position:
    """Where `table` is on the line of `span`. Raises UsageError if it was not written from there."""
    lsn = table.transaction_version(span.app_id)
    for commit in chain(table.history(_RECENT), table.history()) if lsn is not None else ():
        if METADATA in commit:
            said = json.loads(commit[METADATA])
            columns = tuple((number, name, kind) for number, name, kind in said["columns"])
            return Position(Lsn(lsn), said["oid"], columns, frozenset(said["unbounded"]))
    raise UsageError(
        f'Delta table "{table.table_uri}" was not written from system {span.system}, timeline {span.timeline}',
        hint="Give another directory, or remove the table to have it made anew.",
    )


def check_reaches(span: Range, position: Lsn, name: str) -> Range:
    """The part of `span` that a table at `position` still lacks. Raises MissingHistory if there is a hole between them."""
    if position < span.start:
        raise MissingHistory(
            f"table {name} is at {position}, but changes are at hand only from {span.start}",
            hint="Give the WAL in between, or make the table anew.",
        )
    return replace(span, start=position)


def tables_in(directory: Path) -> Iterator[tuple[Path, DeltaTable]]:
    """The Delta tables right below `directory`."""
    for log in sorted(directory.glob("*/_delta_log")):
        yield log.parent, DeltaTable(log.parent)
