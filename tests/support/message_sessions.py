"""Sessions of messages drawn from a seed, whole and damaged, and what must hold of them: the reader of single messages and the one of many agree.

session = made_up(dice)                       messages in an order that a server could send
payloads = damaged([...], dice)               one of them changed, cut, gone, twice or elsewhere
check(payloads, proto_version, streaming)     raises AssertionError, or whatever a reader should not raise
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from support.vectors import Recorded
from tailrace.errors import PeerError
from tailrace.logicalproto import message as m
from tailrace.logicalproto.change_columns import change_batches, tuple_side
from tailrace.logicalproto.change_reader import ChangeReader, Scanned
from tailrace.logicalproto.change_writer import NO_XID, ChangeHeads, write_changes
from tailrace.logicalproto.message_flow import MessageReader, MessageWriter
from tailrace.model import Lsn
from tailrace.types.values import Texts

TYPES = (16, 20, 21, 23, 25, 26, 17, 700, 701, 1043, 1042, 1082, 1114, 1184, 1186, 1700, 2950, 3802, 1007, 1009, 3904, 16400)
WORDS = (
    b"1", b"-7", b"t", b"f", b"1.50", b"NaN", b"2020-02-03", b"2020-02-03 04:05:06.789+00", b"infinity", b"{1,2}", b'{"a": 1}', b"\\x00ff",
    b"3 days", b"[1,5)", b"123e4567-e89b-12d3-a456-426614174000", b"", b"text", b"\xc3\xa4", b"\xff", b"\0",
)  # fmt: skip


class Drawn:
    """State: what the session that is being made has said."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.messages: list[m.AnyMessage] = []
        self.relations: dict[int, m.Relation] = {}
        self.streamed: set[int] = set()
        self.lsn = 0
        self.xid = 700

    def run(self, transactions: int) -> list[m.AnyMessage]:
        for _ in range(transactions):
            self.dice.choice((self.transaction, self.transaction, self.prepared, self.block, self.end_of_stream, self.message))()
        return self.messages

    def next_lsn(self) -> Lsn:
        self.lsn += self.dice.randint(1, 1000)
        return Lsn(self.lsn)

    def next_xid(self) -> int:
        self.xid += 1
        return self.xid

    def transaction(self) -> None:
        lsn, time = self.next_lsn(), self.dice.randrange(2**40)
        self.messages.append(m.Begin(lsn, time, self.next_xid()))
        self.body(None)
        self.messages.append(m.Commit(lsn, self.next_lsn(), time))

    def prepared(self) -> None:
        lsn, end, time, xid = self.next_lsn(), self.next_lsn(), self.dice.randrange(2**40), self.next_xid()
        self.messages.append(m.BeginPrepare(lsn, end, time, xid, f"gid {xid}"))
        self.body(None)
        self.messages.append(m.Prepare(lsn, end, time, xid, f"gid {xid}"))
        if self.dice.random() < 0.5:
            self.messages.append(m.CommitPrepared(self.next_lsn(), self.next_lsn(), time, xid, f"gid {xid}"))
        else:
            self.messages.append(m.RollbackPrepared(end, self.next_lsn(), time, time, xid, f"gid {xid}"))

    def block(self) -> None:
        if self.streamed and self.dice.random() < 0.5:
            xid, first = self.dice.choice(sorted(self.streamed)), 0
        else:
            xid, first = self.next_xid(), 1
        self.streamed.add(xid)
        self.messages.append(m.StreamStart(xid, first))
        self.body(xid)
        self.messages.append(m.StreamStop())

    def end_of_stream(self) -> None:
        if not self.streamed:
            return
        xid = self.dice.choice(sorted(self.streamed))
        which = self.dice.randrange(4)
        if which == 0:
            self.messages.append(m.StreamAbort(xid, xid + 1))
            return
        self.streamed.discard(xid)
        ends: tuple[m.AnyMessage, ...] = (
            m.StreamAbort(xid, xid), m.StreamCommit(xid, self.next_lsn(), self.next_lsn(), 5),
            m.StreamPrepare(self.next_lsn(), self.next_lsn(), 5, xid, f"gid {xid}"),
        )  # fmt: skip
        self.messages.append(ends[which - 1])

    def message(self) -> None:
        self.messages.append(m.Message(0, self.next_lsn(), "prefix", b"\0\xff"))

    def body(self, top: int | None) -> None:
        if self.dice.random() < 0.2:
            self.messages.append(m.Origin(Lsn(0), "origin"))
        for _ in range(self.dice.randrange(6)):
            self.change(None if top is None else top + self.dice.randrange(2))

    def change(self, xid: int | None) -> None:
        oid = self.dice.randrange(16384, 16388)
        if oid not in self.relations or self.dice.random() < 0.1:
            self.messages.append(m.Type(16400, "", self.dice.choice(("int4", "mood")), xid))
            columns = [m.RelationColumn(i == 0, f"c{i}", self.dice.choice(TYPES), -1) for i in range(self.dice.randrange(4))]
            self.relations[oid] = m.Relation(oid, "public", f"t{oid}", self.dice.choice("dnfi"), tuple(columns), xid)
            self.messages.append(self.relations[oid])
        relation = self.relations[oid]
        old = m.TupleData(self.dice.choice("KO"), self.columns(relation, "ntb"))
        new = m.TupleData("N", self.columns(relation, "ntub"))
        self.messages.append(
            self.dice.choice(
                (
                    m.Insert(oid, new, xid),
                    m.Update(oid, None, new, xid),
                    m.Update(oid, old, new, xid),
                    m.Delete(oid, old, xid),
                    m.Truncate(self.dice.randrange(4), (oid,), xid),
                    m.Message(1, self.next_lsn(), "p", b"x", xid),
                )
            )  # fmt: skip
        )

    def columns(self, relation: m.Relation, kinds: str) -> tuple[m.TupleColumn, ...]:
        drawn = [self.dice.choice(kinds) for _ in relation.columns]
        return tuple(m.TupleColumn(kind, self.dice.choice(WORDS) if kind in "tb" else None) for kind in drawn)


def made_up(dice: random.Random, transactions: int = 8) -> list[bytes]:
    """The bytes of a session that nothing is wrong with, but for values that may be none of their types."""
    writer = MessageWriter(4, "on")
    return [writer.write(message) for message in Drawn(dice).run(transactions)]


def damaged(payloads: Sequence[bytes], dice: random.Random) -> list[bytes]:
    """The same with something wrong, or not: a byte may be changed where it does not matter."""
    found = list(payloads)
    if not found:
        return found
    at = dice.randrange(len(found))
    payload = bytearray(found[at] or b"\0")
    match dice.randrange(8):
        case 0:
            del found[at]
        case 1:
            found.insert(dice.randrange(len(found)), found[at])
        case 2:
            found[at] = bytes(payload[: dice.randrange(len(payload))])
        case 3:
            found[at] = bytes(payload) + bytes([dice.randrange(256)])
        case 4:
            payload[0] = dice.choice(b"BCORYIUDTMSEcAbPKrp")
            found[at] = bytes(payload)
        case 5:
            where = dice.randrange(len(payload))
            found[at] = bytes(payload[:where]) + dice.randbytes(4) + bytes(payload[where + 4 :])
        case _:
            payload[dice.randrange(len(payload))] = dice.choice((0, 1, 0xFF, 0x7F, 0x80, *b"nutbNKO", dice.randrange(256)))
            found[at] = bytes(payload)
    return found


def check(payloads: Sequence[bytes], proto_version: int = 4, streaming: str = "on", cut: int | None = None) -> str:
    """Read them one by one and all at once, in two buffers if told where to cut. Returns what came of it: nothing, or the error of both."""
    reader = MessageReader(proto_version, streaming)
    one_by_one: list[m.AnyMessage] = []
    wrong = ""
    for number, payload in enumerate(payloads):
        try:
            one_by_one.append(reader.read(payload))
        except PeerError as error:
            start = cut if cut is not None and number >= cut else 0
            wrong = f"{error}, message {number - start}"
            break
    bulk = ChangeReader(proto_version, streaming)
    said, at = "", 0
    for part in (payloads,) if cut is None else (payloads[:cut], payloads[cut:]):
        texts = Texts.of(list(part))
        try:
            scanned = bulk.read(texts.data, texts.offsets)
        except PeerError as error:
            said = str(error)
            break
        check_rows(scanned, one_by_one[at : at + len(part)])
        at += len(part)
        said = said or _values(scanned)
    assert (wrong == said) or (not wrong and said.startswith("values: ")), f"one by one: {wrong}; at once: {said}"
    return said


def _values(scanned: Scanned) -> str:
    """What reading the values says, which the reader of single messages leaves as they are."""
    try:
        for _, batch in change_batches(scanned):
            batch.validate(full=True)
    except PeerError as error:
        return f"values: {error}"
    return ""


def check_rows(scanned: Scanned, messages: Sequence[m.AnyMessage]) -> None:
    """The rows of a buffer are the changes that were read one by one."""
    kinds = {m.Insert: 1, m.Update: 2, m.Delete: 3}
    rows = scanned.rows
    assert rows.kind.tolist() == [kinds.get(type(each), 0) for each in messages]
    for number in np.flatnonzero(rows.kind).tolist():
        message = messages[number]
        relation = scanned.relations[rows.relation[number]]
        assert relation.relation_oid == getattr(message, "relation_oid")  # noqa: B009
        assert rows.xid[number] == (-1 if getattr(message, "xid") is None else getattr(message, "xid"))  # noqa: B009
        old = getattr(message, "old", None)
        assert rows.old_kind[number] == (0 if old is None else 1 if old.marker == "K" else 2)
        assert (rows.new_at[number] >= 0) == hasattr(message, "new")
    for number, other in scanned.others.items():
        assert messages[number] == other
    assert len(scanned.others) == sum(not isinstance(each, m.Begin | m.Commit | m.Change) for each in messages)


def written_again(recorded: Recorded) -> list[bytes]:
    """The changes of a recorded session, read as columns and written from them, relation by relation."""
    texts = Texts.of(list(recorded.payloads))
    scanned = ChangeReader(recorded.proto_version, recorded.streaming).read(texts.data, texts.offsets)
    rows = scanned.rows
    found: list[bytes] = []
    for number, relation in enumerate(scanned.relations):
        for in_stream in (False, True):
            mine = np.flatnonzero((rows.relation == number) & ((rows.xid >= 0) == in_stream))
            new, old = (tuple_side(scanned.data, at[mine], len(relation.columns)) for at in (rows.new_at, rows.old_at))
            xid = rows.xid[mine].astype(np.uint32) if in_stream else NO_XID
            oids = np.full(len(mine), relation.relation_oid, np.uint32)
            in_key = np.array([column.flags == 1 for column in relation.columns], np.bool_)
            found += write_changes(ChangeHeads(rows.kind[mine], oids, rows.old_kind[mine], xid), new, old, in_key).to_bytes()
    return found
