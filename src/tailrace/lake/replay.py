"""Changes in quarantine applied to their tables, once what was in their way is gone.

In: a lake. Out: one commit of each table with changes in quarantine: what can be applied of these, in their order, is in the table, and what cannot
is what the commit names from then on. What is applied is taken out of quarantine afterwards. So each change is applied once, and a replay that is
killed, or met by another, changes nothing twice.

In a mirror a change need not be applied if the next of the same row says what the row is, or that it is gone: what could not be held and was put
right at the source is so in the lake as well. A table that is held is brought to where the lake is; of its changes those that still do not fit stay
in quarantine, and the table goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.apply.following import KeyReader, that_go_on
from tailrace.apply.keys import key_of
from tailrace.catalog.names.qualified_names import tables_named, write_table_name
from tailrace.changes import change_batch, change_schema
from tailrace.dataclass import dataclass
from tailrace.decode import INSERT, OLD_KEY, OLD_ROW, Batch
from tailrace.errors import InsufficientLogging, Overtaken, UsageError
from tailrace.feed import FeedSpan, OrderKey, TableTruncation
from tailrace.lake.catalog import LakeCatalog, LakeTable, no_table_any_more
from tailrace.lake.lake import Lake
from tailrace.lake.position import TablePosition, position_of
from tailrace.lake.quarantine import NamedBatches, held_batch
from tailrace.lake.staging import ChangesFiles, FileWritten, Staged, stage_rows
from tailrace.lake.table import TableVersion
from tailrace.lake.target_tables import TargetTable, check_fit, kept_style
from tailrace.model import Lsn, Relation
from tailrace.quarantine.definitions import read_relation
from tailrace.quarantine.fitting import Unfit, fitted
from tailrace.quarantine.quarantined_rows import TRUNCATE, QuarantinedBatch, Reason, in_style, quarantined_batches
from tailrace.storage.store import Store
from tailrace.types.registry import ArrowStyle
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS

Mask = NDArray[np.bool_]
_TRIES = 12


@dataclass(frozen=True, slots=True)
class TableReplayed:
    """What became of a table's changes in quarantine: `applied`, `needless` since later ones say what the row is, `discarded`, or `left`, and why the
    first of those is."""

    table: str
    applied: int = 0
    needless: int = 0
    discarded: int = 0
    left: int = 0
    reason: str = ""


def replay(lake: Lake, tables: Sequence[str] | None = None, *, discard: bool = False) -> list[TableReplayed]:
    """Apply what can be applied of the changes in quarantine of these tables, named as in SQL, or of all; with `discard`, give up the rest. Raises
    UsageError for a name that the lake has not, and Overtaken where others write to a table again and again."""
    done = []
    for oid in _chosen(lake, tables):
        for tries in range(_TRIES):
            try:
                found = _TableReplay.of(lake, oid)
                if found is not None:
                    done.append(found.run(discard=discard))
                break
            except Overtaken:
                lake.reread()
                if tries + 1 == _TRIES:
                    raise
    if lake.catalog is not None:
        lake.quarantine.tidy(lake.names_of, lake.catalog.complete)
    return done


def _chosen(lake: Lake, names: Sequence[str] | None) -> list[int]:
    known = {} if lake.catalog is None else lake.catalog.tables
    if names is None:
        return sorted(known)
    wanted = tables_named(names, {(each.schema, each.name) for each in known.values()}, f"lake {lake.store.url}")
    return [each.oid for name in wanted for each in known.values() if (each.schema, each.name) == name]


@dataclass(frozen=True, slots=True)
class _TableReplay:
    """`rows` are the table's in quarantine, in their order; those from `held_from` on are what the table has had since it is held."""

    lake: Lake
    catalog: LakeCatalog
    table: LakeTable
    found: TableVersion
    position: TablePosition | None
    relation: Relation
    style: ArrowStyle
    rows: pa.Table
    held_from: int

    @classmethod
    def of(cls, lake: Lake, oid: int) -> _TableReplay | None:
        """None where nothing of the table is in quarantine."""
        catalog = lake.catalog
        assert catalog is not None
        table = catalog.tables[oid]
        found = lake.opened(table).refreshed()
        if table.version >= 0 and not found.is_there:
            raise no_table_any_more(table)
        named = NamedBatches.of(found.open()) if found.is_there else NamedBatches()
        if not named.names and table.held is None:
            return None
        span = FeedSpan(
            catalog.system, catalog.timeline, Lsn(0), catalog.complete, catalog.database, tuple(sorted(catalog.publications))
        )
        position = position_of(found.open(), span) if found.is_there else None
        relation = read_relation(table.held.definition) if table.held is not None else named.relation
        assert relation is not None
        rows, held_from = lake.quarantine.in_order(oid, set(named.names)), 0
        held_from = len(rows)
        if table.held is not None:
            since = position.lsn if position is not None else Lsn(0)
            held = lake.quarantine.in_order(oid, {held_batch(oid, table.held.since)}, since)
            rows = pa.concat_tables([rows, held.filter(pc.less(held["commit_lsn"], int(catalog.complete)))])
        style = kept_style(lake.style, position) if position is not None else lake.style
        return cls(lake, catalog, table, found, position, relation, style, rows, held_from)

    @property
    def name(self) -> str:
        return write_table_name(self.table.schema, self.table.name)

    def run(self, *, discard: bool) -> TableReplayed:
        """Raises Overtaken where somebody else has written to the table or to the catalog."""
        fits = _Fitted.of(self)
        applied, needless = self._chosen(fits, discard=discard)
        left = ~(applied | needless) & ~self._truncates
        if not (applied.any() or needless.any() or discard or self.table.held is not None):
            return TableReplayed(self.name, left=int(left.sum()), reason=fits.reason(left, self.rows))
        try:
            self._commit(fits, applied, left & (not discard))
        except (UsageError, InsufficientLogging) as error:
            if not discard:
                return TableReplayed(self.name, left=len(self.rows), reason=error.message)
            # Rows that came without a change that removes another are all that can be had of such a table.
            applied &= np.array([kind == "insert" for kind in self.rows["kind"].to_pylist()], np.bool_)
            applied &= isinstance(error, InsufficientLogging)
            left = ~(applied | needless) & ~self._truncates
            self._commit(fits, applied, np.zeros(len(left), np.bool_))
        counts = int(applied.sum()), int(needless.sum()), int(left.sum())
        if discard:
            return TableReplayed(self.name, *counts)
        return TableReplayed(self.name, counts[0], counts[1], left=counts[2], reason=fits.reason(left, self.rows))

    # -- what can be applied -----------------------------------------------------------------------------------------------------------

    @property
    def _truncates(self) -> Mask:
        return np.array([kind == TRUNCATE for kind in self.rows["kind"].to_pylist()], np.bool_)

    def _chosen(self, fits: _Fitted, *, discard: bool) -> tuple[Mask, Mask]:
        """What is applied, and what need not be."""
        layout = self.lake.layout
        if not (layout.is_net or layout.in_order):
            return fits.fits, np.zeros(len(self.rows), np.bool_)
        swept = self._swept if layout.is_net else np.zeros(len(self.rows), np.bool_)
        at = np.flatnonzero(~self._truncates & ~swept)
        reader = KeyReader(self.relation, self.style)
        keys = reader.of_quarantined(self.rows.take(pa.array(at)))
        mine = that_go_on(
            keys, fits.fits[at], fits.is_whole[at], is_keyed=reader.is_keyed, by_last=layout.is_net, discards=discard
        )
        applied, needless = np.zeros(len(self.rows), np.bool_), swept & ~self._truncates
        applied[at], needless[at] = mine
        return applied, needless

    @property
    def _swept(self) -> Mask:
        """Rows from before all rows of a table that is held were replaced."""
        places: list[OrderKey] = list(
            zip(*(self.rows[name].to_pylist() for name in ("commit_lsn", "lsn", "sequence")), strict=True)
        )
        replaced: dict[int, OrderKey] = {}
        truncates = self._truncates
        for at, (place, rewrite) in enumerate(zip(places, self.rows["rewrite"].to_pylist(), strict=True)):
            if truncates[at]:
                replaced[-1] = place
            elif rewrite and at >= self.held_from:
                replaced.setdefault(rewrite, (place[0], place[1], -1))
        last = max(replaced.values(), default=None)
        return np.array([last is not None and place < last for place in places], np.bool_)

    # -- committed ---------------------------------------------------------------------------------------------------------------------

    def _commit(self, fits: _Fitted, applied: Mask, left: Mask) -> None:
        lake, oid, held = self.lake, self.table.oid, self.table.held
        self._check_identity(applied)
        names: tuple[str, ...] = ()
        if left.any():
            names = (lake.quarantine.prepare(oid, self.found.version + 1, self.rows.filter(pa.array(left))),)
        lake.quarantine.is_touched = True
        position = self.position
        here = self.catalog.complete if held is not None or position is None else position.lsn
        fingerprint = self.catalog.fingerprint if held is not None or position is None else position.fingerprint
        start = position.lsn if held is not None and position is not None else Lsn(0)
        span = FeedSpan(
            self.catalog.system,
            self.catalog.timeline,
            start,
            here,
            self.catalog.database,
            tuple(sorted(self.catalog.publications)),
        )
        check_fit(self.relation, span)
        dropped = self.table.dropped if held is not None else position.dropped if position is not None else None
        target = TargetTable(
            self.relation, dropped, self.style, self.found, position, span, lambda _: fingerprint, truncations=self._truncations,
            quarantine=NamedBatches(names, self.relation).text,
        )  # fmt: skip
        target = lake.layout.shaped(target, ())
        with lake.staging() as files:
            staged = Staged(self._staged(fits, applied, lake.changes_files([target]), files))
            with self.found.going_on(self.name):
                done = lake.layout.bring_up(target, files, staged, deletion_vectors=lake.deletion_vectors)
        assert done is not None
        lake.keep(oid, done.version)
        if held is not None:
            now = replace(self.table, held=None, version=done.version.version, changed=here)
            lake.replace_catalog(self.catalog.with_table(now))

    def _check_identity(self, applied: Mask) -> None:
        """Raise InsufficientLogging where an old row is not known, though the table has a key by now: the key may have changed."""
        for waiting in quarantined_batches(self.rows) if self.lake.layout.is_net or self.lake.layout.in_order else ():
            relation, batch = waiting.batch.relation, waiting.batch
            has_none = not relation.identity and relation.replica_identity != "f"
            if has_none and (applied[waiting.at] & ~batch.has_old & (batch.kind != INSERT)).any():
                raise InsufficientLogging(
                    f'cannot tell which rows were changed while table "{relation.name}" did not have a replica identity',
                    context=f"table {relation}",
                )

    @property
    def _truncations(self) -> tuple[TableTruncation, ...]:
        rows = self.rows.filter(pa.array(self._truncates))
        times = (rows["commit_timestamp"].cast(pa.int64()).to_numpy() - UNIX_TO_POSTGRES_USECS).tolist()
        places = zip(rows["commit_lsn"].to_pylist(), rows["lsn"].to_pylist(), times, strict=True)
        return tuple(TableTruncation(Lsn(commit), Lsn(lsn), time) for commit, lsn, time in places)

    def _staged(self, fits: _Fitted, applied: Mask, how: ChangesFiles, files: Store) -> list[FileWritten]:
        """What is applied, in files as workers write them: rows of a rewrite apart from changes, if that was not applied before."""
        rewrites = np.array(self.rows["rewrite"].to_pylist(), np.int64)
        rewrites[: self.held_from] = 0
        chosen = [(at, changes) for at, changes in fits.changes if applied[at].any()]
        written = []
        for rewrite in np.unique(rewrites).tolist():
            parts = [changes.filter(pa.array(applied[at] & (rewrites[at] == rewrite))) for at, changes in chosen]
            if any(len(part) for part in parts):
                written += stage_rows(files, self.table.oid, rewrite, parts, how)
        return written


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Of each row in quarantine whether the table's columns hold it, and whether it says all of its row; `changes` are those that do, at these
    places, and `errors` say of others why they do not."""

    fits: Mask
    is_whole: Mask
    changes: list[tuple[NDArray[np.int64], pa.RecordBatch]]
    errors: dict[int, str]

    @classmethod
    def of(cls, table: _TableReplay) -> _Fitted:
        count = len(table.rows)
        made = cls(np.zeros(count, np.bool_), np.zeros(count, np.bool_), [], {})
        for waiting in quarantined_batches(table.rows):
            made._add(table, waiting)
        return made

    def _add(self, table: _TableReplay, waiting: QuarantinedBatch) -> None:
        schema = change_schema(table.relation, style=table.style)
        fills = table.lake.layout.fills_missing

        def changes(batch: Batch) -> pa.RecordBatch:
            return change_batch(
                batch,
                waiting.transactions,
                table.relation,
                style=in_style(batch, table.style),
                codec=waiting.codec,
                fill_missing=fills,
            ).cast(schema)

        unfit = {}
        for rows, found in fitted(waiting.batch, changes, table.style):
            if isinstance(found, Unfit):
                unfit.update(dict.fromkeys(rows.tolist(), found))
            else:
                self._fit(waiting.at[rows], found)
        at, narrow = _with_keys_only(waiting.batch, np.array(sorted(unfit), np.int64), table)
        for rows, found in fitted(narrow, changes, table.style):
            if not isinstance(found, Unfit):
                self._fit(waiting.at[at[rows]], found)
        for row, why in unfit.items():
            if not self.fits[waiting.at[row]]:
                self.errors[int(waiting.at[row])] = Reason.of(why.error, why.column).message

    def _fit(self, at: NDArray[np.int64], changes: pa.RecordBatch) -> None:
        self.fits[at] = True
        unsent = pc.list_value_length(changes["unchanged"]).to_numpy(zero_copy_only=False) > 0
        self.is_whole[at] = ~unsent | pc.equal(changes["kind"], "delete").to_numpy(zero_copy_only=False)
        self.changes.append((at, changes))

    def reason(self, left: Mask, rows: pa.Table) -> str:
        """Why the first of these does not go on."""
        places = np.flatnonzero(left).tolist()
        if not places:
            return ""
        return self.errors.get(places[0], "") or str(rows["reason"][places[0]].as_py())


def _with_keys_only(batch: Batch, rows: NDArray[np.int64], table: _TableReplay) -> tuple[NDArray[np.int64], Batch]:
    """Of these rows those of whose old rows a mirror needs the key alone, and they with no more of them."""
    relation = table.relation
    names = key_of(relation)
    needs_more = np.full(len(rows), not (table.lake.layout.is_net and names))
    for values in batch.new:
        if values.unchanged is not None:
            needs_more |= values.unchanged[rows]
    rows = rows[~needs_more]
    few = batch.take(rows)
    numbers = tuple(column.number for column in relation.live_columns if column.name in names)
    only = replace(few.relation, identity=numbers)
    none = np.zeros(len(rows), np.bool_)
    old = few.old and [
        values if column.number in numbers else replace(values, valid=none)
        for column, values in zip(few.columns, few.old, strict=True)
    ]
    old_kind = np.where(few.old_kind == OLD_ROW, OLD_KEY, few.old_kind)
    return rows, replace(few, relations=(only,), published_as=(only,), old=old, old_kind=old_kind)
