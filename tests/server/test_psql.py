"""psql's own queries, answered by tailrace serve: what it prints is what it prints from the server that the log is of."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.builds import find_build
from support.served import Served
from support.servers import Server

pytestmark = pytest.mark.postgres
DEBIAN = Path("/usr/bin/psql")
MAJORS = [pytest.param(each, marks=[] if each == 18 else pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]
STORY = (
    "CREATE SCHEMA shop", "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN price AS numeric(10,2)", 'CREATE ROLE "Odd Role" LOGIN',
    "CREATE ROLE ending REPLICATION CONNECTION LIMIT 3 VALID UNTIL '2030-01-01 12:00+00'", "CREATE ROLE endless SUPERUSER VALID UNTIL 'infinity'",
    "CREATE TABLE a (id serial PRIMARY KEY, v text NOT NULL DEFAULT 'x', n numeric(10,2), m mood, at timestamptz DEFAULT now(),"
    " c varchar(10) COLLATE \"C\", ar int[] DEFAULT '{1,2}', p price DEFAULT (1 + 2) * 3, gone int)", "ALTER TABLE a DROP COLUMN gone",
    "CREATE INDEX a_v ON a (v DESC, n NULLS FIRST) WHERE n > 3 AND (v <> 'x' OR n IS NULL)", "CREATE INDEX a_gin ON a USING gin (ar)",
    "CREATE INDEX a_low ON a (lower(v) text_pattern_ops, (n * (2 + n)))",
    "CREATE INDEX a_hash ON a USING hash (v)", "CREATE UNLOGGED TABLE unl (i int)", "CREATE SEQUENCE sq",
    "CREATE TABLE b (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x int NOT NULL, y int GENERATED ALWAYS AS (x * 2) STORED)",
    "CREATE UNIQUE INDEX b_x ON b (x)", "ALTER TABLE b REPLICA IDENTITY USING INDEX b_x", "CREATE TABLE full_identity (i int)",
    "ALTER TABLE full_identity REPLICA IDENTITY FULL", "CREATE TABLE shop.items (id int, p numeric)",
    "CREATE TABLE limited (i int UNIQUE CONSTRAINT positive CHECK (i > 0), a_id int REFERENCES b(id))",
    "CREATE TABLE part (k int, w text) PARTITION BY RANGE (k)", "CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE part2 PARTITION OF part DEFAULT PARTITION BY LIST (w)", "CREATE TABLE part3 PARTITION OF part2 FOR VALUES IN ('a', NULL)",
    "CREATE TABLE parent (z int)", "CREATE TABLE child (zz int) INHERITS (parent)", "CREATE VIEW va AS SELECT id, v FROM a",
    "CREATE MATERIALIZED VIEW ma AS SELECT id FROM a",
    "CREATE PUBLICATION pall FOR ALL TABLES WITH (publish = 'insert')", "GRANT CONNECT ON DATABASE postgres TO \"Odd Role\"",
    "CREATE PUBLICATION pt FOR TABLE part, shop.items WITH (publish_via_partition_root)", "CREATE UNIQUE INDEX a_n ON a (n) INCLUDE (m)",
    "CREATE TABLE opts (t text COMPRESSION pglz, u text, w int) WITH (fillfactor = 70, toast.autovacuum_enabled = false)",
    "ALTER TABLE opts ALTER u SET STATISTICS 100, ALTER t SET STORAGE EXTERNAL, ALTER w SET STATISTICS 0",
    "CREATE FUNCTION f1(a int, b text DEFAULT 'x', VARIADIC c int[] DEFAULT '{1}') RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION f2(OUT x int, INOUT \"Odd\" text DEFAULT upper('a'), at timestamptz DEFAULT now()) LANGUAGE sql AS 'SELECT 1, $1'",
    "CREATE FUNCTION f3(numeric(10,2), mood, shop.items) RETURNS TABLE (a int, b mood[]) LANGUAGE sql AS 'SELECT 1, NULL::mood[]'",
    "CREATE FUNCTION f4() RETURNS SETOF a LANGUAGE sql AS 'SELECT * FROM a'", "CREATE FUNCTION shop.f1(a int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE PROCEDURE pr(a int, INOUT b int DEFAULT 1 + 2) LANGUAGE plpgsql AS 'BEGIN END'",
    "CREATE AGGREGATE add_up (int) (sfunc = int4pl, stype = int)", "COMMENT ON TABLE shop.items IS 'what''s for sale'",
    "COMMENT ON COLUMN shop.items.p IS 'the price'", "COMMENT ON SCHEMA shop IS 'the shop'", "COMMENT ON INDEX a_low IS 'small letters'",
    "COMMENT ON FUNCTION f1(int, text, int[]) IS 'does nothing'", "COMMENT ON COLUMN a.v IS 'a value'", "COMMENT ON COLUMN va.v IS 'of the view'",
)  # fmt: skip
SINCE_15 = (
    "CREATE PUBLICATION pa FOR TABLE a (id, v, n), shop.items WHERE (id < 5 AND p > 2)", "CREATE PUBLICATION psch FOR TABLES IN SCHEMA shop",
    "CREATE UNIQUE INDEX a_nulls ON a (n) NULLS NOT DISTINCT",
)  # fmt: skip
ALIKE = (
    r"\l", r"\dt", r"\d", r"\di", r"\dn", r"\dt shop.*", r"\dRp", r"\dRp+", r"\dRs", r"\du", r"\d a", r"\d part1", r"\d va", r"\d a_low",
    r"\d nothing", r"\encoding", r"\df", r"\df lower", r"\df f*", r"\da", r"\dfp",
)  # fmt: skip
MORE = (
    r"\ds", r"\dv", r"\dm", r"\dt *.i*", r"\dRp+ pa", r"\d full_identity", r"\d shop.items", r"\d part3", r"\d parent", r"\d child", r"\d ma",
    r"\d unl", r"\d a_v", r"\d a_n", r"\d b_pkey", r"\d p*1",
    r"\df *.*", r"\df percentile*", r"\dfa shop.*", r"\d+ opts", r"\d+ full_identity", r"\d+ parent", r"\d+ child", r"\d+ unl", r"\d+ a_low",
    r"\d+ shop.items", r"\d+ f1", r"\dn+",
)  # fmt: skip
"""With the newest psql alone."""
TOLD = re.compile(r"^NOTICE:  pg_\w+ is not tracked: no rows of it are known here\n|^HINT:  Perhaps you meant .*\n", re.MULTILINE)
"""What is said beside: here, of catalogs that are not tracked; there, of another column that is meant."""


@pytest.fixture(scope="module", params=MAJORS)
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Served]]:
    with Server(request.param) as server:
        server.say(*STORY, *(SINCE_15 if request.param >= 15 else ()))
        with Served(server.data_dir, tmp_path_factory.mktemp("psql") / "state") as served:
            yield server, served


@pytest.fixture(params=["newest", pytest.param("Debian's", marks=pytest.mark.marathon)])
def psql(request: pytest.FixtureRequest) -> str:
    program = find_build(18).bin("psql") if request.param == "newest" else DEBIAN
    if shutil.which(program) is None:
        pytest.skip(f"no {program}")
    return str(program)


def _said(psql: str, side: Server | Served, *commands: str) -> str:
    """What it prints, on either output."""
    words = [word for command in commands for word in ("-c", command)]
    run = subprocess.run(
        [psql, "-X", side.dsn(), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False
    )
    return TOLD.sub("", run.stdout)


def test_what_psql_prints_is_alike(psql: str, sides: tuple[Server, Served]) -> None:
    server, served = sides
    for command in (*ALIKE, *MORE) if psql != str(DEBIAN) else ALIKE:
        assert _said(psql, served, command) == _said(psql, server, command), command


def test_what_is_not_tracked_is_left_out_and_told(psql: str, sides: tuple[Server, Served]) -> None:
    server, served = sides
    there, here = (set(_said(psql, side, r"\d limited").splitlines()) for side in sides)
    assert here - there == {'    "limited_i_key" UNIQUE, btree (i)'}
    left_out = {'"limited_i_key"', "Check", '"positive"', "Foreign-key", '"limited_a_id_fkey"'}
    assert {line.split()[0] for line in there - here} == left_out
    there, here = (set(_said(psql, side, r"\d b").splitlines()) for side in sides)
    assert here < there
    assert {line.split()[0] for line in there - here} == {"Referenced", "TABLE"}
    assert _said(psql, served, r"\d part").replace("(not shown)", "RANGE (k)") == _said(psql, server, r"\d part")
    sizes = [each.strip() for each in _said(psql, served, r"\dt+ parent").splitlines()[3].split("|")]
    assert (sizes[:3], sizes[-2:]) == (["public", "parent", "table"], ["", ""])
    there, here = (set(_said(psql, side, r"\d+ a").splitlines()) for side in sides)
    assert here <= there
    assert {line.split()[0] for line in there - here} <= {"Not-null", '"a_id_not_null"', '"a_v_not_null"'}
    for name in ("va", "ma"):
        there, here = (_said(psql, side, rf"\d+ {name}") for side in sides)
        assert here == re.sub(r"(?<=View definition:\n) .*;", "(not shown)", there, flags=re.DOTALL)
    there, here = (_said(psql, side, r"\d+ part1") for side in sides)
    assert here == re.sub("(?<=Partition constraint: ).*", "(not shown)", there)
    for command in (r"\d sq", r"\dx", r"\df+ f1", r"\sf f1"):
        said = _said(psql, served, command)
        assert re.match(r"ERROR:  .* (is not tracked, so it cannot be read|is not supported) outside of the server\n", said), said


def test_a_client_is_told_once_of_a_catalog_that_is_not_tracked(sides: tuple[Server, Served]) -> None:
    _, served = sides
    told: list[str] = []
    with served.connect() as client:
        client.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
        for _ in range(2):
            assert client.execute(b"SELECT count(*) FROM pg_constraint").fetchall() == [(0,)]
    assert told == ["pg_constraint is not tracked: no rows of it are known here"]
