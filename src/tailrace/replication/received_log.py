"""The log of a server that is reached by a connection alone, kept in a state location: `received/` is an archive, and `received/.server` says how to
connect (without a password, which libpq finds in .pgpass, a service file or PGPASSWORD).

Whoever uses a slot on it has the log received meanwhile, unless another process does so already.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.checksummed_file import FileKind, fact
from tailrace.client.receiver import Receiver, received_upto
from tailrace.client.replication_connection import ReplicationConnection, SystemIdentity
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.model import Lsn
from tailrace.storage.whole_file import make_folder, write_whole

RECEIVED, _SERVER = "received", ".server"
SERVER_FILE = FileKind(
    "server", "a server's address", 1, "zstd", "Create a slot with SOURCE as a connection string: it writes the file anew."
)
_SECRETS = ("password", "sslpassword")
_IN_USE = "55006"
_PATIENCE = 60.0
"""Seconds in which what is received must come nearer."""


def _nobody() -> None:
    pass


@dataclass(frozen=True, slots=True)
class ReceivedLog:
    """`directory` is the archive."""

    directory: Path

    @classmethod
    def made(cls, state: Path, dsn: str) -> ReceivedLog:
        """That of a location, which from now on is of this server."""
        from psycopg import conninfo  # noqa: PLC0415 - only those who connect need it

        words = {name: value for name, value in conninfo.conninfo_to_dict(dsn).items() if name not in _SECRETS}
        directory = (state / RECEIVED).absolute()
        make_folder(directory)
        write_whole(directory / _SERVER, SERVER_FILE.write({"dsn": conninfo.make_conninfo(**words)}, {}))
        return cls(directory)

    @classmethod
    def of(cls, source: str) -> ReceivedLog | None:
        """The log that is a slot's source; None where that is in files of others."""
        return cls(Path(source)) if (Path(source) / _SERVER).is_file() else None

    @property
    def dsn(self) -> str:
        path = self.directory / _SERVER
        text: str = SERVER_FILE.read_as(path.read_bytes(), str(path), {}, lambda facts, _: fact(facts["dsn"], str))
        return text

    @contextmanager
    def kept_up(self, tell: Callable[[str], None], on_failure: Callable[[], None] = _nobody) -> Iterator[Callable[[], None]]:
        """Within the block the log comes in, by a thread of this process where no other process does it. Gives what raises the error for which
        that came to an end; `on_failure` is called when it has."""
        receiver = Receiver(self.dsn, self.directory, tell=tell)
        failed: list[BaseException] = []

        def work() -> None:
            while not receiver.is_stopping:
                try:
                    receiver.run()
                except UsageError as error:
                    if error.sqlstate != _IN_USE:
                        failed.append(error)
                        break
                    time.sleep(0.5)
                except BaseException as error:
                    failed.append(error)
                    break
            if failed:
                on_failure()

        def check() -> None:
            if failed:
                raise failed[0]

        thread = threading.Thread(target=work, name="tailrace receiver", daemon=True)
        thread.start()
        try:
            yield check
        finally:
            receiver.stop()
            thread.join()

    def catch_up(self, tell: Callable[[str], None]) -> None:
        """Receive what the server has by now. Where it cannot be reached, what was received so far has to do, which is told."""
        try:
            upto = server_identity(self.dsn).flushed
        except PeerError as error:
            tell(f"{error.message.splitlines()[0]}; there is what was received before")
            return
        with self.kept_up(tell) as check:
            last, since = None, time.monotonic()
            while (now := received_upto(self.directory) or Lsn(0)) < upto:
                check()
                if now != last:
                    last, since = now, time.monotonic()
                if time.monotonic() - since > _PATIENCE:
                    raise PeerError(f"the server's log did not come up to {upto}", sqlstate="08006", lsn=upto)
                time.sleep(0.005)


def server_identity(dsn: str) -> SystemIdentity:
    """What the server is. Raises PeerError."""
    connection = ReplicationConnection(dsn)
    try:
        return connection.identify()
    finally:
        connection.close()
