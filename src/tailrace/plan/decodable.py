"""WAL that cannot be decoded, whatever the plan: refused, or passed over, by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.transactions.fates import Transactions
from tailrace.wal import index, records, xact
from tailrace.wal.index import Index
from tailrace.wal.kept import kept_records
from tailrace.wal.resource_managers import name_of
from tailrace.wal.unaligned import number

_PARAMETER_CHANGE = 0x60
_LOGICAL = 2
_LEVELS = ("minimal", "replica", "logical")


def check_decodable(
    indexes: Sequence[Index], transactions: Transactions, start: int, upto: int, level_at_end: int | None = None
) -> None:
    """Raise where wal_level was below logical in `[start, upto)`: all along, lowered inside, or low already.

    The log says which level came before and after only where it changes. If it never does, `level_at_end` (the control file's) was in effect all
    along; where there is none, commits tell whether that was logical.
    """
    changes = _level_changes(indexes)
    if not changes and (level_at_end < _LOGICAL if level_at_end is not None else bool(len(_bare(transactions)))):
        level = f'"{_LEVELS[level_at_end]}"' if level_at_end is not None else "lower"
        raise UsageError(
            "logical decoding requires wal_level >= logical",
            hint=f"wal_level was {level} throughout this WAL, which so lacks what decoding needs. Set it to logical on the source and restart that: "
            "what is written from then on can be decoded.",
            context=f"LSN {indexes[0].first} to {indexes[-1].next_lsn}",
            sqlstate="55000",
        )
    before = [level for lsn, level in changes if lsn < start]
    at_start = before[-1] if before else None
    low = [lsn for lsn, level in changes if start <= lsn < upto and level < _LOGICAL]
    if at_start is not None and at_start < _LOGICAL:
        raise UsageError(
            "logical decoding requires wal_level >= logical",
            hint="wal_level was lower when this WAL was written. Start after it was raised, with --start-lsn.",
            context=f"LSN {Lsn(max(start, int(indexes[0].stretch.start)))}",
            sqlstate="55000",
        )
    if low:
        raise UsageError(
            "logical decoding requires wal_level >= logical",
            hint="wal_level was lowered on the source; WAL after that cannot be decoded. Decode up to there with --upto-lsn.",
            context=f"parameter change at {Lsn(low[0])}",
            sqlstate="55000",
        )


def logged_for_decoding(
    indexes: Sequence[Index], transactions: Transactions, begins: NDArray[np.int64], shown: NDArray[np.int64], *, explicit: bool
) -> NDArray[np.int64]:
    """Those of `shown` that `begin` after wal_level was last raised to logical: of older ones rows are missing. If the user named the start, such a
    one is an error."""
    raised = _raised_at(indexes, transactions)
    early = shown[begins[shown] < raised]
    if explicit and len(early):
        raise UsageError(
            "logical decoding requires wal_level >= logical",
            hint="wal_level was lower when this WAL was written. Start after it was raised, with --start-lsn.",
            context=f"transaction {int(transactions.xid[early[0]])} begins at {Lsn(int(begins[early[0]]))}, wal_level is raised at {Lsn(raised)}",
            sqlstate="55000",
        )
    return shown[begins[shown] >= raised]


def _raised_at(indexes: Sequence[Index], transactions: Transactions) -> int:
    """Where wal_level was last raised to logical, or 0. The log does not say what it was before the first change; commits do."""
    changes = _level_changes(indexes)
    was_low = bool(changes) and bool((_bare(transactions) < changes[0][0]).any())
    raised = 0
    for lsn, level in changes:
        if was_low and level >= _LOGICAL:
            raised = lsn
        was_low = level < _LOGICAL
    return raised


def _bare(transactions: Transactions) -> NDArray[np.int64]:
    """Where those commit that name no database: below logical, a COMMIT does so if it invalidates no cache (`XactLogCommitRecord`)."""
    return transactions.commit_lsn[(transactions.database == 0) & (transactions.kind == xact.COMMIT)]


def _level_changes(indexes: Sequence[Index]) -> list[tuple[int, int]]:
    """(LSN, wal_level) of each change of parameters."""
    return [
        (int(part.kept.lsn[row]), number(raw, int(parsed[records.MAIN]) + 20, 4))
        for part, row, raw, parsed in kept_records(indexes, index.WAL_SETTINGS)
        if raw[16] & 0xF0 == _PARAMETER_CHANGE
    ]


def foreign_records(indexes: Sequence[Index]) -> str:
    """A warning, if custom resource managers wrote into the log: what such a record did to a table is known to its extension only."""
    for part, row, _, parsed in kept_records(indexes, index.ALIEN):
        name = name_of(int(parsed[records.MANAGER]))
        return f"records of custom resource manager {name}, the first at {Lsn(int(part.kept.lsn[row]))}, are not decoded"
    return ""
