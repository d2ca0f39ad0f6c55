"""What pgoutput sends (protocol 1), as plain values to compare with.

In: messages as the server's slot gave them. Out: transactions with their changes; values are text, None for NULL, UNCHANGED for what was not
sent. Layouts: the manual's Logical Replication Message Formats.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

UNCHANGED = "<unchanged>"
Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """kind is insert, update, delete or truncate; `old_kind` K (key), O (row) or empty. A TRUNCATE names all its relations, in order."""

    kind: str
    relations: tuple[int, ...]
    new: Values = ()
    old_kind: str = ""
    old: Values = ()


@dataclass(slots=True)
class Sent:
    """A transaction, by the start of its commit record."""

    commit_lsn: int
    xid: int
    changes: list[Change] = field(default_factory=list)


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> Any:
        (found,) = struct.unpack_from(f">{form}", self.data, self.at)
        self.at += struct.calcsize(f">{form}")
        return found

    def letter(self) -> str:
        return chr(self.take("B"))

    def values(self) -> Values:
        found: list[str | None] = []
        for _ in range(self.take("H")):
            kind = self.letter()
            if kind == "t":
                size = self.take("I")
                found.append(self.data[self.at : self.at + size].decode())
                self.at += size
            else:
                found.append({"n": None, "u": UNCHANGED}[kind])
        return tuple(found)


def read_sent(messages: Iterable[bytes]) -> list[Sent]:
    """Transactions in the order in which they were sent. Relation, Type and Origin messages say nothing that is compared."""
    sent: list[Sent] = []
    for message in messages:
        body = _Bytes(message)
        kind = body.letter()
        if kind == "B":
            commit, _, xid = body.take("Q"), body.take("q"), body.take("I")
            sent.append(Sent(commit, xid))
        elif kind in "IUDT":
            sent[-1].changes.append(_change(kind, body))
        elif kind not in "CRYO":
            raise ValueError(f"message {kind!r}")
    return sent


def _change(kind: str, body: _Bytes) -> Change:
    if kind == "T":
        count, _ = body.take("I"), body.take("B")
        return Change("truncate", tuple(body.take("I") for _ in range(count)))
    relation = body.take("I")
    part, old_kind, old = body.letter(), "", ()
    if part in "KO":
        old_kind, old = part, body.values()
        if kind == "D":
            return Change("delete", (relation,), (), old_kind, old)
        part = body.letter()
    assert part == "N"
    return Change({"I": "insert", "U": "update"}[kind], (relation,), body.values(), old_kind, old)
