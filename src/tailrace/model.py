"""The nouns of the pipeline: positions, files, types, relations, transactions.

Frozen values without behaviour beyond parsing and printing; of ours it imports `dataclass` alone. Bulk data never takes these
shapes: rows live in columns (`tailrace.types.values`), one Python object per relation or transaction, never per row.
"""

from __future__ import annotations

import re
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tailrace.dataclass import dataclass

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")

PAGE_SIZE = 8192
STRETCH_BYTES = 64 << 20
"""Of WAL: large enough that what a stretch costs beside its bytes does not count, on Spark either."""
FIRST_NORMAL_OID = 16384
"""Objects (and files) numbered below were made by initdb (`access/transam.h`, FirstNormalObjectId)."""
FIRST_UNPINNED_OID = 12000
"""`IsCatalogRelation` is oid < 12000, whatever the schema (`access/transam.h`, FirstUnpinnedObjectId)."""
PG_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""Timestamps on disk count microseconds from here (`datatype/timestamp.h`)."""
NAMEDATALEN = 64
"""Bytes of a name, with the closing zero (`pg_config_manual.h`)."""


def timestamptz_of(moment: datetime) -> int:
    """The moment, which has a zone, as PostgreSQL counts it: in whole microseconds since PG_EPOCH."""
    return (moment - PG_EPOCH) // timedelta(microseconds=1)


def datetime_of(timestamptz: int) -> datetime:
    """The same back, in UTC. Raises OverflowError for what is beyond Python's years."""
    return PG_EPOCH + timedelta(microseconds=timestamptz)


class Lsn(int):
    """A position in the write-ahead log, printed as PostgreSQL's `pg_lsn` (`%X/%X`)."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Read `X/X`. Raises ValueError with PostgreSQL's words for anything else."""
        match = _LSN.fullmatch(text)
        if match is None:
            raise ValueError(f'invalid input syntax for type pg_lsn: "{text}"')
        return cls((int(match[1], 16) << 32) | int(match[2], 16))

    def __str__(self) -> str:
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        return f"Lsn('{self}')"


class Locator(NamedTuple):
    """Which file holds a relation (`storage/relfilelocator.h`); `database` is 0 for shared relations."""

    tablespace: int
    database: int
    number: int

    def __str__(self) -> str:
        return f"{self.tablespace}/{self.database}/{self.number}"


class Stretch(NamedTuple):
    """The unit of work: the records that *start* in `[start, stop)`; `start` lies on a page border."""

    start: Lsn
    stop: Lsn

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop})"


class InternalFunctions(NamedTuple):
    """The built-in types whose LANGUAGE internal functions a base type uses as its own: for each of its functions that type's oid, 0 if the base
    type has no such function, -1 if it has one that is no built-in type's."""

    output: int
    send: int
    input: int
    receive: int


@dataclass(frozen=True, slots=True)
class PgType:
    """A row of pg_type with everything it refers to already resolved, as it was at one moment.

    `kind` is typtype, except that a true array (subscripted by array_subscript_handler) is "a":
    b base, a array, d domain, e enum, c composite, r range, m multirange, p pseudo.
    `label` is what format_type() prints without a modifier. `element` is an array's element, a domain's base, a range's subtype,
    a multirange's range. `labels` are an enum's (oid, label); `fields` a composite's attributes, dropped ones included.
    `typmod` is a domain's, of its base. `functions` are those of a base type that prints as a built-in one, None for all others.
    """

    oid: int
    schema: str
    name: str
    label: str
    kind: str
    length: int
    align: int
    delimiter: str = ","
    element: PgType | None = None
    labels: tuple[tuple[int, str], ...] = ()
    fields: tuple[Column, ...] = ()
    typmod: int = -1
    functions: InternalFunctions | None = None

    @property
    def base(self) -> PgType:
        """The type itself; of a domain, what it is made from in the end."""
        return self.element.base if self.kind == "d" and self.element is not None else self


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute of a relation. A dropped one keeps its place in stored tuples and has no type.

    `length` and `align` (in bytes) are pg_attribute's own, which outlive the type. `missing` is the stored form (payload of a
    varlena without header, or the fixed bytes) of the value that rows too short for this column have; None means NULL.
    `default` is the text of its default expression, where an outlet asks for these; None: there is none.
    """

    number: int
    name: str
    type: PgType | None
    typmod: int
    length: int
    align: int
    not_null: bool = False
    generated: str = ""
    missing: bytes | None = None
    default: str | None = None

    @property
    def dropped(self) -> bool:
        return self.type is None

    @property
    def live_type(self) -> PgType:
        """The type of a column that was not dropped."""
        assert self.type is not None, f"column {self.number} was dropped"
        return self.type


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation as one snapshot saw it. `columns` holds every attribute from number 1, dropped ones included.

    `kind`, `persistence`, `replica_identity` are pg_class's letters. `rewrite_of` is relrewrite: non-zero for the transient
    heap of an ALTER TABLE or REFRESH. `identity` are the attribute numbers of the replica identity (empty: none, or FULL).
    """

    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    replica_identity: str
    rewrite_of: int
    columns: tuple[Column, ...]
    identity: tuple[int, ...] = ()
    primary_key: tuple[int, ...] = ()
    access_method: int = 2

    @property
    def row_key(self) -> tuple[int, ...]:
        """The columns, by attribute number, that tell a row from all others: the replica identity's, or, if that is FULL, the primary key's. Empty:
        whole rows do."""
        return self.identity or (self.primary_key if self.replica_identity == "f" else ())

    @property
    def live_columns(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if not column.dropped)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class Comments(NamedTuple):
    """What COMMENT ON says of a relation, and of its columns by attribute number. Where it says nothing of the relation, that is empty; a column of
    which nothing is said is not there."""

    relation: str = ""
    columns: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Transaction:
    """A committed top-level transaction. Batches refer to it by its ordinal.

    `ordinal` counts committed transactions of the plan in commit order. `commit_lsn` is where the commit record starts, `end_lsn`
    where it ends; `first_lsn` the first record of the transaction itself; `commit_time` microseconds since PG_EPOCH (the origin's,
    if it has one). A non-transactional message travels as a `Message` instead.
    """

    ordinal: int
    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn
    first_lsn: Lsn
    commit_time: int
    database: int
    subxids: tuple[int, ...] = field(default=(), repr=False)
    origin: int = 0
    origin_lsn: Lsn = Lsn(0)
    gid: str = ""

    @property
    def committed_at(self) -> datetime:
        return datetime_of(self.commit_time)
