"""A subscription asks for publications by their names; `shown_relation` says which columns of a table it gets.

In: names of publications, definitions that stand in a state location; a history. Out: `Subscription`; relations with only their
published columns, as they are where the log ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.model import NAMEDATALEN, Relation
from tailrace.publications.publishing.entry_timeline import Definitions, SyncEntryBuilder, created_at
from tailrace.publications.publishing.published_relation import (
    VIRTUAL,
    check_publications_exist,
    published_relation,
    shown_columns,
)
from tailrace.publications.publishing.relation_sync_entry import RelationSyncEntry
from tailrace.publications.source_publications import SourcePublications
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.types.quoting import split_identifiers
from tailrace.types.style import TextStyle


@dataclass(frozen=True, slots=True)
class Subscription:
    """The `names` of the publications that are asked for; `definitions` of those that stand in a state location. Row filters are
    evaluated with the settings of `style`."""

    names: tuple[str, ...]
    definitions: Definitions = ()
    style: TextStyle = TextStyle()


def publication_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """The names, which were given one by one or as pgoutput's publication_names. Raises UsageError if there are none."""
    names = publication_list(given) if isinstance(given, str) else tuple(given)
    if not names:
        raise UsageError("publication_names parameter missing", sqlstate="22023")
    return names


def publication_list(text: str) -> tuple[str, ...]:
    """Names of publications, with commas between them, each cut at 63 bytes."""
    names = split_identifiers(text)
    if names is None or "" in names:
        raise UsageError("invalid publication_names syntax", sqlstate="42602")
    return tuple(name.encode("utf-8", "surrogateescape")[: NAMEDATALEN - 1].decode("utf-8", "surrogateescape") for name in names)


def publications_in(lists: Iterable[str]) -> tuple[str, ...]:
    """The names in all these lists, as a command is given them, once or several times; none where there is no list."""
    return tuple(name for each in lists for name in publication_names(each))


def missing_publications(history: History, to: Subscription, upto: int) -> list[str]:
    """Those of the names that no publication has where the log ends, neither in the source nor in the state location."""
    defined = {each.name for _, publications in to.definitions[-1:] for each in publications}
    source = SourcePublications(history)
    return [name for name in to.names if name not in defined and source.named(name, upto) is None]


def shown_relation(history: History, relation: Relation, to: Subscription, upto: int) -> Relation | None:
    """The relation with the columns that are published where the log ends (`upto`), or that were published last; None if no
    change of it was ever published as its own. Where no publication could be read at any time, raises what a change at the end
    would raise."""
    trouble: TailraceError | None = None
    created = created_at(history, to.names, to.definitions)
    for number, entry in enumerate(_entries_before(history, relation.oid, to, upto)):
        try:
            check_publications_exist(entry, history.major, upto - 1, created)
            if entry.published_as is None and entry.actions.rows:
                what = published_relation(entry, relation, history.major)
                return only_columns(relation, {column.number for column in shown_columns(relation, what.listed, what.generated)})
        except TailraceError as error:
            trouble = trouble if number else error
    if trouble is not None:
        raise trouble
    return None


def only_columns(relation: Relation, numbers: Collection[int]) -> Relation:
    """The relation with these of its columns. It loses a replica identity or primary key that needs another column, and the
    values that rows from before ADD COLUMN have."""
    live = {column.number for column in relation.live_columns}
    if live <= set(numbers):
        return relation
    columns = tuple(
        replace(column, missing=None) if column.number in numbers else replace(column, type=None) for column in relation.columns
    )
    identity, primary_key = (key if set(key) <= set(numbers) else () for key in (relation.identity, relation.primary_key))
    return replace(relation, columns=columns, identity=identity, primary_key=primary_key)


def stored_columns(relation: Relation) -> Relation:
    """The relation without its virtual generated columns: nothing of them is stored, and so no log has their values."""
    return only_columns(relation, {column.number for column in relation.live_columns if column.generated != VIRTUAL})


def _entries_before(history: History, oid: int, to: Subscription, upto: int) -> Iterator[RelationSyncEntry]:
    """The relation's entries for transactions that changed no catalog, from `upto` backwards."""
    source = SourcePublications(history)
    stages = [(0, ()), *(stage for stage in to.definitions if stage[0] < upto)]
    points: set[int] = set()
    for table, column, value in source.about(oid, to.names):
        rows = table.where(column, value)
        points.update(table.rows.begin[rows].tolist(), table.rows.end[rows].tolist())
    later = upto
    for since, defined in reversed(stages):
        entries = SyncEntryBuilder(source, to.names, defined, {})
        bound = max(since, history.known_from)
        for point in sorted({later, *(each + 1 for each in points if bound <= each < min(later, int(NEVER) - 1))}, reverse=True):
            # A row of a catalog is seen behind the commit that made it, and up to the one that deleted it.
            for lsn in (point, point - 1):
                if lsn >= bound:
                    yield entries.entry(oid, lsn, -1)
        later = min(later, bound)
