"""The state of a consumer's session that its slot does not hold: which blocks of transactions in progress it has been given, and what its plugin
remembers.

On the server that ends with the connection. Who writes a file exactly once keeps it beside the position, and goes on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tailrace.checksummed_file import fact
from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.transactions.blocks import Streamed, StreamedByXid
from tailrace.wal.log_fingerprint import LogFingerprint


@dataclass(frozen=True, slots=True)
class ConsumerSession:
    """`memory` is the plugin's own, in what JSON can hold. `fingerprint` is of what stands in the log before the position that all this
    is of."""

    streamed: StreamedByXid = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: LogFingerprint | None = None

    def facts(self) -> dict[str, Any]:
        streamed = {str(xid): [int(given.upto), given.bytes, sorted(given.subxids)] for xid, given in self.streamed.items()}
        fingerprint = self.fingerprint.facts() if self.fingerprint is not None else None
        return {"streamed": streamed, "memory": dict(self.memory), "stood": fingerprint}

    @classmethod
    def of(cls, facts: Any) -> ConsumerSession:
        """Raises ValueError or TypeError for what `facts` does not give."""
        facts = fact(facts, dict)
        streamed = {
            int(xid): Streamed(fact(upto, Lsn), fact(size, int), frozenset(fact(each, int) for each in fact(subxids, list)))
            for xid, (upto, size, subxids) in fact(facts["streamed"], dict).items()
        }
        return cls(streamed, fact(facts["memory"], dict), LogFingerprint.of(facts.get("stood")))
