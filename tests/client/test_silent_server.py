"""A server that takes a connection and says nothing, or falls silent later, holds up nobody: neither signals, nor what else the process does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.command import ran
from support.forked import forked
from support.proxies import proxy
from support.servers import Server
from support.waiting import until
from tailrace.client import replication_connection
from tailrace.client.receiver import Receiver
from tailrace.client.reception import receiving
from tailrace.client.replication_connection import server_identity
from tailrace.errors import PeerError
from tailrace.sources.received_log import ReceivedLog, ServerAddress

pytestmark = pytest.mark.postgres
KEEPS = {"wal_keep_size": "200MB"}


def test_a_signal_ends_who_waits_for_it(tmp_path: Path) -> None:
    with proxy() as port:
        dsn = f"host=127.0.0.1 port={port} user=nobody"
        for words in (["wal", "receive", dsn, "--to", str(tmp_path / "archive")], ["wal", "stat", dsn]):
            with forked(words) as process:
                time.sleep(1.5)
                process.terminate()
                try:
                    process.wait(20)
                finally:
                    process.kill()


def test_a_consumer_takes_meanwhile_what_is_at_hand(tmp_path: Path) -> None:
    state, file = tmp_path / "state", tmp_path / "out"
    with Server(18, KEEPS, dbname="app") as server, proxy() as port:
        server.say("CREATE TABLE t (id int PRIMARY KEY)")
        ran("slot", "create", "s", server.dsn(), "--database", "app", "--state", state).check_returncode()
        server.say("INSERT INTO t VALUES (7)")
        ran("slot", "peek", "s", "--state", state).check_returncode()
        ReceivedLog(state / "received")._write(ServerAddress(f"host=127.0.0.1 port={port}"))
        receive = ["slot", "receive", "s", "--state", str(state), "-f", str(file), "-F", "0.1"]
        with forked(receive) as consumer:
            try:
                until(lambda: file.exists() and "id[integer]:7" in file.read_text())
                consumer.terminate()
                assert consumer.wait(20) == 128 + 15
            finally:
                consumer.kill()


def test_a_command_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(18, KEEPS) as server, proxy(server.port, silent_from=b"IDENTIFY_SYSTEM") as port:
        dsn = server.dsn().replace(str(server.port), str(port))
        receiver = Receiver(dsn, tmp_path / "archive")
        with receiving(receiver) as reception:
            time.sleep(0.5)
            began = time.monotonic()
        assert (time.monotonic() - began < 30, reception.failure) == (True, None)
        monkeypatch.setattr(replication_connection, "_SILENT", 0.3)
        with pytest.raises(PeerError, match="no word from the server"):
            server_identity(dsn)
