"""Whether a publication may have the UPDATEs and DELETEs of a table (`CheckCmdReplicaIdentity` in `executor/execReplication.c`,
`RelationBuildPublicationDesc` in `utils/cache/relcache.c`).

In: what is published of a relation. Out: the error that the server raises for such a statement, if it raises one. The server that
wrote the log has done so for its own publications, before there was a change; of publications that are defined here it knows
nothing, so it is done for each change."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tailrace.errors import InsufficientLogging, TailraceError
from tailrace.majors import PUBLISHED_GENERATED_COLUMNS, ROW_FILTERS, supports
from tailrace.model import Relation
from tailrace.publications.publication import STORED_GENERATED_COLUMNS, RowFilter
from tailrace.publications.publishing.published_relation import STORED, VIRTUAL
from tailrace.publications.publishing.relation_sync_entry import PublicationRelation, RelationSyncEntry

UPDATE, DELETE = "update", "delete"
_COMMAND = {UPDATE: "update", DELETE: "delete from"}
_GERUND = {UPDATE: "updating", DELETE: "deleting from"}

_FILTER = "Column used in the publication WHERE expression is not part of the replica identity."
_LIST = "Column list used by the publication does not cover the replica identity."
_GENERATED = "Replica identity must not contain unpublished generated columns."

ColumnsOf = Callable[[RowFilter, Relation], Iterable[int]]
"""The attribute numbers of the columns that a filter of the table reads."""


def replica_identity_error(
    entry: RelationSyncEntry, relation: Relation, command: str, major: int, columns_of: ColumnsOf, *, everywhere: bool = False
) -> TailraceError | None:
    """What the server raises for an UPDATE or DELETE of `relation`, by the publications that are defined here; by all with
    `everywhere`."""
    members = [
        member
        for member in entry.members
        if getattr(member.actions, command) and (member.defined_here or everywhere) and relation.kind != "p"
    ]
    for capability, broken, detail in (
        (ROW_FILTERS, _filter_is, _FILTER),
        (ROW_FILTERS, _list_is, _LIST),
        (PUBLISHED_GENERATED_COLUMNS, _generated_is, _GENERATED),
    ):
        if supports(major, capability) and any(broken(member, entry, relation, columns_of) for member in members):
            return InsufficientLogging(f'cannot {_COMMAND[command]} table "{relation.name}"', detail=detail, sqlstate="42P10")
    if members and not relation.identity and relation.replica_identity != "f":
        return no_replica_identity(relation, command)
    return None


def no_replica_identity(relation: Relation, command: str, context: str = "", lsn: int | None = None) -> InsufficientLogging:
    """The error for an UPDATE or DELETE of a table whose rows cannot be told apart."""
    return InsufficientLogging(
        f'cannot {_COMMAND[command]} table "{relation.name}" because it does not have a replica identity and publishes {command}s',
        hint=f"To enable {_GERUND[command]} the table, set REPLICA IDENTITY using ALTER TABLE.", context=context, lsn=lsn,
    )  # fmt: skip


def _identity_names(relation: Relation) -> set[str]:
    return {column.name for column in relation.live_columns if column.number in relation.identity}


def _names(relation: Relation, numbers: Iterable[int]) -> set[str]:
    wanted = set(numbers)
    return {column.name for column in relation.live_columns if column.number in wanted}


def _filter_is(member: PublicationRelation, entry: RelationSyncEntry, relation: Relation, columns_of: ColumnsOf) -> bool:
    """Whether the filter reads a column outside of the replica identity. Columns of the table that is published are those of the
    same names here."""
    if member.filter is None or relation.replica_identity == "f":
        return False
    as_which = entry.published_as or relation
    return not _names(as_which, columns_of(member.filter, as_which)) <= _identity_names(relation)


def _list_is(member: PublicationRelation, entry: RelationSyncEntry, relation: Relation, _columns_of: ColumnsOf) -> bool:
    """Whether the column list lacks a column of the replica identity. With FULL there must be no list."""
    if member.columns is None:
        return False
    if relation.replica_identity == "f":
        return True
    return not _identity_names(relation) <= _names(entry.published_as or relation, member.columns)


def _generated_is(member: PublicationRelation, _entry: RelationSyncEntry, relation: Relation, _columns_of: ColumnsOf) -> bool:
    """Whether the replica identity has a generated column that is not published. With FULL that is every column, list or not."""
    full = relation.replica_identity == "f"
    if member.columns is not None and not full:
        return False
    identity = relation.live_columns if full else [c for c in relation.live_columns if c.number in relation.identity]
    stored = member.generated_columns == STORED_GENERATED_COLUMNS
    return any(c.generated == VIRTUAL or (c.generated == STORED and not stored) for c in identity)
