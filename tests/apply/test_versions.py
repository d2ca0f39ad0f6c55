"""Versions of rows against a replay in plain Python: with and without a key, cut into chunks, and swept by TRUNCATEs."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tailrace.apply.versions import PERIOD, Numbers, Sweep, ended_at, versions_of, with_nulls
from tailrace.changes import change_schema, row_schema
from tailrace.model import Column, PgType, Relation
from tailrace.types import oids

INT = PgType(oids.INT4, "pg_catalog", "int4", "integer", "b", 4, 4)
COLUMNS = (Column(1, "id", INT, -1, 4, 4), Column(2, "v", INT, -1, 4, 4))
KEYED = Relation(16384, "public", "t", "r", "p", "d", 0, COLUMNS, (1,), (1,))
BAG = Relation(16384, "public", "t", "r", "p", "f", 0, COLUMNS)
Version = tuple[int, int, int, int | None]
"""The row's id and v, and the commits from which and up to which it is valid."""
Row = tuple[int, int]


class Table:
    """Current and ended versions, and what takes rows out of it: of equal ones the oldest."""

    def __init__(self, relation: Relation) -> None:
        self.schema = pa.schema([*row_schema(relation), *PERIOD])
        self.current, self.closed = self.schema.empty_table(), self.schema.empty_table()

    def take(self, keys: pa.Table, most: Numbers | None) -> tuple[Numbers, pa.Table]:
        rows, wanted = self.current.to_pylist(), [tuple(key.values()) for key in keys.to_pylist()]
        found = []
        for number, key in enumerate(wanted):
            mine = [at for at, row in enumerate(rows) if tuple(row[name] for name in keys.schema.names) == key]
            mine.sort(key=lambda at: rows[at]["valid_from_lsn"])
            found += [(number, at) for at in (mine if most is None else mine[: most[number]])]
        taken = self.current.take(pa.array([at for _, at in found], pa.int64()))
        gone = {at for _, at in found}
        self.current = self.current.filter(pa.array([at not in gone for at in range(len(rows))], pa.bool_()))
        return np.array([number for number, _ in found], np.int64), taken

    def end_all(self, lsn: int, time: int) -> None:
        count = len(self.current)
        ended = ended_at(self.current, np.full(count, lsn, np.int64), np.full(count, time, np.int64))
        self.closed, self.current = pa.concat_tables([self.closed, ended]), self.schema.empty_table()

    def apply(self, changes: pa.Table, relation: Relation, sweeps: list[Sweep]) -> None:
        found = versions_of(changes, relation, sweeps, self.take)
        if found.swept is not None:
            self.end_all(*found.swept)
        self.closed = pa.concat_tables([self.closed, found.ended, with_nulls(found.closed, self.schema)])
        self.current = pa.concat_tables([self.current, with_nulls(found.current, self.schema)])

    def versions(self) -> list[Version]:
        rows = pa.concat_tables([self.current, self.closed]).to_pylist()
        return sorted(((row["id"], row["v"], row["valid_from_lsn"], row["valid_to_lsn"]) for row in rows), key=repr)


class Replay:
    """The same, a transaction at a time."""

    def __init__(self) -> None:
        self.lines: defaultdict[Row, deque[int]] = defaultdict(deque)
        self.closed: list[Version] = []

    def commit(self, at: int, goes: list[Row], comes: list[Row]) -> None:
        for row in goes:
            since = self.lines[row].popleft()
            self.closed.append((*row, since, at))
        for row in comes:
            self.lines[row].append(at)

    def versions(self) -> list[Version]:
        current = [(*row, since, None) for row, line in self.lines.items() for since in line]
        return sorted([*self.closed, *current], key=repr)


class Writer:
    """Random transactions: their changes, in the order of the log, and the truth."""

    def __init__(self, chance: random.Random, *, keyed: bool) -> None:
        self.chance, self.keyed, self.truth = chance, keyed, Replay()
        self.rows: list[Row] = []
        self.changes: list[dict[str, Any]] = []
        self.sweeps: list[Sweep] = []
        self.lsn = 100

    def transaction(self) -> None:
        before, touched, first, swept = list(self.rows), set[int](), len(self.changes), list[int]()
        for _ in range(self.chance.randrange(1, 5)):
            self.lsn += 10
            draw = self.chance.random()
            if draw < 0.06:
                self.rows = []
                swept.append(self.lsn)
            elif self.rows and draw < 0.3:
                touched |= self._delete(self.chance.choice(self.rows))
            elif self.rows and draw < 0.65:
                touched |= self._update(self.chance.choice(self.rows))
            elif not self.keyed or len(self.rows) < 12:
                touched |= self._insert()
        self.lsn += 10
        for change in self.changes[first:]:
            change.update(commit_lsn=self.lsn, end_lsn=self.lsn, commit_timestamp=self.lsn)
        self.sweeps += [Sweep((self.lsn, lsn, 0), self.lsn) for lsn in swept]
        goes, comes = list(before), list(self.rows)
        for row in before:
            if not swept and row in comes and not (self.keyed and row[0] in touched):
                goes.remove(row)
                comes.remove(row)
        self.truth.commit(self.lsn, goes, comes)

    def _free(self) -> int:
        taken = {key for key, _ in self.rows}
        return self.chance.choice([key for key in range(14) if key not in taken])

    def _value(self) -> int:
        return self.chance.randrange(1000 if self.keyed else 2)

    def _insert(self) -> set[int]:
        row = self._free() if self.keyed else self.chance.randrange(3), self._value()
        self._change("insert", None, row)
        return {row[0]}

    def _update(self, row: Row) -> set[int]:
        key = self._free() if self.keyed and self.chance.random() < 0.3 else row[0]
        is_unchanged = self.keyed and self.chance.random() < 0.4
        self._change("update", row, (key, row[1] if is_unchanged else self._value()), ["v"] if is_unchanged else [])
        return {row[0], key}

    def _delete(self, row: Row) -> set[int]:
        self._change("delete", row, None)
        return {row[0]}

    def _change(self, kind: str, old: Row | None, new: Row | None, unchanged: list[str] | None = None) -> None:
        if old is not None:
            self.rows.remove(old)
        if new is not None:
            self.rows.append(new)
        before: tuple[int, int | None] | None = old
        if self.keyed and old is not None:  # the key alone, and of an update only where that changes
            before = (old[0], None) if new is None or new[0] != old[0] else None
        after = (new[0], None) if new and unchanged else new
        self.changes.append(
            {
                "xid": 1, "lsn": self.lsn, "sequence": 0, "kind": kind, "unchanged": unchanged or [],
                "new": dict(zip(("id", "v"), after, strict=True)) if after else None,
                "old": dict(zip(("id", "v"), before, strict=True)) if before else None,
            }
        )  # fmt: skip


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("cut", ["not at all", "between transactions", "anywhere"])
def test_random_transactions(keyed: bool, cut: str) -> None:
    for seed in range(20):
        chance = random.Random(f"{seed} {keyed} {cut}")
        relation, writer = KEYED if keyed else BAG, Writer(chance, keyed=keyed)
        for _ in range(chance.randrange(1, 25)):
            writer.transaction()
        table, ahead = Table(relation), list(writer.sweeps)
        changes = pa.Table.from_pylist(writer.changes, change_schema(relation))
        for first, last in _cuts(writer.changes, cut, chance):
            end = writer.changes[last - 1]
            place = end["commit_lsn"], end["lsn"], 1
            table.apply(changes.slice(first, last - first), relation, [sweep for sweep in ahead if sweep.place < place])
            ahead = [sweep for sweep in ahead if sweep.place >= place]
        if ahead:
            table.end_all(ahead[0].place[0], ahead[0].time or 0)
        found, expected = table.versions(), writer.truth.versions()
        if keyed or cut != "anywhere":  # without a key, what comes and goes in one transaction may be told as two versions
            assert found == expected, seed
        for commit in {each for version in expected for each in version[2:] if each is not None}:
            assert _as_of(found, commit) == _as_of(expected, commit), seed


def _cuts(changes: list[dict[str, Any]], cut: str, chance: random.Random) -> list[tuple[int, int]]:
    places = {0, len(changes)}
    if cut != "not at all":
        places |= {chance.randrange(len(changes) + 1) for _ in range(4)}
    if cut == "between transactions":
        ends = (0, len(changes))
        places = {at for at in places if at in ends or changes[at]["commit_lsn"] != changes[at - 1]["commit_lsn"]}
    ordered = sorted(places)
    return list(zip(ordered, ordered[1:], strict=False))


def _as_of(versions: list[Version], commit: int) -> list[Row]:
    """The rows behind this commit."""
    return sorted((key, value) for key, value, since, until in versions if since <= commit and (until is None or until > commit))
