"""In windows, lake tables come to what they come to in one: columns, rows and troubles; a mirror that is cut short goes on where it was."""

from __future__ import annotations

import warnings

import pytest

from support.servers import Server
from tailrace.lake.changelog import append_changes
from tailrace.lake.delta.table import find, tables_in
from tailrace.lake.mirror import mirror
from tailrace.lake.position import position_of
from tailrace.lake.reading import read_table
from tailrace.lake.target_tables import TroubleWarning
from tailrace.pipeline import Scanning, open_feed, open_pipeline
from tailrace.window import WindowSize

pytestmark = pytest.mark.postgres

WORK = """
CREATE TABLE retyped (id int PRIMARY KEY, n int, t text);
CREATE TABLE grown (id int PRIMARY KEY, n int);
CREATE TABLE steady (id int PRIMARY KEY, n int, big text STORAGE EXTERNAL);
CREATE TABLE bag (a int, b text);
ALTER TABLE bag REPLICA IDENTITY FULL;
CREATE TABLE bare (id int, b text);
CREATE TABLE fits (id int PRIMARY KEY, n numeric(6,2));
CREATE TABLE gone (id int PRIMARY KEY, n int);
CREATE TABLE emptied (id int PRIMARY KEY, n int);
{fill}
ALTER TABLE retyped ALTER n TYPE text USING '=' || n;
ALTER TABLE grown ADD late text DEFAULT 'given';
TRUNCATE emptied;
{change}
ALTER TABLE grown ALTER n TYPE bigint USING n * 5000000000;
UPDATE bare SET b = 'lost' WHERE id = 1;
UPDATE fits SET n = 'NaN' WHERE id = 3;
ALTER TABLE gone ADD other int;
DROP TABLE gone;
ALTER TABLE bag RENAME TO sack;
{fill_again}
""".format(
    fill="\n".join(
        f"INSERT INTO {table} SELECT n, n % 90 FROM generate_series({k}, {k + 299}) n;"
        for k in (1, 301, 601)
        for table in ("retyped", "grown", "bag", "bare", "fits", "gone", "emptied")
    )
    + "\nINSERT INTO steady SELECT n, 0, repeat(n::text, 3000) FROM generate_series(1, 60) n;",
    change="\n".join(
        f"UPDATE {table} SET id = id + 5000 WHERE id % 7 = {k};\nDELETE FROM {table} WHERE id % 11 = {k};"
        for k in range(3)
        for table in ("retyped", "grown", "gone", "steady")
    )
    + "\nUPDATE steady SET n = n + 1;" * 3
    + "\nDELETE FROM bag WHERE a % 5 = 0;\nUPDATE bag SET b = 'x' WHERE a % 5 = 1;\nINSERT INTO emptied VALUES (1, 2);",
    fill_again="INSERT INTO retyped SELECT n, n FROM generate_series(20000, 21000) n;\nINSERT INTO emptied VALUES (2, 2);",
)
SMALL = Scanning(window=WindowSize(wal_bytes=1 << 17))


@pytest.fixture(scope="module")
def server():
    with Server(18, test_decoding=False) as running:
        running.say(*(statement for statement in WORK.split(";\n") if statement.strip()))
        running.stop()  # what is written twice is one log
        yield running


def _made(write, feed, folder):
    """What it says of each table, and what lies there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TroubleWarning)
        done = write(feed, folder)
    # In which changes of a stretch the trouble is, its context says.
    said = [(each.table, each.dropped, each.trouble and (each.trouble.message, each.trouble.hint)) for each in done]
    tables = {}
    for path in tables_in(folder):
        rows = read_table(path)
        tables[path.name] = rows.schema, position_of(find(path), feed.span), sorted(map(repr, rows.to_pylist()))
    return said, tables


@pytest.mark.parametrize("write", [pytest.param(append_changes, marks=pytest.mark.marathon), mirror])
def test_what_a_table_comes_to(server, tmp_path, write):
    said, tables = _made(write, open_pipeline(server.data_dir, "postgres"), tmp_path / "whole")
    assert {name for name, _, trouble in said if trouble} >= ({"public.bare"} if write is mirror else {"public.retyped"}) | {
        "public.fits"
    }
    assert len(tables) >= 4
    feed = open_feed(server.data_dir, "postgres", scanning=SMALL)
    assert len(list(feed.windows())) > 5
    assert _made(write, feed, tmp_path / "windows") == (said, tables)
    assert _made(write, feed, tmp_path / "windows")[1] == tables  # once more: nothing is added
