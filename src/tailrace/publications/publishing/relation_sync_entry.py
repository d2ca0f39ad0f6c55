"""What several publications together say of one relation (`get_rel_sync_entry` in `replication/pgoutput/pgoutput.c`).

In: publications, and where a relation stands: in its schema and below its partitioned tables. Out: `RelationSyncEntry`: the
actions that are published of it, the ancestor as which it is published, and each publication that counts, with its filter and its
columns. It is the same in all majors; what columns come of it is not
(:mod:`tailrace.publications.publishing.published_relation`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.model import FIRST_NORMAL_OID, FIRST_UNPINNED_OID, Relation
from tailrace.publications.publication import NO_ACTIONS, Publication, PublicationActions, RowFilter


@dataclass(frozen=True, slots=True)
class RelationAncestry:
    """A relation (`oid`, its `schema`'s oid, its relkind) and the partitioned tables above it, nearest first: the oid and the
    schema of each. `ancestors` is empty for what is no partition."""

    oid: int
    schema: int
    kind: str
    ancestors: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PublicationRelation:
    """A publication that counts for the relation: what it says of the table that is published."""

    publication: str
    actions: PublicationActions
    columns: tuple[int, ...] | None
    filter: RowFilter | None
    generated_columns: str
    all_tables: bool
    defined_here: bool


@dataclass(frozen=True, slots=True)
class RelationSyncEntry:
    """`actions` are of all publications that have the relation; `members` those which publish it as `published_as` (None: as
    itself), whose numbers of columns count. `missing` are publications that were asked for and are not there; `unknown` says what
    of the catalogs is not known, so that nothing can be said."""

    actions: PublicationActions = NO_ACTIONS
    published_as: Relation | None = None
    members: tuple[PublicationRelation, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: str = ""


def topmost_level(publication: Publication, ancestors: Sequence[tuple[int, int]]) -> int:
    """How far up the topmost of the ancestors stands that the publication has, by itself or by its schema; 0 if it has none
    (`GetTopMostAncestorInPublication`)."""
    levels = enumerate(ancestors, start=1)
    return max((level for level, (oid, schema) in levels if publication.table(oid) or schema in publication.schemas), default=0)


@dataclass(frozen=True, slots=True)
class PublishAs:
    """As which relation a change goes out: the `oid` and the `schema` of the ancestor, so far up (`level`), or of the relation
    itself (0)."""

    level: int
    oid: int
    schema: int


def publish_as(
    standing: RelationAncestry, publications: Sequence[Publication]
) -> tuple[PublicationActions, PublishAs, list[Publication]]:
    """PublicationActions, the topmost ancestor as which any of the publications has it published, and those that publish it as
    that."""
    actions = PublicationActions()
    level = 0
    counting: list[Publication] = []
    for publication in publications:
        if publication.all_tables:
            above, publishes = len(standing.ancestors), True
        else:
            above = topmost_level(publication, standing.ancestors)
            publishes = above > 0 or publication.table(standing.oid) is not None or standing.schema in publication.schemas
        # Of a partitioned table its partitions are published, unless they go out as it.
        if not publishes or (standing.kind == "p" and not publication.via_root):
            continue
        actions |= publication.actions
        mine = above if publication.via_root else 0
        if mine > level:
            level, counting = mine, []
        if mine == level:
            counting.append(publication)
    oid, schema = standing.ancestors[level - 1] if level else (standing.oid, standing.schema)
    return actions, PublishAs(level, oid, schema), counting


def member_of(publication: Publication, place: PublishAs) -> PublicationRelation:
    """What the publication says of the table at this place. One that has the whole schema has no filter, whatever it says of the
    table."""
    table = None if publication.all_tables else publication.table(place.oid)
    whole_schema = place.schema in publication.schemas
    return PublicationRelation(
        publication=publication.name,
        actions=publication.actions,
        columns=table.columns if table else None,
        filter=table.filter if table and not whole_schema else None,
        generated_columns=publication.generated_columns,
        all_tables=publication.all_tables,
        defined_here=publication.defined_here,
    )


def is_publishable(relation: Relation) -> bool:
    """Whether a publication can have it at all (`is_publishable_class`): a permanent ordinary or partitioned table that initdb
    did not make."""
    return relation.kind in "rp" and relation.oid >= max(FIRST_NORMAL_OID, FIRST_UNPINNED_OID) and relation.persistence == "p"
