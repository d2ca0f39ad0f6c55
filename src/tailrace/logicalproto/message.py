"""The messages of PostgreSQL's logical replication protocol as values, one class each (manual, "Logical Replication Message
Formats").

Frozen, and without behaviour: `formats` reads and writes them. Fields are called what the manual calls them. LSNs are `Lsn`, time
stamps microseconds since 2000-01-01 UTC. Names, prefixes and gids are in the client's encoding; `types.values.as_string` made str
of them, so that each of their bytes comes back. `xid` of a message that may stand in a stream is there just when it does, and is
the subtransaction's that made the change; `Message` has the top-level transaction's.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.model import Lsn

NULL, UNCHANGED, TEXT, BINARY = "n", "u", "t", "b"
"""What a column of a tuple may be; UNCHANGED is a TOASTed value that was not sent."""
NEW, KEY, OLD = "N", "K", "O"
"""Which tuple it is."""


@dataclass(frozen=True, slots=True)
class TupleColumn:
    """`value` is there if kind is TEXT or BINARY: the text form in the client's encoding, or what the type's send function
    sends."""

    kind: str
    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class TupleData:
    marker: str
    columns: tuple[TupleColumn, ...]


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """`flags` is 1 for a column of the key."""

    flags: int
    name: str
    type_oid: int
    type_modifier: int


@dataclass(frozen=True, slots=True)
class Begin:
    final_lsn: Lsn
    commit_timestamp: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_timestamp: int
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """`commit_lsn` is the origin's; 0/0 in a stream."""

    commit_lsn: Lsn
    name: str


@dataclass(frozen=True, slots=True)
class Relation:
    """An empty namespace is pg_catalog. `replica_identity` is pg_class.relreplident."""

    relation_oid: int
    namespace: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Type:
    """Of a domain the oid is its own, the name that of the type it is made from."""

    type_oid: int
    namespace: str
    name: str
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    relation_oid: int
    new: TupleData
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """`old`, if there is one, is marked as KEY or OLD."""

    relation_oid: int
    old: TupleData | None
    new: TupleData
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    relation_oid: int
    old: TupleData
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """`options`: 1 for CASCADE, 2 for RESTART IDENTITY."""

    options: int
    relation_oids: tuple[int, ...]
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """From pg_logical_emit_message(). `flags` is 1 if it is part of a transaction."""

    flags: int
    lsn: Lsn
    prefix: str
    content: bytes
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class StreamStart:
    """`first_segment` is 1 for the first block of this transaction."""

    xid: int
    first_segment: int


@dataclass(frozen=True, slots=True)
class StreamStop:
    pass


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_timestamp: int
    flags: int = 0


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """`subxid` equals `xid` if the whole transaction is rolled back. LSN and time stamp are there where streaming is parallel."""

    xid: int
    subxid: int
    abort_lsn: Lsn | None = None
    abort_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class BeginPrepare:
    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_timestamp: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class Prepare:
    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_timestamp: int
    xid: int
    gid: str
    flags: int = 0


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_timestamp: int
    xid: int
    gid: str
    flags: int = 0


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    prepare_end_lsn: Lsn
    rollback_end_lsn: Lsn
    prepare_timestamp: int
    rollback_timestamp: int
    xid: int
    gid: str
    flags: int = 0


@dataclass(frozen=True, slots=True)
class StreamPrepare:
    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_timestamp: int
    xid: int
    gid: str
    flags: int = 0


Change = Insert | Update | Delete
InTransaction = Relation | Type | Change | Truncate | Message
"""What a transaction is made of, and what carries its xid in a stream."""
AnyMessage = (
    Begin | Commit | Origin | InTransaction | StreamStart | StreamStop | StreamCommit | StreamAbort
    | BeginPrepare | Prepare | CommitPrepared | RollbackPrepared | StreamPrepare
)  # fmt: skip
