"""Invalidation messages of commit records, against pg_waldump's words for them."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

from support.builds import find_build
from support.cases import DBNAME
from support.servers import Server
from tailrace.errors import CorruptWal
from tailrace.model import Lsn, Stretch
from tailrace.pipeline.scanning import scan_stretch
from tailrace.storage.segment_files import open_segments
from tailrace.wal import index, xact
from tailrace.wal.index import Index
from tailrace.wal.invalidations import (
    EVERY_RELATION,
    RELCACHE,
    Invalidations,
    invalidated_relations,
    invalidations_of,
    read_invalidations,
    write_invalidations,
)
from tailrace.wal.kept_records import MainData, kept_records, main_data

WORK = (
    "CREATE TABLE t (a int PRIMARY KEY, b text)",
    "CREATE PUBLICATION p FOR TABLE t",
    "ALTER TABLE t ADD COLUMN c int",
    "CREATE SCHEMA s",
    "ALTER TABLE t SET SCHEMA s",
    "ALTER PUBLICATION p RENAME TO q",
    "CREATE PUBLICATION everything FOR ALL TABLES",
    "VACUUM FULL pg_class",
    "TRUNCATE s.t",
    "DROP TABLE s.t",
)


@pytest.mark.parametrize("major", [16, 18])
def test_as_pg_waldump(major: int) -> None:
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        oid = int(str(server.value("SELECT oid FROM pg_database WHERE datname = current_database()")))
        server.say(*WORK[:1])
        table = int(str(server.value("SELECT 't'::regclass::oid")))
        server.say(*WORK[1:])
        server.checkpoint()
        server.stop()
        segments = open_segments(server.wal_dir)
        part = scan_stretch(segments, (), Stretch(segments.first_lsn, Lsn(segments.stop_lsn)))
        for path in server.wal_dir.glob("0*"):
            if not path.read_bytes()[:2].strip(b"\0"):
                path.unlink()  # made ahead, and empty: pg_waldump may look there for the size of segments
        command = [
            find_build(major, test_decoding=False).bin("pg_waldump"),
            "-p",
            server.wal_dir,
            "-s",
            str(part.first),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        theirs = done.stdout.splitlines()
    assert theirs, done.stderr
    ends = part.ends
    commit = re.compile(r"lsn: (\w+/\w+), .*desc: (?:COMMIT|COMMIT_PREPARED) .*inval msgs: ([^;]*)")
    said = dict(match.groups() for line in theirs if (match := commit.search(line)))
    ours = {}
    for row in np.flatnonzero(np.diff(ends.invalidation_bounds)).tolist():
        first, stop = ends.invalidation_bounds[row : row + 2] * 16
        messages = read_invalidations(ends.invalidations[first:stop])
        ours[int(ends.lsn[row])] = " ".join(messages.words())
    assert ours == {int(Lsn.parse(lsn)): words.strip() for lsn, words in said.items()}
    assert len(ours) >= len(WORK) - 1
    assert {word for words in ours.values() for word in words.split()} >= {"catcache", "relcache", "snapshot"}
    every = Invalidations(
        *(np.concatenate([getattr(each, name) for each in _of_commands(part)]) for name in ("id", "database", "object"))
    )
    record, at_once = invalidations_of(main_data(part, index.KEPT_INVALIDATIONS))
    assert all((getattr(at_once, name) == getattr(every, name)).all() for name in ("id", "database", "object"))
    assert np.bincount(record).tolist() == [len(each) for each in _of_commands(part)]
    assert {EVERY_RELATION, table} <= set(invalidated_relations(every, oid, major).tolist())  # FOR ALL TABLES
    assert table not in invalidated_relations(every, 1, major)


def _of_commands(part: Index) -> list[Invalidations]:
    kept = kept_records([part], index.KEPT_INVALIDATIONS)
    return [read_invalidations(np.frombuffer(each.read(xact.XactInvalidations).messages, np.uint8)) for each in kept]


def test_both_directions() -> None:
    messages = Invalidations(np.array([7, RELCACHE, -1]), np.array([5, 5, 0]), np.array([0xFFFFFFFF, 16384, 1259]))
    again = read_invalidations(write_invalidations(messages))
    assert all((getattr(again, name) == getattr(messages, name)).all() for name in ("id", "database", "object"))


def test_a_record_that_is_shorter_than_it_says_is_damage() -> None:
    record = xact.XactInvalidations(bytes(32)).write(18)
    whole, short = (np.frombuffer(data, np.uint8) for data in (record, record[:-1]))
    for cut in (short, whole[:3]):
        length = np.array([len(whole), len(cut)])
        kept = MainData(np.array([8, 64]), np.zeros(2, np.int64), np.append(whole, cut), np.array([0, len(whole)]), length)
        with pytest.raises(CorruptWal, match="invalid length of transaction record") as caught:
            invalidations_of(kept)
        assert caught.value.lsn == 64
