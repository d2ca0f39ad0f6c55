"""Prepared transactions told at PREPARE, against a server's own slot that does so (facts 6.11)."""

from __future__ import annotations

import pytest

from support.builds import find_build
from support.normalise import print_rows
from support.servers import Server
from tailrace.model import Lsn
from tailrace.plugins.driver import print_rows as print_lines
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.river import LocalRunner, open_river
from tailrace.transactions.fates import TwoPhase

pytestmark = pytest.mark.matrix
MAJORS = (14, 15, 16, 17, 18)

FIRST = """
CREATE TABLE t (id int PRIMARY KEY, v text);
BEGIN; INSERT INTO t VALUES (1, 'prepared first'); PREPARE TRANSACTION 'early';
"""
THEN = """
COMMIT PREPARED 'early';
BEGIN; INSERT INTO t VALUES (2, 'x'); SAVEPOINT a; INSERT INTO t VALUES (3, 'y'); ROLLBACK TO a; INSERT INTO t VALUES (4, 'z');
SELECT pg_logical_emit_message(true, 'within', 'a message'); PREPARE TRANSACTION 'it''s two';
INSERT INTO t VALUES (5, 'between');
COMMIT PREPARED 'it''s two';
BEGIN; INSERT INTO t VALUES (6, 'never'); PREPARE TRANSACTION 'three';
INSERT INTO t VALUES (7, 'between');
ROLLBACK PREPARED 'three';
BEGIN; INSERT INTO t VALUES (8, 'at its commit'); PREPARE TRANSACTION 'four_nodecode';
INSERT INTO t VALUES (9, 'between');
COMMIT PREPARED 'four_nodecode';
BEGIN; CREATE TABLE made (a int, b text); INSERT INTO made VALUES (1, 'mine'); PREPARE TRANSACTION 'five';
INSERT INTO t VALUES (10, 'between');
COMMIT PREPARED 'five';
INSERT INTO made VALUES (2, 'everybody''s');
BEGIN; LOCK t IN SHARE MODE; SELECT txid_current(); PREPARE TRANSACTION 'empty';
COMMIT PREPARED 'empty';
BEGIN; INSERT INTO t VALUES (11, 'open at the end'); PREPARE TRANSACTION 'six';
"""
OPTIONS = [{}, {"skip-empty-xacts": "on", "include-xids": "off"}]


def _run(server: Server, script: str) -> None:
    with server.connect("app") as connection:
        for line in script.strip().splitlines():
            for statement in line.split("; "):
                connection.execute(statement.rstrip(";").encode())


@pytest.mark.parametrize("major", MAJORS)
def test_two_phase(major: int, tmp_path) -> None:
    find_build(major, test_decoding=True)
    with Server(major, {"max_prepared_transactions": 20}) as server:
        server.sql("CREATE DATABASE app")
        server.checkpoint()
        start = server.value(
            "SELECT lsn FROM pg_create_logical_replication_slot('s', 'test_decoding', false, true)", dbname="app"
        )
        _run(server, FIRST + THEN)
        theirs = []
        for options in OPTIONS:
            flat = [text for pair in ({"include-timestamp": "on"} | options).items() for text in pair]
            arguments = ", ".join(["NULL", "NULL", *("%s" for _ in flat)])
            query = f"SELECT lsn, xid, data FROM pg_logical_slot_peek_changes('s', {arguments})"
            theirs.append(print_rows(server.sql(query, flat, dbname="app")))
        server.stop()
        server.copy_to(tmp_path / "data")
    for options, expected in zip(OPTIONS, theirs, strict=True):
        plugin = TestDecoding()
        plugin.startup({"include-timestamp": "on"} | options, major)
        river = open_river(
            tmp_path / "data", "app", runner=LocalRunner(1), start_lsn=Lsn.parse(str(start)), two_phase=TwoPhase(is_plain=plugin.filter_prepare)
        )
        parts = (print_lines(part.lsn, part.xid, part.texts.offsets, part.texts.data) for part in river.lines(plugin))
        assert b"".join(part.tobytes() for part in parts).decode().splitlines() == expected.splitlines()
        assert "PREPARE TRANSACTION 'it''s two'" in expected
        assert "ROLLBACK PREPARED 'three'" in expected
