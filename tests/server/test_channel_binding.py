"""Passwords that are bound to the TLS connection they go through (SCRAM-SHA-256-PLUS): by libpq, and by clients that say what libpq never says,
who are told what PostgreSQL tells them."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import ssl
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from scramp import ScramMechanism  # type: ignore[import-untyped]

from support.raw_client import RawClient, said
from support.scram_client import ScramLogin
from support.served import Served
from support.servers import Server
from tailrace.server.channel_binding import end_point_of
from tailrace.wire import messages as m

pytestmark = pytest.mark.postgres
PASSWORD = "sesame"
WHO = {"user": "reader", "database": "postgres"}
BOUND, PLAIN = "SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"
HEADER = "p=tls-server-end-point,,"
RULES = "host all postgres all trust\nhost all all all scram-sha-256\n"
KINDS = {
    "rsa": ("-newkey", "rsa:2048", "-sha256"),
    "sha1": ("-newkey", "rsa:2048", "-sha1"),
    "sha512": ("-newkey", "rsa:2048", "-sha512"),
    "pss": ("-newkey", "rsa:2048", "-sha384", "-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:48"),
    "ecdsa": ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-sha384"),
    "ed25519": ("-newkey", "ed25519"),
}
MAJORS = [pytest.param(each, marks=[] if each == 18 else pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]


def _certificate(folder: Path, kind: str = "rsa") -> tuple[Path, Path]:
    """A certificate and its key; those that there were are replaced."""
    cert, key = folder / "server.crt", folder / "server.key"
    words = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", *KINDS[kind]]
    subprocess.run(
        [*words, "-addext", "subjectAltName=IP:127.0.0.1", "-out", cert, "-keyout", key], check=True, capture_output=True
    )
    key.chmod(0o600)
    return cert, key


def _options(folder: Path) -> list[str]:
    """Where a role's password is asked for, and encryption is offered."""
    cert, key = _certificate(folder)
    hba, roles = folder / "hba.conf", folder / "roles.toml"
    salt, stored, server_key, iterations = ScramMechanism(PLAIN).make_auth_info(PASSWORD, iteration_count=4096)
    words = [b64encode(each).decode() for each in (salt, stored, server_key)]
    hba.write_text(RULES)
    roles.write_text(f'[reader]\npassword = "{PLAIN}${iterations}:{words[0]}${words[1]}:{words[2]}"\nreplication = true\n')
    return ["--hba", str(hba), "--roles", str(roles), "--ssl-cert-file", str(cert), "--ssl-key-file", str(key)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18) as server:
        yield server


@pytest.fixture
def served(server: Server, tmp_path: Path) -> Iterator[Served]:
    with Served(server.data_dir, tmp_path / "state", *_options(tmp_path), user="reader") as served:
        yield served


def _hash(cert: Path) -> bytes:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(cert.read_text())).digest()


def _trusting(cert: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(cert))


def _read_again(served: Served) -> None:
    before = served.said().count("were read again")
    served.process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
    until = time.monotonic() + 20
    while served.said().count("were read again") == before:
        assert time.monotonic() < until, served.said()
        time.sleep(0.05)


def _logged_in(port: int, login: ScramLogin, tls: ssl.SSLContext | None) -> str:
    """What the client is told in the end."""
    with RawClient(port, tls=tls, login=login, **WHO) as client:
        last = client.greeting[-1]
        return "let in" if isinstance(last, m.ReadyForQuery) else said(last)


def test_libpq_binds(served: Served, tmp_path: Path) -> None:
    """With `require` it goes on with nothing else than what is bound, and checks that."""
    for kind in KINDS:
        cert, _ = _certificate(tmp_path, kind)
        _read_again(served)
        for wanted in ("require", "prefer", "disable"):
            words = {"sslmode": "verify-full", "sslrootcert": cert, "password": PASSWORD, "channel_binding": wanted}
            if kind == "ed25519" and wanted == "require":  # its signature has no hash to bind to
                with pytest.raises(psycopg.OperationalError, match="channel binding is required, but server did not offer"):
                    served.connect(**words)
                continue
            with served.connect(**words, replication="database") as client:
                assert client.pgconn.ssl_in_use
            with pytest.raises(psycopg.OperationalError, match='password authentication failed for user "reader"'):
                served.connect(**{**words, "password": "wrong"})
            served.connect(**words).close()
    assert served.connect(sslmode="disable", password=PASSWORD).execute("SELECT 1").fetchone() == (1,)


def test_a_certificate_that_is_replaced_during_a_login(served: Served, tmp_path: Path) -> None:
    """A connection is bound to the certificate of its own handshake; whoever comes later to the new one."""
    cert = tmp_path / "server.crt"
    before, tls = _hash(cert), _trusting(cert)

    class Delayed(ScramLogin):
        def answer(self, challenge: m.Authentication) -> m.AuthenticationAnswer | None:
            if not self.offered:
                _certificate(tmp_path)
                _read_again(served)
            return super().answer(challenge)

    assert _logged_in(served.port, Delayed(PASSWORD, BOUND, HEADER, HEADER.encode() + before), tls) == "let in"
    assert _hash(cert) != before
    for bound, told in ((before, "E FATAL 28000: SCRAM channel binding check failed"), (_hash(cert), "let in")):
        assert _logged_in(served.port, ScramLogin(PASSWORD, BOUND, HEADER, HEADER.encode() + bound), _trusting(cert)) == told


def _encrypting(server: Server, folder: Path) -> int:
    """The server, with the same certificate, rules and role; its port."""
    for name in ("server.crt", "server.key"):
        shutil.copy(folder / name, server.data_dir / name)
        os.chown(server.data_dir / name, server.data_dir.stat().st_uid, server.data_dir.stat().st_gid)
    (server.data_dir / "pg_hba.conf").write_text(RULES)
    server.say(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'", "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
    until = time.monotonic() + 20
    while server.value("SHOW ssl") != "on":
        assert time.monotonic() < until
        time.sleep(0.05)
    return server.port


@pytest.mark.parametrize("major", MAJORS)
def test_what_clients_are_told(major: int, tmp_path: Path) -> None:
    options = _options(tmp_path)
    right = HEADER.encode() + _hash(tmp_path / "server.crt")
    cases = (
        (PASSWORD, BOUND, HEADER, right), ("wrong", BOUND, HEADER, right), (PASSWORD, PLAIN, "n,,", None), ("wrong", PLAIN, "n,,", None),
        (PASSWORD, BOUND, HEADER, right[:-1] + bytes([right[-1] ^ 1])), (PASSWORD, BOUND, HEADER, HEADER.encode()),
        (PASSWORD, BOUND, HEADER, b"n,,"), (PASSWORD, PLAIN, "y,,", None), (PASSWORD, PLAIN, "n,,", b"y,,"), (PASSWORD, PLAIN, "n,,", right),
        (PASSWORD, PLAIN, HEADER, right), (PASSWORD, BOUND, "n,,", None), (PASSWORD, BOUND, "y,,", None),
        (PASSWORD, BOUND, "p=tls-unique,,", None), (PASSWORD, BOUND, "p=a\x7fb,,", None),
        (PASSWORD, BOUND, "p=tls-server-end-point-and-what-follows,,", None), (PASSWORD, BOUND, "p,,", None),
        (PASSWORD, PLAIN, "x,,", None), (PASSWORD, PLAIN, "\x01,,", None), (PASSWORD, PLAIN, "n;,", None), (PASSWORD, PLAIN, "n,a=x,", None),
        (PASSWORD, PLAIN, "n,x,", None), (PASSWORD, BOUND, "p=tls-server-end-point,a=x,", None), (PASSWORD, "SCRAM-SHA-1", "n,,", None),
        (PASSWORD, "scram-sha-256", "n,,", None),
    )  # fmt: skip
    with Server(major) as server, Served(server.data_dir, tmp_path / "state", *options) as served:
        there = _encrypting(server, tmp_path)
        for tls in (_trusting(tmp_path / "server.crt"), None):
            for case in cases:
                logins = ScramLogin(*case), ScramLogin(*case)
                told = [_logged_in(port, login, tls) for port, login in zip((there, served.port), logins, strict=True)]
                assert told[0] == told[1], case
                assert logins[0].offered == logins[1].offered == ([BOUND, PLAIN] if tls else [PLAIN])


@pytest.mark.parametrize(("kind", "function"), [("rsa", "sha256"), ("sha1", "sha256"), ("sha512", "sha512"), ("pss", "sha384"),
                                                ("ecdsa", "sha384"), ("ed25519", "")])  # fmt: skip
def test_what_binds_to_a_certificate(kind: str, function: str, tmp_path: Path) -> None:
    cert, _ = _certificate(tmp_path, kind)
    der = ssl.PEM_cert_to_DER_cert(cert.read_text())
    assert end_point_of(der) == (hashlib.new(function, der).digest() if function else None)
