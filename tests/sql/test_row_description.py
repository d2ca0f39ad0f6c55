"""Results have the columns, types and modifiers that a server describes: of every function and view of the interface, and of SHOW."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql.places import our_columns, session_on, their_columns
from sql.test_views import OWN
from support.servers import Server
from tailrace.catalog.rows.layouts import tracked_columns
from tailrace.sql.functions.signatures import functions_of
from tailrace.sql.views.view_columns import catalog_columns, views_of

pytestmark = pytest.mark.postgres
CALLS = (
    "pg_create_logical_replication_slot('a', 'test_decoding')", "pg_logical_slot_peek_changes('a', NULL, NULL)",
    "pg_logical_slot_get_changes('a', NULL, NULL)", "pg_logical_slot_peek_binary_changes('a', NULL, NULL)",
    "pg_logical_slot_get_binary_changes('a', NULL, NULL)", "pg_copy_logical_replication_slot('a', 'b')",
    "pg_replication_slot_advance('a', pg_current_wal_lsn())", "pg_drop_replication_slot('a')", "pg_replication_origin_create('o')",
    "pg_replication_origin_oid('o')", "pg_replication_origin_advance('o', '0/1')", "pg_replication_origin_progress('o', true)",
    "pg_replication_origin_drop('o')", "pg_current_wal_lsn()", "pg_current_wal_flush_lsn()", "pg_current_wal_insert_lsn()",
)  # fmt: skip
OTHERS = (
    "SHOW DateStyle", "SHOW logical_decoding_work_mem", "SET extra_float_digits = 1",
    "SELECT (pg_create_logical_replication_slot('c', 'test_decoding')).lsn", "SELECT pg_copy_logical_replication_slot('c', 'd')",
    "SELECT pg_logical_slot_peek_changes('c', NULL, NULL)", "SELECT pg_logical_slot_get_binary_changes('c', NULL, NULL)",
    "SELECT * FROM pg_replication_slot_advance('c', 'F/0') WITH ORDINALITY AS x(a, b, n)", "SELECT pg_drop_replication_slot('c')",
    "SELECT * FROM generate_series(1, 2)", "SELECT slot_name::varchar(3), coalesce(slot_name::varchar(3), 'x'), 'x'::varchar(7) "
    "FROM pg_replication_slots UNION SELECT 'a'::varchar(3), 'b', NULL",
    "SELECT x, min(x), x || 'a' FROM (SELECT 'a'::varchar(2) AS x) q GROUP BY x", "SELECT ARRAY[1, 2], ARRAY['a'], NULL, 'x'",
    "VALUES (1, 'a'), (3000000000, 'b')", "SELECT sum(1), sum(1::int8), avg(2), count(*), max('a'::name), 3000000000, 1.5, now(), true, 2::int2",
)  # fmt: skip
MISSING = {("pg_publication_namespace", 14)}


@pytest.mark.parametrize(
    "major", [pytest.param(16), *(pytest.param(each, marks=pytest.mark.matrix) for each in (14, 15, 17, 18))]
)
def test_row_descriptions(major: int, tmp_path: Path) -> None:
    assert {call.split("(")[0] for call in CALLS} == functions_of(major).keys()
    tracked = {name: catalog_columns(name, major) for name in tracked_columns(major) if (name, major) not in MISSING}
    views = [f"SELECT {', '.join(name for name, _ in columns)} FROM {table}" for table, columns in tracked.items()]
    views += [f"SELECT * FROM {name}" for name in views_of(major) if not name.startswith(OWN)]
    with Server(major) as server, session_on(server, tmp_path / "state") as session:
        for text in (*(f"SELECT * FROM {call}" for call in CALLS), *OTHERS, *views):
            assert our_columns(session, text) == their_columns(server, text), text
