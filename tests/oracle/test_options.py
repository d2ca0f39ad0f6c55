"""Options of decoding, against a server's own slot with the same: test_decoding's, and two phases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.cases import DBNAME
from support.decoding import opened, text_of
from support.live import Slot
from support.normalise import print_rows
from support.servers import Server
from tailrace.majors import MAJORS
from tailrace.plugins.test_decoding import TestDecoding

pytestmark = pytest.mark.matrix
Options = Mapping[str, str]

TWO_PHASES = """
CREATE TABLE t (id int PRIMARY KEY, v text);
BEGIN; INSERT INTO t VALUES (1, 'prepared first'); PREPARE TRANSACTION 'early';
COMMIT PREPARED 'early';
BEGIN; INSERT INTO t VALUES (2, 'x'); SAVEPOINT a; INSERT INTO t VALUES (3, 'y'); ROLLBACK TO a; INSERT INTO t VALUES (4, 'z');
SELECT pg_logical_emit_message(true, 'within', 'a message'); PREPARE TRANSACTION 'it''s \\two';
INSERT INTO t VALUES (5, 'between');
COMMIT PREPARED 'it''s \\two';
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
REWRITES = """
CREATE TABLE t (id int PRIMARY KEY, v text, n int);
INSERT INTO t SELECT g, 'row ' || g, g FROM generate_series(1, 5) g;
ALTER TABLE t ALTER n TYPE text USING n || '!', ADD s bigint DEFAULT (random() * 0)::bigint;
INSERT INTO t VALUES (6, 'after', 'x', 1);
CREATE MATERIALIZED VIEW seen AS SELECT id, v FROM t;
REFRESH MATERIALIZED VIEW seen;
BEGIN; ALTER TABLE t RENAME TO renamed; ALTER TABLE renamed ADD u uuid DEFAULT gen_random_uuid(); INSERT INTO renamed (id) VALUES (7); COMMIT;
VACUUM FULL renamed;
CLUSTER renamed USING t_pkey;
CREATE UNLOGGED TABLE unlogged (id int); INSERT INTO unlogged VALUES (1), (2); ALTER TABLE unlogged SET LOGGED;
"""

MESSAGES = """
CREATE TABLE t (id int PRIMARY KEY);
BEGIN; SELECT pg_logical_emit_message(true, 'p', 'first'); INSERT INTO t VALUES (1); SELECT pg_logical_emit_message(true, 'p', 'then'); COMMIT;
BEGIN; SELECT pg_logical_emit_message(true, 'p', 'alone'); COMMIT;
SELECT pg_logical_emit_message(false, 'p', 'of none');
BEGIN; SELECT pg_logical_emit_message(true, 'p', 'before'); TRUNCATE t; COMMIT;
CREATE TABLE nothing_to_see (id int);
"""

ORIGINS = """
CREATE TABLE t (id int PRIMARY KEY, v text);
SELECT pg_replication_origin_create('elsewhere');
INSERT INTO t VALUES (1, 'ours');
SELECT pg_replication_origin_session_setup('elsewhere');
INSERT INTO t VALUES (2, 'theirs');
BEGIN; SELECT pg_replication_origin_xact_setup('0/ABCDEF', '2020-01-02 03:04:05+00'); INSERT INTO t VALUES (3, 'at their time'); COMMIT;
SELECT pg_logical_emit_message(false, 'p', 'theirs, at once'), pg_logical_emit_message(true, 'p', 'theirs');
CREATE TABLE theirs (id int);
SELECT pg_replication_origin_session_reset();
UPDATE t SET v = v || ', changed here';
TRUNCATE t;
\\connect
SELECT pg_replication_origin_create('nowhen');
\\connect
SELECT pg_replication_origin_session_setup('nowhen');
INSERT INTO t VALUES (4, 'theirs, of no time');
BEGIN; INSERT INTO t VALUES (5, 'theirs'); PREPARE TRANSACTION 'at its own time';
COMMIT PREPARED 'at its own time';
"""


@pytest.mark.parametrize("major", MAJORS)
def test_origins(major: int, tmp_path: Path) -> None:
    options = [{"only-local": "on", "include-timestamp": "on"}, {"only-local": "off", "include-timestamp": "on"}]
    (ours, theirs), (ours_all, theirs_all) = _both(major, ORIGINS, options, tmp_path)
    assert ours == theirs
    assert ours_all == theirs_all
    assert sum("theirs" in line for line in theirs) < sum("theirs" in line for line in theirs_all)
    assert any("2020-01-02 03:04:05" in line for line in theirs_all)
    assert any("2000-01-01 00:00:00" in line for line in theirs_all)


@pytest.mark.parametrize("major", MAJORS)
def test_empty_transactions(major: int, tmp_path: Path) -> None:
    options = [{"skip-empty-xacts": "on"}, {"skip-empty-xacts": "off", "include-xids": "off"}]
    (ours, theirs), (ours_all, theirs_all) = _both(major, MESSAGES, options, tmp_path)
    assert ours == theirs
    assert ours_all == theirs_all
    assert len(theirs) < len(theirs_all)


@pytest.mark.parametrize("major", MAJORS)
def test_two_phases(major: int, tmp_path: Path) -> None:
    both = [{"include-timestamp": "on"}, {"include-timestamp": "on", "skip-empty-xacts": "on", "include-xids": "off"}]
    for ours, theirs in _both(major, TWO_PHASES, both, tmp_path, two_phase=True):
        assert ours == theirs
        assert any("PREPARE TRANSACTION E'it''s \\\\two'" in line for line in theirs)
        assert any("ROLLBACK PREPARED 'three'" in line for line in theirs)


@pytest.mark.parametrize("major", [14, 18])
def test_a_phase_that_was_rolled_back(major: int, tmp_path: Path) -> None:
    """Whoever reads before the ROLLBACK PREPARED gets its rows; whoever reads only afterwards may not (docs/fidelity.md)."""
    with Server(major, dbname=DBNAME) as server:
        server.checkpoint()
        slot = Slot.on(server, two_phase=True)
        server.say(
            "CREATE TABLE t (id int)",
            "BEGIN",
            "ALTER TABLE t ADD v int",
            "INSERT INTO t VALUES (1, 2)",
            "PREPARE TRANSACTION 'one'",
        )
        whole = slot.peek().splitlines()
        server.sql("ROLLBACK PREPARED 'one'")
        late = slot.peek().splitlines()
        server.stop()
        ours = _ours(major, server.data_dir, slot, {}, two_phase=True)
    assert ours[:-1] == whole
    assert ours[-1] == late[-1]
    assert len(late) < len(ours)


@pytest.mark.parametrize("major", MAJORS)
def test_rewrites_and_binary(major: int, tmp_path: Path) -> None:
    options = [{"include-rewrites": "on"}, {"include-rewrites": "off", "force-binary": "on"}]
    (ours, theirs), (ours_binary, theirs_binary) = _both(major, REWRITES, options, tmp_path)
    assert ours == theirs
    assert sum("row 1" in line for line in theirs) > 1
    assert ours_binary == theirs_binary
    assert "\\x" in theirs_binary[-1]


def _both(
    major: int, script: str, all_options: list[Options], tmp_path: Path, *, two_phase: bool = False
) -> list[tuple[list[str], list[str]]]:
    """What tailrace and the server's slot say, for each set of options."""
    with Server(major, dbname=DBNAME) as server:
        server.checkpoint()
        slot = Slot.on(server, two_phase=two_phase)
        for session in script.split("\\connect\n"):
            server.say(*session.replace(";\n", "; ").strip().rstrip(";").split("; "))
        theirs = [_theirs(slot, options) for options in all_options]
        server.stop()
        server.move_to(tmp_path / "data")
    return [
        (_ours(major, tmp_path / "data", slot, options, two_phase), said)
        for options, said in zip(all_options, theirs, strict=True)
    ]


def _theirs(slot: Slot, options: Options) -> list[str]:
    if "force-binary" not in options:
        return slot.peek(options).splitlines()
    words = [word for option in options.items() for word in option]
    query = f"SELECT lsn, xid, data::text FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL{', %s' * len(words)})"
    return print_rows(slot.server.sql(query, words)).splitlines()


def _ours(major: int, data: Path, slot: Slot, options: Options, two_phase: bool) -> list[str]:
    plugin = TestDecoding()
    plugin.context.two_phase = two_phase
    plugin.startup(options, major)
    pipeline = opened(data, start_lsn=slot.start_lsn, demand=plugin.demand)
    return text_of(pipeline, options, two_phase=two_phase).splitlines()
