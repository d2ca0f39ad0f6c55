"""What a client is sent of a slot, message by message and under which LSNs, is what PostgreSQL's walsender sends it of the same log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from oracle.test_stories import prepared_cluster
from support import wal2json
from support.cases import DBNAME
from support.pgoutput_rows import IDENTITY_FOR_ALL, PLAIN, PUBLICATION
from support.sampling import some_of
from support.served import Served
from support.servers import Server
from support.stories import read_story, stories, tell
from support.walsender import LogicalStream, Received

pytestmark = pytest.mark.postgres
SETTINGS: dict[str, str | int] = {"autovacuum": "off", "max_prepared_transactions": 10, "logical_decoding_work_mem": "64MB"}
STREAMS: Mapping[str, tuple[str, Mapping[str, str], bool]] = {
    "text": ("test_decoding", {"include-xids": "0"}, False),
    "nothing empty": ("test_decoding", {"skip-empty-xacts": "1", "include-timestamp": "1"}, False),
    "text in two phases": ("test_decoding", {"include-xids": "1"}, True),
    "messages": ("pgoutput", {**PLAIN, "messages": "true"}, False),
    "binary": ("pgoutput", {**PLAIN, "binary": "true", "proto_version": "2"}, False),
    "messages in two phases": ("pgoutput", {**PLAIN, "proto_version": "3"}, True),
}
"""A plugin, its options, and whether the slot gives prepared transactions at PREPARE."""
MAJORS = [pytest.param(each, marks=[] if each == 18 else pytest.mark.matrix) for each in (18, 16, 15, 17)]
INSERTS_ONLY = {"ddl", "replica_identity", "rewrite", "rewrite_under_ddl"}
FORGOTTEN_SINCE = {"prepared"}
"""What ended in a rollback of what was prepared, the server no longer decodes once it knows."""
QUICK = ("prepared",)
STORIES = [pytest.param(each, id=each) for each in (*QUICK, *(each for each in stories(15) if each not in QUICK))]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    return {}


def _cluster(clusters: dict[int, Path], major: int, home: Path) -> Path:
    if major not in clusters:
        clusters[major] = prepared_cluster(major, home)
    return clusters[major]


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("story", some_of(STORIES, 22))
def test_a_story(
    story: str, major: int, clusters: dict[int, Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:  # fmt: skip
    before = _cluster(clusters, major, tmp_path_factory.mktemp(f"cluster-{major}"))
    with (
        Server(major, SETTINGS, dbname=DBNAME, data=before) as server,
        Served(server.data_dir, tmp_path / "state", "--max-wal-senders", "20", dbname=DBNAME) as served,
    ):
        if story in INSERTS_ONLY:
            server.say(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES WITH (publish = 'insert, truncate')")
        else:
            server.say(IDENTITY_FOR_ALL, f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
        streams = {name: each for name, each in STREAMS.items() if not (each[2] and story in FORGOTTEN_SINCE)}
        slots = {name: f"s{number}" for number, name in enumerate(streams)}
        for name, (plugin, _, two_phase) in streams.items():
            server.sql(f"SELECT pg_create_logical_replication_slot('{slots[name]}', '{plugin}', false, {two_phase})")
            with served.connect(replication="database") as client:
                more = ", TWO_PHASE" if two_phase else ""
                client.execute(f"CREATE_REPLICATION_SLOT {slots[name]} LOGICAL {plugin} (SNAPSHOT 'nothing'{more})".encode())
        tell(read_story(story), server)
        upto = server.flush_lsn()
        count = 0
        for name, (_, options, _) in streams.items():
            expected, found = (_read(side, slots[name], options, upto) for side in (server, served))
            assert found == expected, f"{name} of {story} on {major}"
            count += len(found)
        assert count or story == "empty"


WAL2JSON: Mapping[str, Mapping[str, str]] = {
    "lines": {"format-version": "2", "include-lsn": "1", "include-xids": "1"},
    "lines alone": {"format-version": "2", "include-transaction": "0"},
    "whole": {"include-lsn": "1", "include-xids": "1"},
    "chunks": {"write-in-chunks": "1", "include-xids": "1"},
}


@pytest.mark.matrix
@pytest.mark.parametrize("story", ["origin", "messages", "truncate"])
def test_wal2json(story: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = prepared_cluster(wal2json.MAJOR, tmp_path_factory.mktemp("cluster"))
    with (
        Server(wal2json.MAJOR, {**SETTINGS, **wal2json.settings()}, dbname=DBNAME, data=before) as server,
        Served(server.data_dir, tmp_path / "state", "--max-wal-senders", "20", dbname=DBNAME) as served,
    ):
        server.checkpoint()
        for side in (server, served):
            for number, _ in enumerate(WAL2JSON):
                with side.connect() as client:
                    client.execute(f"SELECT pg_create_logical_replication_slot('s{number}', 'wal2json')".encode())
        tell(read_story(story), server)
        upto = server.flush_lsn()
        for number, (name, options) in enumerate(WAL2JSON.items()):
            expected, found = (_read(side, f"s{number}", options, upto) for side in (server, served))
            mended = [(lsn, wal2json.as_in_2_6(data.decode()).encode()) for lsn, data in expected]
            assert found == mended, name
            assert found


def _read(side: Server | Served, slot: str, options: Mapping[str, str], upto: str) -> list[Received]:
    with LogicalStream(side, slot, options) as stream:
        received = stream.read_to(upto)
        assert stream.end() == ["COPY 0", "START_REPLICATION"]
    return received
