"""Every change as a row of a Delta table: Parquet written where decoding happens, committed by the driver with the position.

In: a feed and a directory. Out: a folder per table (`lake/folders.py`) with the columns of `tailrace.changes`: of a table that
was dropped, too, up to its end. Only what one run wrote is committed, and removed if it is not. Running the same range again
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tailrace.changes import change_schema, widened
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.feed import Feed, FeedSpan
from tailrace.lake.delta_table import OpenTable, new_file
from tailrace.lake.position import TableIdentity, remember
from tailrace.lake.run_lock import one_run
from tailrace.lake.staging import Progress, Staged, WantedTable, counting, stage_changes, staging
from tailrace.lake.targets import TableErrors, TargetTable, find_targets, withdraw_doubles
from tailrace.model import Lsn, Relation
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
        targets, errors = find_targets(feed, directory, tables, style, keep_dropped=True)
        wanted = {target.relation.oid: WantedTable(target.relation, target.style, int(target.span.start)) for target in targets}
        step = counting(progress, feed.stretches)
        staged = stage_changes(feed, frozenset(wanted), wanted, folder, fill_missing=False, done=step)
        for target in targets:
            with errors.of(target.name, target.relation):
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
    name, identity = target.name, _identity(target, target.span, target.dropped)
    table = _in_columns(target, change_schema(target.relation, style=target.style))
    found = table.found
    with found.next_version(name) as mark:
        moved, actions = [], []
        try:
            for file in staged.files:
                moved.append((folder / file.path).rename(target.path / Path(file.path).name))
                actions.append(new_file(moved[-1].name, file.size, file.rows, file.first_commit, file.last_commit))
            table.add_files(actions, identity.note(mark))
        except BaseException:
            if not found.is_followed_by(mark):
                for path in moved:
                    path.unlink(missing_ok=True)
            raise
    remember(found.next(), name, identity, target.position)
    return Appended(name, target.path, sum(file.rows for file in staged.files), len(actions), target.dropped)


def _identity(target: TargetTable, span: FeedSpan, dropped: Lsn | None) -> TableIdentity:
    fingerprint = target.fingerprint_before(span.stop)
    return TableIdentity(span, target.relation, target.style, None, dropped, fingerprint)


def _in_columns(target: TargetTable, schema: pa.Schema) -> OpenTable:
    """The table with all columns of `schema`, beside those that it has. Raises UsageError where a column is of a type that does
    not become the other; where it does, as an integer that has grown, all rows are written anew."""
    found, position = target.found, target.position
    stands = replace(target.span, stop=target.span.start if position is None else position.lsn)
    identity = _identity(target, stands, None)
    if position is None:
        with found.next_version(target.name) as mark:
            found.make_table(str(target.relation), schema, identity.note(mark))
        return found.next().open()
    table = found.open()
    there = table.schema
    wanted = pa.schema([_joined(there.field(field.name), field, target.name) for field in schema])
    if wanted == there:
        return table
    with found.next_version(target.name) as mark:
        if _adds_only(there, wanted):
            table.append_rows(wanted.empty_table(), identity.note(mark), new_columns=True)
        else:
            rows = table.rows()
            rows = pa.table([_in_type(rows[field.name], field.type, target.relation) for field in wanted], schema=wanted)
            table.replace_rows(rows, identity.note(mark), new_columns=True)
    return found.next().open()


def _joined(there: pa.Field, new: pa.Field, table: str) -> pa.Field:
    """The field with the columns of both, in the types of `new`."""
    if not pa.types.is_struct(new.type):
        return new
    columns = {column.name: column for column in there.type}
    known = {name.lower(): name for name in columns}
    for column in new.type:
        other = known.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise UsageError(
                f'cannot add column "{column.name}" beside "{other}": Delta does not tell capitals from small letters',
                hint=ELSEWHERE, context=f"table {table}", sqlstate="42701",
            )  # fmt: skip
        columns[column.name] = column
    return pa.field(new.name, pa.struct(list(columns.values())))


def _adds_only(there: pa.Schema, wanted: pa.Schema) -> bool:
    old = {(side.name, column.name): column.type for side in there if pa.types.is_struct(side.type) for column in side.type}
    return all(wanted.field(side).type.field(name).type == kind for (side, name), kind in old.items())


def _in_type(column: pa.ChunkedArray, wanted: pa.DataType, relation: Relation) -> pa.ChunkedArray:
    """A column of rows, all columns in it in the types of `wanted`."""
    if column.type == wanted:
        return column
    rows = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    have = dict(zip((field.name for field in column.type), rows.flatten(), strict=True))
    types = {each.name: each.type for each in relation.live_columns}
    parts = []
    for field in wanted:
        if field.name in have:
            what = f"column {field.name} of table {relation}"
            parts.append(widened(have[field.name], field.type, what, hint=ELSEWHERE, of_type=types.get(field.name)))
        else:
            parts.append(pa.nulls(len(rows), field.type))
    return pa.chunked_array([pa.StructArray.from_arrays(parts, fields=list(wanted), mask=rows.is_null())])
