"""pgoutput's messages, byte for byte what the server's plugin makes of the same log, in a fresh session on an idle server; of streamed ones, what a
subscriber makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oracle.test_stories import prepared_cluster
from support.cases import DBNAME
from support.pgoutput_rows import IDENTITY_FOR_ALL, PLAIN, PUBLICATION, check_same, ours, theirs
from support.sampling import some_of
from support.servers import Server
from support.stories import read_story, stories, tell
from support.subscriber import put_together, without_origins
from tailrace.logicalproto.message import TupleColumn, TupleData
from tailrace.majors import MAJORS

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
OPTIONS = {
    "text": (PLAIN, False, 14),
    "binary": ({**PLAIN, "binary": "true"}, False, 14),
    "messages": ({**PLAIN, "messages": "true"}, False, 14),
    "two phases": ({**PLAIN, "proto_version": "3", "two_phase": "on"}, True, 15),
    "local": ({**PLAIN, "proto_version": "4", "origin": "none"}, False, 16),
}
STREAMED = {
    "streamed": ({**PLAIN, "proto_version": "2", "streaming": "on"}, 14),
    "streamed in parallel": ({**PLAIN, "proto_version": "4", "streaming": "parallel"}, 16),
}
"""Options, whether in two phases, and since which major there are these."""
FIRST_AT_ONCE = 16
"""Since then a server can be told to stream every change at once; before, only what does not fit in 64 kB is."""
SETTINGS: dict[str, str | int] = {"autovacuum": "off", "max_prepared_transactions": 10, "logical_decoding_work_mem": "64kB"}

# Their UPDATEs and DELETEs of tables without a replica identity are refused where those are published; or what gives all tables one is in the way of
# their locks on catalogs.
INSERTS_ONLY = {"ddl", "replica_identity", "rewrite", "rewrite_under_ddl"}
# What ended in a rollback of what was prepared, the server no longer decodes once it knows.
ROLLED_BACK_SINCE = {"prepared"}
# Behind a ROLLBACK TO SAVEPOINT, where every change is sent at once, the server does not find some things by name, and prints their numbers.
MISSED_AT_ONCE = {"names", "names_temporary"}


@pytest.fixture(scope="module", params=MAJORS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    return request.param, prepared_cluster(request.param, tmp_path_factory.mktemp(f"cluster-{request.param}"))


ALL_STORIES = sorted({story for major in MAJORS for story in stories(major)})


@pytest.mark.parametrize("story", some_of([pytest.param(story, id=story) for story in ALL_STORIES], 8))
def test_story(story: str, cluster: tuple[int, Path]) -> None:
    major, before = cluster
    if story not in stories(major):
        pytest.skip(f"{story} is not for {major}")
    assert compare(story, major, before) >= (story != "empty")


def compare(story: str, major: int, before: Path) -> int:
    """Tell the story, and compare under all options; how many rows there were."""
    count = 0
    with Server(major, SETTINGS, dbname=DBNAME, data=before) as server:
        if story in INSERTS_ONLY:
            server.say(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES WITH (publish = 'insert, truncate')")
        else:
            server.say(IDENTITY_FOR_ALL, f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
        server.checkpoint()
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
        server.sql("SELECT pg_create_logical_replication_slot('t', 'pgoutput', false, true)")
        tell(read_story(story), server)
        cases = [each for each in OPTIONS.values() if each[2] <= major and not (each[1] and story in ROLLED_BACK_SINCE)]
        expected = [theirs(server, "t" if two_phase else "s", options) for options, two_phase, _ in cases]
        if major >= FIRST_AT_ONCE:
            server.say("ALTER SYSTEM SET debug_logical_replication_streaming = 'immediate'", "SELECT pg_reload_conf()")
        streamed = [(options, theirs(server, "s", options)) for options, since in STREAMED.values() if since <= major]
        server.stop()
        for (options, two_phase, _), rows in zip(cases, expected, strict=True):
            found = ours(server.data_dir, options, start_lsn=start, two_phase=two_phase, major=major)
            check_same(found, rows, f"{story}, {major}, {options}")
            count += len(rows)
        for options, rows in streamed:
            found = ours(server.data_dir, options, start_lsn=start, major=major, work_mem=0)
            mine, told = put_together(found, options), put_together(rows, options)
            if major < FIRST_AT_ONCE:  # of what came whole the origin is that of its end, and the server streams less
                mine, told = without_origins(mine), without_origins(told)
            if major >= FIRST_AT_ONCE and story in MISSED_AT_ONCE:
                assert mine != told
                mine = [_missed_as(mine_of, told_of) for mine_of, told_of in zip(mine, told, strict=True)]
            assert mine == told, f"{story}, {major}, {options}"
    return count


def _missed_as(mine: Any, told: Any) -> Any:
    """`mine`, of a value or of all there is, with numbers for names where those are what the server told."""
    if isinstance(mine, TupleColumn) and isinstance(told, TupleColumn):
        return told if mine.value and told.value and _is_missed(mine.value, told.value) else mine
    if isinstance(mine, TupleData) and isinstance(told, TupleData):
        return replace(mine, columns=_missed_as(mine.columns, told.columns))
    if isinstance(mine, tuple | list) and isinstance(told, tuple | list) and len(mine) == len(told):
        return type(mine)(map(_missed_as, mine, told))
    return mine


def _is_missed(mine: bytes, told: bytes) -> bool:
    """Whether each name, alone or in an array, is told as a number."""
    names, numbers = (value.strip(b"{}").split(b",") for value in (mine, told))
    return len(names) == len(numbers) and all(b.isdigit() and not a.isdigit() for a, b in zip(names, numbers, strict=True))
