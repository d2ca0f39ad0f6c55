"""The messages of PostgreSQL's logical replication protocol, one class each, and the one table of them (manual, "Logical
Replication Message Formats").

The line above a class says of its message all that there is to say: its name, its type byte, since which version of the protocol,
its fields in their order on the wire, and where in a flow of messages it may stand. `formats` reads and writes messages by that,
`message_flow` checks their order, `printing` shows them. What only one message needs is a kind of field in `fields`, or a rule in
`message_flow`.

Values are frozen, and without behaviour. Fields are called what the manual calls them. LSNs are `Lsn`, time
stamps microseconds since 2000-01-01 UTC. Names, prefixes and gids are in the client's encoding; `types.values.as_string` made str
of them, so that each of their bytes comes back. `xid` of a message that may stand in a stream is there just when it does, and is
the subtransaction's that made the change; `Message` has the top-level transaction's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tailrace.dataclass import dataclass
from tailrace.model import Lsn

NULL, UNCHANGED, TEXT, BINARY = "n", "u", "t", "b"
"""What a column of a tuple may be; UNCHANGED is a TOASTed value that was not sent."""
NEW, KEY, OLD = "N", "K", "O"
"""Which tuple it is."""
OUTSIDE, TRANSACTION, PREPARED, STREAM = range(4)
"""Where a flow of messages stands: outside of all transactions, or in one, one that will be prepared, a block of one in progress."""
INSIDE = (TRANSACTION, PREPARED, STREAM)
ANYWHERE = (OUTSIDE, *INSIDE)


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
class MessageFormat:
    """`name` is what the subscriber calls the message, `since` the version of the protocol that it came with, `fields` are (name,
    kind) as on the wire. The message may come where the flow stands at one of `stands`; then the flow goes to `leads_to`, or
    stays. `carries_xid`: it begins with its xid where it stands in a stream. `in_parallel` are fields that follow only where
    streaming is parallel."""

    value: type
    name: str
    byte: str
    since: int
    fields: tuple[tuple[str, str], ...]
    stands: tuple[int, ...]
    leads_to: int | None
    carries_xid: bool
    in_parallel: tuple[tuple[str, str], ...]

    @property
    def kinds(self) -> dict[str, str]:
        """By the names of fields."""
        return dict((*self.fields, *self.in_parallel))


MESSAGE_FORMATS: dict[type, MessageFormat] = {}
"""Every message, in the manual's order. `Message` came with servers of major 14, `Truncate` with 11, without a new version of the
protocol."""
_PREPARED = "prepare_lsn:set_lsn end_lsn:set_lsn prepare_timestamp:timestamp xid:xid gid:string"
MessageClass = TypeVar("MessageClass", bound=type)


def _message(
    name: str, byte: str, since: int, fields: str = "", *, stands: tuple[int, ...], leads_to: int | None = None, xid: bool = False,
    parallel: str = "",
) -> Callable[[MessageClass], MessageClass]:  # fmt: skip
    """Put the class below into MESSAGE_FORMATS. Fields are written name:kind, the kinds are those of `fields.KINDS`."""

    def put(value: MessageClass) -> MessageClass:
        MESSAGE_FORMATS[value] = MessageFormat(
            value, name, byte, since, _parsed(fields), stands, leads_to, xid, _parsed(parallel)
        )
        return value

    return put


def _parsed(fields: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, kind) for name, _, kind in (field.partition(":") for field in fields.split()))


@_message("BEGIN", "B", 1, "final_lsn:set_lsn commit_timestamp:timestamp xid:xid", stands=(OUTSIDE,), leads_to=TRANSACTION)
@dataclass(frozen=True, slots=True)
class Begin:
    final_lsn: Lsn
    commit_timestamp: int
    xid: int


@_message("MESSAGE", "M", 1, "flags:flag lsn:lsn prefix:string content:content", stands=ANYWHERE, xid=True)
@dataclass(frozen=True, slots=True)
class Message:
    """From pg_logical_emit_message(). `flags` is 1 if it is part of a transaction."""

    flags: int
    lsn: Lsn
    prefix: str
    content: bytes
    xid: int | None = None


@_message(
    "COMMIT", "C", 1, "flags:no_flags commit_lsn:lsn end_lsn:lsn commit_timestamp:timestamp",
    stands=(TRANSACTION,), leads_to=OUTSIDE,
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_timestamp: int
    flags: int = 0


@_message("ORIGIN", "O", 1, "commit_lsn:lsn name:string", stands=INSIDE)
@dataclass(frozen=True, slots=True)
class Origin:
    """`commit_lsn` is the origin's; 0/0 in a stream."""

    commit_lsn: Lsn
    name: str


@_message(
    "RELATION", "R", 1, "relation_oid:oid namespace:string name:string replica_identity:identity columns:columns",
    stands=INSIDE, xid=True,
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class Relation:
    """An empty namespace is pg_catalog. `replica_identity` is pg_class.relreplident."""

    relation_oid: int
    namespace: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]
    xid: int | None = None


@_message("TYPE", "Y", 1, "type_oid:oid namespace:string name:string", stands=INSIDE, xid=True)
@dataclass(frozen=True, slots=True)
class Type:
    """Of a domain the oid is its own, the name that of the type it is made from."""

    type_oid: int
    namespace: str
    name: str
    xid: int | None = None


@_message("INSERT", "I", 1, "relation_oid:oid new:new", stands=INSIDE, xid=True)
@dataclass(frozen=True, slots=True)
class Insert:
    relation_oid: int
    new: TupleData
    xid: int | None = None


@_message("UPDATE", "U", 1, "relation_oid:oid old:optional_old new:new", stands=INSIDE, xid=True)
@dataclass(frozen=True, slots=True)
class Update:
    """`old`, if there is one, is marked as KEY or OLD."""

    relation_oid: int
    old: TupleData | None
    new: TupleData
    xid: int | None = None


@_message("DELETE", "D", 1, "relation_oid:oid old:old", stands=INSIDE, xid=True)
@dataclass(frozen=True, slots=True)
class Delete:
    relation_oid: int
    old: TupleData
    xid: int | None = None


@_message("TRUNCATE", "T", 1, "options+relation_oids:truncated", stands=INSIDE, xid=True)
@dataclass(frozen=True, slots=True)
class Truncate:
    """`options`: 1 for CASCADE, 2 for RESTART IDENTITY."""

    options: int
    relation_oids: tuple[int, ...]
    xid: int | None = None


@_message("STREAM START", "S", 2, "xid:xid first_segment:flag", stands=(OUTSIDE,), leads_to=STREAM)
@dataclass(frozen=True, slots=True)
class StreamStart:
    """`first_segment` is 1 for the first block of this transaction."""

    xid: int
    first_segment: int


@_message("STREAM STOP", "E", 2, stands=(STREAM,), leads_to=OUTSIDE)
@dataclass(frozen=True, slots=True)
class StreamStop:
    pass


@_message(
    "STREAM COMMIT", "c", 2, "xid:xid flags:no_flags commit_lsn:lsn end_lsn:lsn commit_timestamp:timestamp",
    stands=(OUTSIDE,),
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_timestamp: int
    flags: int = 0


@_message("STREAM ABORT", "A", 2, "xid:xid subxid:xid", stands=(OUTSIDE,), parallel="abort_lsn:lsn abort_timestamp:timestamp")
@dataclass(frozen=True, slots=True)
class StreamAbort:
    """`subxid` equals `xid` if the whole transaction is rolled back. LSN and time stamp are there where streaming is parallel."""

    xid: int
    subxid: int
    abort_lsn: Lsn | None = None
    abort_timestamp: int | None = None


@_message(
    "BEGIN PREPARE", "b", 3, _PREPARED,
    stands=(OUTSIDE,), leads_to=PREPARED,
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class BeginPrepare:
    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_timestamp: int
    xid: int
    gid: str


@_message("PREPARE", "P", 3, f"flags:no_flags {_PREPARED}", stands=(PREPARED,), leads_to=OUTSIDE)
@dataclass(frozen=True, slots=True)
class Prepare:
    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_timestamp: int
    xid: int
    gid: str
    flags: int = 0


@_message(
    "COMMIT PREPARED", "K", 3, "flags:no_flags commit_lsn:set_lsn end_lsn:set_lsn commit_timestamp:timestamp xid:xid gid:string",
    stands=(OUTSIDE,),
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class CommitPrepared:
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_timestamp: int
    xid: int
    gid: str
    flags: int = 0


@_message(
    "ROLLBACK PREPARED", "r", 3, "flags:no_flags prepare_end_lsn:set_lsn rollback_end_lsn:set_lsn prepare_timestamp:timestamp "
    "rollback_timestamp:timestamp xid:xid gid:string",
    stands=(OUTSIDE,),
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    prepare_end_lsn: Lsn
    rollback_end_lsn: Lsn
    prepare_timestamp: int
    rollback_timestamp: int
    xid: int
    gid: str
    flags: int = 0


@_message("STREAM PREPARE", "p", 3, f"flags:no_flags {_PREPARED}", stands=(OUTSIDE,))
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
BY_BYTE = {ord(each.byte): each for each in MESSAGE_FORMATS.values()}
