"""Whether the indexes of consecutive stretches make one log, and where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tailrace.catalog.data_directory.control_file import ControlFile
from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import Lsn
from tailrace.wal import index
from tailrace.wal.index import Index


def check_chain(indexes: Sequence[Index]) -> None:
    """Neighbouring stretches must fit: the first record of one names the last of the one before (xl_prev)."""
    last = Lsn(0)
    for part in indexes:
        check_follows(part, last)
        last = part.last if part.records else last


def check_follows(part: Index, last: Lsn) -> None:
    """The same for one stretch, if the record before it was at `last` (0: nobody knows)."""
    if part.records and last and part.previous != last and not _begins_after_overwrite(part):
        raise CorruptWal(
            f"record with incorrect prev-link {part.previous} at {part.first}",
            context=f"the record before it is at {last}",
            lsn=part.first,
        )


def _begins_after_overwrite(part: Index) -> bool:
    """Whether the stretch goes on where a crash had cut a record off."""
    rows = part.kept.rows_of(index.KEPT_TIMELINE_END)
    return bool(len(rows)) and int(part.kept.lsn[rows[0]]) == part.first


def ended_before(part: Index, before: Index | None) -> Index:
    """The index of a stretch as it follows the one before: one that is all zeros, and not because the log went on in another segment, lies behind the
    end of the log, which nothing in it says."""
    if not begins_with_zeros(part) or before is None or before.next_lsn >= part.stretch.stop:
        return part
    reason = f"invalid magic number 0000 in WAL page at {part.stretch.start}"
    return replace(part, sealed=False, next_lsn=before.next_lsn, reason=reason, place=part.stretch.start)


def begins_with_zeros(part: Index) -> bool:
    """Whether the stretch has nothing but zeros. A sealed stretch without records may also be a part of a record that a crash cut off."""
    return part.sealed and not part.records and part.place == part.stretch.start


def check_reaches(indexes: Sequence[Index], control: ControlFile | None) -> None:
    """Raise if the log ends before the checkpoint that the data directory's control file names: a server has written at least that far; or where
    reading was to begin."""
    if not indexes:
        raise MissingHistory("the log ends where the catalog state is", hint="There is nothing to decode yet.")
    last = indexes[-1]
    if control is not None and last.next_lsn <= control.checkpoint:
        raise CorruptWal(
            f"could not locate a valid checkpoint record at {control.checkpoint}",
            hint="pg_control names it, but the log ends before it: what lies between is lost or damaged.",
            context=last.reason or f"end of the log at {last.next_lsn}",
            lsn=control.checkpoint,
        )
