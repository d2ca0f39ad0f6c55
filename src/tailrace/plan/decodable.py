"""WAL that cannot be decoded whatever is asked of it, since wal_level was too low or the database was dropped: an error, or a warning that names
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import InsufficientLogging, TailraceError, UsageError
from tailrace.model import Lsn
from tailrace.transactions.commit_or_abort import NEVER, Transactions
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal import dbase, index, xact
from tailrace.wal.dbase import DropDatabase
from tailrace.wal.index import Index
from tailrace.wal.kept_records import kept_records, wal_level_changes
from tailrace.wal.resource_managers import DBASE, name_of
from tailrace.wal.xlog import LOGICAL, WAL_LEVELS


def check_decodable(log: ScannedLog, start: int, upto: int, level_at_end: int | None = None) -> None:
    """Raise where wal_level was below logical in `[start, upto)`: all along, lowered inside, or low already.

    The log says which level came before and after only where it changes. If it never does, `level_at_end` (the control file's) was in effect all
    along; where there is none, commits tell whether that was logical.
    """
    changes, indexes = log.wal_levels, log.indexes
    if not changes and (level_at_end < LOGICAL if level_at_end is not None else bool(len(_bare(log.outcomes.transactions)))):
        level = f'"{WAL_LEVELS[level_at_end]}"' if level_at_end is not None else "lower"
        raise InsufficientLogging(
            "logical decoding requires wal_level >= logical",
            hint=f"wal_level was {level} throughout this WAL, which so lacks what decoding needs. Set it to logical on the source and restart that: "
            "what is written from then on can be decoded.",
            context=f"LSN {indexes[0].first} to {indexes[-1].next_lsn}",
            lsn=indexes[0].first,
        )
    before = [level for lsn, level in changes if lsn < start]
    at_start = before[-1] if before else None
    low = [lsn for lsn, level in changes if start <= lsn < upto and level < LOGICAL]
    if at_start is not None and at_start < LOGICAL:
        begin = Lsn(max(start, int(indexes[0].stretch.start)))
        raise InsufficientLogging(
            "logical decoding requires wal_level >= logical",
            hint=_raised_later(next((lsn for lsn, level in changes if lsn >= start and level >= LOGICAL), None)),
            context=f"LSN {begin}",
            lsn=begin,
        )
    if low:
        raise InsufficientLogging(
            "logical decoding requires wal_level >= logical",
            hint="wal_level was lowered on the source; WAL after that cannot be decoded. Decode up to there with --upto-lsn.",
            context=f"parameter change at {low[0]}",
            lsn=low[0],
        )


def _raised_later(raised: Lsn | None) -> str:
    """A hint for whoever begins where wal_level was too low, whichever way the start was given."""
    if raised is None:
        return "wal_level was lower when this WAL was written, and has not been raised since. Set it to logical on the source."
    return f"wal_level was lower when this WAL was written. It was raised at {raised}: start there, or later."


@dataclass(frozen=True, slots=True)
class EndOfDecoding:
    """The first record that cannot be decoded any more, nor any behind it, and the error which says why."""

    at: Lsn
    error: TailraceError


def ends_for(indexes: Sequence[Index], database: int, name: str, since: int) -> EndOfDecoding | None:
    """Where decoding ends for who has all of this database before `since`; None if it goes on."""
    ends = [
        EndOfDecoding(
            lsn,
            InsufficientLogging(
                "logical decoding requires wal_level >= logical",
                hint="wal_level was lowered on the source, and what was written since then cannot be decoded. Set it to logical, and begin with a "
                "new slot and a new copy.",
                context=f"parameter change at {lsn}",
                lsn=lsn,
            ),
        )
        for lsn, level in wal_level_changes(indexes)
        if level < LOGICAL
    ]
    ends += [
        EndOfDecoding(
            lsn,
            UsageError(
                f'database "{name}" was dropped',
                hint="What was committed in it before has been given, and nothing comes any more. Drop the slot.",
                context=f"DROP DATABASE at {lsn}",
                sqlstate="3D000",
                lsn=lsn,
            ),
        )
        for lsn in drops_of(indexes, database)
    ]
    return min((end for end in ends if end.at >= since), key=lambda end: end.at, default=None)


def drops_of(indexes: Sequence[Index], database: int) -> Iterator[Lsn]:
    """Where the database was dropped. One that moves to another tablespace is dropped in the first, by a transaction without an xid (`movedb` of
    `commands/dbcommands.c`); DROP DATABASE has one, since it has deleted the row of pg_database before."""
    for kept in kept_records(indexes, index.KEPT_STORAGE):
        is_drop = kept.manager == DBASE and kept.info & dbase.OPCODE == dbase.DROP[kept.major]
        if is_drop and kept.xid and kept.read(DropDatabase).database == database:
            yield kept.lsn


def logged_for_decoding(
    log: ScannedLog, begins: NDArray[np.int64], shown: NDArray[np.int64], *, explicit: bool
) -> NDArray[np.int64]:
    """Those of `shown` that `begin` after wal_level was last raised to logical: of older ones rows are missing. If the user named the start, such a
    one is an error."""
    raised, transactions = raised_at(log), log.outcomes.transactions
    early = shown[begins[shown] < raised]
    if explicit and len(early):
        raise InsufficientLogging(
            "logical decoding requires wal_level >= logical",
            hint=_raised_later(Lsn(raised)),
            context=f"transaction {int(transactions.xid[early[0]])} begins at {Lsn(int(begins[early[0]]))}, wal_level is raised at {Lsn(raised)}",
            lsn=int(begins[early[0]]),
        )
    return shown[begins[shown] >= raised]


def raised_at(log: ScannedLog) -> int:
    """Where wal_level was last raised to logical, or 0."""
    was_low, raised = began_low(log), 0
    for lsn, level in log.wal_levels:
        if was_low and level >= LOGICAL:
            raised = lsn
        was_low = level < LOGICAL
    return raised


def began_low(log: ScannedLog) -> bool:
    """Whether wal_level was below logical before the first change of it. No record says so; commits do."""
    changes = log.wal_levels
    until = changes[0][0] if changes else NEVER
    return log.earlier.began_low or bool((_bare(log.outcomes.transactions) < until).any())


def levels_that_matter(log: ScannedLog, horizon: int) -> tuple[tuple[tuple[Lsn, int], ...], bool]:
    """Of the changes of wal_level those that whoever reads on must know, and whether the level was low before the first of them. Nothing that is
    still to be decoded begins before `horizon`."""
    changes, raised = log.wal_levels, raised_at(log)
    if not changes:
        return (), began_low(log)
    matter = [(lsn, level) for lsn, level in changes[:-1] if lsn == raised and lsn > horizon] + [changes[-1]]
    return tuple(matter), matter[0][0] == raised > horizon


def _bare(transactions: Transactions) -> NDArray[np.int64]:
    """Where those commit that name no database: below logical, a COMMIT does so if it invalidates no cache (`XactLogCommitRecord`)."""
    return transactions.commit_lsn[(transactions.database == 0) & (transactions.kind == xact.COMMIT)]


def foreign_records(indexes: Sequence[Index]) -> str:
    """A warning, if custom resource managers wrote into the log: what such a record did to a table is known to its extension only."""
    first = next(kept_records(indexes, index.KEPT_ALIEN), None)
    if first is None:
        return ""
    return f"records of custom resource manager {name_of(first.manager)}, the first at {first.lsn}, are not decoded"
