"""Defaults of columns, as the server's pg_get_expr has them at the same moment."""

from __future__ import annotations

import pytest

from support.column_defaults import DEFINED
from support.decoding import opened
from support.live import Slot
from support.servers import Server
from tailrace.errors import UsageError
from tailrace.pipeline import Pipeline
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.registry import plugin_named

pytestmark = pytest.mark.postgres
THEIRS = """
SELECT attname::text, CASE WHEN attgenerated = '' THEN pg_get_expr(adbin, adrelid) END
FROM pg_attribute LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) WHERE attrelid = 'defaults'::regclass AND attnum > 0
"""
CHANGED = (
    "ALTER TABLE defaults ALTER b SET DEFAULT 7, ALTER t DROP DEFAULT, ALTER f SET DEFAULT -1, ADD added int DEFAULT 9",
    "ALTER TABLE defaults ALTER b DROP DEFAULT",
)
MAJORS = [16, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 17, 18))]


def _planned(server: Server, slot: Slot) -> tuple[Pipeline, OutputPlugin]:
    plugin = plugin_named("wal2json")
    plugin.startup({"format-version": "2", "include-default": "on", "include-transaction": "off"}, server.major)
    return opened(server.data_dir, start_lsn=slot.start_lsn, demand=plugin.demand), plugin


@pytest.mark.parametrize("major", MAJORS)
def test_of_the_moment(major: int) -> None:
    with Server(major, dbname="app") as server:
        server.say(*DEFINED)
        slot = Slot.on(server)
        theirs, ours = [], []
        for statement in ("SELECT", *CHANGED):
            server.say(statement, "INSERT INTO defaults DEFAULT VALUES")
            theirs.append(dict(server.sql(THEIRS)))
        server.stop()
        pipeline, plugin = _planned(server, slot)
        for lines in pipeline.lines(plugin):
            for lsn, text in zip(lines.lsn.tolist(), lines.texts.to_list(), strict=True):
                relation = pipeline.history.relation_named("public", "defaults", lsn)
                assert relation is not None
                ours.append({column.name: column.default for column in relation.live_columns})
                assert all(f'"default":"{default}"' in text for default in ours[-1].values() if default is not None)
    assert ours == theirs


def test_what_is_not_understood_is_said() -> None:
    with Server(16, dbname="app") as server:
        slot = Slot.on(server)
        server.say("CREATE TABLE t (a int DEFAULT (ARRAY[1, 2])[1])", "INSERT INTO t VALUES (1)")
        server.stop()
        with pytest.raises(UsageError, match=r'the default of column "a" .* unrecognized node "SUBSCRIPTINGREF"') as raised:
            _planned(server, slot)
    assert raised.value.sqlstate == "0A000"
