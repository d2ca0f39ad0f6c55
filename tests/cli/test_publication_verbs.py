"""`tailrace publication`: the manual's examples of row filters, as psql shows them; errors, moments, JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.command import Run
from support.servers import Server

pytestmark = pytest.mark.postgres
TABLES = (
    "CREATE TABLE t1(a int, b int, c text, PRIMARY KEY(a,c))", "CREATE TABLE t2(d int, e int, f int, PRIMARY KEY(d))",
    "CREATE TABLE t3(g int, h int, i int, PRIMARY KEY(g))", "CREATE TABLE parent(a int PRIMARY KEY) PARTITION BY RANGE(a)",
    "CREATE TABLE child PARTITION OF parent DEFAULT", "CREATE TABLE nokey (a int)",
)  # fmt: skip
STATEMENTS = (
    "CREATE PUBLICATION p1 FOR TABLE t1 WHERE (a > 5 AND c = 'NSW')",
    "p2 FOR TABLE t1, t2 WHERE (e = 99)",
    "p3 FOR TABLE t2 WHERE (d = 10), t3 WHERE (g = 10)",
    "create publication p4 FOR TABLE parent WHERE (a < 5), child WHERE (a >= 5) WITH (publish_via_partition_root=true)",
)
HEAD = """\
                               Publication {name}
  Owner   | All tables | Inserts | Updates | Deletes | Truncates | Via root 
----------+------------+---------+---------+---------+-----------+----------
 postgres | f          | t       | t       | t       | t         | {root}
Tables:
"""  # noqa: W291
SHOWN = "".join(
    HEAD.format(name=name, root=root) + "".join(f"    {line}\n" for line in lines) + "\n"
    for name, root, lines in (
        ("p1", "f", ["\"public.t1\" WHERE ((a > 5) AND (c = 'NSW'::text))"]),
        ("p2", "f", ['"public.t1"', '"public.t2" WHERE (e = 99)']),
        ("p3", "f", ['"public.t2" WHERE (d = 10)', '"public.t3" WHERE (g = 10)']),
        ("p4", "t", ['"public.child" WHERE (a >= 5)', '"public.parent" WHERE (a < 5)']),
    )
)


def test_the_manuals_examples(tailrace: Run, tmp_path: Path) -> None:
    with Server(16) as server:
        server.checkpoint()
        before = server.flush_lsn()
        server.say(*TABLES)
        source = (server.data_dir, "--database", server.dbname, "--state", tmp_path / "state")
        said = [tailrace("publication", "create", statement, *source) for statement in STATEMENTS]
        assert [(status, out) for status, out, _ in said] == [(0, "CREATE PUBLICATION\n")] * 4
        refused = "Column used in the publication WHERE expression is not part of the replica identity."
        assert [err for _, _, err in said] == [
            "", "".join(f'tailrace: warning: cannot {verb} table "t2" ({refused})\n' for verb in ("update", "delete from")), "", "",
        ]  # fmt: skip
        assert tailrace("publication", "show", *source) == (0, SHOWN, "")
        _check_errors(tailrace, source)
        server.sql("CREATE PUBLICATION theirs FOR TABLE t3 (g) WHERE (g < 7) WITH (publish = 'insert')")
        server.flush_lsn()
        status, out, err = tailrace("publication", "create", "p5 FOR ALL TABLES", *source, "--json")
        assert (status, json.loads(out)["publication"]["all_tables"]) == (0, True)
        assert err.count('table "nokey" because it does not have a replica identity') == 2
        assert tailrace("publication", "alter", "p5 RENAME TO p6", *source)[1] == "ALTER PUBLICATION\n"
        listed = tailrace("publication", "ls", *source)[1]
        assert re.findall(r"^ (\w+) ", listed, re.MULTILINE) == ["p1", "p2", "p3", "p4", "p6", "theirs"]
        values = json.loads(tailrace("publication", "show", *source, "--json", "--name", "theirs", "--name", "p6")[1])
        assert [(value["name"], value["defined_here"], value["tables"]) for value in values] == [
            ("p6", True, []),
            ("theirs", False, [{"schema": "public", "table": "t3", "columns": ["g"], "where": "(g < 7)"}]),
        ]
        assert tailrace("publication", "drop", "IF EXISTS p6, p7", *source) == (
            0, "DROP PUBLICATION\n", 'NOTICE:  publication "p7" does not exist, skipping\n',
        )  # fmt: skip
        assert "(5 rows)" in tailrace("publication", "ls", *source)[1]
        assert "(0 rows)" in tailrace("publication", "ls", *source, "--at", before)[1]


def _check_errors(tailrace: Run, source: tuple[object, ...]) -> None:
    for verb, statement, error in (
        ("create", "p1 FOR TABLE t1", 'publication "p1" already exists'),
        ("create", "p5 FOR ALL TABLES WHERE (a > 5)", 'syntax error at or near "WHERE"'),
        ("create", "p5 FOR ALL TABLES IN SCHEMA public", 'syntax error at or near "IN"'),
        (
            "create",
            "p5 FOR TABLE t1 WHERE (random() < a)",
            "invalid publication WHERE expression\nDETAIL:  User-defined or built-in mutable",
        ),
        ("create", "ALTER PUBLICATION p1 RENAME TO p5", "this is ALTER PUBLICATION, not CREATE PUBLICATION"),
        ("alter", "p9 ADD TABLE t1", 'publication "p9" does not exist'),
        ("alter", "p1 ADD TABLE t1", 'relation "t1" is already member of publication "p1"'),
        ("drop", "p1, p9", 'publication "p9" does not exist'),
        ("create", "p5 FOR TABLE t1; DROP TABLE t1", "one statement is expected, not 2"),
    ):
        status, out, err = tailrace("publication", verb, statement, *source)
        assert (status, out) == (1, "")
        assert err.startswith(f"tailrace: error: {error}"), err
    assert tailrace("publication", "show", *source, "--name", "p9") == (
        1,
        "",
        'tailrace: error: publication "p9" does not exist\n',
    )
    assert tailrace("publication", "alter", "p1 SET (publish = '')", *source, "--at", "0/1")[0] == 1
