"""The log of a server that is reached by a connection alone, kept in a state location: `received/` is an archive, and `received/.server` says how to
connect (without a password, which libpq finds in .pgpass, a service file or PGPASSWORD).

Whoever uses a slot on it has the log received meanwhile, unless another process does so already.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tailrace.checksummed_file import FileKind, fact
from tailrace.client.receiver import Receiver, received_upto
from tailrace.client.reception import Reception, receiving
from tailrace.client.replication_connection import server_identity
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.sources.dsn import without_password
from tailrace.sources.server_copy import last_redo
from tailrace.storage.segment_files import list_segments
from tailrace.storage.whole_file import make_folder, write_whole

RECEIVED, _SERVER = "received", ".server"
SERVER_FILE = FileKind(
    "server", "a server's address", 1, "zstd", "Create a slot with SOURCE as a connection string: it writes the file anew."
)
_GIVEN: dict[Path, str] = {}
"""Connection strings that this process was given, passwords and all, by the directory."""


@dataclass(frozen=True, slots=True)
class ReceivedLog:
    """`directory` is the archive."""

    directory: Path

    @classmethod
    def made(cls, state: Path, dsn: str) -> ReceivedLog:
        """That of a location, which from now on is of this server."""
        directory = (state / RECEIVED).absolute()
        make_folder(directory)
        write_whole(directory / _SERVER, SERVER_FILE.write({"dsn": without_password(dsn)}, {}))
        _GIVEN[directory] = dsn
        return cls(directory)

    @classmethod
    def of(cls, source: str | Path) -> ReceivedLog | None:
        """The log that is a slot's source; None where that is in files of others."""
        return cls(Path(source)) if (Path(source) / _SERVER).is_file() else None

    @property
    def dsn(self) -> str:
        """How to connect: as this process was told, or with what the file says."""
        if (given := _GIVEN.get(self.directory)) is not None:
            return given
        path = self.directory / _SERVER
        text: str = SERVER_FILE.read_as(path.read_bytes(), str(path), {}, lambda facts, _: fact(facts["dsn"], str))
        return text

    def receiving(
        self, tell: Callable[[str], None], on_failure: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[Reception]:
        """Within the block the log comes in (`client.reception`): what there is first begins where the server's catalogs can be captured."""
        begin = None if list_segments(self.directory) else last_redo(self.dsn)
        return receiving(Receiver(self.dsn, self.directory, begin=begin, tell=tell), on_failure)

    @property
    def is_received(self) -> bool:
        """Whether it comes in by itself, whoever receives it."""
        return received_upto(self.directory) is not None

    def catch_up(self, tell: Callable[[str], None]) -> None:
        """Receive what the server has by now. Where it cannot be reached, what was received so far has to do, which is told."""
        try:
            upto = server_identity(self.dsn).flushed
        except PeerError as error:
            tell(f"{error.message.splitlines()[0]}; there is what was received before")
            return
        with nullcontext(Reception(self.directory)) if self.is_received else self.receiving(tell) as reception:
            reception.wait(upto)
