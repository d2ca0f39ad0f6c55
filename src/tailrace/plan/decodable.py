"""WAL that cannot be decoded, whatever the plan: refused by name."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.plan.events import kept_records
from tailrace.wal import index, records
from tailrace.wal.index import Index
from tailrace.wal.loads import number


def check_decodable(indexes: Sequence[Index], start: int, upto: int) -> None:
    """Raise where wal_level was below logical, or a custom resource manager wrote rows, inside the range."""
    for found, row, raw, parsed in kept_records(indexes, index.WAL_SETTINGS):
        if raw[16] & 0xF0 == 0x60 and number(raw, int(parsed[records.MAIN]) + 20, 4) < 2 and start <= found.kept.lsn[row] < upto:
            raise UsageError(
                "logical decoding requires wal_level >= logical",
                hint="wal_level was lowered on the source; WAL after that cannot be decoded. Decode up to there with --upto-lsn.",
                context=f"parameter change at {Lsn(int(found.kept.lsn[row]))}",
                sqlstate="55000",
            )
