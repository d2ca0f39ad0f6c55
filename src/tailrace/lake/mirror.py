"""Tables in the lake kept equal to the source's: the net of the changes merged into Delta tables, with the position in the
same commit.

In: a river and a directory. Out: `<directory>/<schema>.<table>/`, each as the source had it at the end of the range. Running
the same range again changes nothing; a later range continues where the table is. A table is found again by its oid, so a
renamed one keeps its folder; renamed, dropped and added columns are followed by attribute number.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tailrace.apply.net import NetChange, OrderKey, net_change
from tailrace.apply.tables import applied, filled
from tailrace.changes import change_schema, missing_value, row_schema, widened
from tailrace.lake.bounds import unbounded_values, without_statistics
from tailrace.lake.changelog import FileAdded, folder_of, latest_relations, pieces_of, write_changes
from tailrace.lake.position import Position, Range, check_reaches, columns_of, commit_properties, position_of, tables_in
from tailrace.model import Relation
from tailrace.plan.demand import OF_TABLES
from tailrace.river import River

_DELETED = "__tailrace_deleted"


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What was done for a table: changes read, rows written or replaced, keys (or rows) removed. All zero if it was there
    already. `unbounded` counts, by column, the values written that are 'infinity' or as far away: the table holds them as the
    ends of its type, and has no statistics of the column."""

    table: str
    path: Path
    changes: int
    upserts: int
    deletes: int
    unbounded: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Target:
    relation: Relation
    path: Path
    table: DeltaTable | None
    position: Position | None
    span: Range


def mirror(
    river: River, directory: str | Path, tables: Sequence[str] | None = None, progress: Callable[[int, int], None] | None = None
) -> list[Mirrored]:
    """Bring the tables below `directory` (those named, or all that changed) to the end of the river's range.

    `progress(done, of)` counts stretches decoded and tables written. Raises MissingHistory if the range does not reach back
    to where a table is, UsageError if rows of a table cannot be told apart or a column was retyped; tables written before
    that stay written.
    """
    OF_TABLES.check_met(river.plan.demand, "a mirror")
    directory = Path(directory).absolute()  # workers may stand elsewhere
    directory.mkdir(parents=True, exist_ok=True)
    span = Range.of(river)
    targets = [target for target in _targets(river, directory, span, tables) if target.span.start < span.stop]
    behind = {target.relation.oid: target.relation for target in targets}
    since = min((target.span.start for target in targets), default=span.stop)
    pieces = pieces_of(river.plan, frozenset(behind), since)
    staging = Path(tempfile.mkdtemp(dir=directory, prefix="_staging-"))
    try:
        work = partial(write_changes, staging, behind, river.source.segments.read, True)
        files: list[FileAdded] = []
        for done, added in enumerate(river.runner.run(work, pieces), 1):
            files += added
            if progress:
                progress(done, len(pieces) + len(targets))
        written = []
        for done, target in enumerate(targets, len(pieces) + 1):
            changes = _changes_of(staging, [file for file in files if file.oid == target.relation.oid], target)
            truncations = _truncations(river, target)
            if target.table is not None or tables is not None or len(changes) or truncations:
                written.append(_bring_up(target, changes, truncations))
            if progress:
                progress(done, len(pieces) + len(targets))
        return written
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _targets(river: River, directory: Path, span: Range, names: Sequence[str] | None) -> list[_Target]:
    """Tables that changed, and those mirrored already: their positions move on even if nothing happened to them."""
    relations = latest_relations(river, names)
    found = []
    taken = set()
    for path, table in tables_in(directory):
        taken.add(path)
        position = position_of(table, span)
        relation = relations.pop(position.oid, None)
        if relation is None and names is None:
            relation = river.catalogs.history().relation_by_oid(position.oid, int(span.stop) + 1)
        if relation is not None:
            part = check_reaches(span, min(position.lsn, span.stop), str(relation))
            found.append(_Target(relation, path, table, position, part))
    for relation in relations.values():
        path = directory / folder_of(relation)
        if path in taken:
            path = directory / f"{folder_of(relation)}.{relation.oid}"
        found.append(_Target(relation, path, None, None, span))
    return sorted(found, key=lambda target: str(target.relation))


def _changes_of(staging: Path, files: Sequence[FileAdded], target: _Target) -> pa.Table:
    schema = change_schema(target.relation)
    parts = [pq.read_table(staging / file.path, schema=schema) for file in files if file.last_commit >= target.span.start]
    whole = pa.concat_tables(parts) if parts else schema.empty_table()
    return whole.filter(pc.greater_equal(whole["commit_lsn"], int(target.span.start)))


def _truncations(river: River, target: _Target) -> list[OrderKey]:
    commits = river.plan.transactions.commit_lsn
    return [
        (int(commits[found.ordinal]), int(found.lsn), 0)
        for found in river.plan.truncations
        if commits[found.ordinal] >= target.span.start and any(each.oid == target.relation.oid for each in found.relations)
    ]


def _bring_up(target: _Target, changes: pa.Table, truncations: Sequence[OrderKey]) -> Mirrored:
    """One commit: the net of the changes, and the position."""
    relation, schema = target.relation, row_schema(target.relation)
    net = net_change(changes, relation, truncations)
    beyond = unbounded_values(net.upserts)
    unbounded = frozenset(beyond) | (target.position.unbounded if target.position else frozenset())
    properties = commit_properties(target.span, relation, unbounded)
    how = {"commit_properties": properties, "writer_properties": without_statistics(unbounded)}
    if target.table is None or target.position is None:
        rows = applied(net, schema.empty_table())
        write_deltalake(target.path, rows, mode="error", name=str(relation), **how)
    elif target.position.columns != columns_of(relation):
        before = _conformed(target.table.to_pyarrow_table(), target.position, relation)
        write_deltalake(target.path, applied(net, before), mode="overwrite", schema_mode="overwrite", **how)
    elif net.truncated or (net.deletes.num_rows and not net.key):
        before = schema.empty_table() if net.truncated else target.table.to_pyarrow_table().cast(schema)
        write_deltalake(target.path, applied(net, before), mode="overwrite", **how)
    elif net.key and not net.is_empty:
        _merge(target.table, _with_fills(net, target.table), how)
    elif not net.is_empty:
        write_deltalake(target.path, net.upserts, mode="append", **how)
    else:
        target.table.create_write_transaction([], "append", target.table.schema(), commit_properties=properties)
    return Mirrored(str(relation), target.path, len(changes), len(net.upserts), len(net.deletes), beyond)


def _conformed(rows: pa.Table, position: Position, relation: Relation) -> pa.Table:
    """Rows of an older version of the table in the columns of `relation`; columns that are new hold what ADD COLUMN gave to
    old rows."""
    names = {number: name for number, name, _ in position.columns}
    arrays = []
    for column, wanted in zip(relation.live_columns, row_schema(relation), strict=True):
        if column.number in names:
            arrays.append(widened(rows[names[column.number]], wanted.type, f"column {column.name} of table {relation}"))
        elif column.missing is None:
            arrays.append(pa.nulls(len(rows), wanted.type))
        else:
            arrays.append(missing_value(column).take(pa.array([0] * len(rows), pa.int64())))
    return pa.Table.from_arrays(arrays, schema=row_schema(relation))


def _with_fills(net: NetChange, table: DeltaTable) -> NetChange:
    """Read what the target alone knows: only the rows and columns asked for."""
    if not net.fills:
        return net
    wanted = [pc.field(net.key[0]).isin(fill.keys[net.key[0]].combine_chunks()) for fill in net.fills]
    columns = list(dict.fromkeys([*net.key, *(fill.column for fill in net.fills)]))
    there = table.to_pyarrow_dataset().to_table(columns=columns, filter=reduce(lambda one, other: one | other, wanted))
    types = {wanted.name: wanted.type for wanted in net.upserts.schema}
    return filled(net, there.cast(pa.schema([(name, types[name]) for name in columns])))


def _merge(table: DeltaTable, net: NetChange, how: dict[str, Any]) -> None:
    """Rows to be there and keys to go, in one MERGE."""
    gone = pa.table(
        {
            wanted.name: net.deletes[wanted.name] if wanted.name in net.key else pa.nulls(len(net.deletes), wanted.type)
            for wanted in net.upserts.schema
        }
    )
    parts = [
        part.append_column(_DELETED, pa.array([flag] * len(part), pa.bool_()))
        for part, flag in ((net.upserts, False), (gone, True))
    ]
    equal = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in net.key)
    (
        table.merge(pa.concat_tables(parts), equal, source_alias="s", target_alias="t", **how)
        .when_matched_delete(f"s.{_DELETED}")
        .when_matched_update_all(predicate=f"NOT s.{_DELETED}", except_cols=[_DELETED])
        .when_not_matched_insert_all(predicate=f"NOT s.{_DELETED}", except_cols=[_DELETED])
        .execute()
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
