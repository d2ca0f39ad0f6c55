"""Every version of a row, from the log of a live server: through changes of its key, of its table, and of what identifies it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.cases import DBNAME
from support.command import Run
from support.servers import Server
from tailrace.past.blame import OF_ROWS, blame
from tailrace.pipeline import LocalRunner, open_feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.postgres
STORY = r"""
CREATE TABLE t (id int PRIMARY KEY, v text, long text); ALTER TABLE t ALTER long SET STORAGE EXTERNAL;
INSERT INTO t VALUES (1, 'one', repeat('x', 5000)), (2, 'two', NULL), (3, 'three', NULL);
UPDATE t SET v = 'uno' WHERE id = 1;
BEGIN; UPDATE t SET id = 10 WHERE id = 1; UPDATE t SET v = 'ten' WHERE id = 10; COMMIT;
BEGIN; UPDATE t SET v = 'never' WHERE id = 10; ROLLBACK;
INSERT INTO t VALUES (1, 'another', NULL);
ALTER TABLE t ADD n int DEFAULT 7;
ALTER TABLE t RENAME v TO w; ALTER TABLE t RENAME TO renamed;
UPDATE renamed SET w = NULL WHERE id = 10;
ALTER TABLE renamed ALTER n TYPE numeric(4,1) USING n + 0.5;
DELETE FROM renamed WHERE id = 10;
TRUNCATE renamed;
CREATE TABLE "Two keys" (a numeric(6,2), "B c" text, v int, PRIMARY KEY (a, "B c"));
INSERT INTO "Two keys" VALUES (1, 'x,y', 1), (1, 'it''s', 2), (2, 'x', 3);
UPDATE "Two keys" SET v = v + 10 WHERE a = 1;
CREATE TABLE p (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 (v text, k int NOT NULL, id int NOT NULL); ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
INSERT INTO p VALUES (5, 1, 'a'), (5, 2, 'b');
UPDATE p SET v = v || '!' WHERE id = 5;
CREATE TABLE bag (v text, n int); ALTER TABLE bag REPLICA IDENTITY FULL;
INSERT INTO bag VALUES ('a', 1), ('a', 2), ('b', 3);
UPDATE bag SET n = n + 1 WHERE v = 'a';
CREATE TABLE mute (id int NOT NULL, v text);
INSERT INTO mute VALUES (1, 'x'), (2, 'y');
DELETE FROM mute WHERE id = 1;
CREATE TABLE other (id int PRIMARY KEY, code int NOT NULL UNIQUE); ALTER TABLE other REPLICA IDENTITY USING INDEX other_code_key;
INSERT INTO other VALUES (1, 100);
UPDATE other SET code = 200;
DELETE FROM other;
CREATE TABLE swapped (id int UNIQUE DEFERRABLE INITIALLY DEFERRED, v text); ALTER TABLE swapped REPLICA IDENTITY FULL;
INSERT INTO swapped VALUES (1, 'was one'), (2, 'was two');
UPDATE swapped SET id = 3 - id;
UPDATE swapped SET v = v || '!';
CREATE VIEW seen AS SELECT 1 AS id;
CREATE TABLE breaks (id int PRIMARY KEY, v text, w text);
INSERT INTO breaks VALUES (1, E'a\nb\tc\x1b[1m', '[/b] [red]x');
UPDATE breaks SET v = E'it''s \\ \r'
"""
X = "x" * 5000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with Server(18, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        server.say(*STORY.strip().split(";\n"))
        server.stop()
        yield server.move_to(tmp_path_factory.mktemp("blame") / "data")


def _blamed(tailrace: Run, data: Path, table: str, key: str, *words: str) -> list[dict[str, Any]]:
    status, out, err = tailrace("blame", data, table, key, "--database", DBNAME, "--on", "local", "--json", *words)
    assert (status, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def _brief(each: dict[str, Any]) -> tuple[Any, ...]:
    return each["row"], each["change"], each["after"], each["changed"]


OLD_ROW = [
    (1, "INSERT", {"id": "1", "v": "one", "long": X}, None),
    (1, "UPDATE", {"id": "1", "v": "uno", "long": X}, ["v"]),
    (1, "UPDATE", {"id": "10", "v": "uno", "long": X}, ["id"]),
    (1, "UPDATE", {"id": "10", "v": "ten", "long": X}, ["v"]),
    (1, "UPDATE", {"id": "10", "w": None, "long": X, "n": "7"}, ["w"]),
    (1, "ALTER TABLE", {"id": "10", "w": None, "long": X, "n": "7.5"}, ["n"]),
    (1, "DELETE", None, None),
]
NEW_ROW = [
    (2, "INSERT", {"id": "1", "v": "another", "long": None}, None),
    (2, "ALTER TABLE", {"id": "1", "w": "another", "long": None, "n": "7.5"}, ["n"]),
    (2, "TRUNCATE", None, None),
]


def test_a_row_through_all_that_became_of_it(data: Path, tailrace: Run) -> None:
    told = _blamed(tailrace, data, "renamed", "1")
    assert [_brief(each) for each in told] == OLD_ROW + NEW_ROW
    assert [_brief(each) for each in _blamed(tailrace, data, "t", "id=10", "--window", "1MB")] == OLD_ROW  # as it was once called
    assert told[6]["before"] == {"id": "10", "w": None, "long": X, "n": "7.5"}
    assert told[2]["xid"] == told[3]["xid"] == told[1]["xid"] + 1
    assert [each["table"] for each in told[:5]] == ["public.t"] * 4 + ["public.renamed"]


def test_what_a_person_sees(data: Path, tailrace: Run) -> None:
    status, out, _ = tailrace("blame", data, "renamed", "10", "--database", DBNAME, "--on", "local")
    assert status == 0
    lines = out.splitlines()
    assert lines[0].split("\t") == ["row", "time", "commit", "record", "xid", "change", "values"]
    assert [line.split("\t")[6] for line in lines[1:4]] == [
        f"id='1' v='one' long='{X[:60]}…'", f"*v='uno' (was 'one') id='1' long='{X[:60]}…'", f"*id='10' (was '1') v='uno' long='{X[:60]}…'",
    ]  # fmt: skip
    assert lines[5].split("\t")[6] == f"*w=NULL (was 'ten') id='10' long='{X[:60]}…' n='7'"


@pytest.mark.parametrize(
    ("table", "key", "values"),
    [
        ('"Two keys"', "a=1,\"B c\"='x,y'", ["1", "11"]),
        ('"Two keys"', "a = 1.0 , \"B c\" = 'it''s'", ["2", "12"]),
        ('"Two keys"', '"B c"=x', ["3"]),
        ("p", "id=5,k=2", ["b", "b!"]),
        ("p", "k=1,id=5", ["a", "a!"]),
        ("p2", "id=5", ["b", "b!"]),
        ("bag", "v=a,n=2", ["1", "2", "2", "3"]),
        ("other", "id=1", ["100", "200", None]),
        ("other", "code=200", ["100", "200", None]),
    ],
)
def test_keys_as_they_are_written(table: str, key: str, values: list[str | None], data: Path, tailrace: Run) -> None:
    told = _blamed(tailrace, data, table, key)
    column = {'"Two keys"': "v", "bag": "n", "other": "code"}.get(table, "v")
    assert [each["after"] and each["after"][column] for each in told] == values


def test_values_that_would_break_a_line_or_a_terminal(data: Path, tailrace: Run) -> None:
    status, out, err = tailrace("blame", data, "breaks", "id=1", "--database", DBNAME, "--on", "local")
    assert (status, err) == (0, "")
    assert [line.split("\t")[6] for line in out.splitlines()[1:]] == [
        r"""id='1' v=E'a\nb\tc\x1b[1m' w='[/b] [red]x'""", r"""*v=E'it''s \\ \r' (was E'a\nb\tc\x1b[1m') id='1' w='[/b] [red]x'"""
    ]  # fmt: skip


def test_two_rows_that_have_one_key_for_a_moment(data: Path, tailrace: Run) -> None:
    told = _blamed(tailrace, data, "swapped", "id=1")
    assert [(each["row"], each["after"]["id"], each["after"]["v"]) for each in told] == [
        (1, "1", "was one"), (1, "2", "was one"), (1, "2", "was one!"), (2, "2", "was two"), (2, "1", "was two"), (2, "1", "was two!"),
    ]  # fmt: skip


@pytest.mark.marathon
@pytest.mark.spark
def test_on_spark_it_is_the_same(data: Path, spark: SparkSession) -> None:
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415

    feeds = (open_feed(data, DBNAME, runner=runner, demand=OF_ROWS) for runner in (SparkRunner(spark), LocalRunner(1)))
    there, here = (blame(feed, "public", "p", "id=5,k=2") for feed in feeds)
    assert there == here
    assert [len(trail.versions) for trail in there.trails] == [2]


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ("nowhere", "1", 'relation "public.nowhere" does not exist'),
        ("renamed", "nope=1,v=2", 'column "nope" of relation "renamed" does not exist'),
        ("renamed", "one", 'invalid input syntax for type integer: "one"'),
        ('"Two keys"', "1", "the key of table public.Two keys is not one column"),
        ("seen", "id=1", '"seen" is not a table'),
        ("mute", "1", "the key of table public.mute is not one column"),
    ],
)
def test_what_is_no_key(table: str, key: str, message: str, data: Path, tailrace: Run) -> None:
    status, out, err = tailrace("blame", data, table, key, "--database", DBNAME, "--on", "local")
    assert (status, out) == (1, "")
    assert err.splitlines()[0] == f"tailrace: error: {message}"


def test_changes_that_do_not_say_of_which_row_they_are(data: Path, tailrace: Run) -> None:
    status, out, err = tailrace("blame", data, "mute", "id=1", "--database", DBNAME, "--on", "local", "--json")
    assert status == 0
    assert [json.loads(line)["change"] for line in out.splitlines()] == ["INSERT"]
    assert err.startswith("tailrace: warning: 1 changes of the table do not tell of which row they are")
