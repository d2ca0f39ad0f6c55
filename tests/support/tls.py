"""A server that speaks TLS.

In: a running server. Out: a connection string that asks for TLS; or a certificate, and its key.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from support.servers import Server
from support.waiting import until


def with_tls(server: Server) -> str:
    """Have the server speak TLS, if it does not yet; how it is connected to then."""
    if server.sql("SHOW ssl") != [("on",)]:
        owner = server.data_dir.stat()
        with tempfile.TemporaryDirectory() as home:
            for path in make_certificate(Path(home)):
                path.chmod(0o600)
                shutil.move(path, server.data_dir / path.name)
                shutil.chown(server.data_dir / path.name, owner.st_uid, owner.st_gid)
        server.say("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
        until(lambda: server.sql("SHOW ssl") == [("on",)])
    return f"{server.dsn()} sslmode=require"


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """server.crt and server.key, for 127.0.0.1 and signed by itself."""
    cert, key = folder / "server.crt", folder / "server.key"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    subprocess.run(
        [*words, "-addext", "subjectAltName=IP:127.0.0.1", "-out", cert, "-keyout", key], check=True, capture_output=True
    )
    return cert, key
