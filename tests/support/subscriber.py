"""What a subscriber makes of pgoutput's rows: transactions in the order of their ends, whatever blocks they came in, and whoever sent them.

In: rows as `support.pgoutput_rows` has them, of one slot. Out: `put_together` (`support.reassembly`), in which only the blocks, and when a relation
is told, do not matter; `understood`, in which LSNs, xids, oids and times do not, either, so that two servers may be compared that were told the
same workload.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.pgoutput_rows import Row
from support.reassembly import Event, reassembled
from tailrace.logicalproto import message as m
from tailrace.logicalproto.formats import read_message
from tailrace.logicalproto.message_flow import MessageReader
from tailrace.model import Lsn

Told = tuple[Any, ...]
FIRST_OF_SOURCE = 16384
"""Types with larger oids have others in another cluster (`access/transam.h`, FirstNormalObjectId)."""


def put_together(rows: Sequence[Row], options: Mapping[str, str], lasting: Container[int] | None = None) -> list[Event]:
    """What is left of them, but for messages outside of transactions, which come in between, and what was told of relations: a type or schema that is
    renamed makes nothing stale, so who is told of a table at another time knows it by another name. `lasting` as of `Subscriber`."""
    came = [(int(Lsn.parse(lsn)), data) for lsn, _, data in rows]
    options = {"streaming": "off", **options}
    events = reassembled(came, int(options["proto_version"]), options["streaming"], described=False, lasting=lasting)
    return [event for event in events if event[0] != "message"]


def without_origins(events: Sequence[Event]) -> list[Event]:
    """The same, whether or not it was said where transactions come from."""
    return [(*event[:4], *event[5:]) for event in events]


def messages_within(rows: Sequence[Row]) -> frozenset[int]:
    """The LSNs of messages that are part of transactions which came whole."""
    came = (read_message(data, in_stream=False) for _, _, data in rows if data[:1] == b"M")
    return frozenset(message.lsn for message in came if isinstance(message, m.Message) and message.flags)


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
