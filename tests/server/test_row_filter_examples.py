"""The worked examples of PostgreSQL's chapter on row filters (seed 002), with a real subscriber of tailrace: what is printed there is what comes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.builds import find_build
from support.served import Served
from support.servers import Server
from support.waiting import until

pytestmark = pytest.mark.postgres
MAJOR = 16
"""Whose psql prints the columns of the chapter."""
T1 = "CREATE TABLE t1(a int, b int, c text, PRIMARY KEY(a,c))"
PARTITIONED = ("CREATE TABLE parent(a int PRIMARY KEY) PARTITION BY RANGE(a)", "CREATE TABLE child PARTITION OF parent DEFAULT")
PUBLISHED = (
    T1, "CREATE TABLE t2(d int, e int, f int, PRIMARY KEY(d))", "CREATE TABLE t3(g int, h int, i int, PRIMARY KEY(g))",
    "CREATE PUBLICATION p1 FOR TABLE t1 WHERE (a > 5 AND c = 'NSW')", "CREATE PUBLICATION p2 FOR TABLE t1, t2 WHERE (e = 99)",
    "CREATE PUBLICATION p3 FOR TABLE t2 WHERE (d = 10), t3 WHERE (g = 10)",
)  # fmt: skip
HEADER = """
Owner | All tables | Inserts | Updates | Deletes | Truncates | Via root
----------+------------+---------+---------+---------+-----------+----------
postgres | f | t | t | t | t | f
Tables:
"""
LISTINGS = {
    r"\dRp+": f"""
Publication p1{HEADER}"public.t1" WHERE ((a > 5) AND (c = 'NSW'::text))
Publication p2{HEADER}"public.t1"
"public.t2" WHERE (e = 99)
Publication p3{HEADER}"public.t2" WHERE (d = 10)
"public.t3" WHERE (g = 10)
""",
    r"\d t1": """
Table "public.t1"
Column | Type | Collation | Nullable | Default
--------+---------+-----------+----------+---------
a | integer | | not null |
b | integer | | |
c | text | | not null |
Indexes:
"t1_pkey" PRIMARY KEY, btree (a, c)
Publications:
"p1" WHERE ((a > 5) AND (c = 'NSW'::text))
"p2"
""",
    r"\d t2": """
Table "public.t2"
Column | Type | Collation | Nullable | Default
--------+---------+-----------+----------+---------
d | integer | | not null |
e | integer | | |
f | integer | | |
Indexes:
"t2_pkey" PRIMARY KEY, btree (d)
Publications:
"p2" WHERE (e = 99)
"p3" WHERE (d = 10)
""",
    r"\d t3": """
Table "public.t3"
Column | Type | Collation | Nullable | Default
--------+---------+-----------+----------+---------
g | integer | | not null |
h | integer | | |
i | integer | | |
Indexes:
"t3_pkey" PRIMARY KEY, btree (g)
Publications:
"p3" WHERE (g = 10)
""",
}
STATES = ("NSW", "QLD", "VIC", "ACT", "NSW", "NT", "QLD", "NSW")
ROWS = tuple(f"INSERT INTO t1 VALUES ({a}, {100 + a}, '{c}')" for a, c in enumerate(STATES, 2))
UPDATES = (
    ("UPDATE t1 SET b = 999 WHERE a = 6", [(9, 109, "NSW"), (6, 999, "NSW")]),
    ("UPDATE t1 SET a = 555 WHERE a = 2", [(9, 109, "NSW"), (6, 999, "NSW"), (555, 102, "NSW")]),
    ("UPDATE t1 SET c = 'VIC' WHERE a = 9", [(6, 999, "NSW"), (555, 102, "NSW")]),
)
"""Of rows that match before and after, only after, only before; and what the subscriber has then, in the order in which it prints it."""
INTO_PARTITIONS = ("INSERT INTO parent VALUES (2), (4), (6)", "INSERT INTO child VALUES (3), (5), (7)")


def _listed(served: Served, command: str) -> list[str]:
    """What psql prints, but for how wide it is."""
    said = subprocess.run(
        [find_build(MAJOR).bin("psql"), "-X", served.dsn(), "-c", command], check=True, capture_output=True, text=True
    )
    return _squeezed(said.stdout)


def _squeezed(text: str) -> list[str]:
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return ["-" if set(line) <= set("-+") else line for line in lines]


def test_as_printed(tmp_path: Path) -> None:
    settings = {"wal_retrieve_retry_interval": "200ms"}
    with Server(MAJOR, {"wal_keep_size": "500MB"}, dbname="postgres") as source, Server(MAJOR, settings) as there:
        source.say(*PUBLISHED)
        with Served(source.dsn(), tmp_path / "state") as served:
            for command, printed in LISTINGS.items():
                assert _listed(served, command) == _squeezed(printed)
            there.say(T1, f"CREATE SUBSCRIPTION s1 CONNECTION '{served.dsn(application_name='s1')}' PUBLICATION p1")
            source.say(*ROWS)
            until(lambda: there.sql("SELECT * FROM t1") == [(6, 106, "NSW"), (9, 109, "NSW")])
            for statement, expected in UPDATES:
                source.say(statement)
                until(lambda: there.sql("SELECT * FROM t1") == expected)  # noqa: B023
            _partitions(source, there, served)
            there.say("DROP SUBSCRIPTION s1", "DROP SUBSCRIPTION s4")


def _partitions(source: Server, there: Server, served: Served) -> None:
    for side in (source, there):
        side.say(*PARTITIONED)
    source.say(
        "CREATE PUBLICATION p4 FOR TABLE parent WHERE (a < 5), child WHERE (a >= 5) WITH (publish_via_partition_root=true)"
    )
    there.say(f"CREATE SUBSCRIPTION s4 CONNECTION '{served.dsn(application_name='s4')}' PUBLICATION p4")
    source.say(*INTO_PARTITIONS)
    until(lambda: there.sql("SELECT * FROM parent ORDER BY a") == [(2,), (3,), (4,)])
    source.say(
        "DROP PUBLICATION p4",
        "CREATE PUBLICATION p4 FOR TABLE parent, child WHERE (a >= 5) WITH (publish_via_partition_root=false)",
    )
    there.say("ALTER SUBSCRIPTION s4 REFRESH PUBLICATION")
    until(lambda: there.sql("SELECT srsubstate::text FROM pg_subscription_rel WHERE srrelid = 'child'::regclass") == [("r",)])
    source.say("TRUNCATE parent", *INTO_PARTITIONS)
    until(lambda: there.sql("SELECT * FROM child ORDER BY a") == [(5,), (6,), (7,)])
