"""`tailrace doctor` on real servers: with the thing wrong, with its remedy carried out, and by an ordinary role as by a superuser."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.command import Run
from support.servers import Server
from support.standbys import caught_up, standby_of
from support.waiting import until
from tailrace.client.doctor.examination import Examination
from tailrace.client.doctor.findings import NOTE, OK, STOPS, WARNING, Finding
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.majors import PUBLISHED_SCHEMAS, supports

pytestmark = pytest.mark.postgres
ALL = [18, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17))]
KEEPS = {"wal_keep_size": "1GB", "max_slot_wal_keep_size": "10GB"}
GRANT = "GRANT EXECUTE ON FUNCTION pg_read_binary_file(text,bigint,bigint,boolean) TO reader"
READER = ("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'secret'", GRANT, "GRANT pg_read_all_stats TO reader")
TRUSTED = "host all all 127.0.0.1/32 trust\n"
"""All but replication connections."""
OPEN = TRUSTED + "host replication all 127.0.0.1/32 trust\n"


def examine(server: Server, user: str = "postgres", *databases: str, old_after: str = "0", more: str = "") -> list[Finding]:
    words = server.dsn().replace("user=postgres", f"user={user}") + " password=secret " + more
    return list(Examination(words, list(databases), old_after).findings())


def of(findings: Iterable[Finding], check: str) -> list[Finding]:
    return [each for each in findings if each.check == check]


def only(findings: Iterable[Finding], check: str) -> Finding:
    (found,) = of(findings, check)
    return found


def wrong(findings: Iterable[Finding]) -> list[Finding]:
    return [each for each in findings if each.severity != OK]


def write_hba(server: Server, text: str) -> None:
    (server.data_dir / "pg_hba.conf").write_text(text)
    server.say("SELECT pg_reload_conf()")
    time.sleep(0.2)  # the postmaster's signal is on its way


def carry_out(server: Server, findings: Iterable[Finding]) -> None:
    """What the remedies say, to the letter: lines of pg_hba.conf, and statements in the database that they are for."""
    restarts = False
    for each in findings:
        line = re.sub(r"  #.*", "", each.remedy)
        if line.startswith(("host ", "local ")):
            path = server.data_dir / "pg_hba.conf"
            write_hba(server, f"{line}\n{path.read_text()}")
        elif re.match(r"(ALTER|GRANT|SELECT|ROLLBACK|CREATE) ", line):
            server.sql(line, dbname=each.database or "app")
            server.say("SELECT pg_reload_conf()")
            restarts = restarts or "restart the server" in line
    if restarts:
        server.restart()


@pytest.fixture(scope="module")
def shared() -> Iterable[Server]:
    """For what changes nothing but pg_hba.conf."""
    with Server(18, KEEPS, dbname="app") as server:
        server.say(
            *READER, "CREATE ROLE nologin", "CREATE ROLE locked LOGIN", "REVOKE CONNECT ON DATABASE app FROM PUBLIC",
            "GRANT CONNECT ON DATABASE app TO reader", *(f"CREATE TABLE t{number:02} (id int)" for number in range(12)),
        )  # fmt: skip
        yield server


@pytest.mark.parametrize("major", ALL)
def test_where_all_is_well(major: int) -> None:
    with Server(major, KEEPS, dbname="app") as server:
        server.say(*READER, "CREATE TABLE t (id int PRIMARY KEY, v text[], r int4range)")
        for user in ("postgres", "reader"):
            findings = examine(server, user)
            assert {each.check for each in wrong(findings)} <= {"data_checksums"}
            assert only(findings, "version").told.startswith(f"PostgreSQL {major}.")
            assert {"connection", "replication connection", "role", "wal_level", "clock", "column types"} <= {
                each.check for each in findings
            }
            assert not [each.remedy for each in findings if each.severity == OK and each.remedy]


TABLES = (
    "CREATE TABLE keyed (id int PRIMARY KEY)",
    "CREATE TABLE nokey (id int)",
    'CREATE TABLE "No Key" (id int)',
    "CREATE TABLE wholly (id int); ALTER TABLE wholly REPLICA IDENTITY FULL",
    "CREATE TABLE nothing (id int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING",
    "CREATE TABLE lost (id int NOT NULL); CREATE UNIQUE INDEX lost_id ON lost (id); ALTER TABLE lost REPLICA IDENTITY USING INDEX lost_id; "
    "DROP INDEX lost_id",
    "CREATE TABLE indexed (id int NOT NULL); CREATE UNIQUE INDEX i ON indexed (id); ALTER TABLE indexed REPLICA IDENTITY USING INDEX i",
    "CREATE TABLE late (id int PRIMARY KEY DEFERRABLE)",
    'CREATE TABLE usable (id int NOT NULL, v int); CREATE UNIQUE INDEX "Usable" ON usable (id); CREATE UNIQUE INDEX ON usable (v)',
    "CREATE TABLE parted (id int) PARTITION BY RANGE (id); CREATE TABLE leaf PARTITION OF parted FOR VALUES FROM (0) TO (9)",
    "CREATE PUBLICATION partly FOR TABLE keyed, nokey, parted",
    "CREATE PUBLICATION inserts FOR TABLE lost WITH (publish = 'insert')",
)
IDENTITIES = {
    "public.nokey": ("no primary key", "refuses its UPDATEs and DELETEs, since publication partly has them", "FULL"),
    'public."No Key"': ("no primary key", "do not say of which row", "FULL"),
    "public.nothing": ("REPLICA IDENTITY NOTHING", "do not say of which row", "DEFAULT"),
    "public.lost": ("lost the index", "do not say of which row", "FULL"),
    "public.late": ("deferrable primary key", "do not say of which row", "FULL"),
    "public.usable": ("no primary key", "do not say of which row", 'USING INDEX "Usable"'),
    "public.leaf": ("no primary key", "refuses its UPDATEs and DELETEs, since publication partly has them", "FULL"),
}


@pytest.mark.parametrize("major", ALL)
def test_replica_identities_that_will_fail(major: int) -> None:
    """What the server does then is as it was told."""
    with Server(major, KEEPS, dbname="app") as server:
        server.say(*READER, *TABLES)
        for user in ("postgres", "reader"):
            found = of(examine(server, user), "replica identities")
            assert {each.severity for each in found} == {WARNING}
            assert {each.told.split(" ", 1)[1].partition(" ha")[0] for each in found} == set(IDENTITIES)
            for name, (why, then, remedy) in IDENTITIES.items():
                (line,) = [each for each in found if each.told.startswith(f"table {name} ")]
                assert why in line.told
                assert then in line.told
                assert line.remedy == f"ALTER TABLE {name} REPLICA IDENTITY {remedy};"
                assert line.database == "app"
        # What none publishes is not looked at; what the server refuses is told, whoever publishes it.
        for publications in (["inserts"], ["partly", "inserts"]):
            findings = Examination(server.dsn(), [], "0", copied=publications).findings()
            named = [each.told for each in of(findings, "replica identities")]
            assert len(named) == 2
            assert all("refuses its UPDATEs and DELETEs" in each for each in named)
        carry_out(server, found)
        assert only(examine(server), "replica identities").severity == OK
        server.say(
            "INSERT INTO nokey VALUES (1)", "UPDATE nokey SET id = 2", "INSERT INTO parted VALUES (1)", "DELETE FROM parted"
        )
        if supports(major, PUBLISHED_SCHEMAS):
            server.say("CREATE TABLE again (id int)", "CREATE PUBLICATION schemas FOR TABLES IN SCHEMA public")
            found = of(examine(server), "replica identities")
            assert "publication schemas has them" in found[0].told
        else:
            server.say("CREATE TABLE again (id int)", "CREATE PUBLICATION everything FOR ALL TABLES")
            assert "publication everything has them" in only(examine(server), "replica identities").told


STRANGE = (
    "CREATE TYPE strange",
    "CREATE FUNCTION strange_in(cstring) RETURNS strange LANGUAGE internal STRICT IMMUTABLE AS 'int4in'",
    "CREATE FUNCTION strange_out(strange) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'int4out'",
    "CREATE TYPE strange (input = strange_in, output = strange_out, internallength = 4)",  # by reference, as int4out takes none
    "CREATE TYPE plain",
    "CREATE FUNCTION plain_in(cstring) RETURNS plain LANGUAGE internal STRICT IMMUTABLE AS 'textin'",
    "CREATE FUNCTION plain_out(plain) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'textout'",
    "CREATE TYPE plain (input = plain_in, output = plain_out)",
    "CREATE TYPE mood AS ENUM ('sad'); CREATE DOMAIN odd AS strange; CREATE TYPE pair AS (a int, b odd[])",
    "CREATE TABLE known (id int PRIMARY KEY, p plain, m mood[], o oidvector, s tsvector)",
)


@pytest.mark.parametrize("major", ALL)
def test_types_and_tables_that_are_not_decoded(major: int) -> None:
    with Server(major, KEEPS, dbname="app") as server:
        server.say(*READER, *STRANGE)
        for user in ("postgres", "reader"):
            findings = examine(server, user)
            for check in ("column types", "tables without a log", "table access methods"):
                assert only(findings, check).severity == OK
        server.say(
            "CREATE TABLE unknown (id int PRIMARY KEY, s strange, o odd, p pair[], v text)",
            "CREATE UNLOGGED TABLE quick (id int PRIMARY KEY)",
            "CREATE UNLOGGED TABLE quicker (id int)",
            "CREATE FOREIGN DATA WRAPPER none; CREATE SERVER other FOREIGN DATA WRAPPER none; CREATE FOREIGN TABLE away (id int) SERVER other",
            "CREATE FUNCTION handler(internal) RETURNS table_am_handler LANGUAGE internal AS 'heap_tableam_handler'",
            "CREATE ACCESS METHOD other TYPE TABLE HANDLER handler; CREATE TABLE stored (id int PRIMARY KEY) USING other",
        )
        with server.connect() as session:
            session.execute("CREATE TEMPORARY TABLE mine (id int)")
            for user in ("postgres", "reader"):
                findings = examine(server, user)
                line = only(findings, "column types")
                assert line.severity == WARNING
                assert (
                    "public.strange is not known, of 3 columns (public.unknown.o, public.unknown.p, public.unknown.s)"
                    in line.told
                )
                assert [
                    (each.severity, each.told.split(":")[0], each.remedy) for each in of(findings, "tables without a log")
                ] == [
                    (NOTE, "table public.quick is unlogged", "ALTER TABLE public.quick SET LOGGED;"),
                    (
                        NOTE,
                        "table public.quicker is unlogged",
                        "ALTER TABLE public.quicker SET LOGGED; ALTER TABLE public.quicker REPLICA IDENTITY FULL;",
                    ),
                    (NOTE, "foreign table public.away has its rows elsewhere", ""),
                    (NOTE, "1 temporary tables of sessions have their changes in no log", ""),
                ]
                line = only(findings, "table access methods")
                assert (line.severity, "public.stored" in line.told) == (WARNING, True)
        carry_out(server, findings)
        findings = examine(server)
        assert [each.told.split(" ")[0] for each in of(findings, "tables without a log")] == ["foreign"]
        assert only(findings, "replica identities").severity == OK
        if line.remedy:
            assert only(findings, "table access methods").severity == OK


@pytest.mark.parametrize("major", ALL)
def test_a_server_that_was_just_installed(major: int) -> None:
    """Nothing is allowed or set. Each remedy is carried out to the letter; then all is well."""
    with Server(major, {"max_prepared_transactions": 4}, dbname="app") as server:
        for name in ("wal_level", "wal_keep_size", "max_wal_senders"):
            server.settings.pop(name)
        server.restart()
        server.say("CREATE ROLE reader LOGIN PASSWORD 'secret'", "CREATE TABLE t (id int PRIMARY KEY)")
        write_hba(server, TRUSTED)
        findings = examine(server, "reader")
        assert {each.check for each in findings if each.severity == STOPS} == {"role", "replication connection", "wal_level"}
        assert {"wal_keep_size", "catalogs' files"} == {each.check for each in findings if each.severity == WARNING}
        assert only(findings, "wal_level").remedy == "ALTER SYSTEM SET wal_level = logical;  -- then restart the server"
        assert only(findings, "role").remedy == "ALTER ROLE reader REPLICATION;"
        assert only(findings, "catalogs' files").remedy == f"{GRANT};  -- in database app"
        log = only(findings, "replication connection")
        assert "no pg_hba.conf entry for replication connection" in log.told
        assert log.remedy.startswith("host  replication  reader  127.0.0.1/32  scram-sha-256  # in pg_hba.conf")
        carry_out(server, findings)
        findings = wrong(examine(server, "reader"))
        assert {each.check for each in findings} <= {"data_checksums"}, findings


def test_the_role_is_told_apart_from_pg_hba() -> None:
    """Both are missing, one after the other."""
    with Server(18, dbname="app") as server:
        server.say("CREATE ROLE \"Odd Role\" LOGIN PASSWORD 'secret'")
        log = only(examine(server, "'Odd Role'"), "replication connection")
        assert (log.severity, "permission denied to start WAL sender" in log.told) == (STOPS, True)
        assert log.remedy == 'ALTER ROLE "Odd Role" REPLICATION;'
        write_hba(server, "host replication all all reject\n" + TRUSTED)
        log = only(examine(server, "'Odd Role'"), "replication connection")
        assert "pg_hba.conf rejects replication connection" in log.told
        assert log.remedy.startswith('host  replication  "Odd Role"  127.0.0.1/32  scram-sha-256  # in pg_hba.conf, above')
        carry_out(server, wrong(examine(server, "'Odd Role'")))
        carry_out(server, wrong(examine(server, "'Odd Role'")))
        assert only(examine(server, "'Odd Role'"), "replication connection").severity == OK


def test_settings_that_are_on_the_command_line() -> None:
    with Server(18, {"wal_level": "replica", "full_page_writes": "off"}, dbname="app") as server:
        findings = examine(server)
        assert only(findings, "wal_level").severity == STOPS
        assert "must be changed instead" in only(findings, "wal_level").remedy
        line = only(findings, "full_page_writes")
        assert (line.severity, "base backup instead" in line.told) == (WARNING, True)
        assert only(findings, "max_slot_wal_keep_size").severity == NOTE


@pytest.mark.parametrize("major", ALL)
def test_walsenders_that_are_left(major: int) -> None:
    with Server(major, {"max_wal_senders": 2, **KEEPS}, dbname="app") as server:
        server.say(*READER)
        assert only(examine(server, "reader"), "max_wal_senders").severity == OK
        with ReplicationConnection(server.dsn()):
            line = only(examine(server, "reader"), "max_wal_senders")
            assert (line.severity, line.told) == (
                WARNING,
                "1 of 2 walsenders are in use: one is left for the log, none for a base backup",
            )
            assert line.remedy.startswith("ALTER SYSTEM SET max_wal_senders = 6;")
            with ReplicationConnection(server.dsn()):
                findings = examine(server, "reader")
                line = only(findings, "max_wal_senders")
                assert (line.severity, line.told) == (STOPS, "2 of 2 walsenders are in use: none is left to send the log")
                log = only(findings, "replication connection")
                assert (log.severity, "requested standby connections exceeds" in log.told) == (STOPS, True)
                assert log.remedy.startswith("ALTER SYSTEM SET max_wal_senders")
    with Server(18, {"max_wal_senders": 0, "wal_level": "minimal"}, dbname="app") as server:
        assert {each.check for each in examine(server) if each.severity == STOPS} == {
            "wal_level", "max_wal_senders", "replication connection",
        }  # fmt: skip


@pytest.mark.parametrize("major", ALL)
def test_slots_that_hold_back_wal(major: int) -> None:
    with Server(major, {"max_slot_wal_keep_size": "2MB", "wal_keep_size": 0, "max_wal_size": "2MB"}, dbname="app") as server:
        server.say(*READER)
        assert only(examine(server, "reader"), "replication slots").severity == OK
        server.checkpoint()  # a slot begins at the last one's redo pointer, which may be out of reach already
        server.say(
            "SELECT pg_create_physical_replication_slot('empty')",
            "SELECT pg_create_logical_replication_slot('logical', 'test_decoding')",
            "SELECT pg_create_physical_replication_slot('idle', true)",
        )
        for user in ("postgres", "reader"):
            found = {each.told.split(" ")[2]: each for each in of(examine(server, user), "replication slots")}
            assert (found["empty"].severity, "holds back no WAL" in found["empty"].told) == (NOTE, True)
            assert found["idle"].severity == NOTE
            assert "(in use by nobody) holds back" in found["idle"].told
            assert "wal_status reserved" in found["idle"].told
            assert found["idle"].remedy == "SELECT pg_drop_replication_slot('idle');  -- if nobody needs it"
        for _ in range(6):
            server.switch_wal()
            server.say("CREATE TABLE t (); DROP TABLE t")
        server.checkpoint()
        findings = [each for each in of(examine(server, "reader"), "replication slots") if " idle " in each.told]
        assert [(each.severity, "is of no use any more" in each.told) for each in findings] == [(WARNING, True)]
        carry_out(server, of(examine(server), "replication slots"))
        assert only(examine(server, "reader"), "replication slots").severity == OK
        server.say("SELECT pg_create_physical_replication_slot('busy', true)")
        with ReplicationConnection(server.dsn()) as stream:
            stream.start(stream.identify().flushed, 1, "busy")
            line = only(examine(server, "reader"), "replication slots")
            assert (line.severity, line.remedy) == (OK, "")
            assert re.search(r"physical slot busy \(in use by pid \d+\) holds back", line.told)


@pytest.mark.parametrize("major", ALL)
def test_old_transactions(major: int) -> None:
    with Server(major, KEEPS, dbname="app") as server:
        server.say("CREATE ROLE reader LOGIN REPLICATION", GRANT, "CREATE TABLE t (id int PRIMARY KEY)")
        server.say("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'it''s'")
        with server.connect(autocommit=False) as still_open, server.connect(autocommit=False) as reads:
            still_open.execute("INSERT INTO t VALUES (2)")
            reads.execute("SELECT * FROM t")
            line = only(examine(server), "open transactions")
            assert (line.severity, line.remedy) == (WARNING, f"SELECT pg_terminate_backend({still_open.info.backend_pid});")
            assert "postgres has had a transaction open in database app for 00:00:0" in line.told
            assert "idle in transaction" in line.told
            line = only(examine(server, "reader"), "open transactions")
            assert (line.severity, line.remedy) == (NOTE, "GRANT pg_read_all_stats TO reader;")
            assert line.told == "since when 1 of the transactions that write are open is not shown to role reader"
            carry_out(server, [line])
            assert only(examine(server, "reader"), "open transactions").severity == WARNING
            assert only(examine(server, "reader", old_after="1 hour"), "open transactions").severity == OK
            line = only(examine(server, "reader"), "prepared transactions")
            assert line.severity == WARNING
            assert "transaction 'it''s' of postgres in database app was prepared" in line.told
            assert line.remedy == "ROLLBACK PREPARED 'it''s';  -- or COMMIT PREPARED, in database app as postgres"
            assert only(examine(server, "reader", old_after="1 hour"), "prepared transactions").severity == OK
            carry_out(server, of(examine(server), "prepared transactions"))
            carry_out(server, of(examine(server), "open transactions"))
            until(lambda: only(examine(server), "open transactions").severity == OK)
            still_open.close()
            assert only(examine(server, "reader"), "prepared transactions").severity == OK


def test_a_right_that_is_missing_hinders_no_other_question() -> None:
    revoked = (
        "pg_prepared_xacts",
        "pg_stat_activity",
        "pg_replication_slots",
        "pg_stat_replication",
        "pg_index",
        "pg_database",
        "pg_roles",
    )
    with Server(18, KEEPS, dbname="app") as server:
        server.say(*READER, *(f"REVOKE SELECT ON {name} FROM PUBLIC" for name in revoked))
        findings = examine(server, "reader")
        names = {each.check: each for each in findings if each.told.startswith("could not be checked: permission denied")}
        assert set(names) == {
            "role", "max_wal_senders", "replication slots", "prepared transactions", "open transactions", "replica identities",
            "tables without a log",
        }  # fmt: skip
        assert names["prepared transactions"].remedy == "GRANT SELECT ON pg_prepared_xacts TO reader;"
        assert {each.severity for each in names.values()} == {WARNING}
        assert only(findings, "wal_level").severity == OK
        assert only(findings, "column types").severity == OK
        for _ in range(2):
            carry_out(server, [each for each in examine(server, "reader") if each.told.startswith("could not be checked")])
        assert not wrong(examine(server, "reader"))


@pytest.mark.parametrize(
    ("role", "hba", "said", "remedy"),
    [
        ("absent", TRUSTED, 'role "absent" does not exist', "CREATE ROLE absent LOGIN REPLICATION PASSWORD '…';"),
        ("nologin", TRUSTED, "is not permitted to log in", "ALTER ROLE nologin LOGIN;"),
        ("locked", TRUSTED, 'permission denied for database "app"', "GRANT CONNECT ON DATABASE app TO locked;"),
        ("reader", "host postgres all all trust\n", "no pg_hba.conf entry for host", "host  app  reader  127.0.0.1/32  scram-sha-256  # in"),
        ("reader", "host app all all reject\n" + TRUSTED, "pg_hba.conf rejects connection", "host  app  reader  127.0.0.1/32  scram-sha-256  # in"),
        ("reader", "host all all all scram-sha-256\n", "password authentication failed", "ALTER ROLE reader PASSWORD '…';"),
    ],
    ids=("no role", "no LOGIN", "no CONNECT", "no line", "a line against it", "no password"),
)  # fmt: skip
def test_connections_that_are_refused(shared: Server, role: str, hba: str, said: str, remedy: str) -> None:
    write_hba(shared, "host all postgres all trust\n" + hba)
    findings = examine(shared, role, "app", more="password=wrong")
    line = of(findings, "connection")[-1]
    assert (line.severity, said in line.told) == (STOPS, True), line
    assert line.remedy.startswith(remedy)


def first_of(dsn: str, *databases: str) -> Finding:
    """What is said of the connection."""
    return of(Examination(dsn, list(databases)).findings(), "connection")[0]


def test_a_database_that_nobody_named(shared: Server) -> None:
    """The role's own name is what libpq tries then, and pg_hba.conf has no line for that."""
    write_hba(shared, "host all postgres all trust\nhost app reader all trust\n")
    dsn = shared.dsn().replace("user=postgres", "user=reader").replace("dbname=app", "")
    line = first_of(dsn)
    assert (line.severity, 'user "reader", database "reader"' in line.told) == (STOPS, True)
    assert line.remedy == "name the database: dbname=… in the connection string, or --database …"
    assert first_of(f"{dsn} dbname=app").severity == OK
    assert first_of(dsn, "app").severity == OK
    write_hba(shared, "host all postgres all trust\nhost postgres reader all trust\n")
    found = {each.database: each for each in of(Examination(dsn, []).findings(), "connection")}
    assert [(name, each.severity) for name, each in found.items()] == [("", OK), ("app", NOTE)]
    assert found["app"].remedy.startswith("name the database: ")


def test_a_database_that_may_not_be_there(shared: Server) -> None:
    write_hba(shared, "host all postgres all trust\nhost app reader all trust\n")
    dsn = shared.dsn().replace("user=postgres", "user=reader")
    for line in (
        first_of(dsn.replace("dbname=app", "dbname=nope")),
        of(Examination(dsn, ["app", "nope"]).findings(), "connection")[1],
    ):
        assert line.severity == STOPS
        assert line.remedy.startswith(
            "host  nope  reader  127.0.0.1/32  scram-sha-256  # in pg_hba.conf; then SELECT pg_reload_conf();"
        )
        assert line.remedy.endswith("check the name nope as well: the server does not tell whether there is such a database")


@pytest.fixture(scope="module")
def encrypting(tmp_path_factory: pytest.TempPathFactory) -> Iterable[tuple[Server, Path]]:
    """A server that lets a role in by TLS alone, and its certificate."""
    home = tmp_path_factory.mktemp("tls")
    cert, key = home / "server.crt", home / "server.key"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=db.example.com"]
    subprocess.run(
        [*words, "-addext", "subjectAltName=DNS:db.example.com", "-out", cert, "-keyout", key], check=True, capture_output=True
    )
    with Server(18, KEEPS, dbname="app") as server:
        owner = server.data_dir.stat()
        for file in (cert, key):
            os.chown(shutil.copy(file, server.data_dir), owner.st_uid, owner.st_gid)
        (server.data_dir / "server.key").chmod(0o600)
        server.say(*READER, "ALTER SYSTEM SET ssl = on")
        write_hba(server, "host all postgres all trust\nhostssl app,replication reader all trust\n")
        yield server, cert


def test_a_server_that_lets_in_by_tls_alone(encrypting: tuple[Server, Path]) -> None:
    """Who asks for no encryption is not told to have the server opened for plain text."""
    server, _ = encrypting
    dsn = server.dsn().replace("user=postgres", "user=reader")
    findings = list(Examination(f"{dsn} sslmode=disable", []).findings())
    assert [each.check for each in findings] == ["connection", "replication connection"]
    for each in findings:
        assert (each.severity, each.told.endswith("no encryption")) == (STOPS, True)
        assert each.remedy.startswith("sslmode=require  # in the connection string")
    assert first_of(f"{dsn} sslmode=require").severity == OK
    unnamed = first_of(f"{dsn.replace('dbname=app', '')} sslmode=disable")
    assert re.match("name the database: .*; then sslmode=require", unnamed.remedy)
    assert first_of(f"{dsn} dbname=postgres").remedy.startswith(
        "hostssl  postgres  reader  127.0.0.1/32  scram-sha-256  # in pg_hba.conf"
    )


def test_certificates_that_do_not_fit(encrypting: tuple[Server, Path], tmp_path: Path) -> None:
    server, cert = encrypting
    dsn = f"{server.dsn().replace('user=postgres', 'user=reader')} sslmode=verify-full"
    line = first_of(f"{dsn} sslrootcert={cert}")
    assert 'does not match host name "127.0.0.1"' in line.told
    assert line.remedy.startswith("host=db.example.com hostaddr=127.0.0.1  # in the connection string")
    assert "sslmode=verify-ca, which checks by sslrootcert" in line.remedy
    assert first_of(f"{dsn} sslrootcert={cert} {line.remedy.split('  #')[0]}").severity == OK
    assert first_of(f"{dsn} sslrootcert={cert} sslmode=verify-ca").severity == OK
    line = first_of(f"{dsn} sslrootcert={tmp_path / 'absent.crt'}")
    assert (line.severity, 'root certificate file "' in line.told) == (STOPS, True)
    assert line.remedy.startswith("sslrootcert=FILE  # in the connection string")
    assert first_of(f"{dsn} sslrootcert=system").remedy == line.remedy


def test_tls_that_the_server_does_not_have(shared: Server) -> None:
    line = first_of(f"{shared.dsn()} sslmode=require")
    assert "server does not support SSL, but SSL was required" in line.told
    assert line.remedy.startswith("ssl = on  # in postgresql.conf")


def test_a_service_that_is_not_defined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "services").touch()
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    findings = list(Examination("service=nix", []).findings())
    assert {each.told for each in findings} == {'definition of service "nix" not found'}
    for each in findings:
        assert each.remedy.startswith("[nix]  # with host=…")
        assert "~/.pg_service.conf or the file that PGSERVICEFILE names" in each.remedy


def test_a_password_that_serves_one_database_alone(shared: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of .pgpass for the database does not serve the log."""
    write_hba(shared, "host all postgres all trust\nhost all all all scram-sha-256\nhost replication all all scram-sha-256\n")
    passwords = tmp_path / "pgpass"
    passwords.write_text("*:*:app:reader:secret\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    dsn = shared.dsn().replace("postgres", "reader")
    log = only(Examination(dsn, []).findings(), "replication connection")
    assert (log.severity, "no password supplied" in log.told) == (STOPS, True)
    assert log.remedy.startswith("*:*:replication:reader:PASSWORD  # in ~/.pgpass")
    passwords.write_text(log.remedy.replace("PASSWORD", "secret").split("  #")[0] + "\n*:*:app:reader:secret\n")
    assert only(Examination(dsn, []).findings(), "replication connection").severity == OK


def test_databases_that_are_looked_at(shared: Server) -> None:
    write_hba(shared, "host all all all trust\n")
    dsn = shared.dsn().replace("dbname=app", "")

    def seen(words: str, *names: str) -> list[str]:
        return sorted({each.database for each in Examination(words, list(names)).findings()} - {""})

    assert seen(dsn) == ["app", "postgres"]
    assert seen(f"{dsn} dbname=app") == ["app"]
    assert seen(f"{dsn} dbname=app", "postgres") == ["postgres"]
    assert seen(dsn.replace("user=postgres", "user=locked")) == ["postgres"]
    found = of(Examination(dsn, ["app", "absent"]).findings(), "connection")
    assert [(each.severity, each.database) for each in found] == [(OK, ""), (STOPS, "absent")]
    assert 'database "absent" does not exist' in found[1].told


def test_a_server_that_is_not_there() -> None:
    findings = list(Examination("host=127.0.0.1 port=1 user=reader dbname=app", []).findings())
    assert [(each.check, each.severity) for each in findings] == [("connection", STOPS), ("replication connection", STOPS)]
    assert {each.told for each in findings} == {'connection to server at "127.0.0.1", port 1 failed: Connection refused'}
    assert "listen_addresses" in findings[0].remedy


def test_a_connection_that_is_lost(shared: Server) -> None:
    write_hba(shared, OPEN)
    findings = Examination(shared.dsn(), []).findings()
    assert next(findings).severity == OK
    shared.say("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tailrace'")
    last = list(findings)[-1]
    assert (last.check, last.severity) == ("connection", STOPS)
    assert "it was lost" in last.told


def test_a_managed_service_that_refuses(shared: Server, tailrace: Run, tmp_path: Path) -> None:
    """Told apart by its roles, with the reason; who receives ends with it rather than trying again for ever."""
    receive = ("wal", "receive", shared.dsn(), "--to", tmp_path / "wal")
    write_hba(shared, TRUSTED)
    code, _, err = tailrace(*receive, "--no-loop")
    assert (code, "HINT:  host  replication  postgres  127.0.0.1/32  scram-sha-256  # in pg_hba.conf" in err) == (1, True)
    shared.say("CREATE ROLE rds_superuser")
    log = only(examine(shared), "replication connection")
    assert log.severity == STOPS
    assert "no pg_hba.conf entry for replication connection" in log.told
    assert "It is a server of Amazon RDS" in log.told
    assert "logical slots" in log.remedy
    code, _, err = tailrace(*receive)
    assert (code, "It is a server of Amazon RDS" in err) == (1, True)
    write_hba(shared, OPEN)
    assert only(examine(shared), "replication connection").severity == OK  # a role's name alone refuses nothing
    shared.say("DROP ROLE rds_superuser")


@pytest.mark.parametrize("major", ALL)
def test_a_standby(major: int, tmp_path: Path) -> None:
    with Server(major, KEEPS, dbname="app") as primary:
        primary.say("CREATE ROLE reader LOGIN REPLICATION", GRANT, "CREATE ROLE other LOGIN REPLICATION")
        with standby_of(primary, tmp_path) as standby:
            caught_up(standby, primary)
            for user in ("postgres", "reader"):
                findings = examine(standby, user)
                assert only(findings, "standby").severity == NOTE
                assert only(findings, "the primary's wal_level").severity == OK
                assert not of(findings, "wal_level")
                assert not [each for each in findings if each.severity == STOPS]
            line = only(examine(standby, "other"), "the primary's wal_level")
            assert (line.severity, "permission denied" in line.told) == (NOTE, True)
            for user, severity in (("reader", OK), ("other", STOPS)):
                dsn = standby.dsn().replace("user=postgres", f"user={user}")
                found = list(Examination(dsn, [], copied=()).findings())
                assert only(found, "snapshots").severity == severity
                written = [each.remedy for each in found if each.remedy.startswith(("GRANT", "ALTER ROLE"))]
                assert all("  -- on the primary" in each for each in written)
                assert bool(written) == (user == "other")
            for name, value, said in (
                ("full_page_writes", "off", "full_page_writes is off there"),
                ("wal_level", "replica", "it is replica"),
            ):
                primary.settings[name] = value
                primary.restart()
                primary.checkpoint()
                caught_up(standby, primary)
                standby.checkpoint()
                line = only(examine(standby, "reader"), "the primary's wal_level")
                assert (line.severity, said in line.told) == (STOPS, True)
        assert only(examine(primary), "standby").severity == OK


def test_encodings() -> None:
    with Server(18, KEEPS, dbname="app") as server:
        server.say(*READER)
        for name in ("LATIN1", "SQL_ASCII", "MULE_INTERNAL"):
            server.sql(f"CREATE DATABASE {name} ENCODING '{name}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        with server.connect("sql_ascii", client_encoding="SQL_ASCII") as connection:
            connection.execute(b'CREATE TABLE "\xff" (id int)')
        with server.connect("latin1") as connection:
            connection.execute('CREATE TABLE "ü" (id int)'.encode())
        for user in ("postgres", "reader"):
            findings = examine(server, user, "app", "latin1", "sql_ascii", "mule_internal")
            found = {each.database: each for each in of(findings, "encoding")}
            assert [found[name].severity for name in ("app", "latin1", "sql_ascii", "mule_internal")] == [OK, OK, NOTE, STOPS]
            assert "conversion between UTF8 and MULE_INTERNAL is not supported" in found["mule_internal"].told
            names = {each.database: each.told for each in of(findings, "replica identities")}
            assert 'public."ü"' in names["latin1"]
            assert "\udcff" in names["sql_ascii"]


def test_clocks(shared: Server) -> None:
    write_hba(shared, OPEN)
    assert only(examine(shared), "clock").severity == OK
    for ahead, said in ((3600, "the server's is 3600.0 s behind"), (-90, "the server's is 90.0 s ahead of")):
        found = Examination(shared.dsn(), [], clock=lambda by=ahead: time.time() + by).findings()  # type: ignore[misc]
        line = only(found, "clock")
        assert (line.severity, said in line.told) == (WARNING, True), line


def test_as_lines_and_as_json(shared: Server, tailrace: Run) -> None:
    write_hba(shared, OPEN)
    dsn = f"{shared.dsn()} user=reader"
    code, out, err = tailrace("doctor", dsn)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "ok       connection: to database app as reader"
    assert "           ALTER TABLE public.t00 REPLICA IDENTITY FULL;" in lines
    assert "warning  app: replica identities: and 2 more like these (--json has all)" in lines
    assert lines[-1].startswith("nothing stops tailrace; 12 warnings, 0 notes, ")
    code, out, _ = tailrace("doctor", dsn, "--json")
    found = json.loads(out)
    assert code == 0
    assert sum(each["check"] == "replica identities" for each in found) == 12
    assert {each["severity"] for each in found} == {"ok", "warning"}
    assert found[0] == {
        "check": "connection", "severity": "ok", "database": None, "finding": "to database app as reader", "remedy": None,
    }  # fmt: skip
    write_hba(shared, TRUSTED)
    code, out, _ = tailrace("doctor", dsn, "--database", "app")
    assert (code, out.splitlines()[-1].split(";")[0]) == (1, "1 finding would stop tailrace")


@pytest.mark.parametrize("major", ALL)
def test_what_a_copy_lacks(major: int) -> None:
    """The role's rights, one by one, until large tables can be read by their pages, and what is published alone."""
    with Server(major, KEEPS, dbname="app", checksums=True) as server:
        write_hba(server, OPEN)
        server.say(
            "CREATE TABLE large (id int, v text)", "ALTER TABLE large ALTER v SET STORAGE plain",
            "INSERT INTO large SELECT g, repeat('x', 7000) FROM generate_series(1, 9000) g",
            "CREATE TABLE small (id int)", "CREATE PUBLICATION p FOR TABLE large", "CREATE PUBLICATION q FOR TABLE small",
            "CREATE ROLE reader LOGIN REPLICATION PASSWORD 'secret'",
        )  # fmt: skip
        dsn = server.dsn().replace("user=postgres", "user=reader") + " password=secret"

        def told(check: str, *publications: str) -> list[tuple[str, str]]:
            found = of(Examination(dsn, [], copied=publications).findings(), check)
            return [(each.told, each.remedy) for each in found if each.severity != OK]

        assert [remedy for _, remedy in told("rows")] == [
            "GRANT SELECT ON public.large TO reader;",
            "GRANT SELECT ON public.small TO reader;",
        ]
        server.say("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        assert told("pages", "q") == []
        assert len(told("pages", "p")) == len(told("pages")) == 2
        for _, remedy in told("pages"):
            server.say(remedy or "ALTER ROLE reader SUPERUSER")
        assert told("pages") == []


def test_databases_are_of_servers_alone(tailrace: Run, tmp_path: Path) -> None:
    code, _, err = tailrace("doctor", tmp_path, "--database", "app")
    assert (code, "--database is for a server that is connected to" in err) == (1, True)
