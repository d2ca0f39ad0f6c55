"""What a server keeps of its log for who receives it, and when that may soon be too little.

In: its settings, over the replication connection, and how far the receiver is behind. Out: a warning, while there is still time.
"""

from __future__ import annotations

from typing import Self

from tailrace.client.replication_connection import ReplicationConnection
from tailrace.dataclass import dataclass
from tailrace.window import parse_size

_ALWAYS_BEHIND = 2
"""Segments that a receiver may be behind at any moment."""


@dataclass(frozen=True, slots=True)
class KeptWal:
    """The server's settings, in bytes. `max_slot_wal_keep_size` is -1 where nothing limits what a slot keeps."""

    segment_size: int
    wal_keep_size: int
    max_slot_wal_keep_size: int
    max_wal_size: int

    @classmethod
    def of(cls, connection: ReplicationConnection) -> Self:
        sizes = (_bytes(connection.show(name)) for name in ("wal_keep_size", "max_slot_wal_keep_size", "max_wal_size"))
        return cls(connection.segment_size(), *sizes)

    def warning(self, behind: int, slot: str) -> str:
        """What to say where the receiver is so many bytes behind, with a physical `slot` or without (empty); empty while that is safe. With a
        slot, wal_status is as `GetWALAvailability` has it."""
        distance = f"the server is {behind >> 20:,} MB ahead of what was received"
        if not slot:
            if behind <= max(self.wal_keep_size // 2, _ALWAYS_BEHIND * self.segment_size):
                return ""
            kept = f"keeps {self.wal_keep_size >> 20:,} MB" if self.wal_keep_size else "keeps nothing"
            return f"{distance}, and {kept} for it (wal_keep_size)\nHINT:  {_REMEDY}"
        limit = self.max_slot_wal_keep_size
        most = max(limit, self.wal_keep_size)
        if limit >= 0 and behind > most:
            status = f"unreserved: it may be lost with the next checkpoint (max_slot_wal_keep_size is {limit >> 20:,} MB)"
        elif limit >= 0 and behind > most // 2:
            status = f"lost once it has written {(most - behind) >> 20:,} MB more (max_slot_wal_keep_size)"
        elif behind > max(self.max_wal_size, self.wal_keep_size):
            status = "extended: the server's disk fills with what it keeps for it"
        else:
            return ""
        return f'{distance}, and its physical replication slot "{slot}" is {status}'


_REMEDY = "Increase wal_keep_size there, or have it keep what was not received with a physical slot (tailrace slot create --physical-slot)."


def _bytes(shown: str) -> int:
    """A size as SHOW prints it."""
    return int(shown) if shown in ("0", "-1") else parse_size(shown)
