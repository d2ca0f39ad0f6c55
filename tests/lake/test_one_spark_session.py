"""One Spark session reads the log by `format("tailrace")`, mirrors it, and reads the mirror by `format("delta")`, Delta's own library."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.delta_readers import DELTA, delta_jars
from support.servers import Server

pytestmark = [pytest.mark.marathon, pytest.mark.postgres]

GUIDE = Path(__file__).parents[2] / "docs/guides/keep_delta_tables.md"
TABLES = {
    "orders": "id, status, total, placed, note, paid, count, tags",
    "bag": "a, b",
    "kinds": "id, d, t, y, CAST(f4 AS double precision) AS f4, f8, small, CAST(j AS text) AS j, n",
}
"""What is read of each, in SQL that PostgreSQL and, but for names of types, Spark understand."""
IN_SPARK = {"double precision": "double", "AS text": "AS string"}
FIRST = """
CREATE TABLE orders (id bigint PRIMARY KEY, status text, total numeric(12,2), placed timestamptz, note text, paid boolean, count int, tags text[]);
INSERT INTO orders SELECT g, 'new', g * 1.25, '2026-01-01 12:00+00'::timestamptz + g * interval '1 second', repeat(md5(g::text), 5), g % 2 = 0,
    g % 7, ARRAY['a', NULL, g::text] FROM generate_series(1, 5000) g;
CREATE TABLE bag (a int, b text);
ALTER TABLE bag REPLICA IDENTITY FULL;
INSERT INTO bag SELECT g % 5, 'b' FROM generate_series(1, 300) g;
CREATE TABLE kinds (id int PRIMARY KEY, d date, t timestamp, y bytea, f4 real, f8 float8, small smallint, j jsonb, n numeric(30,10));
INSERT INTO kinds SELECT g, '2026-01-01'::date + g, '2026-01-01'::timestamp + g * interval '1 minute', decode(md5(g::text), 'hex'), g / 3.0, g / 7.0,
    g, jsonb_build_object('g', g), g * 12345678901.0123456789 FROM generate_series(1, 200) g
"""
SECOND = """
UPDATE orders SET status = 'paid', total = total + 1 WHERE id % 10 = 0;
DELETE FROM orders WHERE id % 35 = 1;
INSERT INTO orders VALUES (5001, NULL, NULL, '2026-06-01 00:00+00', '', NULL, NULL, NULL);
UPDATE orders SET id = id + 10000 WHERE id BETWEEN 100 AND 109;
DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE a = 1 LIMIT 7);
UPDATE bag SET b = NULL WHERE a = 2;
UPDATE kinds SET f8 = 'NaN' WHERE id = 3;
DELETE FROM kinds WHERE id = 4
"""
LOOK = """
import json
from pathlib import Path
import tailrace
from tailrace.lake.mirror import mirror
from tailrace.spark.jobs import SparkRunner

feed = tailrace.open_feed(SOURCE, "app", runner=SparkRunner(spark))
mirror(feed, "lake")
said = {"vectors": {}, "rows": {}}
for name, columns in TABLES.items():
    table = f"lake/public.{name}"
    log = "".join(path.read_text() for path in Path(table, "_delta_log").glob("*.json"))
    said["vectors"][name] = '"deletionVector":{' in log
    spark.read.format("delta").load(table).createOrReplaceTempView(name)
    frame = spark.sql(f"SELECT {columns} FROM {name}")
    said["rows"][name] = sorted(json.dumps([str(value) for value in row]) for row in frame.collect())
said["by path"] = spark.sql(f"SELECT count(*) FROM delta.`{Path.cwd()}/lake/public.orders` WHERE id BETWEEN 90 AND 120").first()[0]
said["counts"] = [changes.count(), orders.count()]
print("SAID", json.dumps(said))
"""


def test_one_session_reads_the_log_and_the_mirror_of_it(tmp_path: Path) -> None:
    with Server(18, {"timezone": "UTC"}, dbname="app", test_decoding=False) as server:
        server.say(*FIRST.strip().split(";\n"))
        mirrored = "import tailrace; from tailrace.lake.mirror import mirror; mirror(tailrace.open_feed({0!r}, 'app'), 'lake')"
        _python(mirrored.format(str(server.data_dir)), tmp_path)
        server.say(*SECOND.strip().split(";\n"))
        names = (
            f"SOURCE, TABLES = {str(server.data_dir)!r}, { ({name: _in_spark(columns) for name, columns in TABLES.items()})!r}\n"
        )
        printed = _python(_of_the_guide(server.data_dir) + names + LOOK, tmp_path)
        said = json.loads(re.findall(r"^SAID (.*)$", printed, re.MULTILINE)[0])
        with server.connect() as connection:
            for name, columns in TABLES.items():
                expected = connection.execute(f"SELECT {columns} FROM {name}").fetchall()
                assert said["rows"][name] == sorted(json.dumps([_as_spark_has_it(value) for value in row]) for row in expected), (
                    name
                )
            orders = connection.execute("SELECT count(*), count(*) FILTER (WHERE id BETWEEN 90 AND 120) FROM orders").fetchone()
    assert said["vectors"] == dict.fromkeys(TABLES, True)
    assert [said["counts"][1], said["by path"]] == list(orders)
    assert said["counts"][0] == 5000 + 500 + 143 + 1 + 9  # of 100 to 109 one was deleted before
    assert "500 updates of rows that are there" in printed  # the lake had the first changes then


def _in_spark(columns: str) -> str:
    for ours, theirs in IN_SPARK.items():
        columns = columns.replace(ours, theirs)
    return columns


def _as_spark_has_it(value: object) -> str:
    """Spark's rows have times of the session's zone, which is UTC."""
    return str(value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value)


def _of_the_guide(source: Path) -> str:
    """What the guide tells, with the jars at hand, since a test does not fetch them."""
    (block,) = re.findall(r"^```py\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    packages = f'spark__jars__packages="{DELTA}"'
    assert packages in block
    return block.replace(packages, f"spark__jars={delta_jars()!r}").replace("/backups/app", str(source))


def _python(script: str, folder: Path) -> str:
    """What it prints; it stands in the folder."""
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=os.environ | {"TZ": "UTC", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout
