"""A table of the lake is the relation with its oid, whatever either is called: through DROP, CREATE, RENAME and odd names, in one go and in steps;
and one table's trouble is its own."""

from __future__ import annotations

import warnings

import pytest
from deltalake import DeltaTable

from support.servers import Server
from tailrace.errors import TailraceError
from tailrace.lake.changelog import append_changes
from tailrace.lake.folders import folder_name
from tailrace.lake.mirror import mirror
from tailrace.lake.reading import read_table
from tailrace.lake.target_tables import TroubleWarning
from tailrace.model import Lsn
from tailrace.pipeline import open_pipeline

pytestmark = pytest.mark.postgres


@pytest.fixture
def server():
    """One cluster each: ranges begin with it."""
    with Server(18, test_decoding=False) as running:
        yield running


def _oid(server, name):
    return server.value("SELECT %s::regclass::oid", [name])


def _pipeline(server, **options):
    return open_pipeline(server.data_dir, "postgres", **options)


def _ids(folder):
    return sorted(row["id"] for row in read_table(folder).to_pylist())


def _logged(folder):
    return sorted((row["kind"], (row["new"] or row["old"])["id"]) for row in read_table(folder).to_pylist())


def _troubles(found):
    return {each.table: each.trouble for each in found if each.trouble is not None}


def test_a_table_dropped_within_the_range_keeps_its_changes(server, tmp_path):
    server.say("CREATE TABLE gone (id int PRIMARY KEY)", "INSERT INTO gone VALUES (1), (2)", "DELETE FROM gone WHERE id = 1")
    server.say("DROP TABLE gone", "CREATE TABLE gone (id int PRIMARY KEY, other text)", "INSERT INTO gone VALUES (7)")
    server.say("BEGIN; CREATE TABLE brief (id int PRIMARY KEY); INSERT INTO brief VALUES (1); DROP TABLE brief; COMMIT")
    oid = _oid(server, "gone")
    done = append_changes(_pipeline(server), tmp_path)
    assert [(each.table, each.rows, each.dropped is None) for each in done] == [
        ("public.brief", 1, False),
        ("public.gone", 3, False),
        ("public.gone", 1, True),
    ]
    assert _logged(tmp_path / "public.gone") == [("insert", 7)]
    (old,) = (path for path in tmp_path.glob("public.gone.*") if path.name != f"public.gone.{oid}")
    assert _logged(old) == [("delete", 1), ("insert", 1), ("insert", 2)]
    assert _logged(tmp_path / "public.brief") == [("insert", 1)]


@pytest.mark.parametrize("and_more", ["", "INSERT INTO t VALUES (4, 4);"], ids=["alone", "with a row"])
def test_retyped_and_dropped_by_one_transaction(and_more, server, tmp_path):
    """What nobody else ever saw of the table troubles nobody: it keeps what it held before."""
    server.say("CREATE TABLE t (id int PRIMARY KEY, v numeric(8, 2))", "INSERT INTO t VALUES (1, 1.5), (2, 2)")
    mirror(_pipeline(server), tmp_path, numeric="text")
    server.say("INSERT INTO t VALUES (3, 3)", f"BEGIN; ALTER TABLE t ALTER v TYPE int USING 0; {and_more} DROP TABLE t; COMMIT")
    (done,) = mirror(_pipeline(server), tmp_path, numeric="text")
    assert (done.trouble, done.dropped is not None) == (None, True)
    assert _ids(done.path) == [1, 2, 3]


def test_dropped_and_created_again_in_steps(server, tmp_path):
    lake, log = tmp_path / "lake", tmp_path / "log"
    oids, rows = [], 0
    for number in range(3):
        server.say(f"CREATE TABLE t (id int PRIMARY KEY, c{number} int)", f"INSERT INTO t VALUES ({number}), (100)")
        oids.append(_oid(server, "t"))
        for _ in range(2):
            mirror(_pipeline(server), lake)
            append_changes(_pipeline(server), log)
        assert _ids(lake / "public.t") == [number, 100]
        assert _logged(log / "public.t") == [("insert", number), ("insert", 100)]
        server.say(f"INSERT INTO t VALUES ({number} + 10)", "DROP TABLE t")
        if number == 1:  # the drop has a step of its own
            (done,) = mirror(_pipeline(server), lake)
            assert (done.table, done.dropped is not None) == ("public.t", True)
            assert _ids(lake / "public.t") == [number, number + 10, 100]
            append_changes(_pipeline(server), log)
            assert mirror(_pipeline(server), lake) == append_changes(_pipeline(server), log) == []
    for _ in range(2):
        mirror(_pipeline(server), lake)
        append_changes(_pipeline(server), log)
    for number, oid in enumerate(oids):
        name = "public.t" if number == 2 else f"public.t.{oid}"
        assert _ids(lake / name) == sorted([number, number + 10, 100])
        rows += len(_logged(log / name))
    assert rows == 9
    assert len(list(lake.iterdir())) == len(list(log.iterdir())) == 3


def test_names_that_change_hands(server, tmp_path):
    server.say(*(f"CREATE TABLE {name} (id int PRIMARY KEY); INSERT INTO {name} VALUES ({n})" for n, name in enumerate("abc")))
    mirror(_pipeline(server), tmp_path)
    server.say("ALTER TABLE a RENAME TO x", "ALTER TABLE b RENAME TO a", "ALTER TABLE c RENAME TO b", "ALTER TABLE x RENAME TO c")
    server.say("INSERT INTO c VALUES (10)", "CREATE SCHEMA s", "ALTER TABLE b SET SCHEMA s")
    found = mirror(_pipeline(server), tmp_path)
    assert {each.table: _ids(each.path) for each in found} == {"public.a": [1], "public.c": [0, 10], "s.b": [2]}
    assert {path.name for path in tmp_path.iterdir()} == {"public.a", "public.c", "s.b"}


def test_a_killed_move_is_finished(server, tmp_path):
    server.say(*(f"CREATE TABLE {name} (id int PRIMARY KEY); INSERT INTO {name} VALUES ({n})" for n, name in enumerate("ab")))
    mirror(_pipeline(server), tmp_path)
    server.say("ALTER TABLE a RENAME TO x", "ALTER TABLE b RENAME TO a", "ALTER TABLE x RENAME TO b")
    (tmp_path / "public.b").rename(tmp_path / f"_moving.{_oid(server, 'a')}")
    mirror(_pipeline(server), tmp_path)
    assert {path.name: _ids(path) for path in tmp_path.iterdir()} == {"public.a": [1], "public.b": [0]}


ODD = ("x/y", "x_y", "x-y", "X_Y", "q.r", "a\\b", "a%41b", "größe", "Größe", "日本", 'say "hi"', "a b", "é", "e\u0301", ".", "..", "x" * 63, "/" * 63,
       "new\nline", "-x", "X")  # fmt: skip


def test_every_name_has_a_folder_of_its_own(server, tmp_path):
    quoted = ['"' + name.replace('"', '""') + '"' for name in ODD]
    server.say("CREATE SCHEMA q", 'CREATE SCHEMA "q.r"', 'CREATE SCHEMA "Q"')
    names = [f"public.{name}" for name in quoted] + ['"q.r".s', 'q."r.s"', '"Q".s', '"q.r"."S"']
    for number, name in enumerate(names):
        server.say(f"CREATE TABLE {name} (id int PRIMARY KEY)", f"INSERT INTO {name} VALUES ({number})")
    paths = {}
    for step in (0, 100):
        found = mirror(_pipeline(server), tmp_path / "lake", names)
        logged = append_changes(_pipeline(server), tmp_path / "log", names)
        assert _troubles([*found, *logged]) == {}
        paths = {_ids(each.path)[0]: each.path.name for each in found}
        assert paths == {_logged(each.path)[0][1]: each.path.name for each in logged}
        assert sorted(paths) == list(range(len(names)))
        if not step:
            for number, name in enumerate(names):
                server.say(f"INSERT INTO {name} VALUES ({number} + 100)")
    assert len({name.casefold() for name in paths.values()}) == len(names)
    assert folder_name("public", "orders", 1) == "public.orders"
    assert folder_name("public", "OrderItem", 1) == "public.-order-item"
    assert folder_name("public", "x/y", 1) == "public.x-2f-y"


def test_one_table_in_trouble_keeps_no_other(server, tmp_path):
    """Each by its name, with a remedy that exists; and none loses a change."""
    lake, log = tmp_path / "lake", tmp_path / "log"
    server.say(
        "CREATE TABLE good (id int PRIMARY KEY)",
        "CREATE TABLE nan (id int PRIMARY KEY, n numeric(8,2))",
        "CREATE TABLE deep (id int PRIMARY KEY, a int[])",
        'CREATE TABLE twice (id int PRIMARY KEY, "A" int, a int)',
        "CREATE TABLE nokey (id int)",
        "INSERT INTO nan VALUES (1, 1.5), (2, 0)",
        "INSERT INTO deep VALUES (1, '{1,2}')",
        "CREATE TABLE early (id int PRIMARY KEY)",
    )
    first = [
        mirror(_pipeline(server), lake, ["good", "nan", "deep", "nokey", "early"]),
        append_changes(_pipeline(server), log, ["nan"]),
    ]
    assert [_troubles(each) for each in first] == [{}, {}]
    server.say(
        "INSERT INTO good VALUES (1)",
        "INSERT INTO nan VALUES (3, 'NaN')",
        "INSERT INTO deep VALUES (2, '{{1,2},{3,4}}')",
        "INSERT INTO twice VALUES (1, 2, 3)",
        "INSERT INTO nokey VALUES (1)",
        "ALTER TABLE nokey REPLICA IDENTITY NOTHING",
        "UPDATE nokey SET id = 2",
        "DROP TABLE early",
    )
    with pytest.warns(TroubleWarning):
        found = mirror(_pipeline(server), lake)
    with pytest.warns(TroubleWarning):
        logged = append_changes(_pipeline(server), log)
    troubles = _troubles(found)
    assert set(troubles) == {"public.nan", "public.deep", "public.twice", "public.nokey"}
    assert set(_troubles(logged)) == {"public.nan", "public.deep", "public.twice"}
    assert "numeric=text" in troubles["public.nan"].hint
    assert "arrays=text" in troubles["public.deep"].hint
    assert "changes that commit from" in troubles["public.nan"].context
    assert "RENAME COLUMN" in troubles["public.twice"].hint
    assert _ids(lake / "public.good") == [1]

    server.say('ALTER TABLE twice RENAME "A" TO b', "INSERT INTO twice VALUES (2, 3, 4)", "INSERT INTO good VALUES (2)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TroubleWarning)
        found = mirror(_pipeline(server), lake, numeric="text", arrays="text")
        logged = append_changes(_pipeline(server), log, numeric="text", arrays="text")
    assert set(_troubles(found)) == {"public.nokey"}
    assert _troubles(logged) == {}
    assert read_table(lake / "public.nan").sort_by("id")["n"].to_pylist() == ["1.50", "0.00", "NaN"]
    assert sorted(row["new"]["n"] for row in read_table(log / "public.nan").to_pylist()) == ["0.00", "1.50", "NaN"]
    assert read_table(lake / "public.deep").sort_by("id")["a"].to_pylist() == ["{1,2}", "{{1,2},{3,4}}"]
    assert _ids(lake / "public.twice") == [1, 2]
    assert _ids(lake / "public.good") == [1, 2]
    # what is text stays text
    server.say("INSERT INTO nan VALUES (4, 2)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TroubleWarning)
        mirror(_pipeline(server), lake)
    assert read_table(lake / "public.nan").sort_by("id")["n"].to_pylist() == ["1.50", "0.00", "NaN", "2.00"]


def test_a_rewritten_table_is_followed(server, tmp_path):
    """What ALTER TABLE computes for every row is in the log only as the new rows."""
    server.say("CREATE TABLE r (id int PRIMARY KEY, v int, note text STORAGE EXTERNAL)")
    server.say("INSERT INTO r SELECT n, n, repeat('x', 5000) FROM generate_series(1, 40) n")
    mirror(_pipeline(server), tmp_path)
    for change in (
        "ALTER TABLE r ALTER v TYPE text USING 'v' || v * 2",
        "BEGIN; UPDATE r SET v = 'w' WHERE id = 1; ALTER TABLE r ADD made float8 DEFAULT random(); DELETE FROM r WHERE id = 2; COMMIT",
        "ALTER TABLE r ALTER id TYPE bigint USING id * 3000000000",
        "ALTER TABLE r ADD g bigint GENERATED ALWAYS AS (id + 1) STORED",
        "UPDATE r SET v = 'last' WHERE id = 9000000000",
        "VACUUM FULL r",
        "ALTER TABLE r ALTER v TYPE bytea USING v::bytea",
    ):
        server.say(change)
        assert _troubles(mirror(_pipeline(server), tmp_path)) == {}
        with server.connect() as connection:
            theirs = connection.execute("SELECT * FROM r ORDER BY id").fetchall()
        assert [tuple(row.values()) for row in read_table(tmp_path / "public.r").sort_by("id").to_pylist()] == theirs


def test_rows_that_went_before_a_column_came(server, tmp_path):
    """Without a key a row goes by all of its values, and those of a column that came later are the default's."""
    server.say("CREATE TABLE bag (id int)", "ALTER TABLE bag REPLICA IDENTITY FULL", "INSERT INTO bag VALUES (1), (2), (3)")
    mirror(_pipeline(server), tmp_path)
    server.say("INSERT INTO bag VALUES (4), (5)", "DELETE FROM bag WHERE id IN (1, 4)", "UPDATE bag SET id = 20 WHERE id = 2")
    server.say("ALTER TABLE bag ADD c int[] DEFAULT '{7}'", "DELETE FROM bag WHERE id = 3")
    assert _troubles(mirror(_pipeline(server), tmp_path)) == {}
    assert read_table(tmp_path / "public.bag").sort_by("id").to_pylist() == [{"id": 5, "c": [7]}, {"id": 20, "c": [7]}]


def test_a_default_of_before_a_retype(server, tmp_path):
    """It is stored as the type of then, and not taken for one of now."""
    server.say("CREATE TABLE price (id int PRIMARY KEY)", "INSERT INTO price VALUES (1)")
    server.say("ALTER TABLE price ADD p numeric(8,2) DEFAULT 7.5", "INSERT INTO price VALUES (2, 1.25)")
    server.say("ALTER TABLE price ALTER p DROP DEFAULT, ALTER p TYPE int USING round(p)::int", "INSERT INTO price VALUES (3, 9)")
    assert _troubles(mirror(_pipeline(server), tmp_path)) == {}
    assert [row["p"] for row in read_table(tmp_path / "public.price").sort_by("id").to_pylist()] == [8, 1, 9]


def test_a_retyped_column_of_a_log_names_the_lsn(server, tmp_path):
    server.say("CREATE TABLE r (id int PRIMARY KEY, v text)", "INSERT INTO r VALUES (1, '1')")
    append_changes(_pipeline(server), tmp_path)
    before = server.flush_lsn()
    server.say("ALTER TABLE r ALTER v TYPE int USING v::int", "INSERT INTO r VALUES (2, 2)")
    with pytest.warns(TroubleWarning, match="Column v was given another type at"):
        (found,) = append_changes(_pipeline(server), tmp_path)
    assert isinstance(found.trouble, TailraceError)
    at = Lsn.parse(found.trouble.hint.split(" at ")[1].split(".")[0])
    assert Lsn.parse(before) < at
    assert _troubles(append_changes(_pipeline(server, upto_lsn=at), tmp_path)) == {}
    assert _troubles(append_changes(_pipeline(server, start_lsn=at), tmp_path / "after")) == {}
    assert _logged(tmp_path / "public.r") == [("insert", 1)]
    assert _logged(tmp_path / "after" / "public.r") == [("insert", 2)]


def test_a_grown_column_of_a_log_is_written_anew(server, tmp_path):
    server.say("CREATE TABLE r (id int PRIMARY KEY, v int)", "INSERT INTO r VALUES (1, 1)")
    append_changes(_pipeline(server), tmp_path)
    server.say("ALTER TABLE r ALTER v TYPE bigint", "INSERT INTO r VALUES (2, 3000000000)", "DELETE FROM r WHERE id = 1")
    for _ in range(2):
        assert _troubles(append_changes(_pipeline(server), tmp_path)) == {}
    rows = read_table(tmp_path / "public.r").sort_by("commit_lsn").to_pylist()
    assert [(row["new"] or {}).get("v") for row in rows] == [1, 3_000_000_000, None]


def test_another_database_in_the_same_directory(server, tmp_path):
    """Clones of a template have the same oids."""
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    server.say("CREATE DATABASE clone TEMPLATE postgres STRATEGY wal_log")
    mirror(_pipeline(server), tmp_path)
    with server.connect(dbname="clone") as connection:
        connection.autocommit = True
        connection.execute("DROP TABLE t")
    version = DeltaTable(tmp_path / "public.t").version()
    assert mirror(open_pipeline(server.data_dir, "clone"), tmp_path) == []
    assert DeltaTable(tmp_path / "public.t").version() == version
    assert read_table(tmp_path / "public.t")["id"].to_pylist() == [1]
