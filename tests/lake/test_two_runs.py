"""Several writers at one directory at once: each table comes to what it comes to with one, or a run is told who was quicker, and running it again
settles it. With the lock that makes runs wait for each other, and without."""

from __future__ import annotations

import multiprocessing
import random
import re
import threading
import time
from concurrent.futures import ProcessPoolExecutor, wait
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailrace
from support import lake_writers
from support.lake_writers import FOREIGN, act, open_feeds, overwrite, write
from support.servers import Server
from tailrace.errors import Overtaken
from tailrace.lake.delta.table import find, is_begun
from tailrace.lake.files.data_files import DataFiles, data_file_name
from tailrace.lake.files.file_changes import FileChanges
from tailrace.lake.reading import read_table
from tailrace.lake.table import CommitNote
from tailrace.model import Lsn
from tailrace.storage.local_store import LocalStore

pytestmark = pytest.mark.postgres

STEPS = (
    """
CREATE TABLE keyed (id int PRIMARY KEY, n numeric(20,2), t text);
CREATE TABLE bag (a int, b text);
ALTER TABLE bag REPLICA IDENTITY FULL;
CREATE TABLE heap (a int);
INSERT INTO keyed SELECT n, n + 0.25, 'one' FROM generate_series(1, 60) n;
INSERT INTO bag SELECT n % 4, 'b' FROM generate_series(1, 20) n;
INSERT INTO heap SELECT generate_series(1, 10)
""",
    """
UPDATE keyed SET n = n * 2 WHERE id % 3 = 0;
DELETE FROM keyed WHERE id % 7 = 0;
DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE a = 1 LIMIT 2);
INSERT INTO heap SELECT generate_series(1, 10);
CREATE TABLE late (id int PRIMARY KEY);
INSERT INTO late VALUES (1), (2)
""",
    """
INSERT INTO keyed SELECT n, n, 'two' FROM generate_series(100, 150) n;
ALTER TABLE keyed ADD COLUMN more int DEFAULT 7;
UPDATE keyed SET id = id + 1000 WHERE id < 10;
INSERT INTO bag VALUES (9, 'c');
TRUNCATE heap;
INSERT INTO heap VALUES (1);
ALTER TABLE late RENAME TO other
""",
    """
INSERT INTO heap SELECT generate_series(1, 10);
UPDATE keyed SET t = 'three' WHERE id > 120;
INSERT INTO other VALUES (3)
""",
)


@pytest.fixture(scope="module")
def source():
    """A stopped server's directory, and where each step of its life ends."""
    with Server(18, test_decoding=False) as server:
        ends = []
        for script in STEPS:
            server.say(*script.split(";\n"))
            ends.append(int(Lsn.parse(server.flush_lsn())))
        server.stop()
        yield str(server.data_dir), ends


@pytest.fixture(scope="module")
def pool(source):
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as processes:
        wait([processes.submit(open_feeds, *source, time.time() + 3) for _ in range(3)])
        yield processes


@pytest.fixture(scope="module")
def alone(source, tmp_path_factory):
    """What tables come to when nobody disturbs."""
    folder = tmp_path_factory.mktemp("alone")
    for kind in lake_writers.WRITERS:
        assert [each.trouble for each in write(kind, source[0], None, str(folder / kind))] == [None] * 4
    return {kind: _rows(folder / kind) for kind in lake_writers.WRITERS}


def _rows(folder):
    return {log.parent.name: sorted(map(repr, read_table(log.parent).to_pylist())) for log in folder.glob("*/_delta_log")}


def _troubles(found):
    return {each.table: each.trouble for each in found if each.trouble is not None}


def _settled(kind, source, folder, alone):
    """Running it again is all it takes, and once is enough."""
    assert _troubles(write(kind, source[0], None, str(folder))) == {}
    assert write(kind, source[0], None, str(folder)) == []
    assert _rows(folder) == alone[kind]
    assert not list(folder.glob("_staging-*"))


@pytest.mark.parametrize("kind", lake_writers.WRITERS)
@pytest.mark.parametrize("begun", [False, True], ids=["new", "begun"])
def test_the_loser_names_the_winner(source, pool, alone, tmp_path, kind, begun):
    """The other run does all that this one has planned; what this one has decoded goes nowhere."""
    data, ends = source
    if begun:
        write(kind, data, ends[0], str(tmp_path))
    others = []

    def meanwhile(done, of):
        if not others:
            others.append(pool.submit(write, kind, data, ends[1], str(tmp_path), locked=False).result(60))

    troubles = _troubles(write(kind, data, ends[1], str(tmp_path), locked=False, progress=meanwhile))
    assert _troubles(others[0]) == {}
    assert set(troubles) == {"public.keyed", "public.bag", "public.heap", "public.late"}
    start = str(Lsn(ends[0])) if begun else r"\w+/\w+"  # where the log begins
    for error in troubles.values():
        assert (type(error), error.sqlstate) == (Overtaken, "40001")
        assert re.search(r"has a version \d+ that this run did not write", error.message)
    stop = Lsn(ends[1])
    assert re.fullmatch(
        rf"Another run committed what lies between {start} and {stop}, at 20.* UTC\.", troubles["public.keyed"].detail
    )
    _settled(kind, source, tmp_path, alone)


@pytest.mark.parametrize("kind", lake_writers.WRITERS)
def test_one_table_of_several_loses(source, pool, alone, tmp_path, kind):
    """The others are brought up, and say so."""
    data, ends = source
    write(kind, data, ends[0], str(tmp_path))
    calls = []

    def meanwhile(done, of):
        if not calls:
            calls.append(pool.submit(overwrite, tmp_path / "public.keyed").result(60))

    found = write(kind, data, ends[1], str(tmp_path), locked=False, progress=meanwhile)
    assert set(_troubles(found)) == {"public.keyed"}
    assert "(WRITE)" in _troubles(found)["public.keyed"].detail
    assert {each.table for each in found} == {"public.keyed", "public.bag", "public.heap", "public.late"}
    versions = {name: DeltaTable(tmp_path / name).version() for name in ("public.bag", "public.heap", "public.late")}
    again = write(kind, data, ends[1], str(tmp_path))
    assert [(each.table, each.trouble) for each in again] == [("public.keyed", None)]
    assert versions == {name: DeltaTable(tmp_path / name).version() for name in versions}
    _settled(kind, source, tmp_path, alone)


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("kind", lake_writers.WRITERS)
def test_somebody_else_comes_between_plan_and_commit(source, pool, alone, tmp_path, kind, name):
    data, ends = source
    for end in ends[:2]:
        write(kind, data, end, str(tmp_path))
    before = {path.parent.name: DeltaTable(path.parent).version() for path in tmp_path.glob("*/_delta_log")}
    calls, moved = [], {}

    def meanwhile(done, of):
        if not calls:
            calls.append(pool.submit(act, name, str(tmp_path)).result(60))
            for log in tmp_path.glob("*/_delta_log"):
                moved[log.parent.name] = DeltaTable(log.parent).version()

    troubles = _troubles(write(kind, data, ends[3], str(tmp_path), progress=meanwhile))
    before["public.other"] = before.pop("public.late")
    beaten = {name for name in before if moved[name] > before[name]}
    assert set(troubles) == beaten
    assert all(type(error) is Overtaken and "Another program" in error.detail for error in troubles.values())
    assert beaten or name in {"checkpoint", "vacuum"}  # of a table of which nothing was ever removed, vacuum says nothing
    _settled(kind, source, tmp_path, alone)


def test_runs_wait_for_each_other(source, pool, alone, tmp_path):
    """The second finds done what the first has done, so it has nothing to be told."""
    data, _ = source
    second, waited = [], threading.Event()

    def meanwhile(done, of):
        if not second:
            second.append(pool.submit(write, "mirror", data, None, str(tmp_path)))
            time.sleep(1)
            assert not second[0].done()
            waited.set()

    first = write("mirror", data, None, str(tmp_path), progress=meanwhile)
    assert waited.is_set()
    assert second[0].result(60) == []
    assert _troubles(first) == {}
    assert _rows(tmp_path) == alone["mirror"]


@pytest.mark.parametrize("kind", lake_writers.WRITERS)
def test_files_of_rows_before_the_first_version(source, alone, tmp_path, kind):
    """Of a run that is about to commit them, or was killed: nobody else's folder, and the table is made there."""
    folder = tmp_path / "public.keyed"
    folder.mkdir()
    for unfinished in (f".{data_file_name('a' * 32)}.b.new", data_file_name("a" * 32)):
        (folder / unfinished).write_bytes(b"PAR1")
        assert is_begun(folder)
    _settled(kind, source, tmp_path, alone)
    assert not is_begun(folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "part-0.parquet").write_bytes(b"PAR1")
    assert not is_begun(other)


def test_a_folder_that_was_renamed_is_not_made_again(tmp_path):
    """By another run, where nothing keeps runs apart. What was committed to is the table, or nothing is."""
    old, new, rows = tmp_path / "old", tmp_path / "new", pa.table({"a": [1]})
    write_deltalake(old, rows)
    table = find(old)
    old.rename(new)
    data = DataFiles(LocalStore(old), rows.schema, "run")
    with pytest.raises(Overtaken, match="is not in its folder any more"):
        table.commit("t", FileChanges(added=(data.write(rows),)), CommitNote())
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    write_deltalake(old, rows)  # another table has the name, and as many versions
    with pytest.raises(Overtaken, match="is not in its folder any more"):
        table.commit("t", FileChanges(added=(data.write(rows),)), CommitNote())
    assert DeltaTable(new).version() == DeltaTable(old).version() == 0


def test_all_commits_are_bound():
    """To one version: one function makes them, and nobody has delta-rs make any."""
    package = Path(tailrace.__file__).parent
    makers = {path.name for path in package.rglob("*.py") if re.search("(import|from) deltalake", path.read_text())}
    assert makers <= {"checkpointing.py"}


@pytest.mark.parametrize("seed", range(3))
def test_all_at_once(source, pool, alone, tmp_path, seed):
    _trial(source, pool, alone, tmp_path, seed)


@pytest.mark.marathon
@pytest.mark.parametrize("seed", range(100, 200))
def test_all_at_once_more_often(source, pool, alone, tmp_path, seed):
    _trial(source, pool, alone, tmp_path, seed)


def _trial(source, pool, alone, folder, seed):
    data, ends = source
    chance = random.Random(seed)
    kind, locked = chance.choice(list(lake_writers.WRITERS)), chance.random() < 0.25
    begun = chance.randrange(-1, 3)
    if begun >= 0:
        assert _troubles(write(kind, data, ends[begun], str(folder))) == {}
    uptos = [ends[min(chance.randrange(begun + 1, 5), 3)] for _ in range(2)]
    at = time.time() + 0.1
    runs = [pool.submit(write, kind, data, upto, str(folder), locked=locked, at=at + chance.random() / 20) for upto in uptos]
    name = chance.choice([None, *FOREIGN])
    foreign = name and pool.submit(act, name, str(folder), 8, at + chance.random() / 10, chance.random() / 30)
    told = []
    for run in runs:
        try:
            told += _troubles(run.result(60)).values()
        except Overtaken as error:  # folders were moved under it
            told.append(error)
    if foreign:
        foreign.result(60)
    print(seed, kind, "locked" if locked else "free", begun, uptos, name, *told, sep="\n    ")
    assert {type(error) for error in told} <= {Overtaken}, told
    assert name or not (locked and told)
    _settled(kind, source, folder, alone)
