"""The catalogs at the end of a log that is followed: after each statement they are those of a log that is opened anew, and they are made anew only
where it was about catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.put_back import copied, put_back
from support.servers import Server
from tailrace.catalog.rows.layouts import tracked_columns
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline.followed_snapshot import FollowedSnapshot
from tailrace.pipeline.open_snapshot import open_snapshot
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.sql.kept_catalogs import KeptCatalogs
from tailrace.sql.views.catalog_tables import CatalogTables
from tailrace.types.style import TextStyle

pytestmark = pytest.mark.postgres
MAJORS = [pytest.param(each, marks=[] if each == 18 else pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]
STYLE = TextStyle()
WHILE_ONE_IS_OPEN = (
    "CREATE TABLE a (id int PRIMARY KEY, v text)", "INSERT INTO a SELECT g, 'x' FROM generate_series(1, 100) g", "ALTER TABLE a ADD n int DEFAULT 3",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')", "BEGIN; CREATE TABLE gone (i int); ROLLBACK", "SELECT pg_switch_wal()", "CHECKPOINT",
    "BEGIN; SAVEPOINT s; CREATE TABLE not_there (i int); ROLLBACK TO s; CREATE TABLE there (i int); COMMIT",
)  # fmt: skip
STORY = (
    "ALTER TYPE mood ADD VALUE 'happy'", "VACUUM FULL pg_class", "UPDATE a SET n = 4", "CREATE VIEW va AS SELECT 1",
    "CREATE PUBLICATION p FOR TABLE a", "ALTER TABLE a RENAME TO b", "VACUUM FULL b", "ALTER TABLE b DROP COLUMN v", "TRUNCATE b",
    "VACUUM pg_attribute", "CREATE ROLE somebody",
    "DROP TABLE there", "REINDEX TABLE pg_type", "DROP PUBLICATION p",
)  # fmt: skip


def _runner(size: int) -> Runner:
    return LocalRunner()


def _tables(here: CatalogTables, major: int) -> dict[str, pa.Table]:
    return {name: here.table(name) for name in tracked_columns(major) if name != "pg_statistic"}


def _check(followed: FollowedSnapshot, major: int) -> None:
    followed.look(_runner)
    ours = CatalogTables(followed.snapshot(STYLE.schemas), STYLE)
    fresh = CatalogTables(open_snapshot(followed.source, followed.database, LocalRunner()), STYLE)
    for name, table in _tables(fresh, major).items():
        assert ours.table(name).equals(table), name


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(getattr(request, "param", 18)) as server:
        yield server


@pytest.mark.parametrize("server", MAJORS, indirect=True)
def test_they_are_those_of_a_log_opened_anew(server: Server) -> None:
    followed = FollowedSnapshot(server.data_dir, "postgres")
    _check(followed, server.major)
    with server.connect(autocommit=True) as open_long, server.connect(autocommit=True) as client:
        open_long.execute("BEGIN")
        open_long.execute("CREATE TABLE long (i int)")
        for statement in WHILE_ONE_IS_OPEN:
            client.execute(statement.encode())
            _check(followed, server.major)
        open_long.execute("COMMIT")
        for statement in STORY:
            client.execute(statement.encode())
            _check(followed, server.major)
    server.crash()
    server.start()
    server.say("CREATE TABLE afterwards (i int)")
    _check(followed, server.major)


def test_they_stay_where_nothing_was_about_catalogs(server: Server) -> None:
    server.say("CREATE TABLE a (i int)")
    followed = FollowedSnapshot(server.data_dir, "postgres")
    followed.look(_runner)
    version, end = followed.version, followed.end
    server.say("INSERT INTO a VALUES (1)")
    followed.look(_runner)
    assert followed.version == version
    assert followed.end > end
    server.say("CREATE TABLE b (i int)")
    followed.look(_runner)
    assert followed.version > version


def test_a_log_that_was_put_back_is_read_anew(server: Server, tmp_path: Path) -> None:
    server.say("CREATE TABLE a (i int)")
    copy = copied(server, tmp_path / "copy")
    server.say("CREATE TABLE lost (i int)")
    followed = FollowedSnapshot(server.data_dir, "postgres")
    _check(followed, server.major)
    put_back(server, copy)
    server.say("CREATE TABLE other (i int, j int)")
    _check(followed, server.major)


def test_wal_that_has_gone_meanwhile_is_not_missed(server: Server) -> None:
    followed = FollowedSnapshot(server.data_dir, "postgres")
    _check(followed, server.major)
    server.say("CREATE TABLE a (i int)")
    for number in range(8):
        server.say(f"CREATE TABLE a{number} (i int)", "SELECT pg_switch_wal()", "CHECKPOINT")
    _check(followed, server.major)


def test_kept_tables_are_the_same_until_catalogs_change_and_of_few_databases(server: Server) -> None:
    kept = KeptCatalogs(server.data_dir, _runner)
    first = kept.tables("postgres", None, STYLE)
    server.say("CHECKPOINT")
    assert kept.tables("postgres", None, STYLE).table("pg_class").equals(first.table("pg_class"))
    then = Lsn.parse(server.flush_lsn())
    server.say("CREATE TABLE a (i int)")
    now = kept.tables("postgres", None, STYLE)
    assert now is not first
    assert now is kept.tables("postgres", None, STYLE)
    past = kept.tables("postgres", then, STYLE)
    assert past.table("pg_class").equals(first.table("pg_class"))
    assert kept.tables("postgres", None, STYLE).table("pg_class").num_rows == past.table("pg_class").num_rows + 1
    with pytest.raises(UsageError) as refused:
        kept.tables("nonesuch", None, STYLE)
    assert refused.value.sqlstate == "3D000"
    for number in range(5):
        server.say(f"CREATE DATABASE d{number}")
        kept.tables(f"d{number}", None, STYLE)
    assert len(kept._databases) == 4
