"""Tables in the lake kept equal to the source's: the net of the changes merged into Delta tables, with the position in the
same commit.

In: a feed and a directory. Out: a folder per table (`lake/folders.py`), each as the source had it at the end of the range; of a
table that was dropped, as it was then. Running the same range again changes nothing; a later range continues where the table is.
Columns are followed by attribute number; where ALTER TABLE wrote all rows of a table anew, they replace those of before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.apply.net import NetChange, OrderKey, check_identity, net_change
from tailrace.apply.tables import applied, filled
from tailrace.changes import change_schema, missing_value, row_schema, widened
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.feed import Feed
from tailrace.lake.delta_table import CommitNote, OpenTable, TableVersion, can_merge
from tailrace.lake.position import TableIdentity, TablePosition, columns_of, position_of, remember
from tailrace.lake.run_lock import one_run
from tailrace.lake.staging import FileWritten, Progress, Run, WantedTable, counting, runs_of, stage_changes, staging
from tailrace.lake.statistics import columns_beyond_statistics, unbounded_values
from tailrace.lake.targets import TableErrors, TargetTable, find_targets, withdraw_doubles
from tailrace.model import Lsn, Relation
from tailrace.types.registry import ArrowStyle

_ANEW = "The table was made in other types, up to {}. Remove its folder, and give the WAL from where its rows begin."


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What was done for a table: changes read, rows written or replaced, keys (or rows) removed. All zero if it was there
    already. `unbounded` counts, by column, the times written that are infinite or in years before 1 or after 9999: the table
    holds 'infinity' as the ends of its type, and has no statistics of the column. `dropped` is where the table was, if it will
    change no more. With `trouble`, nothing was done: what is wrong, and what helps; a later run goes on from where the table
    is."""

    table: str
    path: Path | None
    changes: int = 0
    upserts: int = 0
    deletes: int = 0
    unbounded: Mapping[str, int] = field(default_factory=dict)
    dropped: Lsn | None = None
    trouble: TailraceError | None = None


def mirror(
    feed: Feed, directory: str | Path, tables: Sequence[str] | None = None, progress: Progress | None = None, *,
    numeric: str = "decimal", arrays: str = "list", times: str = "native",
) -> list[Mirrored]:  # fmt: skip
    """Bring the tables below `directory` (those named, as in SQL, or all that changed) to the end of the feed's span.

    `progress(done, of)` counts stretches that are done with, and tables written. `numeric`, `arrays` and `times` are
    ArrowStyle's; a table that has text keeps it. Trouble with a table (rows that cannot be told apart, values that do not fit, a
    range that does not reach back to where it is) is told in what is returned, and as a warning; the others are brought up.
    """
    feed = feed.for_tables("a mirror", rewrites=True)
    directory = Path(directory).absolute()  # workers may stand elsewhere
    directory.mkdir(parents=True, exist_ok=True)
    style = ArrowStyle(numeric, arrays, times)
    written: list[Mirrored] = []
    with one_run(directory) as is_alone, staging(directory) as folder:
        targets, errors = find_targets(feed, directory, tables, style, keep_dropped=False)
        wanted = {target.relation.oid: WantedTable(target.relation, target.style, int(target.span.start)) for target in targets}
        read = frozenset(wanted).union(*(target.rewrites for target in targets))
        step = counting(progress, feed.stretches + len(targets))
        staged = stage_changes(feed, read, wanted, folder, fill_missing=True, done=step)
        for target in targets:
            with errors.of(target.name, target.relation):
                mine = staged[target.relation.oid]
                mine = mine if target.dropped is None else mine.seen_by_others(target.dropped)
                replaced = [*_truncations(target), *mine.rewrites]
                mine.check(max(replaced, default=None))
                if target.found.is_there or tables is not None or mine.files or replaced:
                    written.append(_bring_up(target, folder, mine.files, replaced, feed.most_bytes))
            step(1)
        made = [target for target in targets if not target.found.is_there and target.path in {each.path for each in written}]
        if made and not is_alone:
            withdrawn = withdraw_doubles(directory, made, feed.span, errors, folder)
            written = [each for each in written if each.path not in withdrawn]
    errors.warn()
    return sorted(written + _with_errors(errors), key=lambda each: each.table)


def _with_errors(errors: TableErrors) -> list[Mirrored]:
    return [Mirrored(name, None, trouble=error) for name, error in errors.of_tables]


def _changes_of(folder: Path, run: Run, target: TargetTable) -> pa.Table:
    schema = change_schema(target.relation, style=target.style)
    parts = [pq.read_table(folder / file.path, schema=schema) for file in run.files]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _truncations(target: TargetTable) -> list[OrderKey]:
    """Those that the table does not have yet."""
    return [(int(commit), int(lsn), 0) for commit, lsn in target.truncations if commit >= target.span.start]


def _bring_up(
    target: TargetTable, folder: Path, files: Sequence[FileWritten], replaced: Sequence[OrderKey], most_bytes: int
) -> Mirrored:
    """The changes since all rows were last `replaced`, if they were, in as few commits as `most_bytes` of memory allow."""
    last, rows = max(replaced, default=None), sum(file.rows for file in files)
    stop, relation = target.span.stop, target.relation
    runs = runs_of([file for file in files if last is None or file.last_commit >= last[0]], stop, most_bytes)
    if len(runs) > 1:
        for run in runs:  # what is refused at the end is refused before the beginning
            check_identity(_changes_of(folder, run, target), relation, last)
    written: list[Mirrored] = []
    for run in runs:
        part = replace(target, span=replace(target.span, stop=run.stop), dropped=target.dropped if run.stop == stop else None)
        done, found = _commit(part, _changes_of(folder, run, target), () if written or last is None else [last])
        written.append(done)
        if run.stop != stop:
            position = position_of(found.open(), target.span)
            target = replace(target, found=found, position=position, span=replace(target.span, start=run.stop))
    unbounded: Counter[str] = Counter()
    for each in written:
        unbounded.update(each.unbounded)
    upserts, deletes = sum(each.upserts for each in written), sum(each.deletes for each in written)
    return Mirrored(target.name, target.path, rows, upserts, deletes, dict(unbounded), target.dropped)


def _commit(target: TargetTable, changes: pa.Table, replaced: Sequence[OrderKey]) -> tuple[Mirrored, TableVersion]:
    """One commit: the net of the changes since all rows were last `replaced`, if they were, and the position. Another where the
    configuration is to say something else of the table."""
    relation, style, found = target.relation, target.style, target.found
    schema = row_schema(relation, style)
    net = net_change(changes, relation, replaced)
    beyond = unbounded_values(net.upserts)
    unbounded = columns_beyond_statistics(net.upserts) | (target.position.unbounded if target.position else frozenset())
    fingerprint = target.fingerprint_before(target.span.stop)
    identity = TableIdentity(target.span, relation, style, unbounded, target.dropped, fingerprint)
    with found.next_version(target.name) as mark:
        if target.position is None:
            found.make_table(str(relation), schema, identity.note(mark), applied(net, schema.empty_table()))
        else:
            _write(target, target.position, found.open(), net, identity.note(mark))
    found = remember(found.next(), target.name, identity, target.position)
    done = Mirrored(target.name, target.path, len(changes), len(net.upserts), len(net.deletes), beyond, target.dropped)
    return done, found


def _write(target: TargetTable, position: TablePosition, table: OpenTable, net: NetChange, note: CommitNote) -> None:
    """The change of a table that is there, in the way that suits it."""
    relation, style = target.relation, target.style
    schema = row_schema(relation, style)
    if position.columns != columns_of(relation, style):
        before = schema.empty_table() if net.truncated else _conformed(table.rows(), position, relation, style)
        table.replace_rows(applied(net, before), note, new_columns=True)
    elif net.truncated or (len(net.deletes) and not net.key) or (not net.is_empty and not can_merge(schema)):
        before = schema.empty_table() if net.truncated else table.rows().cast(schema)
        table.replace_rows(applied(net, before), note)
    elif net.key and not net.is_empty:
        net = _with_fills(net, table)
        table.merge_rows(net.upserts, net.deletes, net.key, note)
    elif not net.is_empty:
        table.append_rows(net.upserts, note)
    else:
        table.add_files([], note)


def _conformed(rows: pa.Table, position: TablePosition, relation: Relation, style: ArrowStyle) -> pa.Table:
    """Rows of an older version of the table in the columns of `relation`; columns that are new hold what ADD COLUMN gave to
    old rows."""
    names = {number: name for number, name, _ in position.columns}
    schema = row_schema(relation, style)
    arrays = []
    for column, wanted in zip(relation.live_columns, schema, strict=True):
        if column.number in names:
            what = f"column {column.name} of table {relation}"
            before, hint = rows[names[column.number]], _ANEW.format(position.lsn)
            arrays.append(widened(before, wanted.type, what, hint=hint, of_type=column.type))
        elif column.missing is None:
            arrays.append(pa.nulls(len(rows), wanted.type))
        else:
            arrays.append(missing_value(column, style).take(pa.array([0] * len(rows), pa.int64())))
    return pa.Table.from_arrays(arrays, schema=schema)


def _with_fills(net: NetChange, table: OpenTable) -> NetChange:
    """Read what the table alone knows: only the rows and columns asked for."""
    if not net.fills:
        return net
    wanted = [pc.field(net.key[0]).isin(fill.keys[net.key[0]].combine_chunks()) for fill in net.fills]
    columns = list(dict.fromkeys([*net.key, *(fill.column for fill in net.fills)]))
    there = table.dataset().to_table(columns=columns, filter=reduce(lambda one, other: one | other, wanted))
    types = {wanted.name: wanted.type for wanted in net.upserts.schema}
    return filled(net, there.cast(pa.schema([(name, types[name]) for name in columns])))
