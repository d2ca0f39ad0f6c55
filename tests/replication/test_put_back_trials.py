"""A server that is put back to an earlier copy of itself, or whose copy is promoted, at any moment, and consumers that stand anywhere: each goes on
where it has seen nothing that is gone, and gives what the server's own slot gives; or it is told so, and gives nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import Run
from support.decoding import check_equal
from support.put_back import copied, put_back
from support.servers import Server
from support.slots import THEIRS
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation

pytestmark = [pytest.mark.postgres, pytest.mark.marathon]
TRIALS = range(100)


class Consumers:
    """Three slots of one location, each read in its own way. `given` is what each has given, row by row, as LSN, xid and data, or data alone."""

    def __init__(self, server: Server, home: Path, tailrace: Run, dice: random.Random) -> None:
        self.server, self.state, self.file, self.tailrace, self.dice = server, home / "state", home / "rows", tailrace, dice
        self.given = {"got": "", "received": "", "called": ""}
        for name in self.given:
            tailrace("slot", "create", name, server.data_dir, "--database", server.dbname, "--state", self.state)

    def go_on(self, name: str, upto: Lsn | None) -> tuple[int, str]:
        """Up to there, or as far as there is something. The status, and what was said."""
        return {"got": self._get, "received": self._receive, "called": self._call}[name](upto)

    def stands(self, name: str) -> Lsn:
        return SlotLocation.open(self.state).slot(name).confirmed_flush_lsn

    def _get(self, upto: Lsn | None) -> tuple[int, str]:
        words = ["--upto-lsn", upto] if upto is not None else []
        status, out, said = self.tailrace("slot", "get", "got", "--state", self.state, "--window", self._window(), *words)
        self.given["got"] += out
        return status, said

    def _receive(self, upto: Lsn | None) -> tuple[int, str]:
        end = upto if upto is not None else self.server.flush_lsn()
        words = ["--state", self.state, "-f", self.file, "--endpos", end, "--window", self._window(), "--no-loop"]
        status, _, said = self.tailrace("slot", "receive", "received", *words)
        self.given["received"] = self.file.read_text() if self.file.exists() else ""
        return status, said

    def _call(self, upto: Lsn | None) -> tuple[int, str]:
        until = f"'{upto}'" if upto is not None else "NULL"
        query = f"SELECT lsn, xid, data FROM pg_logical_slot_get_changes('called', {until}, NULL)"
        words = ["--state", self.state, "-d", self.server.dbname, "-AtF", "\t", "-v", "ON_ERROR_STOP=1", "-c", query]
        status, out, said = self.tailrace("sql", self.server.data_dir, *words)
        self.given["called"] += out
        return status, said

    def _window(self) -> str:
        return self.dice.choice(["64kB", "1MB", "16MB"])


@pytest.mark.parametrize("seed", TRIALS)
def test_put_back(seed: int, tmp_path: Path, tailrace: Run) -> None:
    dice = random.Random(seed)
    with Server(16, {"autovacuum": "off", "hot_standby": "on"}) as server:
        server.say("CREATE TABLE t (id int, v text)", "CREATE TABLE u (id int)")
        server.sql("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [THEIRS])
        consumers = Consumers(server, tmp_path, tailrace, dice)
        places = _write(server, dice, "shared")
        for name in consumers.given:
            assert consumers.go_on(name, dice.choice([None, *places]))[0] == 0
        end = Lsn.parse(server.flush_lsn())
        copy, is_promoted = copied(server, tmp_path / "copy"), dice.random() < 0.4
        common = Lsn.parse(server.flush_lsn())
        # What the server writes when it starts may be the same again, byte for byte; what follows has other commits.
        places = _write(server, dice, "gone")
        for name in consumers.given:
            if dice.random() < 0.7:
                assert consumers.go_on(name, dice.choice([None, *places, common]))[0] == 0
        stood = {name: consumers.stands(name) for name in consumers.given}
        old = _theirs(server)
        for name, given in consumers.given.items():
            _check_prefix(given, _columns(old, name))
        if is_promoted:
            (copy / "standby.signal").touch()
        put_back(server, copy)
        server.sql("SELECT pg_is_in_recovery() AND pg_promote()")
        for number in range(dice.randrange(3)):
            _write(server, dice, f"new_{number}")
        new = _theirs(server)
        for name, given in list(consumers.given.items()):
            status, said = consumers.go_on(name, None)
            if status == 0:
                assert stood[name] <= Lsn.parse(server.flush_lsn())
                check_equal(consumers.given[name], _columns(new, name))
                seen = [row for row in old if common < Lsn.parse(row[0]) <= stood[name] and row[2].startswith("COMMIT")]
                assert seen == [], f"{name} has read up to {stood[name]} what is gone"
            else:
                assert ("of a branch that was abandoned" if is_promoted else "of a history that is gone") in said, said
                assert consumers.given[name] == given
                assert consumers.stands(name) == stood[name] > (end if is_promoted else common)


def _write(server: Server, dice: random.Random, what: str) -> list[str]:
    """Transactions of any size, some of none of our tables; where the log was flushed to behind each."""
    places = []
    for number in range(dice.randrange(2, 8)):
        rows = dice.choice([1, 20, 3000])
        statements: list[Callable[[], str]] = [
            lambda rows=rows: f"INSERT INTO t SELECT g, '{what}' FROM generate_series(1, {rows}) g",
            lambda: f"UPDATE t SET v = v || '!' WHERE id % {dice.randrange(2, 9)} = 0",
            lambda: "DELETE FROM t WHERE id = 1",
            lambda number=number: f"ALTER TABLE u ADD {what}_{number}_{len(places)} int",
            lambda: "INSERT INTO u (id) VALUES (1)",
            lambda: "CHECKPOINT",
            lambda: "SELECT pg_switch_wal()",
        ]
        server.say(dice.choice(statements)())
        places.append(server.flush_lsn())
    return places


def _theirs(server: Server) -> list[tuple[str, str, str]]:
    """All that commits, from the slot's beginning on: it confirms nothing."""
    with server.connect() as connection:
        return connection.execute(
            "SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_changes(%s, NULL, NULL)", [THEIRS]
        ).fetchall()


def _columns(rows: list[tuple[str, str, str]], name: str) -> str:
    return "".join(("\t".join(row) if name != "received" else row[2]) + "\n" for row in rows)


def _check_prefix(text: str, whole: str) -> None:
    check_equal(text, whole[: len(text)])
