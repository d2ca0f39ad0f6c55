"""What is published of one version of a relation: its columns, and the row filters of each action (`pgoutput_row_filter_init`,
`pgoutput_column_list_init`, `check_and_init_gencol` in `replication/pgoutput/pgoutput.c`).

In: a `RelationSyncEntry`, and the relation as a change saw it. Out: `PublishedRelation`. Raises UsageError where publications
contradict each other, as the server does at the first change of the relation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, PublicationWarning, UsageError
from tailrace.majors import LISTS_COMPARED_BY_ATTRIBUTES, MISSING_PUBLICATIONS_SKIPPED, PUBLISHED_GENERATED_COLUMNS, supports
from tailrace.model import Column, Lsn, Relation
from tailrace.publications.publication import (
    NO_GENERATED_COLUMNS,
    STORED_GENERATED_COLUMNS,
    PublicationActions,
    RowFilter,
)
from tailrace.publications.publishing.relation_sync_entry import PublicationRelation, RelationSyncEntry

STORED, VIRTUAL = "s", "v"
"""pg_attribute.attgenerated."""

Filters = tuple[RowFilter, ...] | None
"""The row filters of an action. A row is published if one of them is true; with None every row is."""


@dataclass(frozen=True, slots=True)
class PublishedRelation:
    """Changes of `relation` are published as changes of `published_as`, with these `columns` of it, by its attribute numbers:
    those of the column list (`listed`), or else all that are not generated, and with `generated` the stored generated ones. An
    initial copy takes the rows that a filter of any action lets through (`copy`; `fetch_remote_table_info` in
    `replication/logical/tablesync.c`)."""

    relation: Relation
    published_as: Relation
    actions: PublicationActions
    columns: tuple[Column, ...]
    listed: frozenset[int] | None
    generated: bool
    insert: Filters = None
    update: Filters = None
    delete: Filters = None
    copy: Filters = None

    @property
    def as_itself(self) -> bool:
        return self.published_as.oid == self.relation.oid

    def shown_of(self, relation: Relation) -> tuple[Column, ...]:
        """The columns of a Relation message of `relation`. Of a partition that is published as another table, the server sends
        the columns whose numbers the other's list has (`send_relation_and_attrs`), whatever they are here."""
        return shown_columns(relation, self.listed, self.generated)


def published_relation(entry: RelationSyncEntry, relation: Relation, major: int) -> PublishedRelation:
    """What the entry says of this version of its relation. Raises UsageError (0A000) if column lists differ, or the choices of
    generated columns."""
    as_which = entry.published_as or relation
    generated = _generated(entry.members, as_which, major)
    listed = _column_list(entry.members, as_which, generated, major)
    return PublishedRelation(
        relation=relation,
        published_as=as_which,
        actions=entry.actions,
        columns=_with_types_of(relation, shown_columns(as_which, listed, generated)),
        listed=listed,
        generated=generated,
        insert=_filters(entry.members, [member.actions.insert for member in entry.members]),
        update=_filters(entry.members, [member.actions.update for member in entry.members]),
        delete=_filters(entry.members, [member.actions.delete for member in entry.members]),
        copy=_filters(entry.members, [True for _ in entry.members]),
    )


def check_publications_exist(
    entry: RelationSyncEntry, major: int, lsn: int = 0, created: Mapping[str, Lsn] = MappingProxyType({})
) -> None:
    """Raise UsageError if a publication that was asked for is missing at `lsn`, in majors where that stops the stream;
    MissingHistory if the catalogs do not tell what is published. `created` says from where on those exist that come later."""
    if entry.unknown:
        raise MissingHistory(entry.unknown)
    if entry.missing and not supports(major, MISSING_PUBLICATIONS_SKIPPED):
        error = UsageError(f'publication "{entry.missing[0]}" does not exist', sqlstate="42704")
        since = created.get(entry.missing[0])
        if since is not None and lsn < since:
            error.detail = f"It exists from {since} on, and what it publishes at {Lsn(lsn)} is asked for."
            error.hint = (
                f"Begin at {since} or later; or define a publication that holds from an earlier moment "
                "(tailrace publication create --at LSN)."
            )
        raise error


def warn_of_missing(missing: Iterable[str]) -> None:
    """Warn of publications that do not exist, as majors do that go on without them."""
    for name in sorted(missing):
        warnings.warn(str(missing_publication(name)), PublicationWarning, stacklevel=3)


def missing_publication(name: str) -> UsageError:
    """The server's warning of one of them, in its words."""
    return UsageError(
        f'skipped loading publication "{name}"',
        detail="The publication does not exist at this point in the WAL.",
        hint="Create the publication if it does not exist.",
        sqlstate="55000",
    )


def shown_columns(relation: Relation, listed: frozenset[int] | None, generated: bool) -> tuple[Column, ...]:
    """The relation's columns that are published with a list, or without (`logicalrep_should_publish_column`)."""
    if listed is not None:
        return tuple(column for column in relation.live_columns if column.number in listed)
    return tuple(column for column in relation.live_columns if not column.generated or (generated and column.generated == STORED))


def _with_types_of(relation: Relation, columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of a partitioned table, with how they are stored in the partition, where they have the same names."""
    of_name = {column.name: column for column in relation.live_columns}
    return tuple(replace(of_name.get(column.name, column), number=column.number) for column in columns)


def _filters(members: Iterable[PublicationRelation], publishes: list[bool]) -> Filters:
    """The filters of the publications that publish an action; none if one of them has none, or none publishes it."""
    found = [member.filter for member, does in zip(members, publishes, strict=True) if does]
    if not found or None in found:
        return None
    return tuple(dict.fromkeys(filter for filter in found if filter is not None))


def _generated(members: Iterable[PublicationRelation], relation: Relation, major: int) -> bool:
    """Whether stored generated columns are published. A column list takes precedence over that choice."""
    if not supports(major, PUBLISHED_GENERATED_COLUMNS) or not any(column.generated for column in relation.live_columns):
        return False
    choices = {member.generated_columns: None for member in members if member.columns is None}
    if len(choices) > 1:
        raise UsageError(
            f'cannot use different values of publish_generated_columns for table "{relation}" in different publications',
            sqlstate="0A000",
        )
    return next(iter(choices), NO_GENERATED_COLUMNS) == STORED_GENERATED_COLUMNS


def _column_list(
    members: tuple[PublicationRelation, ...], relation: Relation, generated: bool, major: int
) -> frozenset[int] | None:
    """The attribute numbers of the one column list that all publications have; None for all columns. One that has all columns is
    none: all that are there and not generated; in 15, which counts every attribute, only if none is generated, or was dropped."""
    every = frozenset(column.number for column in shown_columns(relation, None, generated))
    all_of_them = len(relation.columns) if supports(major, LISTS_COMPARED_BY_ATTRIBUTES) else len(every)
    with_generated = supports(major, PUBLISHED_GENERATED_COLUMNS)
    lists: list[frozenset[int] | None] = []
    for member in members:
        listed = None if member.columns is None else frozenset(member.columns)
        if not with_generated and listed is not None and len(listed) == all_of_them:
            listed = None
        lists.append(every if listed is None and with_generated and len(members) > 1 else listed)
    if len(set(lists)) > 1:
        raise UsageError(f'cannot use different column lists for table "{relation}" in different publications', sqlstate="0A000")
    return lists[0] if any(member.columns is not None for member in members) and lists else None
