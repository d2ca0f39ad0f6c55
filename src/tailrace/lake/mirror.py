"""Tables in the lake kept equal to the source's: the net of the changes merged into Delta tables, with the position in the
same commit.

In: a feed and a directory. Out: a folder per table (`lake/folders.py`), each as the source had it at the end of the range; of a
table that was dropped, as it was then. Running the same range again changes nothing; a later range continues where the table is.
Columns are followed by attribute number; where ALTER TABLE wrote all rows of a table anew, they replace those of before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Self

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.feed import Feed
from tailrace.lake.doubles import withdraw_doubles
from tailrace.lake.files.file_changes import EditedFiles
from tailrace.lake.files.workers import Workers
from tailrace.lake.run_lock import one_run
from tailrace.lake.staging import STAGED_NET, Progress, counting, stage_changes, staging
from tailrace.lake.table_change import BroughtUp, bring_up, replaced_at
from tailrace.lake.target_tables import TableErrors, TargetTable, find_target_tables
from tailrace.model import Lsn
from tailrace.storage.local_store import LocalStore
from tailrace.types.registry import ArrowStyle


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What was done for a table: changes read, rows written or replaced, keys (or rows) removed. All zero if it was there already. `unbounded`
    counts, by column, the times written that are infinite or in years before 1 or after 9999: the table holds 'infinity' as the ends of its type,
    and has no statistics of the column. `dropped` is where the table was, if it will change no more. `written` is what that took. With `trouble`,
    nothing was done: what is wrong, and what helps; a later run goes on from where the table is."""

    table: str
    path: Path | None
    changes: int = 0
    upserts: int = 0
    deletes: int = 0
    unbounded: Mapping[str, int] = field(default_factory=dict)
    dropped: Lsn | None = None
    trouble: TailraceError | None = None
    written: EditedFiles = EditedFiles()

    @classmethod
    def of(cls, target: TargetTable, done: BroughtUp) -> Self:
        counts = done.changes, done.upserts, done.deletes
        return cls(target.name, target.path, *counts, done.unbounded, target.dropped, written=done.written)


def mirror(
    feed: Feed, directory: str | Path, tables: Sequence[str] | None = None, progress: Progress | None = None, *,
    numeric: str = "decimal", arrays: str = "list", times: str = "native", deletion_vectors: bool = True,
) -> list[Mirrored]:  # fmt: skip
    """Bring the tables below `directory` (those named, as in SQL, or all that changed) to the end of the feed's span.

    `progress(done, of)` counts stretches that are done with, and tables written. `numeric`, `arrays` and `times` are
    ArrowStyle's; a table that has text keeps it. Tables that are made have `deletion_vectors` if that says so; without, a file of which a row goes is
    written anew, for readers that know none. Trouble with a table (rows that cannot be told apart, values that do not fit, a
    range that does not reach back to where it is) is told in what is returned, and as a warning; the others are brought up.
    """
    feed = feed.for_tables("a mirror", rewrites=True)
    directory = Path(directory).absolute()  # workers may stand elsewhere
    directory.mkdir(parents=True, exist_ok=True)
    style = ArrowStyle(numeric, arrays, times)
    written: list[Mirrored] = []
    with one_run(directory) as is_alone, staging(directory) as folder:
        targets, errors = find_target_tables(feed, directory, tables, style, keep_dropped=False)
        wanted = {target.relation.oid: target.wanted(fill_missing=True) for target in targets}
        read = frozenset(wanted).union(*(target.rewrites for target in targets))
        step = counting(progress, feed.stretches + len(targets))
        files = LocalStore(folder)
        staged = stage_changes(feed, read, wanted, files, step, STAGED_NET)
        for target in targets:
            with errors.of_target(target):
                mine = staged[target.relation.oid]
                mine = mine if target.dropped is None else mine.seen_by_others(target.dropped)
                replaced = replaced_at(target, mine)
                if target.found.is_there or tables is not None or mine.files or replaced:
                    done = bring_up(
                        target, files, mine.files, replaced, deletion_vectors=deletion_vectors, workers=Workers.of(feed)
                    )
                    written.append(Mirrored.of(target, done))
            step(1)
        made = [target for target in targets if not target.found.is_there and target.path in {each.path for each in written}]
        if made and not is_alone:
            withdrawn = withdraw_doubles(directory, made, feed.span, errors, folder)
            written = [each for each in written if each.path not in withdrawn]
    errors.warn()
    return sorted(written + _with_errors(errors), key=lambda each: each.table)


def _with_errors(errors: TableErrors) -> list[Mirrored]:
    return [Mirrored(name, None, trouble=error) for name, error in errors.of_tables]
