"""The worked examples of the manual's chapter on row filters, step by step: what psql shows of the publications, and what each change leaves on the
subscriber, be the publications the server's own or defined in a state location beside it.

The subscriber is one of ours: a slot of pgoutput, whose messages are applied to rows by their key, and an initial copy as PostgreSQL makes one.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.command import Run
from support.servers import Server
from tailrace.logicalproto import message as m
from tailrace.logicalproto.message_flow import MessageReader

pytestmark = pytest.mark.postgres
MATRIX = pytest.mark.matrix
BY_SERVER, HERE = "by the server", "here"
CASES = [
    (18, HERE), *(pytest.param(major, where, marks=MATRIX) for major, where in (
        (14, HERE), (15, BY_SERVER), (15, HERE), (16, BY_SERVER), (16, HERE), (17, BY_SERVER), (17, HERE), (18, BY_SERVER),
    )),
]  # fmt: skip
FIRST_WITH_FILTERS = 15

TABLES = (
    "CREATE TABLE t1(a int, b int, c text, PRIMARY KEY(a,c))",
    "CREATE TABLE t2(d int, e int, f int, PRIMARY KEY(d))",
    "CREATE TABLE t3(g int, h int, i int, PRIMARY KEY(g))",
)
PUBLICATIONS = (
    "CREATE PUBLICATION p1 FOR TABLE t1 WHERE (a > 5 AND c = 'NSW')",
    "CREATE PUBLICATION p2 FOR TABLE t1, t2 WHERE (e = 99)",
    "CREATE PUBLICATION p3 FOR TABLE t2 WHERE (d = 10), t3 WHERE (g = 10)",
)
SHOWN = """\
 Publication p1
 Owner | All tables | Inserts | Updates | Deletes | Truncates | Via root
----------+------------+---------+---------+---------+-----------+----------
 postgres | f | t | t | t | t | f
Tables:
 "public.t1" WHERE ((a > 5) AND (c = 'NSW'::text))

 Publication p2
 Owner | All tables | Inserts | Updates | Deletes | Truncates | Via root
----------+------------+---------+---------+---------+-----------+----------
 postgres | f | t | t | t | t | f
Tables:
 "public.t1"
 "public.t2" WHERE (e = 99)

 Publication p3
 Owner | All tables | Inserts | Updates | Deletes | Truncates | Via root
----------+------------+---------+---------+---------+-----------+----------
 postgres | f | t | t | t | t | f
Tables:
 "public.t2" WHERE (d = 10)
 "public.t3" WHERE (g = 10)

"""
SHOWN_BY_TABLE = {
    "t1": ["\"p1\" WHERE ((a > 5) AND (c = 'NSW'::text))", '"p2"'],
    "t2": ['"p2" WHERE (e = 99)', '"p3" WHERE (d = 10)'],
    "t3": ['"p3" WHERE (g = 10)'],
}
INSERTED = (
    "(2, 102, 'NSW')", "(3, 103, 'QLD')", "(4, 104, 'VIC')", "(5, 105, 'ACT')", "(6, 106, 'NSW')", "(7, 107, 'NT')", "(8, 108, 'QLD')",
    "(9, 109, 'NSW')",
)  # fmt: skip
STEPS = (
    (
        tuple(f"INSERT INTO t1 VALUES {row}" for row in INSERTED),
        "2|102|NSW 3|103|QLD 4|104|VIC 5|105|ACT 6|106|NSW 7|107|NT 8|108|QLD 9|109|NSW",
        "6|106|NSW 9|109|NSW",
    ),
    (
        ("UPDATE t1 SET b = 999 WHERE a = 6",),
        "2|102|NSW 3|103|QLD 4|104|VIC 5|105|ACT 7|107|NT 8|108|QLD 9|109|NSW 6|999|NSW",
        "9|109|NSW 6|999|NSW",
    ),
    (
        ("UPDATE t1 SET a = 555 WHERE a = 2",),
        "3|103|QLD 4|104|VIC 5|105|ACT 7|107|NT 8|108|QLD 9|109|NSW 6|999|NSW 555|102|NSW",
        "9|109|NSW 6|999|NSW 555|102|NSW",
    ),
    (
        ("UPDATE t1 SET c = 'VIC' WHERE a = 9",),
        "3|103|QLD 4|104|VIC 5|105|ACT 7|107|NT 8|108|QLD 6|999|NSW 555|102|NSW 9|109|VIC",
        "6|999|NSW 555|102|NSW",
    ),
)
"""Statements, and t1 after them: on the publisher, on the subscriber, row for row as they lie there."""
KINDS = (["Insert", "Insert"], ["Update"], ["Insert"], ["Delete"])
"""What is sent for each."""

PARTITIONED = ("CREATE TABLE parent(a int PRIMARY KEY) PARTITION BY RANGE(a)", "CREATE TABLE child PARTITION OF parent DEFAULT")
P4_AS_ROOT = "CREATE PUBLICATION p4 FOR TABLE parent WHERE (a < 5), child WHERE (a >= 5) WITH (publish_via_partition_root=true)"
P4_AS_LEAVES = "CREATE PUBLICATION p4 FOR TABLE parent, child WHERE (a >= 5) WITH (publish_via_partition_root=false)"
SPREAD = ("INSERT INTO parent VALUES (2), (4), (6)", "INSERT INTO child VALUES (3), (5), (7)")


@dataclass
class Subscriber:
    """Rows by table and key, in the order in which a heap would have them. Rows of `parent` are those of its one partition."""

    tables: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)

    def rows_of(self, table: str) -> dict[tuple[str, ...], tuple[str, ...]]:
        return self.tables.setdefault({"parent": "child"}.get(table, table), {})

    def selected(self, table: str) -> str:
        return " ".join("|".join(row) for row in self.rows_of(table).values())

    def apply(self, payloads: list[bytes]) -> list[str]:
        """Returns the kinds of the changes."""
        reader, kinds = MessageReader(1, "off"), []
        for payload in payloads:
            message = reader.read(payload)
            if isinstance(message, m.Insert | m.Update | m.Delete):
                self._change(message, reader.flow.relations[message.relation_oid])
                kinds.append(type(message).__name__)
            elif isinstance(message, m.Truncate):
                for oid in message.relation_oids:
                    self.rows_of(reader.flow.relations[oid].name).clear()
                kinds.append("Truncate")
        return kinds

    def _change(self, change: m.Change, relation: m.Relation) -> None:
        rows = self.rows_of(relation.name)
        if not isinstance(change, m.Insert):
            old = change.old or getattr(change, "new")  # noqa: B009 - an UPDATE that leaves the key alone sends no old tuple
            del rows[_key(old, relation)]
        if not isinstance(change, m.Delete):
            assert _key(change.new, relation) not in rows, "duplicate key value violates unique constraint"
            rows[_key(change.new, relation)] = tuple(_text(column) for column in change.new.columns)


def _key(row: m.TupleData, relation: m.Relation) -> tuple[str, ...]:
    return tuple(_text(value) for value, column in zip(row.columns, relation.columns, strict=True) if column.flags)


def _text(column: m.TupleColumn) -> str:
    assert column.value is not None
    return column.value.decode()


@dataclass
class Place:
    """A server, the state location beside it, and where publications are defined."""

    server: Server
    state: Path
    tailrace: Run
    where: str

    @property
    def source(self) -> tuple[object, ...]:
        return self.server.data_dir, "--database", self.server.dbname, "--state", self.state

    def run(self, *words: object) -> str:
        """What a command prints that succeeds."""
        status, out, err = self.tailrace(*words)
        assert status == 0, err
        return out

    def define(self, statement: str) -> None:
        if self.where == BY_SERVER:
            self.server.say(statement)
        else:
            tag = " ".join(statement.split()[:2])
            assert self.run("publication", tag.split()[0].lower(), statement, *self.source) == f"{tag}\n"

    def subscribe(self, name: str, publication: str) -> None:
        """A slot; of the copy that comes with it there is nothing, since the tables are empty."""
        options = ("-o", "proto_version=1", "-o", f"publication_names={publication}")
        self.run("slot", "create", name, *self.source, "--plugin", "pgoutput", *options)

    def get(self, slot: str) -> list[bytes]:
        printed = self.run("slot", "get", slot, "--state", self.state)
        return [bytes.fromhex(line.split("\t")[2].removeprefix("\\x")) for line in printed.splitlines()]

    def copied(self, table: str, publication: str) -> list[tuple[str, ...]]:
        """What an initial copy brings: rows of the table that its filter lets through."""
        shown = json.loads(self.run("publication", "show", *self.source, "--name", publication, "--json"))
        (where,) = [each["where"] for each in shown[0]["tables"] if each["table"] == table]
        return [tuple(map(str, row)) for row in self.server.sql(f"SELECT * FROM {table} WHERE {where or 'true'}")]

    def selected(self, query: str) -> str:
        return " ".join("|".join(map(str, row)) for row in self.server.sql(query))


@pytest.mark.parametrize(("major", "where"), CASES)
def test_examples(major: int, where: str, tailrace: Run, tmp_path: Path) -> None:
    with Server(major, test_decoding=False) as server:
        server.checkpoint()
        place = Place(server, tmp_path / "state", tailrace, where)
        server.say(*TABLES)
        place.subscribe("s1", "p1")
        for statement in PUBLICATIONS:
            place.define(statement)
        _check_shown(place)
        _check_t1(place)
        _check_partitions(place)


def _check_shown(place: Place) -> None:
    """`publication show` prints what `\\dRp+` does: the manual's listing, and psql's of the server at hand, to the last blank. So does `\\d` of a
    table."""
    server = place.server
    shown = place.run("publication", "show", *place.source)
    assert _without_generated_columns(shown) == [_plain(line) for line in SHOWN.splitlines()]
    values = json.loads(place.run("publication", "show", *place.source, "--json"))
    assert {value["defined_here"] for value in values} == {place.where == HERE}
    by_table: dict[str, list[str]] = {}
    for value in values:
        for table in value["tables"]:
            filtered = f" WHERE {table['where']}" if table["where"] else ""
            by_table.setdefault(table["table"], []).append(f'"{value["name"]}"{filtered}')
    assert by_table == SHOWN_BY_TABLE
    if server.major < FIRST_WITH_FILTERS:
        return
    here = [place.run("sql", *place.source, "-c", f"\\d {name}") for name in SHOWN_BY_TABLE]
    if place.where == HERE:
        server.say(*PUBLICATIONS)
    program = [server.bin("psql"), "-X", "-d", server.dsn()]
    psql = subprocess.run([*program, "-c", "\\dRp+"], capture_output=True, text=True, check=True).stdout
    there = [
        subprocess.run([*program, "-c", f"\\d {name}"], capture_output=True, text=True, check=True).stdout
        for name in SHOWN_BY_TABLE
    ]
    if place.where == HERE:
        server.say(*(f"DROP PUBLICATION {name}" for name in ("p1", "p2", "p3")))
    assert shown == psql
    assert here == there


def _plain(line: str) -> str:
    """A line of a listing, whatever its spacing."""
    return " ".join(re.sub(r"-{2,}", "-", line).split())


def _without_generated_columns(shown: str) -> list[str]:
    """The listing as the manual of 15 has it: 18 has one column more."""
    lines = [_plain(line) for line in shown.splitlines()]
    wide = "+".join("-" * 8)
    return [line.replace("Generated columns | ", "").replace("t | none | ", "t | ").replace(wide, wide[2:]) for line in lines]


def _check_t1(place: Place) -> None:
    subscriber = Subscriber()
    for (statements, on_publisher, on_subscriber), kinds in zip(STEPS, KINDS, strict=True):
        place.server.say(*statements)
        assert place.selected("SELECT * FROM t1") == on_publisher
        assert subscriber.apply(place.get("s1")) == kinds
        assert subscriber.selected("t1") == on_subscriber


def _check_partitions(place: Place) -> None:
    """Whose filter counts, that of the root or of the partition, as publish_via_partition_root says."""
    subscriber = Subscriber()
    place.server.say(*PARTITIONED)
    place.define(P4_AS_ROOT)
    place.subscribe("s4", "p4")
    place.server.say(*SPREAD)
    assert place.selected("SELECT * FROM parent ORDER BY a") == "2 3 4 5 6 7"
    subscriber.apply(place.get("s4"))
    assert sorted(subscriber.selected("parent").split()) == ["2", "3", "4"]

    place.define("DROP PUBLICATION p4")
    place.define(P4_AS_LEAVES)
    # ALTER SUBSCRIPTION s4 REFRESH PUBLICATION: child was not subscribed to, and is copied.
    assert sorted(place.copied("child", "p4")) == [("5",), ("6",), ("7",)]
    subscriber.rows_of("child").update((row, row) for row in place.copied("child", "p4"))
    place.server.say("TRUNCATE parent", *SPREAD)
    assert place.selected("SELECT * FROM parent ORDER BY a") == "2 3 4 5 6 7"
    assert subscriber.apply(place.get("s4")) == ["Truncate", "Insert", "Insert", "Insert"]
    assert sorted(subscriber.selected("child").split()) == ["5", "6", "7"]
