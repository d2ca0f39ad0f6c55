"""wal2json: rows byte for byte what the plugin prints on a server, and its words for options that it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from oracle.test_stories import prepared_cluster
from support.cases import DBNAME
from support.column_defaults import DEFINED
from support.sampling import some_of
from support.servers import Server
from support.stories import read_story, stories, tell
from support.wal2json import FORMAT, MAJOR, check_same, ours, settings, their_error, theirs
from tailrace.errors import UsageError
from tailrace.plugins.wal2json import Wal2Json

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
SETTINGS = {"autovacuum": "off", "max_prepared_transactions": 10}
EVERYTHING = {
    "include-xids": "1", "include-timestamp": "1", "include-lsn": "1", "include-origin": "1", "include-type-oids": "1", "include-pk": "1",
    "include-not-null": "1", "include-column-positions": "1", "include-domain-data-type": "1", "include-default": "1",
}  # fmt: skip
OPTIONS: Mapping[str, Mapping[str, str | None]] = {
    "plain": FORMAT,
    "everything": FORMAT | EVERYTHING,
    "no types": FORMAT | {"include-types": "0", "include-schemas": "f", "include-typmod": "off", "include-pk": "true", "include-default": "no"},
    "xids": FORMAT | {"include-xids": "y", "actions": "insert, delete", "include-origin": "1", "filter-origins": "7,2"},
    "lines": FORMAT | {"include-timestamp": "1", "include-transaction": "0", "actions": "update,truncate", "pretty-print": "1"},
    "some tables": FORMAT | {"filter-tables": "*.t, public.a*,s\\ 1.*", "add-msg-prefixes": "a,tag", "write-in-chunks": "1"},
    "other tables": FORMAT | {"add-tables": "public.*,*.b", "filter-msg-prefixes": "test,tag", "filter-origins": "1", "include-lsn": "1"},
    "whole": {},
    "whole, everything": EVERYTHING | {"format-version": "1"},
    "whole, pretty": EVERYTHING | {"pretty-print": "1", "actions": "insert, delete", "include-typmod": "0"},
    "whole, no types": {
        "include-types": "0", "include-schemas": "0", "include-pk": "1", "include-not-null": "1", "include-type-oids": "1",
        "include-domain-data-type": "1", "filter-tables": "*.t, public.a*", "pretty-print": "1",
    },
    "whole, base types": {"include-domain-data-type": "1", "include-typmod": "0", "include-type-oids": "1", "add-tables": "public.*,*.b"},
    "chunks": {"write-in-chunks": "1", "include-xids": "1", "include-lsn": "1", "filter-msg-prefixes": "test,tag", "filter-origins": "1"},
    "chunks, pretty": {"write-in-chunks": "1", "pretty-print": "1", "include-pk": "1", "include-timestamp": "1", "include-transaction": "0"},
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_cluster(MAJOR, tmp_path_factory.mktemp("cluster"))


@pytest.mark.parametrize("story", some_of([pytest.param(story, id=story) for story in stories(MAJOR)], 8))
def test_story(story: str, cluster: Path) -> None:
    with Server(MAJOR, {**SETTINGS, **settings()}, dbname=DBNAME, data=cluster) as server:
        server.checkpoint()
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'wal2json')"))
        tell(read_story(story), server)
        server.checkpoint()
        expected = {name: theirs(server, options) for name, options in OPTIONS.items()}
        server.stop()
        for name, options in OPTIONS.items():
            check_same(ours(server.data_dir, options, start), expected[name], f"{story}, {name}")
        assert len(expected["plain"]) >= (story != "empty")


WORK = r"""
CREATE SCHEMA "S 1"; CREATE SCHEMA other; SET search_path = public, other;
CREATE DOMAIN other.amount AS numeric(8,3); CREATE DOMAIN code AS varchar(4) NOT NULL; CREATE DOMAIN "Code 2" AS code; CREATE DOMAIN tags AS text[];
CREATE TYPE "Mood" AS ENUM ('fine', 'so "so"'); CREATE TYPE "S 1".pair AS (a int, b text);
CREATE TABLE shapes (
  id int PRIMARY KEY, n numeric, n5 numeric(5), n52 numeric(5,2), v varchar, v7 varchar(7), vs varchar(3)[], c char, c4 char(4), c0 bpchar,
  b bit, b5 bit(5), b0 "bit", vb varbit, vb6 varbit(6), bs bit(2)[], cs bpchar[], t0 time(0), t time, tz3 timetz(3), ts timestamp(2), ts6 timestamp,
  tstz4 timestamptz(4), tstzs timestamptz(1)[], i interval, i3 interval(3), iy interval year, iym interval year to month,
  ids interval day to second(2), ihm interval hour to minute, isec interval second, iss interval second(0), q "char", m "Mood", p "S 1".pair,
  ms "Mood"[], a other.amount, k code, k2 "Code 2", g tags, r int4range, f4 real, f8 float8, o oid, y bytea, ok bool, bools bool[], j jsonb,
  "we""ird\name" text, nn int NOT NULL DEFAULT 3);
INSERT INTO shapes VALUES (1, 1.50, 12345, 1.2, 'v', 'v7', '{a,b}', 'c', 'c', 'c', '1', '10101', '1', '', '01', '{10}', '{x}', '12:00', '1:2:3.4',
  '1:2:3.4567+1', '2001-02-03 04:05:06.789', 'infinity', '2001-02-03 04:05:06.789 BC', '{2001-01-01}', '1 day', '1.5 s', '1y', '1y 2mon',
  '1 day 2 s', '3:04', '5.5', '5.5', 'q', 'so "so"', ROW(1, 'x"y'), '{fine}', 1.25, 'k', 'k2', '{a}', '[1,2)', 'NaN', '-Infinity', 4000000000,
  '\x00ff5c', true, '{t,f}', '{"a": [1, "\u0007"]}', 'w');
INSERT INTO shapes (id, n, f4, f8, ok, k, k2, v)
  VALUES (2, 'NaN', 'Infinity', 1e300, false, '', '', E'\b\f\n\r\t"\\\x01\x1f\x7f/ü€😀');
INSERT INTO shapes (id, n, k, k2, y) VALUES (3, 'Infinity', 'a', 'b', ''), (4, '-Infinity', 'a', 'b', NULL);
UPDATE shapes SET v = 'changed' WHERE id = 1; UPDATE shapes SET id = 10 WHERE id = 2; DELETE FROM shapes WHERE id = 10;
CREATE TABLE "S 1"."no.key" (a int, b text);
INSERT INTO "S 1"."no.key" VALUES (1, 'x'); UPDATE "S 1"."no.key" SET b = 'y'; DELETE FROM "S 1"."no.key";
ALTER TABLE "S 1"."no.key" REPLICA IDENTITY FULL;
INSERT INTO "S 1"."no.key" VALUES (1, NULL); UPDATE "S 1"."no.key" SET b = 'z'; DELETE FROM "S 1"."no.key";
CREATE TABLE b (x int NOT NULL, y text PRIMARY KEY, z int NOT NULL, w text);
CREATE UNIQUE INDEX bx ON b (z, x);
ALTER TABLE b REPLICA IDENTITY USING INDEX bx; ALTER TABLE b ALTER y SET STORAGE EXTERNAL, ALTER w SET STORAGE EXTERNAL;
INSERT INTO b VALUES (1, repeat('y', 2100), 2, repeat('w', 9000));
UPDATE b SET w = 'w'; UPDATE b SET z = 3; UPDATE b SET w = repeat('v', 9000); UPDATE b SET x = 5; UPDATE b SET y = 'short'; DELETE FROM b;
ALTER TABLE b REPLICA IDENTITY NOTHING; INSERT INTO b VALUES (1, 'y', 2); UPDATE b SET w = 'q'; DELETE FROM b;
ALTER TABLE b REPLICA IDENTITY FULL; INSERT INTO b VALUES (1, 'y', 2); UPDATE b SET w = repeat('u', 9000); UPDATE b SET x = 7; DELETE FROM b;
CREATE TABLE late (a int PRIMARY KEY DEFERRABLE, b text); INSERT INTO late VALUES (1, 'x'); UPDATE late SET b = 'y'; DELETE FROM late;
CREATE TABLE dropping (a int, b text, c int PRIMARY KEY);
ALTER TABLE dropping DROP a; INSERT INTO dropping VALUES ('b', 1); ALTER TABLE dropping ADD d "char" DEFAULT 'd'; UPDATE dropping SET c = 2;
TRUNCATE dropping, b, "S 1"."no.key";
INSERT INTO defaults DEFAULT VALUES;
ALTER TABLE defaults ALTER b SET DEFAULT 7, ALTER t DROP DEFAULT, ALTER f SET DEFAULT -1, ADD added int DEFAULT 9;
UPDATE defaults SET b = 3; INSERT INTO defaults DEFAULT VALUES;
BEGIN; INSERT INTO defaults DEFAULT VALUES; ALTER TABLE defaults ALTER b SET DEFAULT 8; INSERT INTO defaults DEFAULT VALUES; COMMIT;
BEGIN; ALTER TABLE defaults ALTER b SET DEFAULT 9; INSERT INTO defaults DEFAULT VALUES; ROLLBACK;
INSERT INTO defaults DEFAULT VALUES; DELETE FROM defaults;
SELECT pg_logical_emit_message(true, E'test\t"1"', E'tx \b "x"'), pg_logical_emit_message(false, 'test', E'out\\'),
  pg_logical_emit_message(true, 'a,b', '');
SELECT pg_logical_emit_message(true, 'tag', 'ab\000cd'::bytea);
BEGIN; SAVEPOINT s; INSERT INTO late VALUES (5, 'sub'); SELECT pg_logical_emit_message(true, 'tag', 'in a subtransaction'); RELEASE s;
TRUNCATE late; COMMIT;
BEGIN; INSERT INTO late VALUES (6, 'prepared'); PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p';
SELECT pg_replication_origin_create('one'), pg_replication_origin_create('two');
SELECT pg_replication_origin_session_setup('one'); INSERT INTO late VALUES (11, 'one');
BEGIN; INSERT INTO late VALUES (12, 'one'); SELECT pg_logical_emit_message(true, 'tag', 'one'), pg_logical_emit_message(false, 'tag', 'one');
TRUNCATE b; COMMIT;
SELECT pg_replication_origin_session_reset(); SELECT pg_replication_origin_session_setup('two'); INSERT INTO late VALUES (21, 'two');
BEGIN; INSERT INTO late VALUES (22, 'two'); SELECT pg_replication_origin_session_reset(); INSERT INTO late VALUES (23, 'here'); COMMIT;
BEGIN; INSERT INTO late VALUES (24, 'here'); SELECT pg_replication_origin_session_setup('two'); INSERT INTO late VALUES (25, 'two'); COMMIT
"""
"""Everything that wal2json prints in a way of its own."""
MORE = {
    "an origin": {"filter-origins": "1", **EVERYTHING}, "the other": {"filter-origins": "+2x,,a", "include-origin": "1"},
    "both": {"filter-origins": "1,2"}, "escaped": {"add-tables": r"S\ 1.no\.key, public.shapes ,*.late"}, "none": {"add-tables": ""},
    "all but": {"filter-tables": "public.*"}, "prefix": {"add-msg-prefixes": r"a\,b,tag , test", "include-schemas": "no"},
}  # fmt: skip


def test_in_a_way_of_its_own() -> None:
    with Server(MAJOR, {**SETTINGS, **settings()}, dbname=DBNAME) as server:
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'wal2json')"))
        server.say(*DEFINED, *WORK.split(";"))
        server.checkpoint()
        cases = OPTIONS | {name: FORMAT | options for name, options in MORE.items()}
        cases |= {f"whole, {name}": options for name, options in MORE.items()}
        expected = {name: theirs(server, options) for name, options in cases.items()}
        server.stop()
        for name, options in cases.items():
            check_same(ours(server.data_dir, options, start, stretch_bytes=1 << 14), expected[name], name)
    assert {text[:13] for _, _, text in expected["plain"]} == {f'{{"action":"{letter}"' for letter in "BCIUDTM"}


REFUSED: list[dict[str, str]] = [
    {"nonsense": "1"}, {"include-xids": "o"}, {"include-unchanged-toast": "1"}, {"format-version": "3"}, {"format-version": "0"},
    {"format-version": "two"}, {"format-version": "2 kB"}, {"actions": "insert,merge"}, {"actions": ","}, {"actions": "insert update"},
    {"filter-tables": "t"}, {"filter-tables": "a.b,"}, {"add-tables": "a.b c.d"}, {"add-msg-prefixes": "a,,b"}, {"filter-msg-prefixes": ", a"},
    {"pretty-print": "maybe"}, {"write-in-chunks": ""},
]  # fmt: skip
ACCEPTED: list[dict[str, str]] = [
    {"format-version": " 0x2 "}, {"format-version": "2.4"}, {"format-version": "02"}, {"format-version": "1.5"}, FORMAT | {"actions": " "},
    {}, {"format-version": "1"}, {"pretty-print": "on", "write-in-chunks": "t"}, FORMAT | {"filter-origins": "x, 7 ,"},
    FORMAT | {"add-tables": r"\*.t, *.*"}, FORMAT | {"include-default": "0", "include-types": "OFF"},
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(MAJOR, settings(), dbname=DBNAME) as started:
        started.sql("SELECT FROM pg_create_logical_replication_slot('s', 'wal2json')")
        yield started


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_refused_options(options: dict[str, str], server: Server) -> None:
    with pytest.raises(UsageError) as raised:
        Wal2Json().startup(options, MAJOR)
    assert (raised.value.sqlstate, raised.value.message) == their_error(server, options)


@pytest.mark.parametrize("options", ACCEPTED, ids=str)
def test_accepted_options(options: dict[str, str], server: Server) -> None:
    theirs(server, options)
    Wal2Json().startup(options, MAJOR)
