"""What changes make of the rows of a history: each version of a row, and from which commit to which it was the row.

In: changes of one table (`tailrace.changes`), where all of its rows were removed at once (`Sweep`), and `take`, by which rows that were current
before are taken out of the table. Out: `VersionsMade`, with the columns of `PERIOD`. A row that a transaction has changed several times is one
version, the last; what the same transaction inserts and deletes is none. Without a key, rows are told apart by their values, and of equal ones the
oldest goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.apply.keys import joined, key_of, row_codes
from tailrace.apply.net_change import (
    NetChange,
    OrderedChanges,
    change_before,
    check_identity,
    last_sent,
    row_columns,
    rows_at,
    taken_apart,
)  # fmt: skip
from tailrace.apply.tables import filled
from tailrace.dataclass import dataclass
from tailrace.feed import OrderKey
from tailrace.model import Relation

VALID_FROM, VALID_TO, VALID_FROM_LSN, VALID_TO_LSN = "valid_from", "valid_to", "valid_from_lsn", "valid_to_lsn"
_TIME = pa.timestamp("us", "UTC")
PERIOD = pa.schema([(VALID_FROM, _TIME), (VALID_TO, _TIME), (VALID_FROM_LSN, pa.int64()), (VALID_TO_LSN, pa.int64())])
"""When a version was the row: from the commit that made it (times are of commits, as their transactions say, and LSNs where the commits stand) up to
the one that made another or removed it, which is null while there is none."""
Numbers = NDArray[np.int64]
_OPEN = -1
Taken = tuple[Numbers, pa.Table]
Take = Callable[[pa.Table, Numbers | None], Taken]
"""Takes the current rows that have one of these different keys out of the table; with numbers, of each no more than so many, and those that have been
current for longest. Gives them, each with the number of its key; those of a key in that order."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """All rows that are current behind `place` are removed, by a transaction that committed at `time` (microseconds since 1970; None: that of the
    change that follows)."""

    place: OrderKey
    time: int | None = None


@dataclass(frozen=True, slots=True)
class VersionsMade:
    """`current` and `closed` are what changes have made, in the columns of the relation and of the period; `ended` the rows that were taken, in the
    table's columns, with where they end. `swept`, if anything is, is where all others end that are still in the table (LSN, time)."""

    current: pa.Table
    closed: pa.Table
    ended: pa.Table
    swept: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class _Run:
    """The changes with, of each, its commit, the time of that, and how many sweeps are before it; `sweeps` are (commit, time)."""

    parts: OrderedChanges
    commit: Numbers
    time: Numbers
    segment: Numbers
    sweeps: Sequence[tuple[int, int]]

    @property
    def swept(self) -> tuple[int, int] | None:
        return self.sweeps[0] if self.sweeps else None

    def end_of(self, segment: Numbers) -> tuple[Numbers, Numbers]:
        """Where what is still current at the end of a segment ends, and when."""
        lsns = np.array([*(lsn for lsn, _ in self.sweeps), _OPEN], np.int64)
        times = np.array([*(time for _, time in self.sweeps), 0], np.int64)
        return lsns[segment], times[segment]


def versions_of(
    changes: pa.Table, relation: Relation, sweeps: Sequence[Sweep], take: Take, by: Sequence[str] | None = None
) -> VersionsMade:
    """The versions that changes make, in the columns of `relation`. Without a key, rows are compared by the columns `by` (all). Raises
    InsufficientLogging where a row that changed cannot be told from others."""
    parts, schema, key = taken_apart(changes, None), row_columns(changes), key_of(relation)
    check_identity(parts, relation, key)
    commit, time = parts.rows["commit_lsn"].to_numpy(), parts.rows["commit_timestamp"].cast(pa.int64()).to_numpy()
    places = list(zip(commit.tolist(), parts.lsn.tolist(), parts.rows["sequence"].to_pylist(), strict=True)) if sweeps else []
    starts = [_first_behind(places, sweep.place) for sweep in sweeps]
    segment = np.searchsorted(np.array(starts, np.int64), np.arange(len(parts)), "right").astype(np.int64)
    ends = [
        (int(sweep.place[0]), int(time[min(start, len(time) - 1)]) if sweep.time is None else sweep.time)
        for sweep, start in zip(sweeps, starts, strict=True)
    ]
    run = _Run(parts, commit, time, segment, ends)
    return _by_key(run, key, schema, take) if key else _by_value(run, schema, take, list(by or schema.names))


def ended_at(rows: pa.Table, lsn: Numbers, time: Numbers) -> pa.Table:
    """These versions, which end there; without those that begin there as well, which nobody saw."""
    rows = _with(rows, VALID_TO_LSN, pa.array(lsn, pa.int64()))
    rows = _with(rows, VALID_TO, pa.array(time, _TIME))
    seen = rows[VALID_FROM_LSN].to_numpy() != lsn
    return rows if seen.all() else rows.filter(pa.array(seen))


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)


def _first_behind(places: Sequence[OrderKey], place: OrderKey) -> int:
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if places[middle] <= place else (low, middle)
    return low


# -- with a key --------------------------------------------------------------------------------------------------------------------------


def _by_key(run: _Run, key: tuple[str, ...], schema: pa.Schema, take: Take) -> VersionsMade:
    """Event 2i is that change i removes a row, event 2i+1 that it puts one. The last event of a key in a transaction says what the row is behind that
    transaction, up to the next one with an event of the key."""
    parts, count = run.parts, len(run.parts)
    values = [joined(parts.new[name], parts.old[name]) for name in key]
    codes = row_codes(values) * (len(run.sweeps) + 1) + np.tile(run.segment, 2)
    new_code, old_code = codes[:count], codes[count:]
    moves = parts.has_new & parts.has_old & (new_code != old_code)
    code = np.stack([old_code, new_code], axis=1).reshape(-1)
    events = np.flatnonzero(np.stack([parts.is_delete | moves, parts.has_new], axis=1).reshape(-1))
    events = events[np.argsort(code[events], kind="stable")]
    of, commit, change = code[events], run.commit[events // 2], events // 2
    same = of[1:] == of[:-1]
    is_first = np.append(True, ~same) if len(of) else np.zeros(0, np.bool_)
    is_last = np.append(~(same & (commit[1:] == commit[:-1])), True) if len(of) else is_first
    last = np.flatnonzero(is_last)
    to_lsn, to_time = run.end_of(run.segment[change[last]])
    follows = np.flatnonzero(of[last[1:]] == of[last[:-1]])
    to_lsn[follows], to_time[follows] = commit[last[follows + 1]], run.time[change[last[follows + 1]]]
    puts = (events[last] % 2 == 1) & (to_lsn != commit[last])
    made, to_lsn, to_time = change[last[puts]], to_lsn[puts], to_time[puts]

    first = np.flatnonzero(is_first & (run.segment[change] == 0)) if len(of) else np.zeros(0, np.int64)
    at = np.where(events[first] % 2 == 1, change[first], change[first] + count)
    keys = pa.table([each.take(pa.array(at)) for each in values], names=list(key))
    numbers, rows = take(keys, None)
    ended = ended_at(rows, commit[first][numbers], run.time[change[first]][numbers])
    before = change_before(code, np.sort(events), moves, parts.is_update)
    roots = {name: last_sent(mask, before) for name, mask in parts.unchanged.items() if mask[made].any()}
    made_rows, fills = rows_at(parts, made, roots, key, schema)
    if fills:
        made_rows = filled(NetChange(key, made_rows, made_rows.slice(0, 0), truncated=False, fills=fills), rows).upserts
    return _versions(run, made_rows, made, (to_lsn, to_time), ended)


def _versions(run: _Run, rows: pa.Table, made: Numbers, to: tuple[Numbers, Numbers], ended: pa.Table) -> VersionsMade:
    """Of rows that these changes made, which end at `to`."""
    to_lsn, to_time = to
    is_open = to_lsn == _OPEN
    rows = rows.append_column(PERIOD.field(VALID_FROM), pa.array(run.time[made], _TIME))
    rows = rows.append_column(PERIOD.field(VALID_TO), pa.array(to_time, _TIME, mask=is_open))
    rows = rows.append_column(PERIOD.field(VALID_FROM_LSN), pa.array(run.commit[made], pa.int64()))
    rows = rows.append_column(PERIOD.field(VALID_TO_LSN), pa.array(to_lsn, pa.int64(), mask=is_open))
    return VersionsMade(rows.filter(pa.array(is_open)), rows.filter(pa.array(~is_open)), ended, run.swept)


# -- without one -------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Units:
    """Rows that come or go one by one, in the order of what they are (`code`) and of commits; `change` is one that did it."""

    code: Numbers
    change: Numbers

    def rank(self) -> Numbers:
        """Of each, how many of the same code are before it."""
        return np.arange(len(self.code)) - np.searchsorted(self.code, self.code)


def _by_value(run: _Run, schema: pa.Schema, take: Take, by: list[str]) -> VersionsMade:
    """What a transaction adds and removes of equal rows is counted. Rows that come wait in a line of their like, behind those of the table; who goes
    goes from its head. Who is like whom is told by the columns `by`."""
    parts = run.parts
    added, removed = np.flatnonzero(parts.has_new), np.flatnonzero(parts.has_old)
    both = {name: joined(parts.new[name].take(pa.array(added)), parts.old[name].take(pa.array(removed))) for name in schema.names}
    values = [both[name] for name in by]
    change = np.concatenate([added, removed])
    segment, lines = run.segment[change], len(run.sweeps) + 1
    code = row_codes(values) * lines + segment
    whole = code if len(by) == len(both) else row_codes(list(both.values())) * lines + segment
    comes, goes = _net_units(run, code, whole, change, np.arange(len(change)) < len(added))
    from_table = np.flatnonzero(run.segment[goes.change] == 0)
    wanted, first, most = np.unique(goes.code[from_table], return_index=True, return_counts=True)
    place = np.full(len(parts), -1, np.int64)
    place[removed] = np.arange(len(removed)) + len(added)
    keys = pa.table([each.take(pa.array(place[goes.change[from_table[first]]])) for each in values], names=by)
    numbers, rows = take(keys, most.astype(np.int64))
    taken = np.zeros(len(wanted), np.int64)
    np.add.at(taken, numbers, 1)
    heads = np.searchsorted(goes.code, wanted)
    rank = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
    ends = goes.change[heads[numbers] + rank]
    ended = ended_at(rows, run.commit[ends], run.time[ends])

    left = np.ones(len(goes.code), np.bool_)
    left[heads[numbers] + rank] = False
    goes = _Units(goes.code[left], goes.change[left])
    to_lsn, to_time = run.end_of(run.segment[comes.change])
    at, by_whom = _matched(run, comes, goes)
    to_lsn[at], to_time[at] = run.commit[by_whom], run.time[by_whom]
    lasts = to_lsn != run.commit[comes.change]
    made = comes.change[lasts]
    made_rows = pa.table([parts.new[name].take(pa.array(made)) for name in schema.names], schema=schema)
    return _versions(run, made_rows, made, (to_lsn[lasts], to_time[lasts]), ended)


def _net_units(run: _Run, code: Numbers, whole: Numbers, change: Numbers, comes: NDArray[np.bool_]) -> tuple[_Units, _Units]:
    """Of rows that come and go within one transaction, those that are more than their opposites, which are equal as a `whole`: which come, which
    go."""
    order = np.lexsort((change, run.commit[change], whole))
    whole, commit = whole[order], run.commit[change[order]]
    new_group = np.append(True, (whole[1:] != whole[:-1]) | (commit[1:] != commit[:-1])) if len(order) else np.zeros(0, np.bool_)
    group = np.cumsum(new_group) - 1
    sides = []
    for mine in (comes[order], ~comes[order]):
        others = np.bincount(group[~mine], minlength=int(group[-1]) + 1 if len(group) else 0)
        at = np.flatnonzero(mine)
        rank = np.arange(len(at)) - np.searchsorted(group[at], group[at])
        left = order[at[rank >= others[group[at]]]]
        left = left[np.lexsort((change[left], run.commit[change[left]], code[left]))]
        sides.append(_Units(code[left], change[left]))
    return sides[0], sides[1]


def _matched(run: _Run, comes: _Units, goes: _Units) -> tuple[Numbers, Numbers]:
    """Which of those that come go again, and by which change. Where more go than are there, the table lacks rows of before, and these went first."""
    merged_code = np.concatenate([comes.code, goes.code])
    commit = run.commit[np.concatenate([comes.change, goes.change])]
    sign = np.concatenate([np.ones(len(comes.code), np.int64), -np.ones(len(goes.code), np.int64)])
    order = np.lexsort((sign, commit, merged_code))
    merged_code, running = merged_code[order], np.cumsum(sign[order])
    codes, first = np.unique(merged_code, return_index=True)
    before = running[first] - sign[order][first] if len(codes) else running[:0]
    lacking = np.maximum(0, -np.minimum.reduceat(running, first) + before) if len(codes) else running[:0]
    rank = goes.rank() - lacking[np.searchsorted(codes, goes.code)] if len(codes) else goes.rank()
    found = rank >= 0
    at = np.searchsorted(comes.code, goes.code[found]) + rank[found]
    return at, goes.change[found]


def with_nulls(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in these columns, null where they lack one."""
    return pa.table(
        [rows[field.name] if field.name in rows.schema.names else pa.nulls(len(rows), field.type) for field in schema],
        schema=schema,
    )
