"""What would take a transaction back: statements in reverse order, each guarded by what the row was after the change.

In: the versions that the transaction made of rows, what else it did, and the tables as they are at the end of the log, where the statements are to be
run. Out: `Step`s. What cannot be taken back is a step that says why. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, INSERT
from tailrace.errors import count_of
from tailrace.model import Column, Lsn, Relation
from tailrace.past.row_changes import Absent
from tailrace.past.schema_events import CREATED, TRUNCATED, SchemaEvent
from tailrace.past.sql_text import StatementTable, column_names, delete, insert, update
from tailrace.past.trails import Row, Version
from tailrace.plan.events import CommittedTruncation

TargetOf = Callable[[Relation], StatementTable | None]
"""What a table is at the end of the log; None if it is not there any more."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the transaction, by its `place` in the log: the `statement` that takes it back, empty if there is none to be run; `trouble` says
    what is not restored, of `table`; `note` what else should be known."""

    place: tuple[int, int]
    table: str
    statement: str = ""
    trouble: str = ""
    note: str = ""


def steps(
    versions: Iterable[Version], events: Sequence[SchemaEvent], truncations: Iterable[CommittedTruncation], target_of: TargetOf
) -> list[Step]:
    """All of them, last change first. `events` and `truncations` are those of the transaction."""
    created = {event.oid for event in events if event.kind == CREATED}
    every = [_of_event(event) for event in events if event.kind != TRUNCATED]
    every += [
        Step((int(each.truncation.lsn), 0), _name(relation), trouble="TRUNCATE: the rows that were there are not in its record")
        for each in truncations
        for relation in each.truncation.relations
    ]
    for version in versions:
        # What a new table holds goes with it.
        if version.change.relation.oid not in created and not version.is_rewrite:
            every += _of_version(version, target_of(version.change.relation))
    return sorted(every, key=lambda step: step.place, reverse=True)


def _name(relation: Relation) -> str:
    return write_table_name(relation.schema, relation.name)


def _of_event(event: SchemaEvent) -> Step:
    told = ": ".join(filter(None, (event.kind, _from_to(event))))
    return Step((int(event.lsn), 0), event.table, trouble=told)


def _from_to(event: SchemaEvent) -> str:
    if event.before and event.after:
        return f"from {event.before} to {event.after}"
    return event.after or event.before


def _of_version(version: Version, target: StatementTable | None) -> list[Step]:
    change = version.change
    place, name = (change.lsn, change.sequence), _name(change.relation)
    if target is None:
        return [Step(place, name, trouble=f"{_verb(version)} {_where(version)}: the table has been dropped since")]
    name = target.name
    row = version.after if version.after is not None else version.before
    if row and target.columns and not any(column.number in row for column in target.relation.live_columns):
        return [Step(place, name, trouble=f"{_verb(version)} {_where(version)}: all columns of the row have been dropped since")]
    if change.kind == INSERT:
        assert version.after is not None
        return [Step(place, name, delete(target, version.after), note=_note(version, target, version.after))]
    before = version.before or {}
    if change.kind == DELETE or version.after is None:
        return [_reinserted(version, target, before)]
    return _restored(version, target, before, version.after)


def _reinserted(version: Version, target: StatementTable, before: Row) -> Step:
    place = version.change.lsn, version.change.sequence
    if all(isinstance(cell, Absent) for cell in before.values()):
        return Step(place, target.name, trouble=f"DELETE {_where(version)}: nothing tells which row it was")
    unknown = _unknown(target, before)
    if unknown:
        return Step(place, target.name, trouble=f"DELETE {_where(version)}: no earlier version in the log has {unknown}")
    gone = _gone(version, target)
    trouble = f"DELETE {_where(version)}: column dropped since: {gone}" if gone else ""
    return Step(place, target.name, insert(target, before), trouble, _note(version, target, before))


def _restored(version: Version, target: StatementTable, before: Row, after: Row) -> list[Step]:
    place = version.change.lsn, version.change.sequence
    numbers = [column.number for column in target.columns if column.number in after]
    unknown = [
        number
        for number in numbers
        if before.get(number, Absent.UNKNOWN) is Absent.UNKNOWN and not isinstance(after[number], Absent)
    ]
    if unknown:
        names = column_names(column for column in target.columns if column.number in unknown)
        return [Step(place, target.name, trouble=f"UPDATE {_where(version)}: no earlier version in the log has {names}")]
    changed = {number: before[number] for number in numbers if number in version.changed}
    if missing := [each for each in changed.values() if isinstance(each, Absent)]:
        return [
            Step(
                place,
                target.name,
                trouble=f"UPDATE {_where(version)}: {count_of(len(missing), 'earlier value', 'are')} not in the log",
            )
        ]
    if always := [column for column in target.columns if column.number in target.always and column.number in changed]:
        trouble = f"UPDATE {_where(version)}: UPDATE cannot set what is GENERATED ALWAYS AS IDENTITY: {column_names(always)}"
        return [Step(place, target.name, trouble=trouble)]
    lost = [name for number, name in _dropped(version, target) if number in version.changed]
    trouble = f"UPDATE {_where(version)}: column dropped since: {', '.join(lost)}" if lost else ""
    statement = update(target, after, changed) if changed else ""
    if not statement and not trouble:
        return []
    return [Step(place, target.name, statement, trouble, _note(version, target, after))]


def _unknown(target: StatementTable, row: Row) -> str:
    """The columns that statements must give and nobody knows."""
    return column_names(column for column in target.columns if isinstance(row.get(column.number), Absent))


def _note(version: Version, target: StatementTable, row: Row) -> str:
    """What to know of a statement: which columns it cannot look at, and which have another type by now."""
    then = {column.number: _type(column) for column in version.change.relation.live_columns}
    retyped = [column for column in target.columns if then.get(column.number, _type(column)) != _type(column)]
    notes = (
        ("not compared, since the log does not have what it was", _unknown(target, row)),
        ("of another type since", column_names(retyped)),
    )
    return "; ".join(f"{why}: {names}" for why, names in notes if names)


def _type(column: Column) -> tuple[int, int]:
    return column.live_type.oid, column.typmod


def _dropped(version: Version, target: StatementTable) -> list[tuple[int, str]]:
    """Columns that the row had, and the table has no more."""
    there = {column.number for column in target.relation.live_columns}
    return [(column.number, column.name) for column in version.change.relation.live_columns if column.number not in there]


def _gone(version: Version, target: StatementTable) -> str:
    return ", ".join(name for _, name in _dropped(version, target))


def _verb(version: Version) -> str:
    return {INSERT: "INSERT", DELETE: "DELETE"}.get(version.change.kind, "UPDATE")


def _where(version: Version) -> str:
    return f"at {Lsn(version.change.lsn)}"
