"""Publications drawn from a seed: tables, partitions, schemas, column lists, row filters, actions, and roots of partitions; as statements.

In: a `random.Random` and tables. Out: `DrawnPublication`s. None of them ever forbids a change that is drawn: a filter reads what the replica identity
has, and a column list has the key. Each table has one column list, whatever publication names it, so that most of them may be asked for together.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from support.schedule import Table

KEYED, FULL, FREE = "keyed", "full", "free"
"""How a table's rows are identified: by its key, and then it may have a column list; by all columns, and then any may be in a filter; now so and
now so."""
FIRST_WITH_FILTERS = 15
INSERTS = ("insert", "insert, truncate")
ACTIONS = ("insert, update, delete, truncate", "insert, update, delete", "insert, update", "update, delete", "delete, truncate")


@dataclass(frozen=True, slots=True)
class PublishedTable(Table):
    """`kept` columns, the first, stay what they are but for their names, so that they may be in filters and lists. `listed`: it has a list."""

    style: str = FREE
    kept: int = 0
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Tree(PublishedTable):
    """A partitioned table. `middle` are its partitions that are partitioned themselves, `leaves` the others and theirs; `leaving`, one of these, with
    its bounds, is detached now and then. Keys from `since` on belong there (0: nobody knows)."""

    middle: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    leaving: tuple[str, str] | None = None
    since: int = 0


@dataclass(frozen=True, slots=True)
class Named:
    """A table as a publication names it, with schema."""

    name: str
    columns: str = ""
    where: str = ""

    def spelled(self, *, filters: bool) -> str:
        return f"{self.name}{self.columns}{f' WHERE ({self.where})' if self.where else ''}" if filters else self.name


@dataclass(frozen=True, slots=True)
class DrawnPublication:
    """Of `objects`, ALL TABLES or TABLES IN SCHEMA, or of the tables that are `named`. `altered`: what it has changes with time."""

    name: str
    actions: str
    via_root: bool
    objects: str = ""
    named: tuple[Named, ...] = ()
    altered: bool = False

    def for_objects(self, *, filters: bool = True) -> str:
        return self.objects or f"TABLE {', '.join(each.spelled(filters=filters) for each in self.named)}"

    def create(self, *, filters: bool = True, name: str = "") -> str:
        """Without `filters` as a server knows it that has neither these nor column lists."""
        options = f"publish = '{self.actions}', publish_via_partition_root = {str(self.via_root).lower()}"
        return f"CREATE PUBLICATION {name or self.name} FOR {self.for_objects(filters=filters)} WITH ({options})"

    @property
    def needs_filters(self) -> bool:
        """Whether it cannot even be spelled where there are no filters."""
        return "SCHEMA" in self.objects


def draw_publications(dice: random.Random, schema: str, tables: Sequence[PublishedTable]) -> list[DrawnPublication]:
    """Some that stay as they are, some that are altered, and two of everything there is."""
    fixed = [draw_publication(dice, f"fixed{number}", schema, tables) for number in range(5)]
    altered = [replace(draw_publication(dice, f"altered{number}", schema, tables), altered=True) for number in range(2)]
    whole = [
        DrawnPublication("whole", ACTIONS[0], True, "ALL TABLES"),
        DrawnPublication("schema", dice.choice(ACTIONS), dice.random() < 0.5, f"TABLES IN SCHEMA {schema}"),
    ]
    return [*fixed, *altered, *whole]


def draw_publication(dice: random.Random, name: str, schema: str, tables: Sequence[PublishedTable]) -> DrawnPublication:
    """By its number it is one of inserts, of roots, or of partitions by themselves."""
    kind = int(name[-1]) % 3
    via_root = kind == 1 or (kind == 2 and dice.random() < 0.5)
    made = DrawnPublication(name, dice.choice(INSERTS if kind == 2 else ACTIONS), via_root)
    return with_tables(dice, made, schema, tables)


def with_tables(
    dice: random.Random, publication: DrawnPublication, schema: str, tables: Sequence[PublishedTable]
) -> DrawnPublication:
    """The same of other tables."""
    chosen = [table for table in tables if dice.random() < 0.7] or list(tables[:1])
    named = tuple(each for table in chosen for each in _named(dice, publication, schema, table))
    return replace(publication, named=named)


def _named(dice: random.Random, publication: DrawnPublication, schema: str, table: PublishedTable) -> list[Named]:
    """The table, or some of its partitions, or both. What is partitioned has a filter or a list only where it is what the changes go out as. Where
    there is a list, no table is named without it that has the same rows."""
    if not isinstance(table, Tree):
        return [_said_of(dice, publication, f"{schema}.{table.name}", table)]
    chances = (0.8 if publication.via_root or not table.listed else 0, *(0 if table.listed else 0.3 for _ in table.middle))
    partitioned = [each for each, chance in zip((table.name, *table.middle), chances, strict=True) if dice.random() < chance]
    leaves = [each for each in table.leaves if dice.random() < (0.25 if partitioned else 0.7)]
    found = [
        _said_of(dice, publication, f"{schema}.{each}", table) if publication.via_root else Named(f"{schema}.{each}")
        for each in partitioned
    ]
    if not found and not leaves:
        leaves = list(table.leaves[:1])
    return found + [_said_of(dice, publication, f"{schema}.{each}", table) for each in leaves]


def _said_of(dice: random.Random, publication: DrawnPublication, name: str, table: PublishedTable) -> Named:
    kept = table.columns[: table.kept]
    columns = f" (id{''.join(f', {column}' for column, _ in kept)})" if table.listed else ""
    if dice.random() < 0.3:
        return Named(name, columns)
    any_column = table.style == FULL or publication.actions in INSERTS
    candidates = [pair for pair in kept if pair[1] in FILTERS] if any_column else []
    if not candidates or dice.random() < 0.4:
        return Named(name, columns, _of_key(dice))
    column, kind = dice.choice(candidates)
    where = dice.choice(FILTERS[kind]).format(column)
    return Named(name, columns, f"{where} {dice.choice(('AND', 'OR'))} {_of_key(dice)}" if dice.random() < 0.4 else where)


def _of_key(dice: random.Random) -> str:
    ways: tuple[Callable[[], str], ...] = (
        lambda: f"id % {dice.randint(2, 4)} = {dice.randint(0, 1)}",
        lambda: f"id > {dice.randint(0, 4000)}",
        lambda: f"id BETWEEN {dice.randint(0, 1500)} AND {dice.randint(1500, 9000)}",
        lambda: f"NOT (id % 5 IN (0, {dice.randint(1, 4)}))",
        lambda: f"(id % 2 = 0 OR id < {dice.randint(100, 3000)})",
    )
    return dice.choice(ways)()


FILTERS = {
    "int": ("{0} > 0", "{0} IS DISTINCT FROM 0", "abs({0}::bigint) < 1000"),
    "bigint": ("{0} < 0", "{0} IS NOT NULL"),
    "text": (
        "length({0}) > 9",
        "{0} IS NULL",
        "{0} LIKE 'x%'",
        "coalesce({0}, '') <> ''",
        "substr({0}, 1, 3) > 'n' COLLATE \"C\"",
    ),
    "numeric": ("{0} > 0", "{0} = 'NaN' OR {0} < 0"),
    "int[]": ("cardinality({0}) > 1", "{0} @> ARRAY[0]"),
    "text[]": ("array_length({0}, 1) = 2", "{0} IS NOT NULL"),
    "jsonb": ("({0} ->> 'k')::int > 50", "{0} @> '{{\"k\": 7}}'", "jsonb_array_length({0} -> 'list') = 4"),
    "bool": ("{0}", "{0} IS NOT TRUE"),
    "bytea": ("octet_length({0}) < 20",),
    "date": ("{0} >= '2000-01-01'", "{0} IS NOT NULL"),
    "float8": ("{0} > 0", "{0} <> 'NaN'"),
    "uuid": ("{0} < '80000000-0000-0000-0000-000000000000'",),
    "varchar(200)": ("length({0}) < 8", "{0} IS NOT NULL"),
}
"""Conditions on a column, by its type: none that could raise an error for a value that is drawn."""
