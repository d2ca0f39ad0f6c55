"""Generated workloads of a database with publications: trees of partitions, prepared transactions, and publications that are altered.

In: a seed, and whether the server knows filters and column lists. Out: a `PublishedWorkload`. It is a schedule (:mod:`support.schedule`), and as that
comes out the same wherever it is run: on a server without filters, the same changes come of it, published otherwise.

- prepared: a session that has prepared its transaction does nothing until it ends it, while others go on. Some are left prepared for good: the server
  does not decode what was rolled back once it knows, so they have to be asked for before;
- partitions: are detached, written to and attached again within one transaction;
- publications: are altered, like names, while no other transaction is open: for rows written before, but committed after, the server goes by what
  its caches happen to hold of the publication, the new one if a transaction in between has asked for it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from support.drawn_publications import (
    FREE,
    FULL,
    KEYED,
    DrawnPublication,
    PublishedTable,
    Tree,
    draw_publications,
    with_tables,
)
from support.schedule import Drawing, Session, Statement, Table
from support.values import TYPES

_LEFT = -1
"""Instead of a session: transactions that are left prepared."""
_MOST_LEFT = 3


@dataclass(frozen=True, slots=True)
class PublishedWorkload:
    """`setup` makes the tables, of which then there are `publications`. `left` are the gids of transactions that are prepared when `work` is done."""

    setup: list[Statement]
    publications: list[DrawnPublication]
    work: list[Statement]
    left: list[str]


def make_published_workload(seed: int, transactions: int, *, filters: bool, leaving: bool = True) -> PublishedWorkload:
    """Without `filters`, publications are altered as a server that does not have these can do it; unless they are `leaving`, partitions stay."""
    drawing = _PublishedDrawing(seed, 6, filters=filters, leaving=leaving)
    drawn = drawing.draw(transactions)
    return PublishedWorkload(drawn[: drawing.set_up], drawing.publications, drawn[drawing.set_up :], drawing.left)


class _PublishedDrawing(Drawing):
    """`prepared` are transactions that wait for their end, by session."""

    tables: dict[str, PublishedTable]  # type: ignore[assignment]

    def __init__(self, seed: int, sessions: int, *, filters: bool, leaving: bool) -> None:
        super().__init__(seed, sessions, published=True)
        self.filters, self.leaving = filters, leaving
        self.publications: list[DrawnPublication] = []
        self.prepared: dict[int, str] = {}
        self.left: list[str] = []
        self.may_prepare = True
        self.temporary: set[int] = set()
        self.set_up = 0

    def draw(self, transactions: int) -> list[Statement]:
        drawn = super().draw(transactions)
        for session in self.sessions:
            if session.is_open:
                self._end(session)
        return drawn

    # -- prepared transactions -------------------------------------------------------------------------------------------------------

    def _tick(self, session: Session) -> int:
        if session.number in self.prepared and self.dice.random() < 0.6:
            return 0
        return super()._tick(session)

    def _end(self, session: Session) -> None:
        gid = self.prepared.pop(session.number, "")
        if gid:
            self._say(session, f"COMMIT PREPARED '{gid}'")
        elif not self.may_prepare or session.number in self.temporary or self.dice.random() > 0.35:
            return super()._end(session)
        elif not self._is_left_prepared(session):
            self.prepared[session.number] = f"gid {self._number()}"
            return self._say(session, f"PREPARE TRANSACTION '{self.prepared[session.number]}'")
        session.is_open = False
        return self._release(session)

    def _is_left_prepared(self, session: Session) -> bool:
        """Nobody may ever come by what it has locked: so it has no table for itself, and its keys are forgotten."""
        if len(self.left) == _MOST_LEFT or session.number in self.held.values() or self.dice.random() < 0.5:
            return False
        if any(each.leaving and session.number in self.touched.get(each.name, ()) for each in self._trees()):
            return False  # it would never leave again
        self.left.append(f"left {self._number()}")
        self._say(session, f"PREPARE TRANSACTION '{self.left[-1]}'")
        for sessions in self.touched.values():
            if session.number in sessions:
                sessions.add(_LEFT)
        session.keys = []
        self._new_key(session)
        return True

    def _release(self, session: Session) -> None:
        self.temporary.discard(session.number)
        super()._release(session)

    def _temporary(self, session: Session) -> None:
        self.temporary.add(session.number)  # what has touched one cannot be prepared
        super()._temporary(session)

    def _rename_shared(self) -> None:
        self.may_prepare = False
        super()._rename_shared()
        self.may_prepare = True

    def _maintain(self, session: Session) -> None:
        table = self._some_table(session, alone=True)
        if table is None or self.dice.random() < 0.8:
            return super()._maintain(session)
        gid = f"locks {self._number()}"
        for statement in ("BEGIN", f"LOCK {self._name(table)}", f"PREPARE TRANSACTION '{gid}'", f"COMMIT PREPARED '{gid}'"):
            self._say(session, statement)
        return None

    # -- publications ----------------------------------------------------------------------------------------------------------------

    def _change_table(self, session: Session) -> None:
        chance = self.dice.random()
        if chance < 0.15:
            return self._change_publication(session)
        if chance < 0.6:
            return self._change_tree(session)
        return super()._change_table(session)

    def _change_publication(self, session: Session) -> None:
        """While nobody else has rows that are not committed; with some of its own before and behind."""
        self.may_prepare = False
        for other in self.sessions:
            if other.is_open and other is not session:
                self._end(other)
        publication = self.dice.choice([each for each in self.publications if each.altered])
        drawn = with_tables(self.dice, publication, self.schema, list(self.tables.values()))
        self._write(session)
        self._say(session, f"ALTER PUBLICATION {publication.name} SET {drawn.for_objects(filters=self.filters)}")
        for _ in range(self.dice.randint(0, 3)):
            self._write(session)
        self._end(session)
        self.may_prepare = True

    # -- partitions ------------------------------------------------------------------------------------------------------------------

    def _change_tree(self, session: Session) -> None:
        trees = [each for each in self._trees() if self._is_alone(session, each)]
        if not trees:
            return self._write(session)
        tree = self.dice.choice([each for each in trees if each.leaving] or trees)
        self.held[tree.name] = session.number
        how = self.dice.choices(
            (self._truncate, self._truncate_some, self._add, self._come_and_go, self._leaf_identity), (2, 4, 2, 12, 2)
        )[0]
        return how(session, tree)  # type: ignore[operator]

    def _trees(self) -> list[Tree]:
        return [each for each in self.tables.values() if isinstance(each, Tree)]

    def _is_alone(self, session: Session, table: Table) -> bool:
        return self.held.get(table.name, session.number) == session.number and not (
            self.touched.get(table.name, set()) - {session.number}
        )

    def _truncate_some(self, session: Session, tree: Tree) -> None:
        partitions = self.dice.sample((*tree.middle, *tree.leaves), self.dice.randint(1, 2))
        named = [*partitions, tree.name] if self.dice.random() < 0.2 else partitions
        self._say(session, f"TRUNCATE {', '.join(f'{self.schema}.{each}' for each in named)}")

    def _come_and_go(self, session: Session, tree: Tree) -> None:
        """A partition is none for a while."""
        if tree.leaving is None or not self.leaving:
            return self._truncate_some(session, tree)
        name, bounds = tree.leaving
        leaf = replace(tree, name=name)
        self._write_leaf(session, leaf)
        self._say(session, f"ALTER TABLE {self._name(tree)} DETACH PARTITION {self._name(leaf)}")
        for _ in range(self.dice.randint(0, 2)):
            self._write_leaf(session, leaf)
        self._say(session, f"ALTER TABLE {self._name(tree)} ATTACH PARTITION {self._name(leaf)} {bounds}")
        return self._write_leaf(session, leaf)

    def _write_leaf(self, session: Session, leaf: Tree) -> None:
        if self._number() * len(self.sessions) >= leaf.since > 0:
            self._insert(session, leaf)
        if self.dice.random() < 0.5:
            super()._update(session, leaf)
        else:
            super()._delete(session, leaf)

    def _leaf_identity(self, session: Session, tree: Tree) -> None:
        which = self.dice.choice((tree.name, *tree.leaves))
        identity = {KEYED: "DEFAULT", FULL: "FULL"}.get(tree.style) or self.dice.choice(self.identities)
        self._say(session, f"ALTER TABLE {self.schema}.{which} REPLICA IDENTITY {identity}")

    def _update(self, session: Session, table: Table) -> None:
        super()._update(session, self._root_or_leaf(table))

    def _delete(self, session: Session, table: Table) -> None:
        super()._delete(session, self._root_or_leaf(table))

    def _root_or_leaf(self, table: Table) -> Table:
        return (
            replace(table, name=self.dice.choice(table.leaves)) if isinstance(table, Tree) and self.dice.random() < 0.3 else table
        )

    # -- tables ----------------------------------------------------------------------------------------------------------------------

    def _create(self, session: Session) -> None:
        before = set(self.tables)
        super()._create(session)
        for name in self.tables.keys() - before:
            self.tables[name] = _styled(self.tables[name], self.dice.choice((KEYED, FULL, FREE)), listed=self.dice.random() < 0.5)
            if self.tables[name].style == FULL:
                self._say(session, f"ALTER TABLE {self.schema}.{name} REPLICA IDENTITY FULL")

    def _identity(self, session: Session, table: Table) -> None:
        assert isinstance(table, PublishedTable)
        if table.style == FREE:
            return super()._identity(session, table)
        return self._alter(session, table, f"REPLICA IDENTITY {'FULL' if table.style == FULL else 'DEFAULT'}", table.columns)

    def _free(self, table: Table) -> tuple[tuple[str, str], ...]:
        assert isinstance(table, PublishedTable)
        return table.columns[table.kept :]

    def _set_up(self) -> None:
        super()._set_up()
        styles = {"shared0": (KEYED, True), "shared1": (FULL, False), "shared2": (KEYED, False), "shared3": (FREE, False)}
        for name, (style, listed) in styles.items():
            self.tables[name] = _styled(self.tables[name], style, listed=listed, kept=self.dice.randint(2, 7))
        parts = _styled(self.tables["parts"], KEYED, listed=False)
        self.tables["parts"] = _as_tree(parts, leaves=tuple(f"parts{part}" for part in range(3)))
        self._make_tree("ranges", self.dice.choice((KEYED, FULL)), by_range=True)
        self._make_tree("hashes", FREE, by_range=False)
        self._make_tree("lists", KEYED, by_range=True)
        self.publications = draw_publications(self.dice, self.schema, list(self.tables.values()))
        self.set_up = len(self.drawn)

    def _make_tree(self, name: str, style: str, *, by_range: bool) -> None:
        """A tree of three levels: one partition is a table of its own first, whose columns stand in another order; one is partitioned itself."""
        first = self.sessions[0]
        columns = (("v", "text"), *((f"f{at}", self.dice.choice(TYPES)) for at in range(self.dice.randint(1, 4))))
        low, high = self.dice.randint(300, 1200), self.dice.randint(2500, 6000)
        outer, inner = ("RANGE", "HASH") if by_range else ("HASH", "RANGE")
        hashes = [f"FOR VALUES WITH (MODULUS 2, REMAINDER {part})" for part in range(2)]
        ranges = [f"FOR VALUES FROM ({since}) TO ({to})" for since, to in (("MINVALUE", low), (low, high), (high, "MAXVALUE"))]
        of_outer = ranges if by_range else hashes
        of_inner = hashes if by_range else [ranges[0], f"FOR VALUES FROM ({low}) TO (MAXVALUE)"]
        spelled = [f"{column} {kind}" for column, kind in columns]
        at = f"{self.schema}.{name}"
        own, middle = f"{name}_own", f"{name}_middle"
        shuffled = self.dice.sample([*spelled, "id int NOT NULL", "gone text"], len(spelled) + 2)
        self._say(first, f"CREATE TABLE {at} (id int PRIMARY KEY, {', '.join(spelled)}) PARTITION BY {outer} (id)")
        self._say(first, f"CREATE TABLE {self.schema}.{middle} PARTITION OF {at} {of_outer[1]} PARTITION BY {inner} (id)")
        for number, bounds in enumerate(of_inner):
            self._say(first, f"CREATE TABLE {self.schema}.{name}_inner{number} PARTITION OF {self.schema}.{middle} {bounds}")
        if by_range:
            self._say(first, f"CREATE TABLE {self.schema}.{name}_first PARTITION OF {at} {of_outer[0]}")
        bounds = of_outer[2 if by_range else 0]
        self._say(first, f"CREATE TABLE {self.schema}.{own} ({', '.join(shuffled)})")
        self._say(first, f"ALTER TABLE {self.schema}.{own} DROP COLUMN gone")
        self._say(first, f"ALTER TABLE {at} ATTACH PARTITION {self.schema}.{own} {bounds}")
        leaves = (own, *(f"{name}_inner{number}" for number in range(len(of_inner))), *((f"{name}_first",) if by_range else ()))
        if style == FULL:
            for each in (name, middle, *leaves):
                self._say(first, f"ALTER TABLE {self.schema}.{each} REPLICA IDENTITY FULL")
        table = _styled(Table(name, columns, can_change=False), style, listed=style == KEYED, kept=len(columns))
        leaving = (own, bounds) if name != "lists" else None
        self.tables[name] = _as_tree(table, (middle,), leaves, leaving, high if by_range else 0)


def _styled(table: Table, style: str, *, listed: bool, kept: int | None = None) -> PublishedTable:
    mine = {each.name: getattr(table, each.name) for each in fields(Table)}
    kept = min(len(table.columns), 2) if kept is None else kept
    return PublishedTable(**mine, style=style, kept=kept, listed=listed and style == KEYED)


def _as_tree(
    table: PublishedTable,
    middle: tuple[str, ...] = (),
    leaves: tuple[str, ...] = (),
    leaving: tuple[str, str] | None = None,
    since: int = 0,
) -> Tree:
    mine = {each.name: getattr(table, each.name) for each in fields(PublishedTable)}
    return Tree(**mine, middle=middle, leaves=leaves, leaving=leaving, since=since)
