"""The versions of rows, one after another: what a row was before and after each change, put together from what the log says of
its key.

In: changes in order, those of some keys without a gap. Out: `Trail`s, one for each row. What a record does not hold comes from
the version before: the old row where only a key was logged, TOASTed values that did not change. What no version tells stays
unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, INSERT
from tailrace.model import Column, Relation
from tailrace.past.row_changes import TRUNCATE, Absent, Cell, Key, KeyColumns, RowChange, keys_of
from tailrace.types import registry
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.types.values import Values

Row = dict[int, Cell]
"""Cells by attribute number; in a partition by that of the column of the same name in the partitioned table."""


@dataclass(frozen=True, slots=True)
class Version:
    """A row before and after a change; None where there was none."""

    change: RowChange
    before: Row | None
    after: Row | None

    @property
    def is_rewrite(self) -> bool:
        """Whether ALTER TABLE wrote the row anew."""
        return self.change.relation.rewrite_of != 0

    @property
    def changed(self) -> frozenset[int]:
        """The columns whose values differ; where one of the two is unknown nobody can say so."""
        before, after = self.before or {}, self.after or {}
        return frozenset(
            number
            for number in after
            if not isinstance(after[number], Absent)
            and not isinstance(before.get(number), Absent)
            and (number not in before or before[number] != after[number])
        )


@dataclass(slots=True)
class Trail:
    """All that the log tells of one row; `state` is what it is after that, None if it is gone."""

    versions: list[Version] = field(default_factory=list)
    state: Row | None = None


@dataclass(slots=True)
class Numbering:
    """The attribute numbers of a table's columns, as `Row` has them. Of partitions, by the names of the partitioned table `root`.
    What is stored in catalogs is in `codec`."""

    root: Relation | None = None
    codec: str = UTF8

    def of(self, relation: Relation) -> list[int]:
        """Of the live columns."""
        if self.root is None or self.root.oid in (relation.oid, relation.rewrite_of):
            return [column.number for column in relation.live_columns]
        there = {column.name: column.number for column in self.root.live_columns}
        return [there.get(column.name, -column.number) for column in relation.live_columns]


def trails(changes: Iterable[RowChange], columns: KeyColumns, numbering: Numbering) -> list[Trail]:
    """The rows that the changes, which are in order, are about. Where several have one key for a while, as a deferred constraint
    lets them, the first to come is the first to go."""
    every: list[Trail] = []
    holders: dict[Key, list[Trail]] = {}
    for change in changes:
        if change.kind == TRUNCATE:
            _truncate(every, holders, change)
            continue
        old, new = keys_of(change, columns)
        is_new = change.kind == INSERT and not change.relation.rewrite_of
        key = new if change.kind == INSERT else old
        there = holders.get(key) if key is not None and not is_new else None
        trail = there.pop(0) if there else Trail()
        if not trail.versions:
            every.append(trail)
        version = _next(trail, change, numbering)
        trail.versions.append(version)
        trail.state = version.after
        if new is not None and version.after is not None:
            holders.setdefault(new, []).append(trail)
    return every


def _truncate(every: Sequence[Trail], holders: dict[Key, list[Trail]], change: RowChange) -> None:
    """All rows that the table had are gone."""
    for trail in every:
        last = trail.versions[-1].change.relation
        if trail.state is not None and change.relation.oid in (last.oid, last.rewrite_of):
            trail.versions.append(Version(change, trail.state, None))
            trail.state = None
    for key, those in list(holders.items()):
        holders[key] = [trail for trail in those if trail.state is not None]


def _next(trail: Trail, change: RowChange, numbering: Numbering) -> Version:
    """The version that a change makes of a row's last."""
    numbers = numbering.of(change.relation)
    is_new = change.kind == INSERT and not change.relation.rewrite_of
    before = None if is_new else _before(trail.state, change, numbers, numbering.codec)
    if change.kind == DELETE or change.new is None:
        return Version(change, before, None)
    after: Row = {}
    for number, cell in zip(numbers, change.new, strict=True):
        earlier = (before or {}).get(number, Absent.UNCHANGED) if cell is Absent.UNCHANGED else cell
        after[number] = Absent.UNCHANGED if earlier is Absent.UNKNOWN else earlier
    return Version(change, before, after)


def _before(state: Row | None, change: RowChange, numbers: Sequence[int], codec: str) -> Row:
    """The row that a change met: what its own old tuple says, else what the version before says."""
    if change.relation.rewrite_of:
        return dict(state or {})
    row: Row = {}
    for place, (number, column) in enumerate(zip(numbers, change.relation.live_columns, strict=True)):
        told = Absent.UNKNOWN if change.old is None else change.old[place]
        if change.old is None and change.new is not None and column.number in change.relation.identity:
            told = change.new[place]  # or else there would be an old key
        if isinstance(told, Absent) and state is not None:
            told = state[number] if number in state else missing_text(column, codec)
        row[number] = told
    return row


def missing_text(column: Column, codec: str = UTF8) -> str | None:
    """What rows older than the column have in it (ADD COLUMN ... DEFAULT)."""
    if column.missing is None or column.type is None:
        return None
    stored = Values.of_payloads([column.missing], column.length)
    return to_utf8(registry.format_values(stored, column.type), codec).to_list()[0]


def identity_columns(relation: Relation) -> tuple[int, ...]:
    """What tells a row of the table from others in the log: the replica identity, or, where that is FULL, the primary key; none
    if neither does."""
    return relation.identity or (relation.primary_key if relation.replica_identity == "f" else ())


def columns_named(relation: Relation, numbers: Sequence[int]) -> KeyColumns:
    """These columns of a table."""
    names = {column.number: column.name for column in relation.live_columns}
    return KeyColumns(relation.oid, tuple(numbers), tuple(names[number] for number in numbers))
