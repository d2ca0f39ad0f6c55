"""What becomes of the WAL that slots need, as `tailrace slot ls` shows it: in a server's pg_wal, in the spool, in an archive."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from support.archives import create_on_archive, receiving, switch_until_whole
from support.command import Run
from support.segments import NAME
from support.servers import Server
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres


@pytest.mark.marathon
def test_copies_in_the_spool_count(tailrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that the server's pg_wal alone would leave lost can go on; once the copies are gone it is lost."""
    monkeypatch.setenv("TAILRACE_SPOOL", str(tmp_path / "spool"))
    state = ("--state", tmp_path / "state")
    with Server(16, {"wal_keep_size": 0, "min_wal_size": "2MB"}) as server:
        server.say("CREATE TABLE t (id int)")
        assert tailrace("slot", "create", "a", server.data_dir, "--database", server.dbname, *state)[0] == 0
        with server.connect(autocommit=False) as open_one:
            open_one.execute("INSERT INTO t VALUES (0)")
            for _ in range(8):
                server.say("INSERT INTO t VALUES (1)")
                server.switch_wal()
                assert tailrace("slot", "peek", "a", *state)[0] == 0
                server.checkpoint()
        restart = SlotLocation.open(tmp_path / "state").slot("a").restart_lsn
        assert min(int(path.name[16:], 16) for path in server.wal_dir.glob(NAME)) > restart >> 20
        assert shown(tailrace, "a", *state)["wal_status"] == "reserved"
        assert tailrace("slot", "peek", "a", *state)[1].count("INSERT") == 9
        gc.collect()  # a command of its own would have ended, and its lease with it
        assert tailrace("spool", "clean")[0] == 0
        check_lost(tailrace, "a", *state)


@pytest.mark.soak
def test_lost_for_good(tailrace: Run, tmp_path: Path) -> None:
    """Though somebody puts the WAL back. A limit says earlier that it may happen."""
    state = ("--state", tmp_path / "state")
    with Server(16) as server, receiving(server, archive := tmp_path / "archive"):
        create_on_archive(server, archive, tmp_path / "state")
        server.say("CREATE TABLE t (id int)")
        for _ in range(3):
            server.say("INSERT INTO t VALUES (1)")
            switch_until_whole(server, archive)
        assert tailrace("slot", "copy", "mine", "other", *state)[0] == 0
        assert tailrace("slot", "advance", "other", server.flush_lsn(), *state)[0] == 0
        slot = shown(tailrace, "mine", *state)
        assert (slot["wal_status"], slot["safe_wal_size"], slot["invalidation_reason"]) == ("reserved", None, None)
        assert tailrace("slot", "set", *state, "max_slot_wal_keep_size=1")[1] == (
            "name\tsetting\nmax_replication_slots\t10\nmax_slot_wal_keep_size\t1MB\nwal_keep\t0\nsynchronous_standby_names\t\n"
        )
        slot = shown(tailrace, "mine", *state)
        assert slot["wal_status"] == "unreserved"
        assert slot["safe_wal_size"] < 0
        assert tailrace("slot", "set", *state, "max_slot_wal_keep_size=16MB", "max_replication_slots=2", "--json")[0] == 0
        assert json.loads(tailrace("slot", "set", *state, "--json")[1]) == {
            "system": str(SlotLocation.open(tmp_path / "state").settings.system), "max_replication_slots": 2, "max_slot_wal_keep_size": 16 << 20,
            "wal_keep": "0", "synchronous_standby_names": "",
        }  # fmt: skip
        slot = shown(tailrace, "mine", *state)
        assert slot["wal_status"] == "reserved"
        assert slot["safe_wal_size"] > 0
        assert tailrace("slot", "copy", "mine", "third", *state)[2] == (
            "tailrace: error: all replication slots are in use\nHINT:  Free one or increase max_replication_slots.\n"
        )
        first = sorted(path for path in archive.glob(NAME) if int(path.name[16:], 16) <= Lsn.parse(slot["restart_lsn"]) >> 20)
        for path in first:
            path.rename(tmp_path / path.name)
        with SlotLocation.open(tmp_path / "state").owned("mine"):  # who consumes it finds out for itself
            assert shown(tailrace, "mine", *state)["invalidation_reason"] is None
        assert [row["wal_status"] for row in json.loads(tailrace("slot", "ls", *state, "--json")[1])] == ["lost", "lost"]
        for path in first:
            (tmp_path / path.name).rename(archive / path.name)
        check_lost(tailrace, "mine", *state)
        assert tailrace("slot", "drop", "other", *state)[0] == 0
        assert tailrace("slot", "copy", "mine", "other", *state)[2] == (
            'tailrace: error: cannot copy invalidated replication slot "mine"\n'
        )


def check_lost(tailrace: Run, name: str, *state: object) -> None:
    slot = shown(tailrace, name, *state)
    assert (slot["wal_status"], slot["safe_wal_size"], slot["invalidation_reason"]) == ("lost", None, "wal_removed")
    status, out, err = tailrace("slot", "get", name, *state)
    assert (status, out) == (1, "")
    assert err.startswith(f'tailrace: error: can no longer access replication slot "{name}"\n')


def shown(tailrace: Run, name: str, *state: object) -> dict[str, object]:
    status, out, err = tailrace("slot", "show", name, *state, "--json")
    assert (status, err) == (0, "")
    row: dict[str, object] = json.loads(out)
    return row
