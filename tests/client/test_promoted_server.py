"""A slot on a standby that is promoted under way: it gives what slots of the old primary and of the new one give, one behind the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import ran
from support.decoding import check_equal
from support.forked import forked
from support.servers import Server
from support.slots import is_confirmed, peeked_text
from support.standbys import caught_up, standby_of
from support.waiting import until

pytestmark = pytest.mark.postgres
ALL = [pytest.param(18, marks=pytest.mark.soak), *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17))]
KEEPS = {"wal_keep_size": "200MB"}


def _busy(server: Server, turn: int) -> None:
    server.say(
        f"CREATE TABLE t{turn} (id int PRIMARY KEY, v text)",
        f"INSERT INTO t{turn} SELECT i, repeat('x', 50) FROM generate_series(1, 500) i",
        f"ALTER TABLE t{turn} ADD COLUMN more int DEFAULT 7",
        f"UPDATE t{turn} SET v = 'y' WHERE id < 10",
    )


@pytest.mark.parametrize("major", ALL)
def test_every_line_of_both(major: int, tmp_path: Path) -> None:
    state, file, said = tmp_path / "state", tmp_path / "out", tmp_path / "said"
    create = "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')"
    with Server(major, KEEPS, dbname="app") as primary, standby_of(primary, tmp_path) as standby:
        primary.say(create)
        caught_up(standby, primary)
        done = ran("slot", "create", "ours", standby.dsn(), "--database", "app", "--state", state)
        assert done.returncode == 0, done.stderr
        receive = ["slot", "receive", "ours", "--state", str(state), "-f", str(file), "-F", "0.1"]
        with forked(receive, said) as consumer:
            try:
                _busy(primary, 0)
                before = peeked_text(primary, "theirs")
                primary.stop()
                standby.sql("SELECT pg_promote()")
                standby.say(create)
                for turn in (1, 2):
                    _busy(standby, turn)
                    standby.restart()
                expected = before + peeked_text(standby, "theirs")
                until(lambda: consumer.poll() is not None or is_confirmed(file, expected))
            finally:
                consumer.terminate()
                consumer.wait(30)
        check_equal(file.read_text(), expected)
        assert "error" not in said.read_text()
