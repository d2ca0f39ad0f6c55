"""Connection strings that libpq does not understand, and what it says: one message, and no traceback."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from support.command import Run
from tailrace.client.catalog_files import ServerFiles
from tailrace.client.conninfo import connect, conninfo_of, libpq_words, parameters_of
from tailrace.client.doctor.examination import Examination
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.errors import PeerError, UsageError
from tailrace.sources.dsn import has_password, without_password
from tailrace.sql.connected_server import ConnectedServer

NOWHERE = "host=127.0.0.1 port=1 user=reader dbname=app"
WRONG = {
    "host=x usr=tailrace": 'invalid connection option "usr"',
    "postgres://h/db?foo=1": 'invalid URI query parameter: "foo"',
}


@pytest.mark.parametrize(("dsn", "said"), list(WRONG.items()))
def test_a_string_that_is_wrong(dsn: str, said: str) -> None:
    def opened_files() -> None:
        with ServerFiles.connected(dsn, "app"):
            pass

    for use in (
        lambda: parameters_of(dsn), lambda: conninfo_of(dsn, port=1), lambda: connect(dsn), lambda: ReplicationConnection(dsn), opened_files,
        lambda: without_password(dsn), lambda: has_password(dsn), lambda: list(Examination(dsn, []).findings()),
        lambda: ConnectedServer(dsn, print),
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            use()
        assert (caught.value.message, caught.value.sqlstate) == (said, "42601")
        assert '"Connection Strings"' in caught.value.hint


def test_a_value_that_psycopg_does_not_take() -> None:
    with pytest.raises(UsageError, match="bad value for connect_timeout: 'soon'"):
        list(Examination(f"{NOWHERE} connect_timeout=soon", []).findings())


@pytest.mark.parametrize(("dsn", "said"), list(WRONG.items()))
def test_one_message_on_the_command_line(tailrace: Run, tmp_path: Path, dsn: str, said: str) -> None:
    for words in (("doctor", dsn), ("wal", "receive", dsn, "--to", tmp_path / "wal", "--no-loop")):
        code, out, err = tailrace(*words)
        assert (code, out, err.splitlines()[0]) == (1, "", f"tailrace: error: {said}")
        assert err.splitlines()[1].startswith("HINT:  ")
        assert len(err.splitlines()) == 2


@pytest.mark.parametrize("source", ["HOST=db port=1", "http://db/app", "db.example.com:5432"])
def test_what_was_meant_for_a_server(tailrace: Run, source: str) -> None:
    code, out, err = tailrace("decode", source, "--database", "app")
    assert (code, out, err.splitlines()[0]) == (1, "", f'tailrace: error: source directory "{source}" does not exist')
    assert "connection string (host=… dbname=…)" in err


def test_an_empty_name_is_not_this_directory(tailrace: Run, tmp_path: Path) -> None:
    """As of a variable of the shell that is not set."""
    for words in (
        ("decode", "", "--database", "d"),
        ("slot", "create", "s", "", "--database", "d", "--state", tmp_path / "state"),
    ):
        code, out, err = tailrace(*words)
        assert (code, out, err) == (1, "", 'tailrace: error: source directory "" does not exist\n')


def test_what_libpq_said_is_said_once() -> None:
    refused = 'connection to server at "127.0.0.1", port 1 failed: Connection refused'
    with pytest.raises(psycopg.OperationalError, match=rf"^connection failed: {refused}") as theirs:
        connect(NOWHERE)
    assert libpq_words(theirs.value).startswith(refused)
    with pytest.raises(psycopg.OperationalError, match=r"^connection is bad: ") as theirs:
        connect("service=nix")
    assert libpq_words(theirs.value) == 'definition of service "nix" not found'
    with pytest.raises(psycopg.OperationalError) as theirs:
        connect("host=127.0.0.1,127.0.0.2 port=1 user=reader")
    assert "connection failed" not in libpq_words(theirs.value)
    with pytest.raises(PeerError) as ours, ServerFiles.connected(NOWHERE):
        pass
    assert ours.value.message.startswith(refused)
    with pytest.raises(PeerError) as ours:
        ConnectedServer(NOWHERE, print)
    assert ours.value.message.startswith(refused)
