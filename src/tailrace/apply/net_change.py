"""What a run of changes comes to: for each key the last word, whatever happened in between.

In: changes of one table (`tailrace.changes`), and the positions of TRUNCATEs, in any order. Out: `NetChange`: rows that must
be there, keys that must not. An UPDATE that changes the key is a deletion and an insertion. TOASTed values that were not sent
are taken from the old row if that was sent whole, else from the change before (also across a change of the key); only what
was last written before the run is left to the target (`Fill`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.apply.keys import is_ascending, joined, key_of, row_codes, whole_numbers
from tailrace.changes import ORDER, rows_by_name
from tailrace.dataclass import dataclass
from tailrace.feed import OrderKey
from tailrace.model import Relation
from tailrace.publications.publishing import replica_identity
from tailrace.publications.publishing.replica_identity import no_replica_identity

NET_COLUMNS = [*ORDER, "kind", "unchanged", "new", "old"]
"""Those columns of changes that say what they come to."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Values that lie in the target only: `column` of `upserts[rows]` is the one that the target's row `keys` had before this
    change."""

    column: str
    rows: NDArray[np.int64]
    keys: pa.Table


@dataclass(frozen=True, slots=True)
class NetChange:
    """What a table must become: nothing of before if `truncated`; then without `deletes`; then with `upserts`.

    With a `key`, `deletes` are keys, and an upsert replaces the row of its key. Without one, `deletes` are whole rows of
    which one copy each goes, and upserts are added.
    """

    key: tuple[str, ...]
    upserts: pa.Table
    deletes: pa.Table
    truncated: bool
    fills: list[Fill] = field(default_factory=list)


def net_change(changes: pa.Table, relation: Relation, truncations: Sequence[OrderKey] = ()) -> NetChange:
    """The net of `changes` (in the columns of `relation`). Raises InsufficientLogging where a row that changed cannot be told
    from others."""
    parts = taken_apart(changes, max(truncations, default=None))
    schema = row_columns(changes)
    key = key_of(relation)
    check_identity(parts, relation, key)
    if key:
        return _last_per_key(parts, key, schema, bool(truncations))
    return _multiset(parts, schema, bool(truncations))


def _last_per_key(parts: OrderedChanges, key: tuple[str, ...], schema: pa.Schema, truncated: bool) -> NetChange:
    """Event 2i is that change i removes a row, event 2i+1 that it puts one; the last event of a key stands."""
    count = len(parts)
    if parts.only_inserts and count and _are_different([parts.new[name] for name in key]):
        upserts = pa.Table.from_arrays([parts.new[name] for name in schema.names], schema=schema)
        return NetChange(key, upserts, upserts.slice(0, 0).select(key), truncated)
    codes = row_codes([joined(parts.new[name], parts.old[name]) for name in key]) if count else np.zeros(0, np.int64)
    new_code, old_code = codes[:count], codes[count:]
    moves = parts.has_new & parts.has_old & (new_code != old_code)
    code = np.stack([old_code, new_code], axis=1).reshape(-1)
    happens = np.stack([parts.is_delete | moves, parts.has_new], axis=1).reshape(-1)
    events = np.flatnonzero(happens)
    last = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    last[code[events]] = events
    final = np.sort(last[last >= 0])
    puts, removals = _in_key_order(parts, final[final % 2 == 1] // 2, key), final[final % 2 == 0] // 2
    roots = {}
    if any(mask[puts].any() for mask in parts.unchanged.values()):
        before = change_before(code, events, moves, parts.is_update)
        roots = {name: last_sent(mask, before) for name, mask in parts.unchanged.items()}
    upserts, fills = rows_at(parts, puts, roots, key, schema)
    deletes = pa.table({name: parts.old[name].take(pa.array(removals)) for name in key})
    return NetChange(key, upserts, deletes, truncated, fills)


def _in_key_order(parts: OrderedChanges, puts: NDArray[np.int64], key: tuple[str, ...]) -> NDArray[np.int64]:
    """As rows are going to lie in files, where that is easily found out: then they need not be taken again."""
    values = whole_numbers(parts.new[key[0]].take(pa.array(puts))) if len(key) == 1 else None
    return puts if values is None else puts[np.argsort(values)]


def _are_different(keys: Sequence[pa.Array]) -> bool:
    """Whether no two rows have one key. Most come in the order of a sequence."""
    return (len(keys) == 1 and is_ascending(keys[0])) or int(row_codes(keys).max()) + 1 == len(keys[0])


def _multiset(parts: OrderedChanges, schema: pa.Schema, truncated: bool) -> NetChange:
    """Without a key, rows are counted: each old row takes one away, each new row adds one; what is left of every kind counts."""
    if parts.only_inserts:
        upserts = pa.Table.from_arrays([parts.new[name] for name in schema.names], schema=schema)
        return NetChange((), upserts, upserts.slice(0, 0), truncated)
    added, removed = np.flatnonzero(parts.has_new), np.flatnonzero(parts.has_old)
    both = [joined(parts.new[name].take(pa.array(added)), parts.old[name].take(pa.array(removed))) for name in schema.names]
    sign = np.concatenate([np.ones(len(added), np.int64), -np.ones(len(removed), np.int64)])
    codes = row_codes(both) if both else np.zeros(len(sign), np.int64)
    net = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    np.add.at(net, codes, sign)
    example = np.zeros(len(net), np.int64)
    example[codes] = np.arange(len(codes))
    rows = pa.Table.from_arrays(both, schema=schema)
    upserts = rows.take(pa.array(np.repeat(example, np.maximum(net, 0))))
    deletes = rows.take(pa.array(np.repeat(example, np.maximum(-net, 0))))
    return NetChange((), upserts, deletes, truncated)


# -- changes in order, for whatever is made of them --------------------------------------------------------------------------------------


@dataclass(slots=True)
class OrderedChanges:
    """Changes in order, as arrays: of the new and the old rows by column."""

    is_update: NDArray[np.bool_]
    is_delete: NDArray[np.bool_]
    new: dict[str, pa.Array]
    old: dict[str, pa.Array]
    has_old: NDArray[np.bool_]
    unchanged: dict[str, NDArray[np.bool_]]
    lsn: NDArray[np.int64]
    rows: pa.Table
    """The same as rows."""

    def __len__(self) -> int:
        return len(self.lsn)

    @property
    def has_new(self) -> NDArray[np.bool_]:
        return ~self.is_delete

    @property
    def only_inserts(self) -> bool:
        return not (self.has_old.any() or self.is_update.any() or self.is_delete.any())


def row_columns(changes: pa.Table) -> pa.Schema:
    """The columns of the rows that changes are of."""
    return pa.schema(list(changes.schema.field("new").type))


def taken_apart(changes: pa.Table, after: OrderKey | None) -> OrderedChanges:
    """Sort, drop what a TRUNCATE swept away, and fill unchanged values from old rows that were sent whole."""
    commit, lsn, sequence = (changes[name].to_numpy() for name in ORDER)
    is_in_order = after is None and _is_in_order(commit, lsn, sequence)
    order = np.zeros(0, np.int64) if is_in_order else np.lexsort((sequence, lsn, commit))
    if after is not None:
        swept_commit, swept_lsn, swept_sequence = after
        in_record = (lsn > swept_lsn) | ((lsn == swept_lsn) & (sequence > swept_sequence))
        later = (commit > swept_commit) | ((commit == swept_commit) & in_record)
        order = order[later[order]]
    table = (changes if is_in_order else changes.take(pa.array(order))).combine_chunks()
    names = row_columns(changes).names
    new, old = (dict(zip(names, _array(table[side]).flatten(), strict=True)) for side in ("new", "old"))
    unchanged = rows_by_name(_array(table["unchanged"]))
    for name in unchanged:
        sent = unchanged[name] & old[name].is_valid().to_numpy(zero_copy_only=False)
        if sent.any():
            new[name] = pc.if_else(pa.array(sent), old[name], new[name])
            unchanged[name] &= ~sent
    is_update, is_delete = (pc.equal(table["kind"], kind).to_numpy() for kind in ("update", "delete"))
    return OrderedChanges(
        is_update, is_delete, new, old, table["old"].is_valid().to_numpy(), unchanged, table["lsn"].to_numpy(), table
    )


def _is_in_order(commit: NDArray[np.int64], lsn: NDArray[np.int64], sequence: NDArray[np.int32]) -> bool:
    """As changes are of one transaction, and of many that do not overlap."""
    further = (lsn[1:] > lsn[:-1]) | ((lsn[1:] == lsn[:-1]) & (sequence[1:] > sequence[:-1]))
    return bool(((commit[1:] > commit[:-1]) | ((commit[1:] == commit[:-1]) & further)).all())


def _array(column: pa.ChunkedArray) -> Any:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def check_identity(parts: OrderedChanges, relation: Relation, key: tuple[str, ...]) -> None:
    """Raise PostgreSQL's own refusal where an old row, or its key, should be and is not."""
    whole = relation.replica_identity == "f" and not key
    if parts.only_inserts:
        return
    needs = parts.is_delete | (parts.is_update & (whole or not key))
    without = needs & ~parts.has_old
    for name in key:
        without |= parts.has_old & ~parts.old[name].is_valid().to_numpy(zero_copy_only=False)
    if not key and not whole:
        without |= needs
    if not without.any():
        return
    first = np.flatnonzero(without)[0]
    command = replica_identity.DELETE if parts.is_delete[first] else replica_identity.UPDATE
    raise no_replica_identity(relation, command, f"table {relation}", int(parts.lsn[first]))


def change_before(
    code: NDArray[np.int64], events: NDArray[np.int64], moves: NDArray[np.bool_], is_update: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """For each change that updates a row, the change that put the row there before; -1 if that lies before the run."""
    order = np.argsort(code[events], kind="stable")
    inner, outer = events[order[1:]], events[order[:-1]]
    previous = np.full(len(code), -1, np.int64)
    same = code[inner] == code[outer]
    previous[inner[same]] = outer[same]
    changes = np.arange(len(moves))
    before = previous[np.where(moves, 2 * changes, 2 * changes + 1)]
    return np.where(is_update & (before % 2 == 1), before // 2, -1)


def last_sent(unchanged: NDArray[np.bool_], before: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each change the one that last sent the column's value (or the first of the run, if none did), by doubling jumps."""
    jump = np.where(unchanged & (before >= 0), before, np.arange(len(before)))
    while True:
        further = jump[jump]
        if (further == jump).all():
            return jump
        jump = further


def rows_at(
    parts: OrderedChanges, puts: NDArray[np.int64], roots: dict[str, NDArray[np.int64]], key: tuple[str, ...], schema: pa.Schema
) -> tuple[pa.Table, list[Fill]]:
    columns, fills = [], []
    for name in schema.names:
        source = roots[name][puts] if name in roots else puts
        columns.append(parts.new[name].take(pa.array(source)))
        if name in roots:
            rows = np.flatnonzero(parts.unchanged[name][source])
            at = source[rows]
            if len(rows):
                moved, taken = pa.array(parts.has_old[at]), pa.array(at)
                keys = {k: pc.if_else(moved, parts.old[k].take(taken), parts.new[k].take(taken)) for k in key}
                fills.append(Fill(name, rows, pa.table(keys)))
    return pa.Table.from_arrays(columns, schema=schema), fills
