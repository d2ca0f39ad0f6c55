"""Random work on tables that change hands: made, dropped, made again, renamed, retyped, under odd names; now and then something that no lake holds.

In: a connection and a seeded `random.Random`. Out: the source itself, and of every table that ever was its oid, its last name, and why it may be in
trouble. What is rolled back is forgotten here, too.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

NAMES = (
    "orders", "Orders", "x/y", "x_y", "q.r", "s", "a b", 'say "hi"', "back\\slash", "größe", "日本", "e\u0301", "..", "-x", "X", "select", "a%41b",
    "l" * 63, "/" * 60,
)  # fmt: skip
SCHEMAS = ("public", "q.r", "Q", "q")
COLUMNS = ("v", "Wide", "b\\s", "tick`s", 'quo"te', "do.t", "sp ace", "é", "new", "old", "n/a", "x")
TYPES = {
    "int": "{n}", "bigint": "{n}::bigint * 5000000000",
    "text": "repeat('t ' || {n}, 1 + {n} % 900)",
    "numeric(8,2)": "{n} / 4.0", "bool": "{n} % 2 = 0",
    "int[]": "ARRAY[{n}, NULL, 3]", "text[]": "ARRAY['a' || {n}, '', NULL, 'b \"c\\']",
}  # fmt: skip


@dataclass
class Table:
    """As it is in the source. `troubles` may keep it from a mirror, `log_troubles` from a log; `names` are all that it has had."""

    oid: int
    schema: str
    name: str
    keyed: bool
    columns: dict[str, str]
    troubles: set[str] = field(default_factory=set)
    log_troubles: set[str] = field(default_factory=set)
    names: set[tuple[str, str]] = field(default_factory=set)

    @property
    def id(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


def _note_name(table: Table) -> None:
    table.names.add((table.schema, table.name))


class Walk:
    """Work on one database."""

    def __init__(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        self.connection = connection
        self.chance = chance
        self.live: list[Table] = []
        self.gone: list[Table] = []
        self._keys = 0
        for schema in SCHEMAS[1:]:
            self._do("CREATE SCHEMA {}", sql.Identifier(schema))

    def go(self, steps: int) -> None:
        """So many pieces of work, some of them several in a transaction, some of these rolled back."""
        for _ in range(steps):
            if self.chance.random() < 0.7:
                self._work()
                continue
            before = copy.deepcopy((self.live, self.gone))
            self._do("BEGIN")
            for _ in range(self.chance.randrange(1, 5)):
                self._work()
            if self.chance.random() < 0.7:
                self._do("COMMIT")
            else:
                self._do("ROLLBACK")
                self.live, self.gone = before

    def _do(self, text: str, *parts: sql.Composable) -> Any:
        return self.connection.execute(sql.SQL(text).format(*parts))

    def _work(self) -> None:
        if len(self.live) < 3 or self.chance.random() < 0.08:
            self._create()
            return
        table = self.chance.choice(self.live)
        works = (
            (10, self._insert), (6, self._update), (4, self._delete), (1, self._truncate), (2, self._drop), (2, self._drop_and_create),
            (3, self._rename), (1, self._swap), (2, self._add), (1, self._drop_column), (2, self._rename_column), (2, self._retype),
            (1, self._misfit),
        )  # fmt: skip
        (work,) = self.chance.choices([each for _, each in works], [weight for weight, _ in works])
        work(table)

    def _free_name(self) -> tuple[str, str]:
        taken = {(table.schema, table.name) for table in self.live}
        while True:
            name = self.chance.choice(SCHEMAS), self.chance.choice(NAMES)
            if name not in taken:
                return name

    def _create(self, name: tuple[str, str] | None = None) -> None:
        schema, name_in_it = name or self._free_name()
        keyed = self.chance.random() < 0.75
        columns = {"id": "int"} | {
            column: self.chance.choice(list(TYPES)) for column in self.chance.sample(COLUMNS, self.chance.randrange(4))
        }
        definitions = [sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(kind)) for column, kind in columns.items()]
        if keyed:  # indexes keep their names when tables change theirs
            self._keys += 1
            definitions.append(sql.SQL("CONSTRAINT {} PRIMARY KEY (id)").format(sql.Identifier(f"key {self._keys}")))
        table = Table(0, schema, name_in_it, keyed, columns)
        self._do("CREATE TABLE {} ({})", table.id, sql.SQL(", ").join(definitions))
        if not keyed:
            self._do("ALTER TABLE {} REPLICA IDENTITY FULL", table.id)
        table.oid = self.connection.execute("SELECT %s::regclass::oid", [table.id.as_string(self.connection)]).fetchone()[0]
        self.live.append(table)
        self._insert(table)

    def _highest(self, table: Table) -> int:
        return int(self.connection.execute(sql.SQL("SELECT coalesce(max(id), 0)::bigint FROM {}").format(table.id)).fetchone()[0])

    def _insert(self, table: Table) -> None:
        first = self._highest(table) + 1
        values = [
            sql.SQL("n" if column == "id" else TYPES[kind].format(n="(n % 100000)::int"))
            for column, kind in table.columns.items()
        ]
        self._do(
            "INSERT INTO {} ({}) SELECT {} FROM generate_series({}::bigint, {}::bigint) n", table.id,
            sql.SQL(", ").join(map(sql.Identifier, table.columns)), sql.SQL(", ").join(values), sql.Literal(first),
            sql.Literal(first + self.chance.randrange(12)),
        )  # fmt: skip

    def _update(self, table: Table) -> None:
        column = self.chance.choice(list(table.columns))
        value = sql.SQL(
            f"id + {self._highest(table) % 10**9}"
            if column == "id"
            else TYPES[table.columns[column]].format(n="(id % 99999)::int")
        )
        self._do(
            "UPDATE {} SET {} = {} WHERE id % 5 = {}",
            table.id,
            sql.Identifier(column),
            value,
            sql.Literal(self.chance.randrange(5)),
        )

    def _delete(self, table: Table) -> None:
        self._do("DELETE FROM {} WHERE id % 7 = {}", table.id, sql.Literal(self.chance.randrange(7)))

    def _truncate(self, table: Table) -> None:
        self._do("TRUNCATE {}", table.id)

    def _drop(self, table: Table) -> None:
        _note_name(table)
        self._do("DROP TABLE {}", table.id)
        self.live.remove(table)
        self.gone.append(table)

    def _drop_and_create(self, table: Table) -> None:
        self._drop(table)
        self._create((table.schema, table.name))

    def _rename(self, table: Table) -> None:
        schema, name = self._free_name()
        if any((each.schema, each.name) == (table.schema, name) for each in self.live):
            return
        _note_name(table)
        self._do("ALTER TABLE {} RENAME TO {}", table.id, sql.Identifier(name))
        table.name = name
        _note_name(table)
        if table.schema != schema:
            self._do("ALTER TABLE {} SET SCHEMA {}", table.id, sql.Identifier(schema))
            table.schema = schema

    def _swap(self, table: Table) -> None:
        others = [each for each in self.live if each is not table and each.schema == table.schema]
        if others:
            other = self.chance.choice(others)
            names = table.name, other.name
            for each, name in ((table, "in between"), (other, names[0]), (table, names[1])):
                _note_name(each)
                self._do("ALTER TABLE {} RENAME TO {}", each.id, sql.Identifier(name))
                each.name = name

    def _add(self, table: Table) -> None:
        column, kind = self.chance.choice(COLUMNS), self.chance.choice(list(TYPES))
        if column in table.columns:
            return
        default = self.chance.choice(
            ["", f" DEFAULT {TYPES[kind].format(n=7)}", f" DEFAULT {TYPES[kind].format(n='(random() * 99)::int')}"]
        )
        self._do(
            "ALTER TABLE {} ADD {} {}" + default.replace("{", "{{").replace("}", "}}"),
            table.id,
            sql.Identifier(column),
            sql.SQL(kind),
        )
        table.columns[column] = kind
        table.log_troubles.add("a column of that name may have been there")

    def _drop_column(self, table: Table) -> None:
        column = self.chance.choice(list(table.columns))
        if column != "id":
            self._do("ALTER TABLE {} DROP {}", table.id, sql.Identifier(column))
            del table.columns[column]

    def _rename_column(self, table: Table) -> None:
        old, new = self.chance.choice(list(table.columns)), self.chance.choice(COLUMNS)
        if old != "id" and new not in table.columns:
            self._do("ALTER TABLE {} RENAME {} TO {}", table.id, sql.Identifier(old), sql.Identifier(new))
            table.columns = {new if name == old else name: kind for name, kind in table.columns.items()}
            table.log_troubles.add("a column of that name may have been there")

    def _retype(self, table: Table) -> None:
        column = self.chance.choice(list(table.columns))
        kinds = {"int": ["bigint", "text"], "bigint": ["text"], "numeric(8,2)": ["text", "int"], "bool": ["text"]}
        options = kinds.get(table.columns[column], [])
        if column == "id" or not options or "nan" in table.troubles:
            return
        kind = self.chance.choice(options)
        using = {"bigint": "{} * 2::bigint", "int": "round({})::int", "text": "'=' || {}"}[kind]
        self._do(
            f"ALTER TABLE {{}} ALTER {{}} TYPE {kind} USING {using}", table.id, sql.Identifier(column), sql.Identifier(column)
        )
        table.columns[column] = kind
        table.log_troubles.add("retyped")
        if not self.connection.execute(sql.SQL("SELECT EXISTS (SELECT FROM {})").format(table.id)).fetchone()[0]:
            table.troubles.add("retyped when it was empty")

    def _misfit(self, table: Table) -> None:
        for column, kind in table.columns.items():
            if kind == "numeric(8,2)":
                self._do("UPDATE {} SET {} = 'NaN' WHERE id % 3 = 0", table.id, sql.Identifier(column))
                table.troubles.add("nan")
                return
            if kind == "int[]":
                self._do("UPDATE {} SET {} = '{{{{1,2}},{{3,4}}}}' WHERE id % 3 = 1", table.id, sql.Identifier(column))
                table.troubles.add("deep")
                return
        if not {"A", "a"} & table.columns.keys():
            self._do('ALTER TABLE {} ADD "A" int, ADD a int', table.id)
            table.columns |= {"A": "int", "a": "int"}
            table.troubles.add("capitals")
