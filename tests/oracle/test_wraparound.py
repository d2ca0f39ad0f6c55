"""Counters that come round: transaction ids, and the numbers of files. PostgreSQL's slot is the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import DBNAME
from support.decoding import check, decode
from support.live import Slot
from support.schedule import make_schedule, run_schedule
from support.servers import Server
from support.xids import near_the_end
from tailrace.pipeline import LocalRunner

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]


@pytest.mark.parametrize("major", [16, 18])
def test_transaction_ids_begin_again(major: int, tmp_path: Path) -> None:
    """The counter passes 2^32 in the middle: xids of old transactions are larger than those of new ones."""
    with Server(major, dbname=DBNAME) as server:
        near_the_end(server, 120)
        slot = Slot.on(server)
        run_schedule(server, make_schedule(9, 400))
        assert server.value("SELECT pg_current_xact_id()::text::numeric >= 4294967296"), "the counter was to pass its end"
        case = slot.stopped(tmp_path)
    assert len({len(line.split("\t")[1]) for line in case.expected.splitlines() if "\tBEGIN" in line}) > 1, (
        "long xids, then short ones"
    )
    check(case, decode(case, LocalRunner(2), captured=False, stretch_bytes=1 << 20))


@pytest.mark.parametrize("major", [16, 18])
def test_file_numbers_begin_again(major: int, tmp_path: Path) -> None:
    """The counter that numbers files comes round, and only files of one tablespace are kept apart: a table gets the number of another table's file,
    and one that of a catalog's."""

    def number_of(name: str) -> int:
        return int(str(server.value(f"SELECT pg_relation_filenode('{name}')")))

    with Server(major, dbname=DBNAME) as server:
        server.say("SET allow_in_place_tablespaces = on", "CREATE TABLESPACE apart LOCATION ''")
        server.say("CREATE TABLE a (id int)", *(f"CREATE TABLE {name} (t name) TABLESPACE apart" for name in "bc"))
        server.say("VACUUM FULL pg_class")
        first, of_catalog = number_of("a"), number_of("pg_class")
        server.stop()
        server.run_offline("pg_resetwal", "-o", str(first), "-D", str(server.data_dir))
        server.start()
        slot = Slot.on(server)
        server.say("TRUNCATE b")
        assert number_of("b") == first
        for _ in range(of_catalog - first):
            if number_of("c") != of_catalog:
                server.say("TRUNCATE c")
        assert number_of("c") == of_catalog
        for turn in range(3):
            server.say(f"INSERT INTO a VALUES ({turn})", "INSERT INTO b VALUES ('b')", "INSERT INTO c VALUES ('c')")
            server.say(f"ALTER TABLE a ADD column_{turn} int", "UPDATE c SET t = 'changed'")
        case = slot.stopped(tmp_path)
    assert case.expected.count("table public.c: UPDATE") > 3
    for stretch_bytes in (1 << 17, 64 << 20):
        check(case, decode(case, LocalRunner(1), captured=False, stretch_bytes=stretch_bytes))
