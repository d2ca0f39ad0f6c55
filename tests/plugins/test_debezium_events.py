"""Debezium's events of changes made on a server: what stands in `before` and `after`."""

from __future__ import annotations

import json

import pytest

from support.decoding import opened
from support.live import Slot
from support.servers import Server
from tailrace.plugins.registry import plugin_named

pytestmark = pytest.mark.postgres


def test_a_value_that_did_not_change_is_taken_from_before() -> None:
    """A row whose identity is all of it has in the log what was stored out of line; else nobody knows it."""
    with Server(16, dbname="app") as server:
        for name in ("whole", "key"):
            server.say(
                f"CREATE TABLE {name} (id int PRIMARY KEY, n int, v text)", f"ALTER TABLE {name} ALTER v SET STORAGE EXTERNAL"
            )
        server.say("ALTER TABLE whole REPLICA IDENTITY FULL")
        slot = Slot.on(server)
        for name in ("whole", "key"):
            server.say(
                f"INSERT INTO {name} SELECT g, g, repeat('x', 3000) || g FROM generate_series(1, 3) g",
                f"UPDATE {name} SET n = n + 10",
            )
        server.stop()
        plugin = plugin_named("debezium")
        plugin.startup({}, 16)
        pipeline = opened(server.data_dir, start_lsn=slot.start_lsn, demand=plugin.demand)
        events = [json.loads(text) for lines in pipeline.lines(plugin) for text in lines.texts.to_list()]
    updates = [each for each in events if each["op"] == "u"]
    assert [each["after"]["v"] for each in updates] == [f"{'x' * 3000}{number}" for number in (1, 2, 3)] + [
        "__debezium_unavailable_value"
    ] * 3
    assert [each["before"] and each["before"]["v"][-1] for each in updates] == ["1", "2", "3", None, None, None]
