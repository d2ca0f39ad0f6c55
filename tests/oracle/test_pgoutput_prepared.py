"""What pgoutput says of prepared transactions where the server's own state decides: of those without rows, and of those that a consumer knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.acquired import acquired, looked
from support.cases import DBNAME
from support.pgoutput_rows import PLAIN, PUBLICATION, check_same, ours, theirs
from support.sampling import some_of
from support.servers import Server
from tailrace.cli.verbs.slot import create
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_plugin import plugin_of
from tailrace.replication.writers import Rows

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
OPTIONS = {**PLAIN, "proto_version": "3", "two_phase": "on"}
MAJORS = [pytest.param(major, id=str(major)) for major in (18, 16, 17, 15)]


def _prepared(gid: str, *statements: str, end: str = "") -> tuple[str, ...]:
    return ("BEGIN", *statements, f"PREPARE TRANSACTION '{gid}'", *([f"{end} PREPARED '{gid}'"] if end else []))


WORK = (
    *_prepared("nothing", end="COMMIT"),
    *_prepared("locks", "LOCK x", end="COMMIT"),
    *_prepared("locks, taken back", "LOCK x", end="ROLLBACK"),
    *_prepared("rolled back in part", "SAVEPOINT s", "INSERT INTO x VALUES (0)", "ROLLBACK TO s", end="COMMIT"),
    "INSERT INTO x VALUES (1)",
    *_prepared("definition", "ALTER TABLE x ADD COLUMN v text", "INSERT INTO x VALUES (2, 'two')"),
    "INSERT INTO y VALUES (3)",
    "COMMIT PREPARED 'definition'",
    "INSERT INTO x VALUES (4, 'four')",
    *_prepared("left, and committed", "INSERT INTO x VALUES (5, 'five')"),
    *_prepared("left, and rolled back", "INSERT INTO x VALUES (6, 'six')"),
    "SELECT pg_replication_origin_create('elsewhere'), pg_replication_origin_session_setup('elsewhere')",
    *_prepared(
        "prepared elsewhere",
        "SELECT pg_replication_origin_xact_setup('0/1234', '2020-01-01')",
        "INSERT INTO x VALUES (7, 'seven')",
    ),
    "SELECT pg_replication_origin_session_reset()",
)


@pytest.mark.parametrize("major", some_of(MAJORS, 2))
def test_prepared_transactions(major: int) -> None:
    with Server(major, {"autovacuum": "off"}, dbname=DBNAME, test_decoding=False) as server:
        server.say("CREATE TABLE x (id int PRIMARY KEY)", "CREATE TABLE y (id int PRIMARY KEY)")
        server.say(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES", "CHECKPOINT")
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('t', 'pgoutput', false, true)"))
        server.say(*WORK)
        told = theirs(server, "t", OPTIONS)
        confirmed = str(server.value("SELECT end_lsn FROM pg_replication_slot_advance('t', pg_current_wal_flush_lsn())"))
        server.say(
            "COMMIT PREPARED 'left, and committed'",
            "ROLLBACK PREPARED 'left, and rolled back'",
            "SELECT pg_replication_origin_session_setup('elsewhere')",
            "SELECT pg_replication_origin_xact_setup('0/5678', '2021-01-01')",
            "ROLLBACK PREPARED 'prepared elsewhere'",
        )
        told_later = theirs(server, "t", OPTIONS)
        server.stop()
        found = ours(server.data_dir, OPTIONS, start_lsn=start, upto_lsn=Lsn.parse(confirmed), two_phase=True, major=major)
        check_same(found, told, f"{major}")
        found = ours(server.data_dir, OPTIONS, start_lsn=confirmed, two_phase=True, major=major)
        check_same(found, told_later, f"{major}, behind {confirmed}")
    bare = [data[:1] for _, _, data in told].count(b"P") - [data[:1] for _, _, data in told].count(b"b")
    assert bare == (2 if major >= 18 else 0)
    assert [data[:1] for _, _, data in told_later] == [b"K", b"r", b"r"]


@pytest.mark.parametrize("major", [pytest.param(14, id="14"), *some_of(MAJORS, 2)])
def test_two_phases_by_the_slot_or_by_the_option(major: int, tmp_path: Path) -> None:
    """Whichever asks for them: a slot that has them gives them by any protocol; an option makes the slot one that has them, from there on."""
    asked = {**PLAIN, "proto_version": "3", "two_phase": "on"} if major >= 15 else PLAIN
    with Server(major, {"autovacuum": "off"}, dbname=DBNAME, test_decoding=False) as server:
        server.say("CREATE TABLE x (id int PRIMARY KEY)", f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES", "CHECKPOINT")
        made = "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput', false, %s)"
        starts = {name: str(server.value(made, [name, name == "t"])) for name in ("t", "s")}
        create("mine", server.data_dir, tmp_path, DBNAME, "pgoutput")
        server.say(*_prepared("first", "INSERT INTO x VALUES (1)"), "INSERT INTO x VALUES (2)", "COMMIT PREPARED 'first'")
        told = {"t": theirs(server, "t", PLAIN), "s": theirs(server, "s", asked)}
        is_two_phase = server.value("SELECT two_phase FROM pg_replication_slots WHERE slot_name = 's'")
        with acquired(SlotLocation.open(tmp_path), "mine", LocalRunner(1)) as consumer:
            plugin = plugin_of(consumer, asked, {})
            rows = [
                row for window in looked(consumer, plugin.demand) for lines in window.lines(plugin) for row in Rows(lines, plugin)
            ]
            assert consumer.slot.two_phase == is_two_phase == (major >= 15)
        assert [row.data[:1] for row in rows] == [data[:1] for _, _, data in told["s"]]
        server.stop()
        for name, options in (("t", PLAIN), ("s", asked)):
            found = ours(server.data_dir, options, start_lsn=starts[name], two_phase=name == "t", major=major)
            check_same(found, told[name], f"{major}, {name}")
    kinds = [data[:1] for _, _, data in told["t"]]
    assert (b"P" in kinds and b"K" in kinds) == (major >= 15)


@pytest.mark.parametrize("major", some_of(MAJORS, 2))
def test_rolled_back_rows_by_what_the_caches_hold(major: int) -> None:
    """Of what was rolled back before it is read, a server gives rows only while its caches know the table. We give them in any case. That
    the server's answer is still either of the two is what is asked here (docs/fidelity.md)."""
    with Server(major, {"autovacuum": "off"}, dbname=DBNAME, test_decoding=False) as server:
        server.say("CREATE TABLE x (id int PRIMARY KEY)", f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES", "CHECKPOINT")
        made = "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput', false, true)"
        starts = {"warm": str(server.value(made, ["warm"]))}
        server.say("INSERT INTO x VALUES (0)")
        starts["cold"] = str(server.value(made, ["cold"]))
        server.say(*_prepared("g", "INSERT INTO x VALUES (1), (2)", end="ROLLBACK"))
        told = {name: theirs(server, name, OPTIONS) for name in starts}
        server.stop()
        found = {name: ours(server.data_dir, OPTIONS, start_lsn=lsn, two_phase=True, major=major) for name, lsn in starts.items()}
    check_same(found["warm"], told["warm"], f"{major}, warm")
    kinds = [b"".join(data[:1] for _, _, data in rows["cold"]) for rows in (told, found)]
    assert kinds == [b"bPr", b"bRIIPr"]
