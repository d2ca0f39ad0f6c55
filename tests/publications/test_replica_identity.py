"""UPDATEs and DELETEs that the server refuses because of a publication: the same are refused of publications that are defined here."""

from __future__ import annotations

import psycopg
import pytest

from support.cases import DBNAME
from support.decoding import opened
from support.servers import Server
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.commands.carry_out import refused_changes
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.source_publications import SourcePublications

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, c text)", "CREATE TABLE nopk (a int, b text)", "CREATE TABLE noth (a int PRIMARY KEY, b int)",
    "ALTER TABLE noth REPLICA IDENTITY NOTHING", "CREATE TABLE full_ (a int, b text)", "ALTER TABLE full_ REPLICA IDENTITY FULL",
    "CREATE TABLE uidx (a int, b int NOT NULL, c int)", "CREATE UNIQUE INDEX ui ON uidx (b)", "ALTER TABLE uidx REPLICA IDENTITY USING INDEX ui",
    "CREATE TABLE part (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)", "CREATE TABLE part_a (v int, id int NOT NULL PRIMARY KEY)",
    "ALTER TABLE part ATTACH PARTITION part_a DEFAULT",
    "CREATE TABLE gen (id int NOT NULL, g int GENERATED ALWAYS AS (id * 2) STORED NOT NULL)", "CREATE UNIQUE INDEX gi ON gen (g)",
    "ALTER TABLE gen REPLICA IDENTITY USING INDEX gi", "CREATE TABLE genfull (id int, g int GENERATED ALWAYS AS (id * 2) STORED)",
    "ALTER TABLE genfull REPLICA IDENTITY FULL",
)  # fmt: skip
LEAVES = ("t", "nopk", "noth", "full_", "uidx", "part_a", "gen", "genfull")
ROOT = "WITH (publish_via_partition_root = true)"
PUBLICATIONS = (
    "TABLE nopk", "TABLE nopk WITH (publish = 'insert')", "TABLE nopk WITH (publish = 'insert,update')", "ALL TABLES", "TABLE t WHERE (a > 1)",
    "TABLE t WHERE (a > 1) WITH (publish = 'insert')", "TABLE t WHERE (a > 1) WITH (publish = 'insert,delete')", "TABLE t WHERE (id > 1)",
    "TABLE t (a, c)", "TABLE t (id, a)", "TABLE t (a, c) WITH (publish = 'insert')", "TABLE full_ (a)", "TABLE full_ (a, b)",
    "TABLE full_ WHERE (b = 'x')", "TABLE uidx WHERE (b > 1)", "TABLE uidx WHERE (a > 1)", "TABLE uidx (b)", "TABLE uidx (a, c)",
    f"TABLE part WHERE (v > 1) {ROOT}", f"TABLE part WHERE (id > 1) {ROOT}", f"TABLE part (v) {ROOT}", f"TABLE part (id) {ROOT}", "TABLE part_a (id)",
    "TABLES IN SCHEMA public", "TABLES IN SCHEMA public WITH (publish = 'delete')", "TABLE t (a) WHERE (a > 1)", "TABLE gen", "TABLE genfull",
)  # fmt: skip
SINCE_18 = (
    "TABLE gen WITH (publish_generated_columns = stored)", "TABLE genfull WITH (publish_generated_columns = stored)", "TABLE gen (g)",
    "TABLE genfull (id, g)", "ALL TABLES WITH (publish_generated_columns = stored)",
)  # fmt: skip

Refusals = dict[tuple[str, str], tuple[str, str, str, str]]


def _refused_by(server: Server) -> Refusals:
    found: Refusals = {}
    for table in LEAVES:
        column = {"gen": "id", "genfull": "id", "uidx": "c", "part_a": "v", "full_": "b", "nopk": "b", "noth": "b"}.get(
            table, "a"
        )
        for command, statement in (
            ("update", f"UPDATE {table} SET {column} = NULL WHERE false"),
            ("delete from", f"DELETE FROM {table} WHERE false"),
        ):
            try:
                server.sql(statement)
            except psycopg.Error as error:
                diag = error.diag
                found[table, command] = (
                    str(error.sqlstate), str(diag.message_primary), diag.message_detail or "", diag.message_hint or "",
                )  # fmt: skip
    return found


@pytest.mark.parametrize("major", [pytest.param(15, marks=pytest.mark.matrix), 16, 18])
def test_as_the_server_refuses(major: int) -> None:
    publications = (*PUBLICATIONS, *(SINCE_18 if major >= 18 else ()))
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        server.say(*TABLES)
        theirs: dict[str, Refusals] = {}
        at: dict[str, int] = {}
        for what in publications:
            server.sql(f"CREATE PUBLICATION p FOR {what}")
            at[what] = int(str(server.value("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")))
            theirs[what] = _refused_by(server)
            server.sql("DROP PUBLICATION p")
        server.checkpoint()
        server.stop()
        history = opened(server.data_dir).history
    for what in publications:
        here = DatabaseSnapshot(0, 0, DBNAME, CatalogSnapshot(history, at[what]))
        (publication,) = SourcePublications(history).all_at(at[what])
        ours = {}
        for error in refused_changes(here, publication):
            command = next(word for word in ("update", "delete from") if error.message.startswith(f"cannot {word} "))
            ours[error.message.split('"')[1], command] = error.sqlstate, error.message, error.detail, error.hint
        assert ours == theirs[what], what
    assert sum(map(len, theirs.values())) > 30
