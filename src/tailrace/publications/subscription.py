"""Who asks for publications, and what a table is to them: its columns that are published, where the log ends.

In: names of publications, definitions of ours; a history. Out: `Subscription`; relations with only their published columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tailrace.catalog.history import History
from tailrace.errors import TailraceError, UsageError
from tailrace.model import Relation
from tailrace.publications.publishing.entry_timeline import Definitions, Entries, created_at
from tailrace.publications.publishing.published_relation import check_publications_exist, published_relation, shown_columns
from tailrace.publications.publishing.relation_sync_entry import RelationSyncEntry
from tailrace.publications.source_publications import SourcePublications
from tailrace.transactions.fates import NEVER
from tailrace.types.identifiers import split_identifiers
from tailrace.types.style import TextStyle


@dataclass(frozen=True, slots=True)
class Subscription:
    """Publications that are asked for by their `names`; `definitions` are those of ours. Filters are evaluated with the settings
    of `style`."""

    names: tuple[str, ...]
    definitions: Definitions = ()
    style: TextStyle = TextStyle()  # noqa: RUF009 - immutable


def publication_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names one by one, or as a list in one text, as publication_names of pgoutput has them. Raises UsageError if there are
    none."""
    names = publication_list(given) if isinstance(given, str) else tuple(given)
    if not names:
        raise UsageError("publication_names parameter missing", sqlstate="22023")
    return names


def publication_list(text: str) -> tuple[str, ...]:
    """Names of publications, with commas between them, each cut at 63 bytes."""
    names = split_identifiers(text)
    if names is None or "" in names:
        raise UsageError("invalid publication_names syntax", sqlstate="42602")
    return tuple(name.encode("utf-8", "surrogateescape")[:63].decode("utf-8", "surrogateescape") for name in names)


def shown_relation(history: History, relation: Relation, to: Subscription, upto: int) -> Relation | None:
    """The relation with the columns that are published of it where the log ends (`upto`), or were last; None if nothing ever was
    of it as itself. Raises as a change of it would at that end, if none could have been published before."""
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
    """The relation with these of its columns. Where one is left out, an identity that needs it is none, and what was written
    before a column came is not known."""
    live = {column.number for column in relation.live_columns}
    if live <= set(numbers):
        return relation
    columns = tuple(
        replace(column, missing=None) if column.number in numbers else replace(column, type=None) for column in relation.columns
    )
    identity, primary_key = (key if set(key) <= set(numbers) else () for key in (relation.identity, relation.primary_key))
    return replace(relation, columns=columns, identity=identity, primary_key=primary_key)


def _entries_before(history: History, oid: int, to: Subscription, upto: int) -> Iterator[RelationSyncEntry]:
    """What held for who left the catalogs alone, from `upto` backwards."""
    source = SourcePublications(history)
    stages = [(0, ()), *(stage for stage in to.definitions if stage[0] < upto)]
    points: set[int] = set()
    for table, column, value in source.about(oid, to.names):
        rows = table.where(column, value)
        points.update(table.rows.begin[rows].tolist(), table.rows.end[rows].tolist())
    later = upto
    for since, defined in reversed(stages):
        entries = Entries(source, to.names, defined, {})
        bound = max(since, history.known_from)
        for point in sorted({later, *(each + 1 for each in points if bound <= each < min(later, int(NEVER) - 1))}, reverse=True):
            # What was made by a commit is seen behind it; where it was unmade, it was there.
            for lsn in (point, point - 1):
                if lsn >= bound:
                    yield entries.entry(oid, lsn, -1)
        later = min(later, bound)
