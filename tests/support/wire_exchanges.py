"""What real clients and servers said to each other, message by message (`tests/cases/wire_exchanges.jsonl.xz`): pg_recvlogical, psql, drivers,
subscriptions on 15, 16 and 18, pg_receivewal, pg_basebackup, a standby.

A proxy between them wrote it down. Of a message longer than 600 bytes it kept its type alone.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tailrace.wire.formats import Side

FILE = Path(__file__).parents[1] / "cases/wire_exchanges.jsonl.xz"
_SIDES = {"F": Side.FRONTEND, "B": Side.BACKEND}


@dataclass(frozen=True, slots=True)
class Said:
    """`data` is None where it was not kept; `type` is empty for a startup packet."""

    side: Side
    data: bytes | None
    type: str


Exchange = tuple[Said, ...]


@cache
def recorded_exchanges() -> dict[str, tuple[Exchange, ...]]:
    """By name, one for each connection."""
    found = {}
    for line in lzma.decompress(FILE.read_bytes()).decode().splitlines():
        facts = json.loads(line)
        found[facts["exchange"]] = tuple(
            tuple(Said(_SIDES[side], bytes.fromhex(data) if data else None, kind.strip("-")) for side, data, kind in connection)
            for connection in facts["connections"]
        )
    return found
