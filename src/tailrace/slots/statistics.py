"""What has been decoded for a slot, as pg_stat_replication_slots counts it (`ReorderBufferProcessTXN`, `ReorderBufferStreamTXN`)."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from tailrace.checksummed_file import fact
from tailrace.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SlotStatistics:
    """Transactions that the plugin was given, each once, however many blocks it came in; those of them that were streamed, and in how many blocks.
    Bytes are those of the WAL that their rows take, where the server counts what they take in its reorder buffer."""

    total_txns: int = 0
    total_bytes: int = 0
    stream_txns: int = 0
    stream_count: int = 0
    stream_bytes: int = 0

    def __add__(self, other: SlotStatistics) -> SlotStatistics:
        return SlotStatistics(*(getattr(self, each) + getattr(other, each) for each in _NAMES))

    def facts(self) -> dict[str, int]:
        """What a file keeps of them."""
        return asdict(self)

    @classmethod
    def of(cls, facts: Any) -> SlotStatistics:
        """From such facts; none are those of a slot of before there were statistics."""
        return cls() if facts is None else cls(*(fact(fact(facts, dict)[each], int) for each in _NAMES))


_NAMES = tuple(each.name for each in fields(SlotStatistics))
NOTHING_DECODED = SlotStatistics()
