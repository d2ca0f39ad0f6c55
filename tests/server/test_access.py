"""Who is let in: rules, roles, passwords, TLS, limits; and what those are told who are not."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import ssl
import struct
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from scramp import ScramMechanism  # type: ignore[import-untyped]

from support.raw_client import RawClient, said
from support.served import Served
from support.servers import Server
from support.slots import TAILRACE
from support.tls import make_certificate
from tailrace.wire import messages as m
from tailrace.wire.startup import PROTOCOL_3_2

pytestmark = pytest.mark.postgres
PASSWORD = "open, sesame"
WHO = {"user": "postgres", "database": "postgres"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18) as server:
        server.say(
            "CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION a FOR TABLE t", "CREATE PUBLICATION b FOR ALL TABLES"
        )
        yield server


def _verifier(password: str) -> str:
    salt, stored, key, iterations = ScramMechanism("SCRAM-SHA-256").make_auth_info(password, iteration_count=4096)
    words = [b64encode(each).decode() for each in (salt, stored, key)]
    return f"SCRAM-SHA-256${iterations}:{words[0]}${words[1]}:{words[2]}"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    hba, roles = tmp_path / "hba.conf", tmp_path / "roles.toml"
    hba.write_text(
        "local all all peer\nhost all guest all trust\nhost all,replication banned all reject\nhost all,replication all all scram-sha-256\n"
    )
    roles.write_text(
        f'[reader]\npassword = "{_verifier(PASSWORD)}"\nreplication = true\nslots = ["mine_*"]\npublications = ["a"]\n'
        f'[plain]\npassword = "{_verifier(PASSWORD)}"\ndatabases = ["postgres"]\n[guest]\nreplication = true\n[mute]\n'
    )
    return hba, roles


def _refused(served: Served, **words: Any) -> str:
    with pytest.raises(psycopg.OperationalError) as raised:
        served.connect(**words)
    return str(raised.value).split("FATAL:  ")[-1].strip()


def test_passwords_and_roles(server: Server, files: tuple[Path, Path], tmp_path: Path) -> None:
    hba, roles = files
    with Served(server.data_dir, tmp_path / "state", "--hba", str(hba), "--roles", str(roles)) as served:
        with served.connect(user="reader", password=f"'{PASSWORD}'") as client:
            assert client.execute("SELECT current_user").fetchone() == ("reader",)
        assert served.connect(user="guest").execute("SELECT 1").fetchone() == (1,)
        for user in ("reader", "nobody", "mute"):
            began = time.monotonic()
            assert _refused(served, user=user, password="wrong") == f'password authentication failed for user "{user}"'
            assert time.monotonic() - began > 0.09
        assert _refused(served, user="banned", password="x").startswith(
            'pg_hba.conf rejects connection for host "127.0.0.1", user "banned"'
        )
        words = {"user": "plain", "password": f"'{PASSWORD}'"}
        assert _refused(served, replication="database", **words).startswith(
            "permission denied to start WAL sender\nDETAIL:  Only roles"
        )
        assert _refused(served, dbname="template1", **words).startswith('permission denied for database "template1"')
        assert _refused(served, user="guest", dbname="none") == 'database "none" does not exist'
        assert PASSWORD not in served.said()
        hba.write_text("host all all all reject\n")
        served.process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
        _until(lambda: "were read again" in served.said())
        assert _refused(served, user="guest").startswith("pg_hba.conf rejects connection")
        hba.write_text("host all all nowhere trust\n")
        served.process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
        _until(lambda: "were not read again" in served.said())
        assert 'invalid IP address "nowhere"' in served.said()
        assert f'line 1 of configuration file "{hba}"' in served.said()


def test_a_wrong_password_is_told_however_late(server: Server, files: tuple[Path, Path], tmp_path: Path) -> None:
    """The delay of failed logins is longer in the end than the time that a client has to show who it is."""
    hba, roles = files
    options = ("--hba", str(hba), "--roles", str(roles), "--authentication-timeout", "0.5")
    with Served(server.data_dir, tmp_path / "state", *options) as served:
        for delay in (0.1, 0.2, 0.4, 0.8):
            began = time.monotonic()
            assert _refused(served, user="reader", password="wrong") == 'password authentication failed for user "reader"'
            assert time.monotonic() - began > delay


def test_what_a_role_may_stream(server: Server, files: tuple[Path, Path], tmp_path: Path) -> None:
    hba, roles = files
    with (
        Served(server.data_dir, tmp_path / "state", "--hba", str(hba), "--roles", str(roles)) as served,
        served.connect(user="reader", password=f"'{PASSWORD}'", replication="database") as client,
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match='permission denied for replication slot "other"'):
            client.execute("CREATE_REPLICATION_SLOT other LOGICAL pgoutput (SNAPSHOT 'nothing')")
        for name, plugin in (("mine_1", "pgoutput"), ("mine_2", "test_decoding")):
            client.execute(f"CREATE_REPLICATION_SLOT {name} LOGICAL {plugin} (SNAPSHOT 'nothing')".encode())
        for command, message in (
            ("mine_1 LOGICAL 0/0 (proto_version '1', publication_names 'a,b')", 'permission denied for publication "b"'),
            ("mine_2 LOGICAL 0/0", "permission denied to stream all tables"),
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=message):
                client.execute(f"START_REPLICATION SLOT {command}".encode())
        result = client.pgconn.exec_(b"START_REPLICATION SLOT mine_1 LOGICAL 0/0 (proto_version '1', publication_names 'a')")
        assert result.status == psycopg.pq.ExecStatus.COPY_BOTH
        client.close()


def _refusal(client: Any, query: str) -> str:
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as raised:
        client.execute(query.encode())
    return raised.value.diag.message_primary or ""


def test_what_a_role_may_do_by_sql(server: Server, files: tuple[Path, Path], tmp_path: Path) -> None:
    hba, roles = files
    with Served(server.data_dir, tmp_path / "state", "--hba", str(hba), "--roles", str(roles)) as served:
        password = f"'{PASSWORD}'"
        with (
            served.connect(user="guest") as guest,
            served.connect(user="reader", password=password) as reader,
            served.connect(user="plain", password=password) as plain,
            served.connect(user="reader", password=password, replication="database") as walsender,
        ):
            for name in ("other", "mine_1"):
                guest.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'test_decoding')".encode())
            for query, slot in (
                ("SELECT * FROM pg_logical_slot_get_changes('other', NULL, NULL)", "other"),
                ("SELECT * FROM pg_logical_slot_peek_changes('none', NULL, NULL)", "none"),
                ("SELECT pg_replication_slot_advance('other', pg_current_wal_lsn())", "other"),
                ("SELECT pg_drop_replication_slot('other')", "other"),
                ("SELECT pg_create_logical_replication_slot('new', 'pgoutput')", "new"),
                ("SELECT pg_copy_logical_replication_slot('other', 'mine_2')", "other"),
                ("SELECT pg_copy_logical_replication_slot('mine_1', 'new')", "new"),
            ):
                assert _refusal(reader, query) == f'permission denied for replication slot "{slot}"'
                assert _refusal(plain, query) == "permission denied to use replication slots"
            for command in ("READ_REPLICATION_SLOT other", "ALTER_REPLICATION_SLOT other (TWO_PHASE false)", "DROP_REPLICATION_SLOT other",
                            "START_REPLICATION SLOT other PHYSICAL 0/0"):  # fmt: skip
                assert _refusal(walsender, command) == 'permission denied for replication slot "other"'
            get = "SELECT * FROM pg_logical_slot_get_binary_changes('mine_1', NULL, NULL)"
            assert _refusal(reader, get) == "permission denied to stream all tables"
            create = "SELECT pg_replication_origin_create('o')"
            assert _refusal(reader, create) == "permission denied for function pg_replication_origin_create"
            guest.execute(create.encode())
            assert reader.execute("SELECT slot_name FROM pg_replication_slots").fetchall() == [("mine_1",)]
            seen = dict(reader.execute("SELECT usename, query FROM pg_stat_activity WHERE usename <> 'reader'").fetchall())
            assert seen == {"guest": "<insufficient privilege>", "plain": "<insufficient privilege>"}
            assert ("plain", query) in guest.execute("SELECT usename, query FROM pg_stat_activity").fetchall()
            reader.execute("SELECT pg_drop_replication_slot('mine_1')")


def test_a_file_of_no_roles_has_none(server: Server, tmp_path: Path) -> None:
    roles = tmp_path / "roles.toml"
    roles.write_text("")
    with Served(server.data_dir, tmp_path / "state", "--roles", str(roles)) as served:
        assert _refused(served) == 'role "postgres" does not exist'


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return make_certificate(tmp_path)


def test_encrypted(server: Server, certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    hba = tmp_path / "hba.conf"
    hba.write_text("hostssl all,replication all all trust\nhostnossl all all all reject\n")
    options = ("--ssl-cert-file", str(cert), "--ssl-key-file", str(key), "--hba", str(hba))
    with Served(server.data_dir, tmp_path / "state", *options) as served:
        with served.connect(sslmode="verify-full", sslrootcert=cert, replication="database") as client:
            assert client.pgconn.ssl_in_use
            client.execute("CREATE_REPLICATION_SLOT s LOGICAL test_decoding (SNAPSHOT 'nothing')")
        assert "no encryption" in _refused(served, sslmode="disable")
        with socket.create_connection(("127.0.0.1", served.port)) as plain:  # who puts something behind the request
            plain.sendall(b"\x00\x00\x00\x08\x04\xd2\x16\x2fQ\x00\x00\x00\x04")
            assert b"received unencrypted data after SSL request" in plain.recv(1000)
        context = ssl.create_default_context(cafile=str(cert))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with RawClient(served.port, tls=context, **WHO) as old:
            assert isinstance(old.greeting[-1], m.ReadyForQuery)


def test_a_key_that_others_can_read(server: Server, certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    words = [TAILRACE, "serve", str(server.data_dir), "--state", str(tmp_path / "state"), "--check"]
    words += ["--ssl-cert-file", str(cert), "--ssl-key-file", str(key)]
    key.chmod(0o644)
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert f'private key file "{key}" has group or world access' in done.stderr
    key.chmod(0o600)
    subprocess.run(
        ["openssl", "rsa", "-aes128", "-passout", "pass:secret", "-in", key, "-out", key], check=True, capture_output=True
    )
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert f'could not load server certificate file "{cert}"' in done.stderr


def test_who_goes_amid_the_handshake(server: Server, certificate: tuple[Path, Path], tmp_path: Path) -> None:
    """It is nobody's error, and takes one line of the log."""
    cert, key = certificate
    with Served(server.data_dir, tmp_path / "state", "--ssl-cert-file", str(cert), "--ssl-key-file", str(key)) as served:
        for sent in (b"", b"\0\0\0\x08\x04\xd2\x16\x2f"):
            with socket.create_connection(("127.0.0.1", served.port)) as gone:
                gone.sendall(sent)
                assert not sent or gone.recv(1) == b"S"
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        _until(lambda: "could not accept SSL connection" in served.said())
        assert "Traceback" not in served.said()


def test_by_a_unix_socket(server: Server, tmp_path: Path) -> None:
    hba = tmp_path / "hba.conf"
    hba.write_text("local all,replication all peer\n")
    name = pwd.getpwuid(os.getuid()).pw_name
    with Served(server.data_dir, tmp_path / "state", "-k", str(tmp_path), "--hba", str(hba)) as served:
        assert served.connect(host=tmp_path, user=name).execute("SELECT 1").fetchone() == (1,)
        assert _refused(served, host=tmp_path, user="somebody") == 'Peer authentication failed for user "somebody"'
        assert _refused(served, user=name).startswith('no pg_hba.conf entry for host "127.0.0.1", user')
    assert not list(tmp_path.glob(".s.PGSQL.*"))


def test_limits(server: Server, tmp_path: Path) -> None:
    options = ("--max-connections", "3", "--max-wal-senders", "1", "--authentication-timeout", "0.5")
    with Served(server.data_dir, tmp_path / "state", *options) as served:
        with served.connect(replication="database"):
            assert _refused(served, replication="true").startswith(
                "number of requested standby connections exceeds max_wal_senders"
            )
            with served.connect(), served.connect():
                assert _refused(served) == "sorry, too many clients already"
        _until(lambda: _is_alone(served))
        with socket.create_connection(("127.0.0.1", served.port)) as silent:  # a byte now and then is not enough
            for byte in b"\x00\x00":
                silent.sendall(bytes([byte]))
                time.sleep(0.2)
            silent.settimeout(5)
            told = silent.recv(1000)
            assert told == b"" or b"canceling authentication due to timeout" in told


def test_what_startup_packets_may_say(server: Server, tmp_path: Path) -> None:
    with Served(server.data_dir, tmp_path / "state") as served:
        with RawClient(served.port, protocol=PROTOCOL_3_2 + 90, **{"_pq_.extra": "1"}, **WHO) as client:
            assert client.greeting[0] == m.NegotiateProtocolVersion(PROTOCOL_3_2, ("_pq_.extra",))
            status = {each.name: each.value for each in client.greeting if isinstance(each, m.ParameterStatus)}
            assert status["server_version"].startswith("18.0")
            assert status["client_encoding"] == "UTF8"
        for words, message in (
            (
                {"replication": "maybe"},
                'E FATAL 22023: invalid value for parameter "replication": "maybe" HINT: Valid values are: "false"',
            ),
            ({"bogus": "1"}, 'E FATAL 42704: unrecognized configuration parameter "bogus"'),
            ({"options": "-c datestyle"}, "E FATAL 42601: invalid command-line argument for server process: -c"),
            ({"client_encoding": "LATIN1"}, 'E FATAL 22023: invalid value for parameter "client_encoding": "LATIN1"'),
        ):
            with RawClient(served.port, **WHO, **words) as client:
                assert said(client.greeting[-1]).startswith(message)
        with RawClient(
            served.port, options="-c DateStyle=German -c extra_float_digits=0 -c wal_sender_timeout=5s", **WHO
        ) as client:
            assert client.query("SHOW datestyle; SHOW wal_sender_timeout").count("D['") == 2
            assert "D['German, DMY']" in client.query("SHOW datestyle")


@pytest.mark.soak
def test_one_server_of_a_location(server: Server, tmp_path: Path) -> None:
    with Served(server.data_dir, tmp_path / "state") as served:
        words = [TAILRACE, "serve", str(server.data_dir), "--state", str(tmp_path / "state"), "--port", "0"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1
        assert f'state location "{tmp_path / "state"}" is served already' in done.stderr
        assert f"By PID {served.process.pid}" in done.stderr  # type: ignore[union-attr]
        words[-1] = str(served.port)
        words[4] = str(tmp_path / "other")
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert f"could not bind 127.0.0.1 to port {served.port}: Address already in use\n" in done.stderr
        assert not (tmp_path / "other").exists()


def test_what_would_be_served(server: Server, tmp_path: Path) -> None:
    hba = tmp_path / "hba.conf"
    hba.write_text("local all all trust\nhost all,replication app 10.0.0.0/8 trust # everybody there\n")
    roles = tmp_path / "roles.toml"
    roles.write_text('[app]\nreplication = true\nslots = ["orders_*", "app"]\n[reader]\ndatabases = []\n')
    files = ["--hba", str(hba), "--roles", str(roles)]
    words = [TAILRACE, "serve", str(server.data_dir), "--state", str(tmp_path / "state"), *files, "--check"]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "slots: none yet" in told
    assert (
        "access: app to all,replication from 10.0.0.0/8: trust\nwarning: the rule above trusts whoever comes from other machines"
        in told
    )
    assert "first copies by subscribers: none, as the log is read from files" in told
    assert "role: app, replication; slots orders_*,app; without password\nrole: reader, no replication; databases none;" in told


def _is_alone(served: Served) -> bool:
    try:
        with served.connect() as client:
            return client.execute("SELECT count(*) FROM pg_stat_activity").fetchone() == (1,)
    except psycopg.OperationalError:  # those before are still there
        return False


def _until(is_so: Any) -> None:
    until = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)
