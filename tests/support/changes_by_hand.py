"""Changes of a small table, written by hand: a relation, and its changes as `tailrace.changes` would give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tailrace.changes import change_schema
from tailrace.model import Column, PgType, Relation

INT4 = PgType(23, "pg_catalog", "int4", "integer", "b", 4, 4)
TEXT = PgType(25, "pg_catalog", "text", "text", "b", -1, 4)


def relation(*, identity: str = "d", key: Sequence[int] = (1, 2), primary: Sequence[int] = ()) -> Relation:
    """public.t (k int, l text, a int, big text)."""
    columns = [("k", INT4), ("l", TEXT), ("a", INT4), ("big", TEXT)]
    return Relation(
        20000, "public", "t", "r", "p", identity, 0,
        tuple(Column(number, name, kind, -1, kind.length, kind.align) for number, (name, kind) in enumerate(columns, 1)),
        tuple(key), tuple(primary),
    )  # fmt: skip


@dataclass
class Log:
    """Changes one after another; `truncations` beside them. `lsn` counts."""

    of: Relation
    rows: list[dict[str, Any]] = field(default_factory=list)
    truncations: list[tuple[int, int, int]] = field(default_factory=list)
    lsn: int = 100

    def add(
        self, kind: str, new: Mapping[str, Any] | None, old: Mapping[str, Any] | None = None, unchanged: Sequence[str] = ()
    ) -> None:
        self.lsn += 1
        place = {"commit_lsn": self.lsn // 7 * 7 + 7, "lsn": self.lsn // 2, "sequence": self.lsn % 2}
        facts = {"end_lsn": 0, "commit_timestamp": 0, "xid": 1}
        self.rows.append({**place, **facts, "kind": kind, "unchanged": list(unchanged), "new": new, "old": old})

    def truncate(self) -> None:
        self.lsn += 2 - self.lsn % 2
        self.truncations.append((self.lsn // 7 * 7 + 7, self.lsn // 2, 0))

    def table(self, order: Sequence[int] | None = None) -> pa.Table:
        rows = self.rows if order is None else [self.rows[i] for i in order]
        return pa.Table.from_pylist(rows, schema=change_schema(self.of))
