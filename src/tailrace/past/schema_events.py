"""What became of tables: created, altered, renamed, rewritten, truncated, dropped, as versions of catalog rows tell it
(decisions/002-catalog-row-versions.md).

In: a history whose rows know the commits that made and unmade them, the TRUNCATEs of the log, and from where on what tables were
is known. Out: `SchemaEvent`s in commit order, those of one transaction in the order of their records. Two versions of one row
that follow each other are a change; what a row said before the log is told once, as known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from tailrace.catalog.history.history import History
from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.catalog.rows.catalog_rows import CatalogTable
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory
from tailrace.model import FIRST_NORMAL_OID, Lsn
from tailrace.plan.events import CommittedTruncation
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.types.format_type import format_type_with_typemod
from tailrace.types.quoting import quote_identifier

TABLE_KINDS = "rpmfv"
"""pg_class.relkind of what has a history of its own: tables, partitioned and foreign ones, materialized and other views."""
KNOWN, CREATED, DROPPED, TRUNCATED, REWRITTEN = "known", "created", "dropped", "truncated", "rewritten"
RENAMED, MOVED, SCHEMA_RENAMED = "renamed", "moved", "schema renamed"
COLUMN_ADDED, COLUMN_RENAMED, COLUMN_RETYPED, COLUMN_DROPPED = (
    "column added", "column renamed", "column retyped", "column dropped",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SchemaEvent:
    """Something that became of table `oid`, which was then called `table`. `lsn` is the record's, 0 where it lies before the log;
    `commit_lsn` the commit's, of an event `known` from where on it is known. `xid` has its epoch; it is 0, and `time`
    (microseconds since PG_EPOCH) too, where no transaction of the log did it. `before` and `after` are what was changed, as text,
    empty where there was nothing."""

    commit_lsn: Lsn
    lsn: Lsn
    oid: int
    table: str
    kind: str
    column: str = ""
    before: str = ""
    after: str = ""
    xid: int = 0
    time: int = 0


class _Version(NamedTuple):
    """A row of a catalog: which, from and until when it is seen, and the records that put it there and ended it."""

    row: int
    begin: int
    end: int
    added: int
    deleted: int


def named_ever(history: History, schema: str, name: str) -> frozenset[int]:
    """The tables that were ever called so."""
    classes = history.table("pg_class")
    named = np.flatnonzero((classes["relname"] == name) & (classes["relrewrite"] == 0))
    return frozenset(
        int(classes["oid"][row])
        for row in named.tolist()
        if chr(classes["relkind"][row]) in TABLE_KINDS
        for version in _versions(classes, [row], 0)
        if schema in _schema_names(history, int(classes["relnamespace"][row]), version)
    )


def schema_events(
    history: History, truncations: Iterable[CommittedTruncation], since: Lsn, oids: Iterable[int] | None = None
) -> list[SchemaEvent]:
    """What became of these tables (None: of all of the database's users) after `since`, and what they were there."""
    truncated: dict[int, list[tuple[int, CommittedTruncation]]] = {}
    for each in truncations:
        for relation in each.truncation.relations:
            truncated.setdefault(relation.oid, []).append((int(each.truncation.lsn), each))
    classes = history.table("pg_class")
    every = sorted(set(classes["oid"][classes["oid"] >= FIRST_NORMAL_OID].tolist())) if oids is None else sorted(oids)
    events = [event for oid in every for event in _Teller(history, int(since), oid).events(truncated.get(oid, ()))]
    return sorted(events, key=lambda event: (event.commit_lsn, event.lsn))


def with_facts(events: Iterable[SchemaEvent], facts: Mapping[int, tuple[int, int]]) -> list[SchemaEvent]:
    """The same with xid and time of the transactions, which are given by the LSNs of their commits."""
    return [
        event if event.kind == KNOWN else replace(event, xid=facts[event.commit_lsn][0], time=facts[event.commit_lsn][1])
        for event in events
    ]


def _versions(table: CatalogTable, rows: Iterable[int], since: int) -> list[_Version]:
    """These rows in the order in which they followed each other, without those that were over at `since`."""
    of = table.rows
    every = (_Version(row, int(of.begin[row]), int(of.end[row]), int(of.added[row]), int(of.deleted[row])) for row in rows)
    return sorted((each for each in every if each.end > since), key=lambda each: (each.begin, each.added))


def _schema_names(history: History, oid: int, version: _Version) -> set[str]:
    """What a schema was called while a row of pg_class was there."""
    namespaces = history.table("pg_namespace")
    return {
        namespaces.name("nspname", each.row)
        for each in _versions(namespaces, namespaces.where("oid", oid).tolist(), 0)
        if each.begin <= version.end and each.end >= version.begin
    }


class _Teller:
    """Finds the events of one table."""

    def __init__(self, history: History, since: int, oid: int) -> None:
        self._history = history
        self._since = since
        self._oid = oid
        self._classes = history.table("pg_class")
        self._attributes = history.table("pg_attribute")
        rows = self._classes.where("oid", oid).tolist()
        kept = [row for row in rows if chr(self._classes["relkind"][row]) in TABLE_KINDS and not self._classes["relrewrite"][row]]
        self._of_class = _versions(self._classes, kept, since)

    def events(self, truncations: Sequence[tuple[int, CommittedTruncation]]) -> Iterator[SchemaEvent]:
        if not self._of_class:
            return
        first, last = self._of_class[0], self._of_class[-1]
        known = first.begin <= self._since
        described = self._described(first, known=known)
        if known:
            at = Lsn(self._since)
            yield SchemaEvent(at, Lsn(0), self._oid, self._name(first, self._since), KNOWN, after=described)
        else:
            yield self._event(first, CREATED, first.begin, first.added, after=described)
        records = sorted(lsn for lsn, _ in truncations)
        for before, after in pairwise(self._of_class):
            yield from self._altered(before, after, records, {lsn: each.commit_lsn for lsn, each in truncations})
        yield from self._of_columns(first, known=known)
        yield from self._of_schemas()
        for lsn, each in truncations:
            words = " ".join(
                word
                for word, said in (
                    ("RESTART IDENTITY", each.truncation.restart_sequences),
                    ("CASCADE", each.truncation.cascade),
                )
                if said
            )
            yield self._event(self._class_at(each.commit_lsn, lsn), TRUNCATED, each.commit_lsn, lsn, after=words)
        if last.end != NEVER:
            yield self._event(last, DROPPED, last.end, last.deleted, before=self._name(last, last.end))

    def _event(
        self, version: _Version, kind: str, commit: int, lsn: int, *, column: str = "", before: str = "", after: str = ""
    ) -> SchemaEvent:
        return SchemaEvent(Lsn(commit), Lsn(lsn), self._oid, self._name(version, commit), kind, column, before, after)

    # -- pg_class ------------------------------------------------------------------------------------------------------------

    def _altered(
        self, before: _Version, after: _Version, truncations: list[int], commit_of: Mapping[int, int]
    ) -> Iterator[SchemaEvent]:
        """What two versions of the table's own row differ in."""
        commit = after.begin

        def changed(column: str) -> bool:
            return bool(self._classes[column][before.row] != self._classes[column][after.row])

        names = {"before": self._name(before, commit), "after": self._name(after, commit)}
        if changed("relnamespace"):
            yield self._event(after, MOVED, commit, after.added, **names)
        elif changed("relname"):
            yield self._event(after, RENAMED, commit, after.added, **names)
        if changed("relfilenode") and self._classes["relfilenode"][before.row] and self._classes["relfilenode"][after.row]:
            files = {"before": self._file(before), "after": self._file(after)}
            if self._is_rewritten(after) or changed("reltablespace"):
                yield self._event(after, REWRITTEN, commit, after.added, **files)
            elif not any(lsn > after.added and commit_of[lsn] == commit for lsn in truncations):
                # Only TRUNCATE gives a table an empty file; of one that is not logged, that is all that the log has of it.
                yield self._event(after, TRUNCATED, commit, after.added)

    def _is_rewritten(self, version: _Version) -> bool:
        """Whether the file was that of a transient heap, as ALTER TABLE, CLUSTER and VACUUM FULL make one (`commands/cluster.c`,
        make_new_heap)."""
        rows = self._classes.where("relrewrite", self._oid)
        return int(self._classes["relfilenode"][version.row]) in self._classes["relfilenode"][rows].tolist()

    def _file(self, version: _Version) -> str:
        space, number = (int(self._classes[name][version.row]) for name in ("reltablespace", "relfilenode"))
        return f"file {space or self._history.default_tablespace}/{self._history.database}/{number}"

    def _name(self, version: _Version, commit: int) -> str:
        schema = self._seen("pg_namespace", int(self._classes["relnamespace"][version.row]), commit)
        namespaces = self._history.table("pg_namespace")
        name = self._classes.name("relname", version.row)
        return write_table_name(namespaces.name("nspname", schema), name) if schema is not None else quote_identifier(name)

    def _seen(self, catalog: str, oid: int, commit: int) -> int | None:
        """The row of a catalog that was there when a transaction had committed, or else before."""
        table = self._history.table(catalog)
        for lsn in (commit + 1, commit):
            rows = table.seen_where("oid", oid, lsn, -1)
            if len(rows):
                return int(rows[-1])
        return None

    def _class_at(self, commit: int, lsn: int) -> _Version:
        """The table's row as a record of a transaction met it."""
        before = [each for each in self._of_class if each.begin < commit or (each.begin == commit and each.added <= lsn)]
        return before[-1] if before else self._of_class[0]

    # -- pg_namespace --------------------------------------------------------------------------------------------------------

    def _of_schemas(self) -> Iterator[SchemaEvent]:
        """Renames of the schema that the table was in."""
        namespaces = self._history.table("pg_namespace")
        for oid in sorted({int(self._classes["relnamespace"][each.row]) for each in self._of_class}):
            for before, after in pairwise(_versions(namespaces, namespaces.where("oid", oid).tolist(), self._since)):
                old, new = (namespaces.name("nspname", each.row) for each in (before, after))
                mine = self._class_at(after.begin, after.added)
                there = mine.begin <= after.begin <= mine.end and int(self._classes["relnamespace"][mine.row]) == oid
                if old != new and there and after.added:
                    name = self._classes.name("relname", mine.row)
                    names = {"before": write_table_name(old, name), "after": write_table_name(new, name)}
                    yield self._event(mine, SCHEMA_RENAMED, after.begin, after.added, **names)

    # -- pg_attribute --------------------------------------------------------------------------------------------------------

    def _column_versions(self) -> Iterator[tuple[int, list[_Version]]]:
        attributes = self._attributes
        rows = sorted(attributes.where("attrelid", self._oid).tolist(), key=lambda row: int(attributes["attnum"][row]))
        for number, few in groupby(rows, key=lambda row: int(attributes["attnum"][row])):
            versions = _versions(attributes, few, self._since)
            if number > 0 and versions:
                yield number, versions

    def _is_original(self, number: int, version: _Version, first: _Version, *, known: bool) -> bool:
        """Whether this version of a column was there when the table's story begins."""
        if known:
            return version.begin <= self._since
        return version.begin == first.begin and number <= int(self._classes["relnatts"][first.row])

    def _described(self, first: _Version, *, known: bool) -> str:
        """Its columns, at the beginning of its story."""
        shown = [
            self._column(versions[0], first.begin if not known else self._since)
            for number, versions in self._column_versions()
            if self._is_original(number, versions[0], first, known=known)
            and not self._attributes["attisdropped"][versions[0].row]
        ]
        return f"({', '.join(shown)})"

    def _of_columns(self, first: _Version, *, known: bool) -> Iterator[SchemaEvent]:
        for number, versions in self._column_versions():
            if not self._is_original(number, versions[0], first, known=known):
                yield self._of_column(versions[0], versions[0], COLUMN_ADDED, after=self._column(versions[0], versions[0].begin))
            for before, after in pairwise(versions):
                yield from self._altered_column(before, after)

    def _altered_column(self, before: _Version, after: _Version) -> Iterator[SchemaEvent]:
        attributes, commit = self._attributes, after.begin
        was_dropped, is_dropped = (bool(attributes["attisdropped"][each.row]) for each in (before, after))
        if is_dropped:
            if not was_dropped:
                yield self._of_column(before, after, COLUMN_DROPPED, before=self._column(before, commit))
            return
        old, new = (quote_identifier(attributes.name("attname", each.row)) for each in (before, after))
        if old != new:
            yield self._of_column(before, after, COLUMN_RENAMED, before=old, after=new)
        types = [(int(attributes["atttypid"][each.row]), int(attributes["atttypmod"][each.row])) for each in (before, after)]
        if types[0] != types[1]:
            told = {"before": self._type(before, commit), "after": self._type(after, commit)}
            yield self._of_column(after, after, COLUMN_RETYPED, **told)

    def _of_column(self, named: _Version, done: _Version, kind: str, **told: str) -> SchemaEvent:
        column = self._attributes.name("attname", named.row)
        return self._event(self._class_at(done.begin, done.added), kind, done.begin, done.added, column=column, **told)

    def _column(self, version: _Version, commit: int) -> str:
        return f"{quote_identifier(self._attributes.name('attname', version.row))} {self._type(version, commit)}"

    def _type(self, version: _Version, commit: int) -> str:
        """The column's type, as it was called when a transaction had committed, or else before."""
        oid, typmod = (int(self._attributes[name][version.row]) for name in ("atttypid", "atttypmod"))
        if typmod >= 1 << 31:
            typmod -= 1 << 32  # columns of catalogs have no sign
        for lsn in (commit + 1, commit):
            try:
                return format_type_with_typemod(self._history.type_at(oid, lsn), typmod)
            except MissingHistory:
                pass
        return f"type {oid}"  # made and dropped by one transaction: nobody else ever saw it
