"""Which changes have to wait because others of the same rows do, and which of those that wait can go on.

In: changes in quarantine (`quarantine/quarantined_rows.py`), and others of the same table, behind them or between them. Out: those that follow. A
row is followed by its key, whatever becomes of the key: a change that moves it takes both keys with it. Without a key a change waits if the row that
it removes is one that a waiting change was to put there.

A key whose value has no form in the table's columns is nobody's but that of other changes that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.apply.keys import joined, key_of, row_codes
from tailrace.changes import ORDER, change_batch
from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.feed import OrderKey
from tailrace.model import Relation
from tailrace.quarantine.fitting import Unfit, fitted
from tailrace.quarantine.quarantined_rows import QuarantinedBatch, in_style, quarantined_batches
from tailrace.types.registry import ArrowStyle

_NEVER = np.iinfo(np.int64).max
_SIDES = ("new", "old")
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Of changes where each stands, and the key of its new and of its old row, which `has` one or not."""

    places: NDArray[np.int64]
    keys: dict[str, list[pa.Array]]
    has: dict[str, NDArray[np.bool_]]

    def __len__(self) -> int:
        return len(self.places)

    def place(self, row: int) -> OrderKey:
        commit, lsn, sequence = self.places[row].tolist()
        return commit, lsn, sequence


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Reads the keys of changes of a table as it is now; without a key, whole rows."""

    relation: Relation
    style: ArrowStyle

    @property
    def is_keyed(self) -> bool:
        return bool(key_of(self.relation))

    @property
    def names(self) -> tuple[str, ...]:
        return key_of(self.relation) or tuple(column.name for column in self.relation.live_columns)

    def of_changes(self, tables: Iterable[pa.Table]) -> RowKeys:
        """Of changes in the columns of `tailrace.changes`."""
        parts = [self._of_table(table) for table in tables if len(table)]
        return self._joined(parts)

    def _of_table(self, table: pa.Table) -> RowKeys:
        keys, has = {}, {}
        for side in _SIDES:
            rows = pa.concat_arrays(table[side].chunks)
            columns = dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))
            keys[side] = [columns[name] for name in self.names]
            has[side] = rows.is_valid().to_numpy(zero_copy_only=False)
        return RowKeys(_places(table), keys, has)

    def of_quarantined(self, rows: pa.Table) -> RowKeys:
        """Of rows in quarantine, in their order here. A key that has no form is none."""
        numbers = {column.number for column in self.relation.live_columns if column.name in self.names}
        columns = tuple(each if each.number in numbers else replace(each, type=None) for each in self.relation.columns)
        only = replace(self.relation, columns=columns)
        parts, order = [], [_NONE]
        for waiting in quarantined_batches(rows):
            sides = {side: self._side(waiting, only, side) for side in _SIDES}
            keys = {side: found[0] for side, found in sides.items()}
            has = {side: found[1] for side, found in sides.items()}
            parts.append(RowKeys(_places(rows.take(pa.array(waiting.at))), keys, has))
            order.append(waiting.at)
        together, at = self._joined(parts), np.argsort(np.concatenate(order))
        taken = pa.array(at)
        return RowKeys(
            together.places[at], {side: [key.take(taken) for key in keys] for side, keys in together.keys.items()},
            {side: has[at] for side, has in together.has.items()},
        )  # fmt: skip

    def _side(self, waiting: QuarantinedBatch, only: Relation, side: str) -> tuple[list[pa.Array], NDArray[np.bool_]]:
        parts, has = [], np.zeros(len(waiting.batch), np.bool_)
        arrow = pa.struct([(name, kind) for name, kind in zip(self.names, self._types(only), strict=True)])

        chosen = [
            at for at, column in enumerate(waiting.batch.columns) if column.number in {each.number for each in only.live_columns}
        ]
        columns = tuple(waiting.batch.columns[at] for at in chosen)
        new, old = ([values[at] for at in chosen] if values else [] for values in (waiting.batch.new, waiting.batch.old))
        mine = replace(
            waiting.batch, columns=columns, new=new if side == "new" else [], old=old if side == "old" and old else None
        )

        def made(batch: Batch) -> pa.RecordBatch:
            return change_batch(
                batch, waiting.transactions, only, columns=(side,), style=in_style(batch, self.style), codec=waiting.codec
            )

        order = [np.zeros(0, np.int64)]
        for rows, found in fitted(mine, made, self.style):
            order.append(rows)
            if isinstance(found, Unfit):
                parts.append(pa.nulls(len(rows), arrow))
                continue
            struct = found[side]
            keys = dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
            parts.append(pa.StructArray.from_arrays([keys[name] for name in self.names], fields=list(arrow)))
            has[rows] = struct.is_valid().to_numpy(zero_copy_only=False)
        in_order = pa.array(np.argsort(np.concatenate(order)))
        return pa.concat_arrays(parts).take(in_order).flatten(), has

    def _types(self, only: Relation) -> list[pa.DataType]:
        from tailrace.changes import row_schema  # noqa: PLC0415

        schema = row_schema(only, self.style)
        return [schema.field(name).type for name in self.names]

    def _joined(self, parts: Sequence[RowKeys]) -> RowKeys:
        if not parts:
            none = [pa.nulls(0, kind) for kind in self._types(self.relation)]
            no_rows = np.zeros(0, np.bool_)
            return RowKeys(np.zeros((0, 3), np.int64), dict.fromkeys(_SIDES, none), dict.fromkeys(_SIDES, no_rows))
        keys = {
            side: [pa.concat_arrays([part.keys[side][at] for part in parts]) for at in range(len(self.names))] for side in _SIDES
        }
        has = {side: np.concatenate([part.has[side] for part in parts]) for side in _SIDES}
        return RowKeys(np.concatenate([part.places for part in parts]), keys, has)


def _places(table: pa.Table) -> NDArray[np.int64]:
    return np.stack([table[name].to_numpy().astype(np.int64) for name in ORDER], axis=1)


def codes_of(several: Sequence[RowKeys]) -> list[dict[str, NDArray[np.int64]]]:
    """Of each of these, of each side a number per row, the same for equal keys; -1 where there is none."""
    parts = [(each, side) for each in several for side in _SIDES]
    count = sum(len(each) for each in several)
    if not count:
        return [dict.fromkeys(_SIDES, _NONE) for _ in several]
    columns = []
    for at in range(len(several[0].keys["new"])):
        column = parts[0][0].keys["new"][at]
        for each, side in parts[1:]:
            column = joined(column, each.keys[side][at])
        columns.append(column)
    codes, found, begin = row_codes(columns), [], 0
    for each in several:
        of_side = {}
        for side in _SIDES:
            of_side[side] = np.where(each.has[side], codes[begin : begin + len(each)], -1)
            begin += len(each)
        found.append(of_side)
    return found


def followers(quarantined: RowKeys, others: RowKeys, *, is_keyed: bool) -> NDArray[np.bool_]:
    """Which of the others come behind a quarantined one of the same row, or behind another that does so."""
    of_quarantined, of_others = codes_of([quarantined, others])
    places = np.concatenate([quarantined.places, others.places])
    order = np.lexsort((places[:, 2], places[:, 1], places[:, 0]))
    rank = np.empty(len(places), np.int64)
    rank[order] = np.arange(len(places))
    blocking = _SIDES if is_keyed else ("new",)
    waiting = _SIDES if is_keyed else ("old",)
    most = max((int(codes.max(initial=-1)) for each in (of_quarantined, of_others) for codes in each.values()), default=-1)
    since = np.full(most + 2, _NEVER)  # its last stands for what has no key

    def block(codes: dict[str, NDArray[np.int64]], ranks: NDArray[np.int64]) -> None:
        for side in blocking:
            np.minimum.at(since, codes[side], ranks)
        since[-1] = _NEVER

    block(of_quarantined, rank[: len(quarantined)])
    ranks = rank[len(quarantined) :]
    chosen = np.zeros(len(others), np.bool_)
    while True:
        follows = np.zeros(len(others), np.bool_)
        for side in waiting:
            follows |= ranks > since[of_others[side]]
        new = follows & ~chosen
        if not new.any():
            return chosen
        chosen |= new
        block({side: codes[new] for side, codes in of_others.items()}, ranks[new])


def that_go_on(
    keys: RowKeys, fits: NDArray[np.bool_], is_whole: NDArray[np.bool_], *, is_keyed: bool, by_last: bool, discards: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of changes in quarantine, in their order, which can be applied now, and which need not be any more. A change that does not fit holds up those
    behind it of the same row. `by_last` says that only the last state of a row counts: then a change that does not fit is needed no more if the
    next of its row fits and `is_whole`, as one is that sends all columns or removes the row. If what does not fit is to be discarded, whole ones
    behind it go on then."""
    (codes,) = codes_of([keys])
    new, old = codes["new"], codes["old"]
    needless = np.zeros(len(keys), np.bool_)
    if by_last and is_keyed:
        following: dict[int, int] = {}
        for row in range(len(keys) - 1, -1, -1):
            key = int(new[row] if new[row] >= 0 else old[row])
            stays = key >= 0 and old[row] in (-1, key)
            if not fits[row] and stays and (behind := following.get(key)) is not None:
                needless[row] = needless[behind] or (fits[behind] and is_whole[behind])
            following.update((int(code), row) for code in (new[row], old[row]) if code >= 0)
    applied = np.zeros(len(keys), np.bool_)
    blocked: set[int] = set()
    for row in range(len(keys)):
        mine = {int(code) for code in (new[row], old[row]) if code >= 0}
        waits = mine if is_keyed else {int(old[row])} - {-1}
        if needless[row]:
            continue
        starts_anew = discards and by_last and is_keyed and is_whole[row]
        if fits[row] and (starts_anew or not (waits & blocked)):
            applied[row] = True
            blocked -= mine if starts_anew else set()
        else:
            blocked |= mine if is_keyed else {int(new[row])} - {-1}
    return applied, needless
