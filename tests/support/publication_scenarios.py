"""What publications can say of tables, in SQL: every rule that pgoutput follows when it chooses changes, columns and tables."""

from __future__ import annotations

from support.publications import Scenario

KEYED = "CREATE TABLE x (id int PRIMARY KEY, v text)"
PARTITIONED = (
    "CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE p2 (v int, id int NOT NULL)",
    "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)",
)
DEEP = (
    *PARTITIONED,
    "CREATE TABLE p3 (dropped text, v int, id int NOT NULL) PARTITION BY RANGE (id)",
    "ALTER TABLE p3 DROP COLUMN dropped",
    "CREATE TABLE p31 PARTITION OF p3 FOR VALUES FROM (20) TO (25)",
    "ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30)",
)
WORK = ("INSERT INTO x VALUES (1, 'a'), (10, 'b')", "UPDATE x SET v = 'c' WHERE id = 1", "UPDATE x SET id = 11 WHERE id = 10",
        "DELETE FROM x WHERE id = 1", "TRUNCATE x")  # fmt: skip
SPREAD = (
    "INSERT INTO p VALUES (1, 1), (2, 2), (11, 3), (12, 4)", "UPDATE p SET v = 9", "UPDATE p SET id = 3 WHERE id = 2",
    "UPDATE p SET id = 14 WHERE id = 12", "UPDATE p SET id = 4 WHERE id = 14", "DELETE FROM p WHERE id = 4", "TRUNCATE p1", "TRUNCATE p",
)  # fmt: skip
DEEPER = (
    *SPREAD,
    "INSERT INTO p VALUES (21, 1)",
    "INSERT INTO p31 VALUES (2, 22)",
    "UPDATE p SET id = 1 WHERE id = 21",
    "TRUNCATE p3",
)
ROOT = "WITH (publish_via_partition_root = true)"

WITHOUT_FILTERS = (
    Scenario("all tables", (KEYED, "CREATE PUBLICATION w1 FOR ALL TABLES"), WORK, ("w1",)),
    Scenario("one table of two", (KEYED, "CREATE TABLE y (a int)", "CREATE PUBLICATION w1 FOR TABLE x"),
             (*WORK, "INSERT INTO y VALUES (1)", "TRUNCATE x, y"), ("w1",)),
    Scenario("schema", (KEYED, "CREATE SCHEMA sc2", "CREATE TABLE sc2.y (a int)", "CREATE PUBLICATION w1 FOR TABLES IN SCHEMA sc"),
             (*WORK, "INSERT INTO sc2.y VALUES (1)", "ALTER TABLE sc2.y SET SCHEMA sc", "INSERT INTO y VALUES (2)",
              ("ALTER TABLE y SET SCHEMA sc2", "INSERT INTO sc2.y VALUES (3)"), "INSERT INTO sc2.y VALUES (4)"), ("w1",), 15),
    *(Scenario(f"publish {actions}", (KEYED, f"CREATE PUBLICATION w1 FOR TABLE x WITH (publish = '{actions}')"), WORK, ("w1",))
      for actions in ("insert", "update", "delete", "truncate", "insert, delete", "")),
    Scenario("two publications, actions of both", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x WITH (publish = 'insert')",
             "CREATE PUBLICATION w2 FOR ALL TABLES WITH (publish = 'delete')"), WORK, ("w1", "w2")),
    Scenario("missing publication", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x"), WORK, ("nope", "w1")),
    Scenario("made in the midst", (KEYED,), ("INSERT INTO x VALUES (1)", "CREATE PUBLICATION w1 FOR ALL TABLES", "INSERT INTO x VALUES (2)",
             ("INSERT INTO x VALUES (3)", "ALTER PUBLICATION w1 SET (publish = 'delete')", "INSERT INTO x VALUES (4)",
              "DELETE FROM x WHERE id = 1"), "INSERT INTO x VALUES (5)", "DELETE FROM x WHERE id = 2"), ("w1",), 18),
    Scenario("members come and go", (KEYED, "CREATE TABLE y (a int PRIMARY KEY)", "CREATE PUBLICATION w1 FOR TABLE x"),
             ("INSERT INTO x VALUES (1)", "INSERT INTO y VALUES (1)", "ALTER PUBLICATION w1 ADD TABLE y", "INSERT INTO y VALUES (2)",
              ("ALTER PUBLICATION w1 SET TABLE y", "INSERT INTO x VALUES (2)", "INSERT INTO y VALUES (3)",
               "ALTER PUBLICATION w1 SET TABLE x", "INSERT INTO x VALUES (3)", "INSERT INTO y VALUES (4)"),
              ("SAVEPOINT a", "ALTER PUBLICATION w1 ADD TABLE y", "INSERT INTO y VALUES (5)", "ROLLBACK TO a", "INSERT INTO y VALUES (6)",
               "INSERT INTO x VALUES (4)"),
              "ALTER TABLE x RENAME TO z", "INSERT INTO z VALUES (5)"), ("w1",)),
    Scenario("renamed publication", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x WITH (publish = 'insert')", "CREATE PUBLICATION w2 FOR TABLE x"),
             ("INSERT INTO x VALUES (1)", ("ALTER PUBLICATION w1 RENAME TO w3", "ALTER PUBLICATION w2 RENAME TO w1", "DELETE FROM x"),
              "INSERT INTO x VALUES (2)", "DELETE FROM x"), ("w1",)),
    Scenario("what cannot be published", (KEYED, "CREATE UNLOGGED TABLE u (a int)", "CREATE TABLE b (a int PRIMARY KEY)",
             "CREATE PUBLICATION w1 FOR ALL TABLES"), ("INSERT INTO u VALUES (1)", "CREATE MATERIALIZED VIEW m AS SELECT 1 AS a",
             "REFRESH MATERIALIZED VIEW m", "CREATE SEQUENCE q", "SELECT nextval('q')", "INSERT INTO b VALUES (1)", "TRUNCATE u, b"), ("w1",)),
    Scenario("identity nothing", ("CREATE TABLE x (id int, v text)", "ALTER TABLE x REPLICA IDENTITY NOTHING",
             "CREATE PUBLICATION w1 FOR TABLE x WITH (publish = 'insert, truncate')"), WORK, ("w1",)),
    Scenario("identity full", (KEYED, "ALTER TABLE x REPLICA IDENTITY FULL", "CREATE PUBLICATION w1 FOR TABLE x"), WORK, ("w1",)),
    Scenario("cascade", ("CREATE TABLE x (id int PRIMARY KEY)", "CREATE TABLE y (id int PRIMARY KEY, x int REFERENCES x)",
             "CREATE PUBLICATION w1 FOR TABLE x, y"), ("INSERT INTO x VALUES (1)", "TRUNCATE x CASCADE", "TRUNCATE x, y RESTART IDENTITY"), ("w1",)),
    # Partitions
    *(Scenario(f"partitions, {what}{' as the root' if root else ''}", (*DEEP, f"CREATE PUBLICATION w1 FOR {what} {root}"), DEEPER, ("w1",),
               15 if "SCHEMA" in what else 14)
      for what in ("TABLE p", "TABLE p1, p3", "TABLE p31", "TABLE p, p3", "ALL TABLES", "TABLES IN SCHEMA sc") for root in ("", ROOT)),
    Scenario("partition, and the root in another", (*PARTITIONED, "CREATE PUBLICATION w1 FOR TABLE p1", f"CREATE PUBLICATION w2 FOR TABLE p {ROOT}"),
             SPREAD, ("w1", "w2")),
    Scenario("middle and root, both as roots", (*DEEP, f"CREATE PUBLICATION w1 FOR TABLE p3 {ROOT}", f"CREATE PUBLICATION w2 FOR TABLE p {ROOT[:-1]}, publish = 'insert')"),  # noqa: E501
             DEEPER, ("w1", "w2")),
    Scenario("middle in another, actions of both", (*DEEP, f"CREATE PUBLICATION w1 FOR TABLE p {ROOT[:-1]}, publish = 'insert')", f"CREATE PUBLICATION w2 FOR TABLE p3 {ROOT[:-1]}, publish = 'update')"),  # noqa: E501
             DEEPER, ("w2", "w1")),
    Scenario("partitions come and go", (*PARTITIONED, f"CREATE PUBLICATION w1 FOR TABLE p {ROOT}"), (
             *SPREAD[:2], "ALTER TABLE p DETACH PARTITION p2", "INSERT INTO p2 VALUES (1, 15)",
             ("INSERT INTO p2 VALUES (1, 16)", "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)", "INSERT INTO p2 VALUES (1, 17)"),
             "INSERT INTO p2 VALUES (1, 18)", "ALTER TABLE p ADD COLUMN w text DEFAULT 'w'", "INSERT INTO p VALUES (3, 3), (19, 4)",
             "ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY", "INSERT INTO p1 VALUES (5, 3)"), ("w1",), 15),
    Scenario("partition in another schema", ("CREATE SCHEMA sc2", *PARTITIONED, "ALTER TABLE p1 SET SCHEMA sc2",
             f"CREATE PUBLICATION w1 FOR TABLES IN SCHEMA sc2 {ROOT}", f"CREATE PUBLICATION w2 FOR TABLES IN SCHEMA sc {ROOT}"),
             SPREAD[:4], ("w1",), 15),
    Scenario("root in another schema", ("CREATE SCHEMA sc2", *PARTITIONED, "ALTER TABLE p1 SET SCHEMA sc2",
             f"CREATE PUBLICATION w1 FOR TABLES IN SCHEMA sc2 {ROOT}", f"CREATE PUBLICATION w2 FOR TABLES IN SCHEMA sc {ROOT}"),
             SPREAD[:4], ("w1", "w2"), 15),
    # Column lists
    *(Scenario(f"columns {lists}", ("CREATE TABLE x (id int PRIMARY KEY, a int, b int)",
               *(f"CREATE PUBLICATION w{i} FOR TABLE x {columns}" for i, columns in enumerate(lists))),
               ("INSERT INTO x VALUES (1, 2, 3)", "UPDATE x SET a = 9", "UPDATE x SET b = 9", "UPDATE x SET id = 2", "DELETE FROM x"),
               tuple(f"w{i}" for i in range(len(lists))), 15)
      for lists in (("(id, b)",), ("(b, a, id)",), ("(id, a)", "(id, b)"), ("(id, a)", ""), ("(b, a, id)", ""), ("(id, a)", "(a, id)"))),
    Scenario("columns, and all tables", ("CREATE TABLE x (id int PRIMARY KEY, a int)", "CREATE PUBLICATION w1 FOR TABLE x (id)",
             "CREATE PUBLICATION w2 FOR ALL TABLES WITH (publish = 'truncate')"), ("INSERT INTO x VALUES (1, 2)",), ("w1", "w2"), 15),
    *(Scenario(f"all columns that are there, {what}", (f"CREATE TABLE x (id int PRIMARY KEY, a int, {column})", *altered,
               "CREATE PUBLICATION w1 FOR TABLE x (id, a)", "CREATE PUBLICATION w2 FOR TABLE x"),
               ("INSERT INTO x VALUES (1, 2)", "DELETE FROM x"), ("w1", "w2"), 15)
      for what, column, altered in (("one is dropped", "b int", ("ALTER TABLE x DROP b",)),
                                    ("one is generated", "b int GENERATED ALWAYS AS (a) STORED", ()))),
    Scenario("all columns until one comes, or goes", ("CREATE TABLE x (id int PRIMARY KEY, a int)", "CREATE PUBLICATION w1 FOR TABLE x (id, a)",
             "CREATE PUBLICATION w2 FOR TABLE x"), ("INSERT INTO x VALUES (1, 2)", ("ALTER TABLE x ADD b int", "ALTER TABLE x DROP b"),
             "INSERT INTO x VALUES (2, 3)"), ("w1", "w2"), 15),
    *(Scenario(f"different columns, {actions} for {work[0]}", ("CREATE TABLE x (id int PRIMARY KEY, a int)",
               f"CREATE PUBLICATION w1 FOR TABLE x (id) WITH (publish = '{actions[0]}')",
               f"CREATE PUBLICATION w2 FOR {what} WITH (publish = '{actions[1]}')"),
               work, ("w1", "w2"), 15)
      for what in ("TABLE x", "ALL TABLES")
      for actions in (("truncate", "truncate"), ("", "insert"))
      for work in (("INSERT INTO x VALUES (1, 2)",), ("TRUNCATE x",))),
    *(Scenario(f"different columns of {what}, {actions}, roots {roots}", (*PARTITIONED,
               *(f"CREATE PUBLICATION w{i} FOR {each} WITH (publish = '{publish}', publish_via_partition_root = {root})"
                 for i, (each, publish, root) in enumerate(zip(what, actions, roots, strict=True)))), (*SPREAD[:2], "TRUNCATE p1"), ("w0", "w1"), 15)
      for roots in (("true", "true"), ("false", "true"))
      for what in (("TABLE p1 (id)", "TABLE p"), ("TABLE p1 (id)", "TABLE p1"))
      for actions in (("truncate", "truncate"), ("insert", "truncate"))),
    Scenario("columns of the root", (*PARTITIONED, f"CREATE PUBLICATION w1 FOR TABLE p (id) {ROOT}"), SPREAD, ("w1",), 15),
    Scenario("columns of a partition", (*PARTITIONED, "CREATE PUBLICATION w1 FOR TABLE p2 (id), p1"), SPREAD, ("w1",), 15),
    Scenario("columns of a dropped neighbour", ("CREATE TABLE x (id int PRIMARY KEY, gone int, a int, b int)", "ALTER TABLE x DROP COLUMN gone",
             "CREATE PUBLICATION w1 FOR TABLE x (id, b)"), ("INSERT INTO x VALUES (1, 2, 3)", "ALTER TABLE x RENAME b TO c",
             "UPDATE x SET c = 4", "ALTER TABLE x ADD COLUMN d int", "UPDATE x SET c = 5"), ("w1",), 15),
    # Generated columns
    Scenario("generated columns", ("CREATE TABLE x (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED, a int)",
             "CREATE PUBLICATION w1 FOR TABLE x"), ("INSERT INTO x VALUES (1)", "UPDATE x SET id = 2", "DELETE FROM x"), ("w1",)),
    *(Scenario(f"generated columns {what}", ("CREATE TABLE x (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED, h int GENERATED ALWAYS AS (id * 3) VIRTUAL)",  # noqa: E501
               *(f"CREATE PUBLICATION w{i} FOR {each}" for i, each in enumerate(what))),
               ("INSERT INTO x VALUES (1)", "UPDATE x SET id = 2", "DELETE FROM x"), tuple(f"w{i}" for i in range(len(what))), 18)
      for stored in ("WITH (publish_generated_columns = stored)",)
      for what in ((f"TABLE x {stored}",), ("TABLE x (id, g)",), ("TABLE x (id)",), (f"TABLE x {stored}", "TABLE x"),
                   (f"TABLE x {stored}", "TABLE x (id, g)"), ("TABLE x", "TABLE x (id)"), (f"ALL TABLES {stored}", f"TABLE x {stored}"))),
)  # fmt: skip

CHAIN = (*WORK, "INSERT INTO x VALUES (1, 'a'), (5, 'm'), (9, 'z')", "UPDATE x SET id = 8 WHERE id = 1", "UPDATE x SET id = 6 WHERE id = 8",
         "UPDATE x SET v = NULL WHERE id = 9", "UPDATE x SET id = id + 10", "UPDATE x SET id = 3 WHERE id = 16", "DELETE FROM x")  # fmt: skip
BIG = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)"
TOAST = (f"INSERT INTO x SELECT 1, 1, {BIG}", "UPDATE x SET a = 10 WHERE id = 1", "UPDATE x SET a = 11 WHERE id = 1",
         "UPDATE x SET a = 2 WHERE id = 1", "UPDATE x SET id = 7 WHERE id = 1", "UPDATE x SET id = 2", "UPDATE x SET id = 9, big = 'short'")  # fmt: skip  # noqa: E501
HEAVY = "CREATE TABLE x (id int PRIMARY KEY, a int, big text)"
EXTERNAL = "ALTER TABLE x ALTER big SET STORAGE EXTERNAL"

WITH_FILTERS = (
    Scenario("on the key", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x WHERE (id > 5)"), CHAIN, ("w1",), 15),
    Scenario("NULL", (KEYED, "ALTER TABLE x REPLICA IDENTITY FULL", "CREATE PUBLICATION w1 FOR TABLE x WHERE (v IS NOT NULL)"), CHAIN, ("w1",), 15),
    *(Scenario(f"two filters {publish}", (KEYED, f"CREATE PUBLICATION w1 FOR TABLE x WHERE (id < 3) {publish[0]}",
               f"CREATE PUBLICATION w2 FOR TABLE x {publish[1]}"), CHAIN, ("w1", "w2"), 15)
      for publish in (("", "WHERE (id > 7)"), ("WITH (publish = 'insert')", "WHERE (id > 7) WITH (publish = 'update, delete')"),
                      ("", "WITH (publish = 'update')"), ("", "WITH (publish = 'insert, delete')"), ("WITH (publish = 'insert, update')", ""),
                      ("", "WHERE (id > 7 AND id <> 9) WITH (publish = 'update')"))),
    Scenario("all tables, too", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x WHERE (id < 3)", "CREATE PUBLICATION w2 FOR ALL TABLES"),
             CHAIN, ("w1", "w2"), 15),
    Scenario("its schema, too", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x WHERE (id < 3)", "CREATE PUBLICATION w2 FOR TABLES IN SCHEMA sc"),
             CHAIN, ("w1", "w2"), 15),
    Scenario("its schema in the same", (KEYED, "CREATE PUBLICATION w1 FOR TABLES IN SCHEMA sc, TABLE x WHERE (id < 3)"), CHAIN, ("w1",), 15),
    Scenario("same columns, other filters", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x (id) WHERE (id < 3)",
             "CREATE PUBLICATION w2 FOR TABLE x (id) WHERE (id > 7)"), CHAIN, ("w1", "w2"), 15),
    *(Scenario(f"TOAST, identity {identity}", (HEAVY, EXTERNAL, *altered, f"CREATE PUBLICATION w1 FOR TABLE x WHERE ({condition})"), TOAST, ("w1",), 15)  # noqa: E501
      for identity, altered, condition in (
          ("full", ("ALTER TABLE x REPLICA IDENTITY FULL",), "a > 5"),
          ("full of the value", ("ALTER TABLE x REPLICA IDENTITY FULL",), "a > 5 AND big IS NOT NULL"),
          ("default", (), "id > 5"),
          ("of the value", ("ALTER TABLE x ALTER big SET NOT NULL", "CREATE UNIQUE INDEX xi ON x (id, a)", "ALTER TABLE x ALTER a SET NOT NULL",
                            "ALTER TABLE x REPLICA IDENTITY USING INDEX xi"), "id > 5 AND a > 1"))),
    Scenario("root, and an ignored filter of a partition", (*PARTITIONED, f"CREATE PUBLICATION w1 FOR TABLE p WHERE (id % 2 = 0), p1 WHERE (id > 100) {ROOT}"),  # noqa: E501
             SPREAD, ("w1",), 15),
    Scenario("partitions by themselves", (*PARTITIONED, "CREATE PUBLICATION w1 FOR TABLE p, p1 WHERE (id > 2)"), SPREAD, ("w1",), 15),
    Scenario("partition in one, root in another", (*PARTITIONED, "CREATE PUBLICATION w1 FOR TABLE p1 WHERE (id > 5)",
             f"CREATE PUBLICATION w2 FOR TABLE p {ROOT}"), SPREAD, ("w1", "w2"), 15),
    Scenario("columns and filter of the root", (*DEEP, f"CREATE PUBLICATION w1 FOR TABLE p (id) WHERE (id % 2 = 0) {ROOT}"), DEEPER, ("w1",), 15),
    Scenario("filter changes", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x WHERE (id > 5)"), (
             "INSERT INTO x VALUES (1), (6)", "ALTER PUBLICATION w1 SET TABLE x WHERE (id < 5)", "INSERT INTO x VALUES (2), (7)",
             ("ALTER PUBLICATION w1 SET TABLE x", "INSERT INTO x VALUES (3), (8)", "ALTER PUBLICATION w1 SET TABLE x WHERE (id = 4)",
              "INSERT INTO x VALUES (4), (9)"), "DELETE FROM x"), ("w1",), 15),
    *(Scenario(f"{count} conditions", (KEYED, f"CREATE PUBLICATION w1 FOR TABLE x WHERE ({many[0]})"), (
               "INSERT INTO x SELECT i FROM generate_series(1, 40) i", f"ALTER PUBLICATION w1 SET TABLE x WHERE ({many[1]})",
               "VACUUM FULL pg_publication_rel", "DELETE FROM x WHERE id < 9",
               (f"ALTER PUBLICATION w1 SET TABLE x WHERE ({many[2]})", "INSERT INTO x VALUES (1), (2), (3), (4), (5), (6), (7)",
                "SAVEPOINT a", f"ALTER PUBLICATION w1 SET TABLE x WHERE ({many[1]})", "DELETE FROM x WHERE id > 20", "ROLLBACK TO a",
                "DELETE FROM x WHERE id > 30"),
               "VACUUM pg_publication_rel", "INSERT INTO x SELECT i FROM generate_series(50, 99) i"), ("w1",), 15)
      for count in (80, 400)  # compressed, and out of line
      for many in [[" OR ".join(f"id = {i * step % 9973}" for i in range(count)) for step in (3, 4, 5)]]),
    Scenario("column is renamed", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x WHERE (id > 5)"), (
             "INSERT INTO x VALUES (1), (6)", "ALTER TABLE x RENAME id TO key", "ALTER TABLE x ADD COLUMN id int", "INSERT INTO x VALUES (2), (7)"),
             ("w1",), 15),
    # What the documentation of row filters does (p4, with its publish_via_partition_root both ways)
    *(Scenario(f"p4 {root}", ("CREATE TABLE parent (a int PRIMARY KEY) PARTITION BY RANGE (a)", "CREATE TABLE child PARTITION OF parent DEFAULT",
               f"CREATE PUBLICATION p4 FOR TABLE parent {where}, child WHERE (a >= 5) WITH (publish_via_partition_root = {root})"),
               ("INSERT INTO parent VALUES (2), (4), (6)", "INSERT INTO child VALUES (3), (5), (7)", "TRUNCATE parent"), ("p4",), 15)
      for root, where in (("true", "WHERE (a < 5)"), ("false", ""))),
)  # fmt: skip
