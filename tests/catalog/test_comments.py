"""pg_description as catalogs know it that were captured in each way, and as they follow the log: what the server says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.servers import Server
from tailrace.catalog.history.history import History
from tailrace.catalog.rows.catalog_rows import oid_of
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.state_file import content_of_state, read_state, state_from, write_state
from tailrace.errors import UnsupportedFile
from tailrace.model import Comments, Lsn
from tailrace.pipeline import LocalRunner, Pipeline, Source, capture, open_pipeline
from tailrace.pipeline.capture_live import capture_live
from tailrace.wal.index import TRACKED_CATALOGS

pytestmark = pytest.mark.postgres
MAJORS = [pytest.param(each, marks=[] if each == 18 else pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]
STORY = (
    "CREATE TABLE a (id int PRIMARY KEY, v text)", "COMMENT ON TABLE a IS 'one'", "COMMENT ON COLUMN a.v IS 'größer'",
    "CREATE TABLE b (id int)", "COMMENT ON TABLE b IS 'gone'", "DROP TABLE b", "COMMENT ON COLUMN a.id IS 'soon removed'",
    "COMMENT ON FUNCTION abs(int) IS 'of the system''s own'", "BEGIN; COMMENT ON TABLE a IS 'aborted'; ROLLBACK",
)  # fmt: skip
LATER = (
    "COMMENT ON COLUMN a.id IS NULL", "COMMENT ON TABLE a IS 'two'", "VACUUM FULL pg_description", "COMMENT ON INDEX a_pkey IS 'of an index'",
    "ALTER TABLE a RENAME TO c", "VACUUM FREEZE pg_description", "COMMENT ON COLUMN c.v IS 'last'",
)  # fmt: skip


def _comment_at_length(server: Server, what: str, start: int) -> None:
    """With what lies in the TOAST table."""
    long = server.value(f"SELECT string_agg(md5(i::text), '') FROM generate_series({start}, 3000) i")
    server.say(f"COMMENT ON {what} IS '{long}'")


def _there(server: Server) -> set[Any]:
    return set(server.sql("SELECT objoid::int8, classoid::int8, objsubid, description FROM pg_description"))


def _known(history: History, lsn: int) -> set[Any]:
    table = history.table("pg_description")
    rows = table.rows.seen(np.arange(len(table.rows)), lsn, -1)
    columns = [table[name][rows].tolist() for name in ("objoid", "classoid", "objsubid")]
    return set(zip(*columns, [each.decode() for each in table["description"][rows].tolist()], strict=True))


def _at_end(pipeline: Pipeline) -> set[Any]:
    return _known(pipeline.history, int(pipeline.span.stop))


@pytest.mark.parametrize("major", MAJORS)
def test_captured_in_each_way(major: int, tmp_path: Path) -> None:
    with Server(major, {"wal_level": "logical"}, test_decoding=False) as server:
        server.say(*STORY[:3], "CHECKPOINT", *STORY[3:], "CREATE ROLE reader LOGIN REPLICATION")
        _comment_at_length(server, "SCHEMA public", 1)
        start, before = Lsn.parse(server.flush_lsn()), _there(server)
        states: list[CatalogState] = [capture(Source.open(server.data_dir), LocalRunner(1), server.dbname)]
        said: list[str] = []
        for role in ("", " user=reader"):
            state, _ = capture_live(f"{server.dsn()}{role}", server.dbname, tmp_path / f"wal{role}", LocalRunner(1), said.append)
            states.append(read_state(write_state(state), "here"))
        assert len([line for line in said if "base backup" in line]) >= 1
        server.say(*LATER)
        _comment_at_length(server, "COLUMN c.id", 2)
        after = _there(server)
        assert before ^ after
        for state in states:
            pipeline = open_pipeline(server.data_dir, server.dbname, catalog=state, runner=LocalRunner(1))
            assert _at_end(pipeline) == after
            assert _known(pipeline.history, int(state.lsn)) == before
        whole = open_pipeline(server.data_dir, server.dbname, runner=LocalRunner(1))
        assert _at_end(whole) == after
        assert _known(whole.history, int(start)) == before


def test_states_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of format 5 is refused. What goes on from a mark that holds such a one does not know comments, and does not guess."""
    with Server(18, test_decoding=False) as server:
        server.say(*STORY)
        state = capture(Source.open(server.data_dir), LocalRunner(1), server.dbname)
        written = bytearray(write_state(state))
        written[16:20] = (5).to_bytes(4, "little")
        with pytest.raises(UnsupportedFile, match='"old" is a catalog state of format 5, this version reads 6'):
            read_state(bytes(written), "old")
        with monkeypatch.context() as before:
            for catalog in ("pg_description", "pg_toast_2609"):
                before.delitem(TRACKED_CATALOGS, oid_of(catalog))
            facts, arrays = content_of_state(capture(Source.open(server.data_dir), LocalRunner(1), server.dbname))
            del facts["knows_comments"]
            old = state_from(facts, arrays)
        oid = server.value("SELECT 'a'::regclass::oid::int8")

        def told(by: CatalogState) -> tuple[Comments | None, bool]:
            table = open_pipeline(server.data_dir, server.dbname, catalog=by, runner=LocalRunner(1)).table(oid)
            assert table is not None
            return table.comments, table.commented

        server.say("COMMENT ON TABLE a IS 'later'", "COMMENT ON COLUMN a.v IS NULL")
        knowing = Comments("later", ((1, "soon removed"),))
        assert (told(old), told(state)) == ((None, False), (knowing, True))
        server.say("VACUUM FULL pg_description")
        assert (told(old), told(state)) == ((None, False), (knowing, True))
