"""Every change as a row of a Delta table: Parquet written where decoding happens, committed by the driver with the position.

In: a river and a directory. Out: `<directory>/<schema>.<table>/` with the columns of `tailrace.changes`. A worker may run
twice: files have names of their own, and only those that a result names are committed. What a killed run leaves behind is not
part of any table, and VACUUM removes it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction
from numpy.typing import NDArray

from tailrace.catalog.identifiers import read_table_name
from tailrace.changes import change_batch, change_schema
from tailrace.decode import Reader, decode
from tailrace.lake.position import Range, check_reaches, commit_properties, position_of
from tailrace.model import FIRST_NORMAL_OID, Relation
from tailrace.plan import Plan
from tailrace.plan.demand import OF_TABLES
from tailrace.plan.stretch import StretchPlan
from tailrace.river import River
from tailrace.transactions.fates import Transactions


@dataclass(frozen=True, slots=True)
class FileAdded:
    """A Parquet file that a worker wrote; `path` is relative to the directory, `first_commit` to `last_commit` what it holds."""

    oid: int
    path: str
    size: int
    rows: int
    first_commit: int
    last_commit: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch, with the facts of the transactions in it: `facts[i]` belongs to `ordinals[i]`. Small, for it travels to a
    worker."""

    plan: StretchPlan
    ordinals: NDArray[np.int64]
    facts: Transactions


def pieces_of(plan: Plan, oids: frozenset[int], since: int = 0) -> list[Piece]:
    """What to decode for the changes of these relations that commit at or after `since`."""
    pieces = []
    for stretch in plan.restricted_to(plan.transactions.commit_lsn >= since):
        if any(relation.oid in oids for relation in stretch.relations):
            mine = np.unique(stretch.ordinal)
            pieces.append(Piece(stretch, mine, plan.transactions.subset(mine)))
    return pieces


def write_changes(
    directory: Path, targets: Mapping[int, Relation], read: Reader, fill_missing: bool, piece: Piece
) -> list[FileAdded]:
    """Decode a stretch and write the changes of `targets` (by oid: the version to write them as), a file per relation
    version. Runs in a worker."""
    written = []
    for batch in decode(piece.plan, read):
        target = targets.get(batch.relation.oid)
        if target is None:
            continue
        mine = replace(batch, ordinal=np.searchsorted(piece.ordinals, batch.ordinal))
        changes = change_batch(mine, piece.facts, target, codec=piece.plan.codec, fill_missing=fill_missing)
        commits = piece.facts.commit_lsn[mine.ordinal]
        path = f"{folder_of(target)}/part-{uuid.uuid4()}.parquet"
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.Table.from_batches([changes]),
            directory / path,
            compression="snappy",
            write_statistics=False,
            use_dictionary=["kind"],
        )
        size = (directory / path).stat().st_size
        written.append(FileAdded(target.oid, path, size, len(batch), int(commits.min()), int(commits.max())))
    return written


def folder_of(relation: Relation) -> str:
    """The folder of a table. Characters that a path would take amiss are replaced."""
    return f"{relation.schema}.{relation.name}".replace("/", "_").replace("\0", "_")


def latest_relations(river: River, names: Sequence[str] | None = None) -> dict[int, Relation]:
    """By oid, each table of a user's that may have changed (or those named) as it was at the end of the range, or when it was
    last seen. A column that was once added with a default keeps it here (`Column.missing`), even if a rewrite has made the
    catalog forget it."""
    history = river.catalogs.history()
    end = int(Range.of(river).stop) + 1
    met: dict[int, list[Relation]] = {}
    for relation in [*river.plan.relations, *(each for found in river.plan.truncations for each in found.relations)]:
        met.setdefault(relation.oid, []).append(relation)
    wanted = [read_table_name(name) for name in names or ()]
    for schema, table in wanted:
        named = history.relation_named(schema, table, end)
        if named is not None:
            met.setdefault(named.oid, []).append(named)
    found = {}
    for oid, versions in met.items():
        latest = history.relation_by_oid(oid, end) or versions[-1]
        defaults = {
            column.number: column.missing for version in versions for column in version.columns if column.missing is not None
        }
        columns = tuple(replace(column, missing=column.missing or defaults.get(column.number)) for column in latest.columns)
        ours = oid >= FIRST_NORMAL_OID if names is None else (latest.schema, latest.name) in wanted
        if ours and latest.live_columns and latest.kind != "p":
            found[oid] = replace(latest, columns=columns)
    return found


def append_changes(
    river: River, directory: str | Path, tables: Sequence[str] | None = None, progress: Callable[[int, int], None] | None = None
) -> list[FileAdded]:
    """Append the changes of the river's range to the change tables below `directory`: each change once, however often this is
    run.

    `progress(done, of)` is told how many stretches are written.
    """
    OF_TABLES.check_met(river.plan.demand, "a table of changes")
    directory = Path(directory).absolute()  # workers may stand elsewhere
    directory.mkdir(parents=True, exist_ok=True)
    targets = latest_relations(river, tables)
    pieces = pieces_of(river.plan, frozenset(targets))
    work = partial(write_changes, directory, targets, river.source.segments.read, False)
    files = []
    for done, added in enumerate(river.runner.run(work, pieces), 1):
        files += added
        if progress:
            progress(done, len(pieces))
    commit_changes(directory, files, targets, Range.of(river))
    return files


def commit_changes(directory: Path, files: Sequence[FileAdded], targets: Mapping[int, Relation], span: Range) -> None:
    """Make the files part of their tables, one commit a table, with the position. Tables that are at `span.stop` already are
    left alone."""
    for oid, relation in targets.items():
        mine = [file for file in files if file.oid == oid]
        home = directory / folder_of(relation)
        if not mine and not DeltaTable.is_deltatable(str(home)):
            continue
        properties = commit_properties(span, relation)
        schema = change_schema(relation)
        if not DeltaTable.is_deltatable(str(home)):
            table = DeltaTable.create(home, schema=schema, name=str(relation))
        else:
            table = DeltaTable(home)
            position = position_of(table, span)
            if position.lsn >= span.stop:
                continue
            check_reaches(span, position.lsn, str(relation))
            mine = [_since(directory, file, position.lsn) for file in mine if file.last_commit >= position.lsn]
            write_deltalake(home, schema.empty_table(), mode="append", schema_mode="merge")
            table = DeltaTable(home)
        actions = [_add_action(directory, file, len(folder_of(relation)) + 1) for file in mine if file.rows]
        table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)


def _since(directory: Path, file: FileAdded, position: int) -> FileAdded:
    """The file without the changes that the table has already."""
    if file.first_commit >= position:
        return file
    rows = pq.read_table(directory / file.path)
    rows = rows.filter(pa.array(rows["commit_lsn"].to_numpy() >= position))
    pq.write_table(rows, directory / file.path, compression="snappy", write_statistics=False)
    return replace(file, rows=len(rows), size=(directory / file.path).stat().st_size, first_commit=position)


def _add_action(directory: Path, file: FileAdded, prefix: int) -> AddAction:
    statistics = {
        "numRecords": file.rows,
        "minValues": {"commit_lsn": file.first_commit},
        "maxValues": {"commit_lsn": file.last_commit},
        "nullCount": {"commit_lsn": 0},
    }
    return AddAction(file.path[prefix:], file.size, {}, int(time.time() * 1000), True, json.dumps(statistics))
