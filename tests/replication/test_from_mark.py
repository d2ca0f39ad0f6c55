"""A slot that is created where others are: what is known of the log already is not read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.acquired import acquired
from support.archives import create_on_archive, ours_upto, receiving, switch_until_whole
from support.decoding import check_equal
from support.servers import Server
from support.slots import create_both, ours, theirs
from support.watching import opened_places
from tailrace.cli.verbs.slot import create
from tailrace.errors import TailraceError, UsageError
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.segment import segment_name

pytestmark = pytest.mark.postgres


def test_of_an_archive_no_state_is_needed_twice(tmp_path: Path) -> None:
    with Server(16) as server, receiving(server, archive := tmp_path / "archive"):
        server.say("CREATE TABLE t (id int, v text)")
        create_on_archive(server, archive, tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        server.say("INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 6000) g", "ALTER TABLE t ADD w int")
        end = switch_until_whole(server, archive)
        with acquired(location, "mine", LocalRunner(1)) as consumer:
            ours_upto(consumer, end)
        marked = location.marks(location.slot("mine").database_oid)[-1].lsn
        assert marked > 6 << 20
        theirs(server)
        with opened_places() as seen:
            create("second", archive, tmp_path / "state", server.dbname)
        # By the record before it the mark is known to be of this log.
        fingerprint = location.mark_upto(location.slot("mine").database_oid, marked).fingerprint
        assert fingerprint is not None
        first_needed = segment_name(1, fingerprint.last >> 20, 1 << 20)[8:]
        # The first segment says whose log it is.
        _, *behind = sorted(seen)
        assert behind[0] >= first_needed
        server.say("INSERT INTO t VALUES (1, 'after', 2)")
        end = switch_until_whole(server, archive)
        with acquired(location, "second", LocalRunner(1)) as consumer:
            check_equal(ours_upto(consumer, end), theirs(server, end))


def test_a_database_that_was_made_anew_is_another(tmp_path: Path) -> None:
    with Server(16, dbname="app") as server:
        create_both(server, "mine", tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        server.sql("SELECT pg_drop_replication_slot('theirs')")
        server.sql("DROP DATABASE app", dbname="postgres")
        server.sql("CREATE DATABASE app", dbname="postgres")
        server.say("CREATE TABLE t (id int)")
        create_both(server, "second", tmp_path / "state")
        assert location.slot("second").database_oid != location.slot("mine").database_oid
        server.say("INSERT INTO t VALUES (1)")
        with acquired(location, "second", LocalRunner(1)) as consumer:
            check_equal(ours(consumer), theirs(server))


def test_wal_level_counts(tmp_path: Path) -> None:
    with Server(16) as server:
        create_both(server, "mine", tmp_path / "state")
        server.sql("SELECT pg_drop_replication_slot('theirs')")
        server.sql("ALTER SYSTEM SET wal_level = replica")
        server.settings.pop("wal_level", None)
        server.restart()
        assert server.value("SHOW wal_level") == "replica"
        with pytest.raises(TailraceError, match="logical decoding requires wal_level >= logical") as raised:
            create("second", server.data_dir, tmp_path / "state", server.dbname)
        assert not isinstance(raised.value, UsageError)
