"""wal2json: rows byte for byte what the plugin prints on a server, and its words for options that it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from oracle.test_stories import prepared_cluster
from support.cases import DBNAME, some_of
from support.servers import Server
from support.stories import read_story, stories, tell
from support.wal2json import FORMAT, MAJOR, check_same, ours, settings, theirs

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
SETTINGS = {"autovacuum": "off", "max_prepared_transactions": 10}
EVERYTHING = dict.fromkeys(
    (
        "include-xids", "include-timestamp", "include-lsn", "include-origin", "include-type-oids", "include-pk", "include-not-null",
        "include-column-positions", "include-domain-data-type",
    ),
    "1",
)  # fmt: skip
OPTIONS: Mapping[str, Mapping[str, str | None]] = {
    "plain": FORMAT,
    "everything": FORMAT | EVERYTHING,
    "no types": FORMAT | {"include-types": "0", "include-schemas": "f", "include-typmod": "off", "include-pk": "true", "include-default": "no"},
    "xids": FORMAT | {"include-xids": "y", "actions": "insert, delete", "include-origin": "1", "filter-origins": "7,2"},
    "lines": FORMAT | {"include-timestamp": "1", "include-transaction": "0", "actions": "update,truncate", "pretty-print": "1"},
    "some tables": FORMAT | {"filter-tables": "*.t, public.a*,s\\ 1.*", "add-msg-prefixes": "a,tag", "write-in-chunks": "1"},
    "other tables": FORMAT | {"add-tables": "public.*,*.b", "filter-msg-prefixes": "test,tag", "filter-origins": "1", "include-lsn": "1"},
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_cluster(MAJOR, tmp_path_factory.mktemp("cluster"))


@pytest.mark.parametrize("story", some_of([pytest.param(story, id=story) for story in stories(MAJOR)], 8))
def test_story(story: str, cluster: Path) -> None:
    with Server(MAJOR, {**SETTINGS, **settings()}, dbname=DBNAME, data=cluster) as server:
        server.checkpoint()
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'wal2json')"))
        tell(read_story(story), server)
        server.checkpoint()
        expected = {name: theirs(server, options) for name, options in OPTIONS.items()}
        server.stop()
        for name, options in OPTIONS.items():
            check_same(ours(server.data_dir, options, start), expected[name], f"{story}, {name}")
        assert len(expected["plain"]) >= (story != "empty")
