"""The log of a server that is reached by a connection alone, kept in a state location: `received/` is an archive, and `received/.server` says how to
connect (without a password, which libpq finds in .pgpass, a service file or PGPASSWORD).

Whoever uses a slot on it has the log received meanwhile, unless another process does so already.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tailrace.checksummed_file import FileKind, fact
from tailrace.client.receiver import Receiver
from tailrace.client.reception import Reception, receiving
from tailrace.client.replication_connection import ReplicationConnection, SystemIdentity
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.storage.whole_file import make_folder, write_whole

RECEIVED, _SERVER = "received", ".server"
SERVER_FILE = FileKind(
    "server", "a server's address", 1, "zstd", "Create a slot with SOURCE as a connection string: it writes the file anew."
)
_SECRETS = ("password", "sslpassword")


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

    def receiving(
        self, tell: Callable[[str], None], on_failure: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[Reception]:
        """Within the block the log comes in (`client.reception`)."""
        return receiving(Receiver(self.dsn, self.directory, tell=tell), on_failure)

    def catch_up(self, tell: Callable[[str], None]) -> None:
        """Receive what the server has by now. Where it cannot be reached, what was received so far has to do, which is told."""
        try:
            upto = server_identity(self.dsn).flushed
        except PeerError as error:
            tell(f"{error.message.splitlines()[0]}; there is what was received before")
            return
        with self.receiving(tell) as reception:
            reception.wait(upto)


def server_identity(dsn: str) -> SystemIdentity:
    """What the server is. Raises PeerError."""
    with ReplicationConnection(dsn) as connection:
        return connection.identify()
