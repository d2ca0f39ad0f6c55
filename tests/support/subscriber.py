"""What a subscriber makes of pgoutput's rows: transactions in the order of their ends, whatever blocks they came in, and whoever sent them.

In: rows as `support.pgoutput_rows` has them, of one slot. Out: `put_together`, in which only the blocks, and when a relation is told, do not matter;
`understood`, in which LSNs, xids, oids and times do not, either, so that two servers may be compared that were told the same workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.pgoutput_rows import Row
from tailrace.messages import message as m
from tailrace.messages.session import MessageReader

Told = tuple[Any, ...]
FIRST_OF_SOURCE = 16384
"""Types with larger oids have others in another cluster (`access/transam.h`, FirstNormalObjectId)."""


def put_together(rows: Sequence[Row], options: Mapping[str, str]) -> list[Told]:
    """Transaction by transaction the kind of its end, what that says, and changes without their xids. What was rolled back, and what has no changes,
    is left out; so are messages outside of transactions, which come in between."""
    reader = MessageReader(int(options["proto_version"]), options.get("streaming", "off"))
    told: list[Told] = []
    streams: dict[int, list[tuple[int, Any]]] = {}
    current: list[tuple[int, Any]] = []
    top = 0
    for _, _, data in rows:
        match reader.read(data):
            case m.Begin() | m.BeginPrepare():
                current = []
            case m.StreamStart(xid=xid):
                top, current = xid, streams.setdefault(xid, [])
            case m.StreamStop():
                current = []
            case m.StreamAbort(xid=xid, subxid=subxid):
                streams[xid] = [] if xid == subxid else [each for each in streams[xid] if each[0] != subxid]
            case m.Commit() | m.Prepare() as end:
                told.append((type(end).__name__, _fields(end, "xid"), [change for _, change in current]))
                current = []
            case m.StreamCommit(xid=xid) | m.StreamPrepare(xid=xid) as end:
                what = type(end).__name__.removeprefix("Stream")
                told.append((what, _fields(end, "xid"), [change for _, change in streams.pop(xid)]))
            case m.CommitPrepared() | m.RollbackPrepared() as end:
                told.append((type(end).__name__, _fields(end), [()]))
            case m.Message(flags=0) | m.Relation() | m.Type() | m.Origin():
                pass
            case change:
                current.append((getattr(change, "xid", None) or top, (type(change).__name__, _fields(change, "xid"))))
    return [each for each in told if each[2]]


def _fields(message: Any, *without: str) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__slots__ if name not in without}


@dataclass
class _Known:
    """What has been told of relations and types; but for a relation's schema, which another major may tell later when it is renamed."""

    relations: dict[int, Told] = field(default_factory=dict)
    types: dict[int, tuple[str, str]] = field(default_factory=dict)

    def learn(self, told: m.Relation) -> None:
        columns = tuple((each.flags, each.name, self._type(each.type_oid), each.type_modifier) for each in told.columns)
        self.relations[told.relation_oid] = (told.name, told.replica_identity, columns)

    def _type(self, oid: int) -> object:
        return oid if oid < FIRST_OF_SOURCE else self.types[oid]


def understood(rows: Sequence[Row]) -> list[list[Told]]:
    """The changes of each transaction that has some, with their relations as they were told; of protocol version 1."""
    reader = MessageReader(1, "off")
    known = _Known()
    told: list[list[Told]] = []
    for _, _, data in rows:
        match reader.read(data):
            case m.Begin():
                told.append([])
            case m.Type(type_oid=oid, namespace=namespace, name=name):
                known.types[oid] = namespace, name
            case m.Relation() as relation:
                known.learn(relation)
            case m.Insert() | m.Update() | m.Delete() as change:
                tuples = getattr(change, "old", None), getattr(change, "new", None)
                told[-1].append((type(change).__name__, known.relations[change.relation_oid], *tuples))
            case m.Truncate(options=options, relation_oids=oids):
                told[-1].append(("Truncate", options, tuple(known.relations[oid] for oid in oids)))
    return [changes for changes in told if changes]
