"""Transaction ids in a log that is followed: they begin again, and a crash leaves some that never end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.acquired import acquired
from support.cases import DBNAME
from support.decoding import check_equal
from support.servers import Server
from support.slots import create_both, ours, theirs
from support.xids import near_the_end
from tailrace.pipeline import LocalRunner
from tailrace.plan.carried import Carried
from tailrace.plan.demand import OF_TABLES
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("major", [16, pytest.param(18, marks=pytest.mark.matrix)])
def test_the_counter_passes_its_end(major: int, tmp_path: Path) -> None:
    """While a transaction of before stays open, a consumer goes on, and another comes back after a restart."""
    with Server(major, dbname=DBNAME) as server:
        near_the_end(server, 40)
        server.say("CREATE TABLE t (id int, v text)", "CREATE TABLE apart (id int, v text)")
        create_both(server, "mine", tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        taken, xids = "", []
        with server.connect(autocommit=False) as slow:
            slow.execute("INSERT INTO apart VALUES (0, 'begun in one epoch')")
            open_xid = int(str(slow.execute("SELECT pg_current_xact_id()::text").fetchone()[0]))  # type: ignore[index]
            for turn in range(3):
                with acquired(location, "mine", LocalRunner(1)) as consumer:
                    for number in range(8):
                        server.say(
                            f"INSERT INTO t VALUES ({turn}, '{number}')", f"ALTER TABLE t ADD c{turn}_{number} int DEFAULT 1"
                        )
                        taken += ours(consumer)
                        xids.append(int(server.value("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")))
                    assert consumer.empty_window(OF_TABLES).newest_open == open_xid
            slow.execute("INSERT INTO apart VALUES (0, 'ended in the next')")
            slow.commit()
        with acquired(location, "mine", LocalRunner(1)) as consumer:
            taken += ours(consumer)
        check_equal(taken, theirs(server))
    assert xids[0] < 1 << 32 < xids[-1]
    assert taken.count("begun in one epoch") == taken.count("ended in the next") == 1


def test_orphans_of_a_crash_are_forgotten(tmp_path: Path) -> None:
    """What was open when a server crashed never ends; as long as that is not known its rows are kept for."""
    with Server(16) as server:
        server.say("CREATE TABLE t (id int)")
        create_both(server, "mine", tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        with acquired(location, "mine", LocalRunner(1)) as consumer:
            orphan = server.connect(autocommit=False)
            xid = int(str(orphan.execute("SELECT pg_current_xact_id()::text").fetchone()[0]))  # type: ignore[index]
            orphan.execute("INSERT INTO t VALUES (1)")
            server.say("INSERT INTO t VALUES (2)")
            taken = ours(consumer)
            assert xid in _open_in(consumer._carried)
            server.crash()
            server.start()
            server.say("INSERT INTO t VALUES (3)")
            server.checkpoint()
            server.say("INSERT INTO t VALUES (4)")
            taken += ours(consumer)
            assert not len(_open_in(consumer._carried))
        check_equal(taken, theirs(server))
        assert [line.split("id[integer]:")[1] for line in taken.splitlines() if "INSERT" in line] == ["2", "3", "4"]


def _open_in(carried: Carried) -> np.ndarray:
    """The transactions of which rows are kept for."""
    return np.concatenate([np.array([], np.int64), *(part.xids.xid for part in carried.earlier.indexes_of_unfinished)])
