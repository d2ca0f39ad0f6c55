"""Statements about publications: their outcome, errors and all, and what is shown of them, against live servers and their psql."""

from __future__ import annotations

import subprocess

import psycopg
import pytest

from support.builds import find_build
from support.cases import DBNAME
from support.decoding import opened
from support.servers import Server
from tailrace.errors import UsageError
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.commands.publicationcmds import PublicationCommands
from tailrace.publications.commands.statements import parse_statement
from tailrace.publications.describe import PublicationDescriber
from tailrace.publications.publication import SQL, RowFilter
from tailrace.publications.publishing.database_facts import facts_of
from tailrace.publications.publishing.filter_compiler import FilterCompiler, analysed, filter_text
from tailrace.publications.source_publications import SourcePublications
from tailrace.types.style import TextStyle

TABLES = (
    "CREATE SCHEMA rf", "CREATE SCHEMA rf2", "CREATE ROLE somebody",
    "CREATE TABLE t (id int PRIMARY KEY, a int, b text, c text, d numeric, g int GENERATED ALWAYS AS (id * 2) STORED, gone int)",
    "ALTER TABLE t DROP COLUMN gone", "CREATE TABLE rf.t (a int, b int)", "CREATE TABLE rf2.z (a int)",
    "CREATE TABLE nopk (a int, b text)", "CREATE VIEW vw AS SELECT 1 AS one", "CREATE SEQUENCE sq", "CREATE UNLOGGED TABLE unl (a int)",
    "CREATE MATERIALIZED VIEW mv AS SELECT 1 AS one", "CREATE INDEX ix ON t (a)",
    "CREATE TABLE part (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)", "CREATE TABLE part_a PARTITION OF part FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE part_b PARTITION OF part DEFAULT", "CREATE TABLE base (a int)", "CREATE TABLE heir (b int) INHERITS (base)",
    "CREATE TABLE grandchild () INHERITS (heir)", "CREATE FOREIGN DATA WRAPPER fdw", "CREATE SERVER far FOREIGN DATA WRAPPER fdw",
    "CREATE FOREIGN TABLE ft (a int) SERVER far",
)  # fmt: skip
GENERATED = "publish_generated_columns"
STATEMENTS = (
    "CREATE PUBLICATION qa FOR TABLE t WHERE a > 5", "CREATE PUBLICATION qa FOR TABLE t (a, a)", "CREATE PUBLICATION qa FOR TABLE t (nosuch)",
    "CREATE PUBLICATION qa FOR TABLE t (ctid)", "CREATE PUBLICATION qa FOR TABLE t (gone)", "CREATE PUBLICATION qa FOR TABLE t ()",
    "CREATE PUBLICATION qa FOR TABLE t WHERE (a > 1), t", "CREATE PUBLICATION qa FOR TABLE t, t WHERE (a > 1)",
    "CREATE PUBLICATION qa FOR TABLE t (id), t", "CREATE PUBLICATION qa FOR TABLE t (id), t (id)",
    "CREATE PUBLICATION qa FOR TABLE t WHERE (a > 1), t (id)", "CREATE PUBLICATION qa FOR TABLE nosuch", "CREATE PUBLICATION qa FOR TABLE no.such",
    "CREATE PUBLICATION qa FOR TABLE vw", "CREATE PUBLICATION qa FOR TABLE sq", "CREATE PUBLICATION qa FOR TABLE unl",
    "CREATE PUBLICATION qa FOR TABLE mv", "CREATE PUBLICATION qa FOR TABLE ix", "CREATE PUBLICATION qa FOR TABLE ft",
    "CREATE PUBLICATION qa FOR TABLE pg_class", "CREATE PUBLICATION qa FOR TABLES IN SCHEMA nosuch",
    "CREATE PUBLICATION qa FOR TABLES IN SCHEMA pg_catalog", "CREATE PUBLICATION qa FOR TABLES IN SCHEMA pg_toast",
    "CREATE PUBLICATION qa FOR TABLES IN SCHEMA rf WHERE (a > 1)", "CREATE PUBLICATION qa FOR ALL TABLES WHERE (a > 1)",
    "CREATE PUBLICATION qa FOR ALL TABLES IN SCHEMA rf", "CREATE PUBLICATION qa FOR ALL TABLES WITH (publish = 'insert,nosuch')",
    "CREATE PUBLICATION qa WITH (publish = 'insert', publish = 'update')", "CREATE PUBLICATION qa WITH (nosuch = 1)",
    "CREATE PUBLICATION qa WITH (publish_via_partition_root = maybe)", "CREATE PUBLICATION qa WITH (publish)",
    "CREATE PUBLICATION qa FOR TABLE t (id, a), TABLES IN SCHEMA rf2", "CREATE PUBLICATION qa FOR TABLES IN SCHEMA rf, TABLE t (id)",
    "CREATE PUBLICATION qa FOR TABLE part WHERE (v > 1)", "CREATE PUBLICATION qa FOR TABLE part (id)",
    "CREATE PUBLICATION qa FOR TABLE base WHERE (a > 1), heir", "CREATE PUBLICATION qa FOR TABLE t WHERE (nosuch > 1)",
    "CREATE PUBLICATION qa FOR TABLE t WHERE (a + 1)", "CREATE PUBLICATION qa FOR TABLE t WHERE (now() IS NOT NULL)",
    "CREATE PUBLICATION qa", "CREATE PUBLICATION qa FOR TABLE t", "CREATE PUBLICATION qb FOR TABLE t, t WITH (publish = '')",
    "CREATE PUBLICATION qc FOR TABLE ONLY base, part WITH (publish = 'Insert, \"update\" , delete', publish_via_partition_root)",
    "CREATE PUBLICATION qd FOR TABLE base", "CREATE PUBLICATION qe FOR TABLES IN SCHEMA rf, TABLE t WHERE (a > 1)",
    "CREATE PUBLICATION qf FOR TABLE part WHERE (v > 1), part_a WITH (publish_via_partition_root = on)",
    "CREATE PUBLICATION qg FOR TABLE part (v, id) WITH (publish_via_partition_root = 1)", "CREATE PUBLICATION qh FOR TABLES IN SCHEMA CURRENT_SCHEMA",
    "CREATE PUBLICATION qi FOR ALL TABLES WITH (publish = 'truncate')", "CREATE PUBLICATION qj FOR TABLES IN SCHEMA rf, rf2, rf",
    "CREATE PUBLICATION qk FOR TABLE rf.t, nopk (b), part_b WHERE (id > 5)", "CREATE PUBLICATION \"Ql\" FOR TABLE t (c, id)",
    f"CREATE PUBLICATION qm FOR TABLE t WITH ({GENERATED} = stored)", f"CREATE PUBLICATION qn FOR TABLE t WITH ({GENERATED} = bogus)",
    "CREATE PUBLICATION qo FOR TABLE t (id, g)",
    "ALTER PUBLICATION qf SET (publish_via_partition_root = false)", "ALTER PUBLICATION qg SET (publish_via_partition_root = false)",
    "ALTER PUBLICATION qa ADD TABLE t", "ALTER PUBLICATION qa ADD TABLE t (id)", "ALTER PUBLICATION qa DROP TABLE t WHERE (a > 2)",
    "ALTER PUBLICATION qa DROP TABLE t (id)", "ALTER PUBLICATION qa DROP TABLE nopk", "ALTER PUBLICATION qa DROP TABLES IN SCHEMA rf2",
    "ALTER PUBLICATION qa SET TABLE t WHERE (a > 2), nopk", "ALTER PUBLICATION qa DROP TABLE t", "ALTER PUBLICATION qa DROP TABLE t",
    "ALTER PUBLICATION qa ADD TABLES IN SCHEMA rf", "ALTER PUBLICATION qa ADD TABLES IN SCHEMA rf", "ALTER PUBLICATION qa ADD TABLE t (id)",
    "ALTER PUBLICATION \"Ql\" ADD TABLES IN SCHEMA rf", "ALTER PUBLICATION qj DROP TABLES IN SCHEMA rf",
    "ALTER PUBLICATION qj SET TABLES IN SCHEMA rf2",
    "ALTER PUBLICATION qk SET TABLE nopk, TABLES IN SCHEMA rf", "ALTER PUBLICATION qi ADD TABLE t", "ALTER PUBLICATION qi ADD TABLES IN SCHEMA rf",
    "ALTER PUBLICATION qi SET (publish = 'insert', publish_via_partition_root = true)", "ALTER PUBLICATION nosuch ADD TABLE t",
    "ALTER PUBLICATION nosuch SET (publish = 'insert')", "ALTER PUBLICATION nosuch RENAME TO qz", "ALTER PUBLICATION qb RENAME TO qc",
    "ALTER PUBLICATION qb RENAME TO qz", "ALTER PUBLICATION qz OWNER TO nobody_at_all", "ALTER PUBLICATION qc SET (publish = 'delete')",
    "DROP PUBLICATION nosuch", "DROP PUBLICATION qz, nosuch", "DROP PUBLICATION IF EXISTS nosuch, qh", "DROP PUBLICATION qh",
)  # fmt: skip


def _theirs(server: Server, statement: str) -> tuple[str, ...]:
    try:
        server.sql(statement)
    except psycopg.Error as error:
        diag = error.diag
        return str(error.sqlstate), str(diag.message_primary), diag.message_detail or "", str(diag.statement_position or "")
    return ("ok",)


def _ours(defining: PublicationCommands, statement: str) -> tuple[str, ...]:
    try:
        defining.run(parse_statement(statement))
    except UsageError as error:
        return error.sqlstate, error.message, error.detail, str(error.position or "")
    return ("ok",)


@pytest.mark.parametrize("major", [pytest.param(15, marks=pytest.mark.matrix), 16, 18])
def test_as_the_server_does(major: int) -> None:
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        server.say(*TABLES)
        end = int(str(server.value("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")))
        theirs = [_theirs(server, statement) for statement in STATEMENTS]
        psql = [
            find_build(major, test_decoding=False).bin("psql"),
            "-X",
            "-h",
            "127.0.0.1",
            "-p",
            str(server.port),
            "-U",
            "postgres",
            "-d",
            DBNAME,
        ]
        shown = [
            subprocess.run([*psql, "-c", f"\\dRp{plus}"], capture_output=True, text=True, check=True).stdout for plus in ("", "+")
        ]
        server.checkpoint()
        server.stop()
        history = opened(server.data_dir).history
    moment = CatalogSnapshot(history, end)
    style = TextStyle()

    def analyse(where, table):
        try:
            analysed(RowFilter(where.text, SQL), table, major, style)
        except UsageError as error:
            error.position = None if error.position is None else error.position + where.at
            raise
        return RowFilter(where.text, SQL, tuple((column.number, column.name) for column in table.live_columns))

    defining = PublicationCommands(moment, major, {}, frozenset(), analyse)
    ours = [_ours(defining, statement) for statement in STATEMENTS]
    # Where in a statement a name stands is told of a WHERE clause only.
    assert [
        (statement, mine, other)
        for statement, mine, other in zip(STATEMENTS, ours, theirs, strict=True)
        if mine != other and (mine[:3] != other[:3] or mine[3])
    ] == []
    assert {outcome[0] for outcome in theirs} >= {"ok", "42601", "42710", "42703", "42P01", "22023", "42704", "3F000", "55000"}
    later = CatalogSnapshot(history, int(history.table("pg_publication").rows.begin.max()) + 1)
    compiler = FilterCompiler(major, facts_of(history, style))
    shower = PublicationDescriber(later, major, lambda row_filter, table: filter_text(compiler, row_filter, table))
    assert "\n".join(shower.listed(list(defining.defined.values()))) + "\n" == shown[0]
    # What the source itself has is the same, but for how a WHERE clause is written down.
    found = {each.name: each for each in SourcePublications(history).all_at(later.lsn + (1 << 40))}
    assert found.keys() == defining.defined.keys()
    for each in (found, defining.defined):
        described = [shower.described(each[name]) for name in sorted(each)]
        assert "\n".join(line for lines in described for line in lines) + "\n" == shown[1]
    for name, mine in defining.defined.items():
        for key in ("owner", "all_tables", "actions", "via_root", "generated_columns", "schemas"):
            assert getattr(found[name], key) == getattr(mine, key), (name, key)
        assert [(table.oid, table.columns, table.filter is None) for table in found[name].tables] == [
            (table.oid, table.columns, table.filter is None) for table in mine.tables
        ]
