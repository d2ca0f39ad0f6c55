"""What a snapshot of a standby has seen, beside what its primary says of one at that moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.builds import find_build
from support.servers import Server
from support.standbys import caught_up, standby_of
from tailrace.client.server_snapshot import ServerSnapshot
from tailrace.client.standby_snapshot import before
from tailrace.model import Lsn


@pytest.mark.postgres
@pytest.mark.parametrize("major", [18, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17))])
def test_who_runs(tmp_path: Path, major: int) -> None:
    """With subtransactions, and one that is prepared. pg_current_snapshot() would name none of them there."""
    find_build(major)
    with Server(major, test_decoding=False) as primary:
        primary.say("CREATE TABLE t (i int)")
        with standby_of(primary, tmp_path) as standby, primary.connect() as other, primary.connect() as third:
            other.execute("BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; INSERT INTO t VALUES (2)")
            third.execute("BEGIN; INSERT INTO t VALUES (3); PREPARE TRANSACTION 'p'")
            primary.say("INSERT INTO t VALUES (4)")
            caught_up(standby, primary)
            text = str(primary.value("SELECT pg_current_snapshot()"))
            with ServerSnapshot.taken(standby.dsn(), standby.dbname, 2, print, lambda: False, awaits_older=False) as snapshot:
                assert snapshot is not None
                seen = snapshot.seen
            xmin, xmax, running = text.split(":")
            top_level = set(map(int, running.split(",")))
            assert (seen.xmin, seen.xmax) == (int(xmin), int(xmax))
            assert (len(top_level), {*seen.running} - top_level) == (2, {min(top_level) + 1})
            assert seen.end == Lsn.parse(primary.flush_lsn())
            assert str(standby.value("SELECT pg_current_snapshot()")) == f"{xmin}:{xmax}:"
            third.execute("ROLLBACK PREPARED 'p'")


def test_of_which_epoch_an_xid_is() -> None:
    epoch = 1 << 32
    assert before(5 * epoch + 100, 90) == 5 * epoch + 90
    assert before(5 * epoch + 100, 100) == 5 * epoch + 100
    assert before(5 * epoch + 100, 0xFFFF_FFF0) == 5 * epoch - 16
    assert before(1543, 700) == 700
