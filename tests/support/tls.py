"""A server that speaks TLS.

In: a running server. Out: a connection string that asks for TLS.
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
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        owner = server.data_dir.stat()
        with tempfile.TemporaryDirectory() as home:
            key, certificate = (Path(home) / f"server.{name}" for name in ("key", "crt"))
            subprocess.run([*words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
            for path in (key, certificate):
                path.chmod(0o600)
                shutil.move(path, server.data_dir / path.name)
                shutil.chown(server.data_dir / path.name, owner.st_uid, owner.st_gid)
        server.say("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
        until(lambda: server.sql("SHOW ssl") == [("on",)])
    return f"{server.dsn()} sslmode=require"
