"""The log of a server that is reached by a connection alone, kept in a state location: `received/` is an archive, and `received/.server` says how to
connect (without a password, which libpq finds in .pgpass, a service file or PGPASSWORD), with which physical slot, and how to fetch what the
server has removed.

Whoever uses a slot on it has the log received meanwhile, unless another process does so already; `replication.retention` removes what no slot needs.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from tailrace.checksummed_file import FileKind, fact
from tailrace.client.conninfo import conninfo_of, parameters_of
from tailrace.client.receiver import LOCK, Receiver, received_upto
from tailrace.client.reception import Reception, receiving
from tailrace.client.refusals import is_away
from tailrace.client.replication_connection import SystemIdentity, server_identity
from tailrace.client.restore_command import RestoreCommand
from tailrace.client.server_slot import drop_slot, make_slot
from tailrace.client.wal_archive import written_upto
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.model import Lsn
from tailrace.slots.slot import check_name
from tailrace.sources.dsn import without_password
from tailrace.sources.server_copy import last_redo
from tailrace.storage.file_lock import FileLock
from tailrace.storage.location_folder import RECEIVED, SERVER, is_received
from tailrace.storage.segment_files import arrange, holds_wal, list_segments
from tailrace.storage.state_location import StateLocation
from tailrace.storage.synchronous_slots import SynchronousSlots
from tailrace.storage.whole_file import make_folder, write_whole

SERVER_FILE = FileKind(
    "server", "a server's address", 1, "zstd", "Create a slot with SOURCE as a connection string: it writes the file anew."
)
_OURS_ALONE = 0o600
_BEFORE, _LONG_AGO = ".before-", 3600.0
HELD = ".needed"
CONNINFO, SLOT_NAME, RESTORE = "primary_conninfo", "primary_slot_name", "restore_command"
SETTINGS = (CONNINFO, SLOT_NAME, RESTORE)
"""What `ReceivedLog.configure` changes, in the words of postgresql.conf for a standby."""
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "passfile", "servicefile")
"""Parameters of a connection that name files, which whoever connects later may look for from another place."""
_GIVEN: dict[Path, str] = {}
"""Connection strings that this process was given, passwords and all, by the directory."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """How a server is reached, with which physical `slot`, if any, and whether that `is_ours`: made by us, to be dropped by us. `restore_command`
    is what fetches WAL that the server has removed, empty if nothing does."""

    dsn: str
    slot: str = ""
    is_ours: bool = False
    restore_command: str = ""


@dataclass(frozen=True, slots=True)
class ReceivedLog:
    """`directory` is the archive."""

    directory: Path

    @classmethod
    def made(cls, state: Path, dsn: str, slot: str = "", restore_command: str = "") -> ReceivedLog:
        """That of a location, which from now on is of this server. What is not given stays as it was. Raises UsageError where it has another
        physical slot, and PeerError where the server refuses to make this one."""
        log = cls((state / RECEIVED).absolute())
        make_folder(log.directory)
        before = log.server if log._file.is_file() else ServerAddress("")
        if slot and before.slot and slot != before.slot:
            raise UsageError(
                f'the log in "{log.directory}" is received with the physical replication slot "{before.slot}"',
                hint=f"tailrace slot set {SLOT_NAME}={slot} --state {state} uses another one from now on.", sqlstate="55000",
            )  # fmt: skip
        server = replace(before, dsn=dsn, restore_command=restore_command or before.restore_command)
        if slot and not before.slot:
            server = replace(server, slot=slot, is_ours=make_slot(dsn, slot))
        log._write(server)
        return log

    @classmethod
    def of(cls, source: str | Path) -> ReceivedLog | None:
        """The log that is a slot's source; None where that is in files of others."""
        return cls(Path(source)) if is_received(source) else None

    @classmethod
    def in_location(cls, state: Path) -> ReceivedLog | None:
        """That of a location, if it has one."""
        return cls.of((state / RECEIVED).absolute())

    @property
    def server(self) -> ServerAddress:
        """Raises CorruptFile, UnsupportedFile as files of ours do."""
        with self._file.open("rb") as file:
            return self._read(file)

    @property
    def dsn(self) -> str:
        """How to connect: as this process was told, or with what the file says."""
        return _GIVEN.get(self.directory) or self.server.dsn

    def configure(self, settings: Mapping[str, str | None], warn: Callable[[str], None]) -> None:
        """Change what is received, and how (`SETTINGS`). Another physical slot is made on the server if it is not there, and the one before
        dropped if it was made by us. Raises UsageError for a server of another system, and PeerError as the server says."""
        before = server = self.server
        if (dsn := settings.get(CONNINFO)) is not None:
            StateLocation.open(self.directory.parent).check_system(server_identity(dsn).system)
            server = replace(server, dsn=dsn)
        if RESTORE in settings:
            server = replace(server, restore_command=RestoreCommand.parse(settings[RESTORE] or "").text)
        if SLOT_NAME in settings and (name := settings[SLOT_NAME] or "") != before.slot:
            if name:
                check_name(name)
            server = replace(server, slot=name, is_ours=bool(name) and make_slot(server.dsn, name))
        self._write(server)
        if before.slot and server.slot != before.slot:
            _dropped(before, warn)

    def format_settings(self) -> dict[str, str]:
        server = self.server
        return {CONNINFO: without_password(server.dsn), SLOT_NAME: server.slot, RESTORE: server.restore_command}

    def drop_slot(self, warn: Callable[[str], None]) -> None:
        """The server's physical slot, if it was made by us. Told is why it stays there."""
        server = self.server
        if server.slot and _dropped(server, warn):
            self._write(replace(server, slot="", is_ours=False))

    # -- receiving -------------------------------------------------------------------------------------------------------------

    def receiving(
        self, tell: Callable[[str], None], on_failure: Callable[[], None] = lambda: None, warn: Callable[[str], None] | None = None
    ) -> AbstractContextManager[Reception]:  # fmt: skip
        """Within the block the log comes in (`client.reception`): what there is first begins where the server's catalogs can be captured. Slots of
        the location are the server's standbys, as the location says."""
        begin = None if list_segments(self.directory) else last_redo(self.dsn)
        server, restore = self.with_command(warn or tell)
        confirmed = SynchronousSlots(self.directory.parent, warn or tell).confirmed
        receiver = Receiver(
            server.dsn, self.directory, begin=begin, slot=server.slot, tell=tell, warn=warn, restore=restore, confirmed=confirmed
        )  # fmt: skip
        return receiving(receiver, on_failure)

    @property
    def is_received(self) -> bool:
        """Whether it comes in by itself, whoever receives it."""
        return received_upto(self.directory) is not None

    def catch_up(self, tell: Callable[[str], None], check: Callable[[], None] = lambda: None) -> None:
        """Receive what the server has by now, as far as `identity_unless_away` lets us, and `check` does not raise."""
        server = identity_unless_away(self.dsn, self.directory, tell)
        if server is None:
            return
        self.receive_upto(server.flushed, tell, check)

    def receive_upto(self, upto: Lsn, tell: Callable[[str], None], check: Callable[[], None] = lambda: None) -> None:
        """Have the log up to there, whoever receives it. Raises what ends that before, and what `check` raises meanwhile."""
        with (
            nullcontext(Reception(self.directory)) if self.is_received else self.receiving(lambda _: None, warn=tell) as reception
        ):
            reception.wait(upto, check)

    def reach_back(self, database: str) -> None:
        """Have the log from the server's last checkpoint on, which the server still has, though what no slot needed was removed; or nobody knew where
        that was, since the connection string names no database that could be asked. For who holds it."""
        if not list_segments(self.directory) or (redo := last_redo(self.dsn, database)) is None:
            return
        first = arrange(self.directory).first_lsn
        if first <= redo:
            return
        for left in self.directory.glob(f"{_BEFORE}*"):  # by a process that was killed
            if not FileLock.is_taken(left / LOCK) and left.stat().st_mtime < time.time() - _LONG_AGO:
                shutil.rmtree(left)
        with TemporaryDirectory(dir=self.directory, prefix=_BEFORE) as home:
            Receiver(self.dsn, Path(home), begin=redo, upto=first, retries=False).run()
            whole = [segment for segment in list_segments(home) if not segment.partial]
            for segment in sorted(whole, key=lambda segment: segment.path, reverse=True):  # so that there is never a gap
                path = Path(segment.path)
                if not (self.directory / path.name).exists():
                    path.rename(self.directory / path.name)

    def with_command(self, warn: Callable[[str], None]) -> tuple[ServerAddress, RestoreCommand | None]:
        """The server, and what fetches WAL that it has removed, if nobody else can have written that: the file that is read is looked at,
        whatever takes its place meanwhile."""
        with self._file.open("rb") as file:
            status, server = os.fstat(file.fileno()), self._read(file)
        if not server.restore_command:
            return server, None
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
            warn(
                f'restore_command is not run: another user could have written "{self._file}"\n'
                f"HINT:  tailrace slot set {RESTORE}='…' --state {self.directory.parent} writes it anew, for this user alone."
            )
            return server, None
        return server, RestoreCommand.parse(server.restore_command)

    @property
    def _file(self) -> Path:
        return self.directory / SERVER

    def _read(self, file: BinaryIO) -> ServerAddress:
        """With the connection string that this process was given, if it was."""
        return SERVER_FILE.read_as(
            file.read(), file.name, {},
            lambda facts, _: ServerAddress(
                _GIVEN.get(self.directory) or fact(facts["dsn"], str), fact(facts.get(SLOT_NAME, ""), str),
                fact(facts.get("slot_is_ours", False), bool), fact(facts.get(RESTORE, ""), str),
            ),
        )  # fmt: skip

    def _write(self, server: ServerAddress) -> None:
        """For this user alone, as it may say what is run."""
        facts = {
            "dsn": _from_anywhere(without_password(server.dsn)), SLOT_NAME: server.slot, "slot_is_ours": server.is_ours,
            RESTORE: server.restore_command,
        }  # fmt: skip
        write_whole(self._file, SERVER_FILE.write(facts, {}), _OURS_ALONE)
        _GIVEN[self.directory] = server.dsn


def identity_unless_away(dsn: str, directory: Path, tell: Callable[[str], None]) -> SystemIdentity | None:
    """What the server is. None where it is away, and what was received before has to do, which is told. Raises PeerError where it refuses us, which
    does not go by itself, and where nothing was received before."""
    try:
        return server_identity(dsn)
    except PeerError as error:
        if not is_away(error.message) or not directory.is_dir() or not holds_wal(directory):
            raise
        tell(f"{error.message.splitlines()[0]}; there is what was received before, up to {written_upto(directory)}")
        return None


def _from_anywhere(dsn: str) -> str:
    """With files named by their whole paths."""
    words = parameters_of(dsn)
    there = {
        name: str(Path(str(value)).absolute()) for name, value in words.items() if name in _FILES and Path(str(value)).exists()
    }
    return conninfo_of(dsn, **there)


def hold_of(source: str | Path) -> FileLock | None:
    """Of a log that is received nothing is removed until this is released: somebody begins to need what is there, which nothing says yet. None where
    the log is in files of others."""
    return FileLock.share(Path(source) / HELD) if is_received(source) else None


@contextmanager
def held(source: str | Path) -> Iterator[None]:
    """The same within the block."""
    hold = hold_of(source)
    try:
        yield
    finally:
        if hold is not None:
            hold.release()


def _dropped(server: ServerAddress, warn: Callable[[str], None]) -> bool:
    """Whether the server's physical slot is of no concern any more: dropped, or not made by us; told is why it stays there."""
    name = server.slot
    if not server.is_ours:
        warn(f'physical replication slot "{name}" was there before, and stays: the server keeps WAL for it until it is dropped')
        return True
    try:
        drop_slot(server.dsn, name)
    except PeerError as error:
        warn(
            f'could not drop physical replication slot "{name}": {error.message.splitlines()[0]}\n'
            f"HINT:  The server keeps WAL for it. Drop it there: SELECT pg_drop_replication_slot('{name}')."
        )
        return False
    return True
