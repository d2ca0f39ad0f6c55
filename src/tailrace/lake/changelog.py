"""Every change as a row of a Delta table: Parquet written where decoding happens, committed by the driver with the position.

In: a feed and a directory. Out: a folder per table (`lake/folders.py`) with the columns of `tailrace.changes`: of a table that
was dropped, too, up to its end. Only what one run wrote is committed, and removed if it is not. Running the same range again
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.errors import TailraceError
from tailrace.feed import Feed
from tailrace.lake.doubles import withdraw_doubles
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.layouts.changes import append
from tailrace.lake.run_lock import one_run
from tailrace.lake.staging import STAGED_PARQUET, FileWritten, Progress, Staged, counting, stage_changes, staging
from tailrace.lake.target_tables import TableErrors, TargetTable, find_target_tables
from tailrace.model import Lsn
from tailrace.storage.local_store import LocalStore
from tailrace.types.registry import ArrowStyle

ELSEWHERE = "Append up to there (upto_lsn), and what follows (start_lsn) to another directory."


@dataclass(frozen=True, slots=True)
class Appended:
    """What was done for a table: changes appended, in so many files. `dropped` is where the table was, if its log ends here. With
    `trouble`, nothing was done: what is wrong, and what helps; a later run goes on from where the table is."""

    table: str
    path: Path | None
    rows: int = 0
    files: int = 0
    dropped: Lsn | None = None
    trouble: TailraceError | None = None


def append_changes(
    feed: Feed, directory: str | Path, tables: Sequence[str] | None = None, progress: Progress | None = None, *,
    numeric: str = "decimal", arrays: str = "list", times: str = "native",
) -> list[Appended]:  # fmt: skip
    """Append the changes of the feed's span to the change tables below `directory`: each change once, however often this is run.

    `tables` are names as in SQL; without, all that changed. `progress(done, of)` is told how many stretches are done with.
    `numeric`, `arrays` and `times` are ArrowStyle's; a table that has text keeps it. Trouble with a table is told in what is
    returned, and as a warning.
    """
    feed = feed.for_tables("a table of changes")
    directory = Path(directory).absolute()  # workers may stand elsewhere
    directory.mkdir(parents=True, exist_ok=True)
    style = ArrowStyle(numeric, arrays, times)
    appended: list[Appended] = []
    with one_run(directory) as is_alone, staging(directory) as folder:
        targets, errors = find_target_tables(feed, directory, tables, style, keep_dropped=True)
        wanted = {target.relation.oid: target.wanted(fill_missing=False) for target in targets}
        step = counting(progress, feed.stretches)
        staged = stage_changes(feed, frozenset(wanted), wanted, LocalStore(folder), step, STAGED_PARQUET)
        for target in targets:
            with errors.of_target(target):
                mine = staged[target.relation.oid]
                mine.check()
                if mine.files or target.found.is_there:
                    appended.append(_append(target, mine, folder))
        made = [target for target in targets if not target.found.is_there and target.path in {each.path for each in appended}]
        if made and not is_alone:
            withdrawn = withdraw_doubles(directory, made, feed.span, errors, folder)
            appended = [each for each in appended if each.path not in withdrawn]
    errors.warn()
    return sorted(appended + _with_errors(errors), key=lambda each: each.table)


def _with_errors(errors: TableErrors) -> list[Appended]:
    return [Appended(name, None, trouble=error) for name, error in errors.of_tables]


def _append(target: TargetTable, staged: Staged, folder: Path) -> Appended:
    """Make the files part of their table, with the position, in one commit."""

    def taken(data: DataFiles, file: FileWritten, statistics: str) -> DataFile:
        return data.take(folder / file.path, statistics)

    append(target, staged.files, taken, what_helps=ELSEWHERE)
    return Appended(target.name, target.path, sum(file.rows for file in staged.files), len(staged.files), target.dropped)
