"""Events of our plugin, and those that Debezium's engine made of the same changes: recorded (`record_debezium_events.py`), and on the spot, from one
server. Every field of payloads and schemas, in its order, but for what `support.debezium_engine` leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.debezium_engine import DEFINITIONS, PREFIX, RUNS, WORK, Event, comparable, events_of, recorded_events
from support.decoding import opened
from support.servers import Server
from tailrace.plugins.registry import plugin_named

pytestmark = pytest.mark.postgres
LEAST = 50


@contextmanager
def told_story(major: int) -> Iterator[tuple[Server, str]]:
    """A server that was told the story, with a slot for each run; and where these begin."""
    with Server(major, dbname="app", test_decoding=False) as server:
        server.say(*DEFINITIONS)
        starts = [str(server.value(f"SELECT lsn FROM pg_create_logical_replication_slot('{name}', 'pgoutput')")) for name in RUNS]
        server.say(*WORK)
        yield server, starts[-1]


def ours(server: Server, start: str, name: str, major: int) -> list[Event]:
    plugin = plugin_named("debezium")
    plugin.startup({"topic.prefix": PREFIX, "schemas.enable": "on", **RUNS[name]}, major)
    plugin.context.database = server.dbname
    pipeline = opened(server.data_dir, start_lsn=start, demand=plugin.demand)
    return [json.loads(text) for lines in pipeline.lines(plugin) for text in lines.texts.to_list()]


def check_equal_events(mine: list[Event], theirs: list[Event]) -> None:
    assert len(mine) == len(theirs) > LEAST
    for one, other in zip(mine, theirs, strict=True):
        for part in ("payload", "schema"):
            assert json.dumps(one[part], indent=1) == json.dumps(other[part], indent=1)


def test_as_the_engine_told_them() -> None:
    with told_story(16) as (server, start):
        server.stop()
        for name in RUNS:
            check_equal_events(comparable(ours(server, start, name, 16), of_one_server=False), list(recorded_events(name)))


@pytest.mark.matrix
@pytest.mark.marathon
@pytest.mark.parametrize("major", [18, 14])
def test_as_the_engine_tells_them(major: int) -> None:
    with told_story(major) as (server, start):
        theirs = {name: events_of(server, name) for name in RUNS}
        server.stop()
        for name, events in theirs.items():
            check_equal_events(
                comparable(ours(server, start, name, major), of_one_server=True), comparable(events, of_one_server=True)
            )
            assert comparable(events, of_one_server=False) == list(recorded_events(name))
