"""What several publications together say of one relation (`get_rel_sync_entry` in `replication/pgoutput/pgoutput.c`).

In: publications, the relation's schema and the partitioned tables above it. Out: `RelationSyncEntry`: the actions that are
published, the ancestor whose changes they become, and the publications that publish them so, with their row filters and column
lists. All majors agree on the entry; which columns follow from it differs (`published_relation`)."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.dataclass import dataclass
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
    """What one publication says of the table that a relation's changes are published as."""

    publication: str
    actions: PublicationActions
    columns: tuple[int, ...] | None
    filter: RowFilter | None
    generated_columns: str
    all_tables: bool
    defined_here: bool


@dataclass(frozen=True, slots=True)
class RelationSyncEntry:
    """`actions` are those of all publications that have the relation. They publish its changes as `published_as`, an ancestor
    whose attribute numbers then count, or as its own (None); `members` are the publications that say so. `missing` names
    publications that were asked for and do not exist; `unknown` says which part of the catalogs is not at hand, and then the rest
    is empty."""

    actions: PublicationActions = NO_ACTIONS
    published_as: Relation | None = None
    members: tuple[PublicationRelation, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: str = ""


def topmost_level(publication: Publication, ancestors: Sequence[tuple[int, int]]) -> int:
    """The level of the topmost ancestor that the publication has, itself or by its schema; 0 if it has none
    (`GetTopMostAncestorInPublication`)."""
    levels = enumerate(ancestors, start=1)
    return max((level for level, (oid, schema) in levels if publication.table(oid) or schema in publication.schemas), default=0)


@dataclass(frozen=True, slots=True)
class PublishAs:
    """The relation that changes are published as (`publish_as_relid`): an ancestor at this `level`, or the relation itself
    (0)."""

    level: int
    oid: int
    schema: int


def publish_as(
    ancestry: RelationAncestry, publications: Sequence[Publication]
) -> tuple[PublicationActions, PublishAs, list[Publication]]:
    """The actions of all publications that have the relation, the topmost ancestor that any of them publishes it as, and the
    publications that publish it as that one."""
    actions = PublicationActions()
    level = 0
    counting: list[Publication] = []
    for publication in publications:
        if publication.all_tables:
            above, publishes = len(ancestry.ancestors), True
        else:
            above = topmost_level(publication, ancestry.ancestors)
            publishes = above > 0 or publication.table(ancestry.oid) is not None or ancestry.schema in publication.schemas
        # A partitioned table has no changes of its own, unless its partitions' changes are published as its.
        if not publishes or (ancestry.kind == "p" and not publication.via_root):
            continue
        actions |= publication.actions
        mine = above if publication.via_root else 0
        if mine > level:
            level, counting = mine, []
        if mine == level:
            counting.append(publication)
    oid, schema = ancestry.ancestors[level - 1] if level else (ancestry.oid, ancestry.schema)
    return actions, PublishAs(level, oid, schema), counting


def member_of(publication: Publication, target: PublishAs) -> PublicationRelation:
    """What the publication says of the table that is published. A publication of its whole schema has no row filter, whatever it
    says of the table itself."""
    table = None if publication.all_tables else publication.table(target.oid)
    whole_schema = target.schema in publication.schemas
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
