"""What all clients of a server share: the log and the state location, who is connected, the threads that decode, the log lines."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from pathlib import Path
from typing import TypeVar

from tailrace.client.server_end import ServerEnd
from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.pipeline.followed_end import FollowedEnd
from tailrace.pipeline.runner import Runner
from tailrace.replication.server_activity import ServerActivity
from tailrace.replication.session_slots import SessionSlots
from tailrace.replication.shared_plans import SharedPlans
from tailrace.server.connected import ConnectedClients
from tailrace.server.failed_logins import FailedLogins
from tailrace.server.log import ServerLog
from tailrace.server.malloc import FreedMemory
from tailrace.server.settings import ServerSettings
from tailrace.server.shared_windows import SharedWindows
from tailrace.server.source_snapshots import SourceSnapshots
from tailrace.sources.named import files_of
from tailrace.sources.source_name import is_stored, spellings
from tailrace.sql.kept_catalogs import KeptCatalogs
from tailrace.sql.kept_translations import KeptTranslations
from tailrace.sql.privileges import Privileges
from tailrace.sql.query.duckdb_engine import DuckDbEngine
from tailrace.sql.source_database import SourceDatabase
from tailrace.storage.segment_files import open_segments
from tailrace.storage.segments import Segments
from tailrace.storage.spool import spool_directory
from tailrace.version import __version__

Result = TypeVar("Result")


@dataclass
class Instance:
    """`runner_for` gives what so many bytes of WAL are worked on with. `settings` are replaced when they are read again."""

    settings: ServerSettings
    runner_for: Callable[[int], Runner]
    log: ServerLog = field(default_factory=ServerLog)

    def __post_init__(self) -> None:
        self.clients = ConnectedClients(self.settings.max_connections, self.settings.max_wal_senders)
        self.failed_logins = FailedLogins()
        self.shared, self.plans, self.freed = SharedWindows(self.in_thread), SharedPlans(), FreedMemory()
        self.engine, self.translations = DuckDbEngine(), KeptTranslations()
        self.catalogs = KeptCatalogs(self.settings.source, self.runner_for)
        self.end = FollowedEnd(self.settings.source)
        segments = self.segments()
        self.major, self.system, self.segment_size = segments.major, segments.system, segments.segment_size
        self.snapshots = SourceSnapshots(self.settings.source, self.major)
        self.source_end = None if self.snapshots.log is None else ServerEnd(self.snapshots.log.dsn)
        # A thread each, so that nobody waits for another's window: they do not decode at once unless there are cores for it.
        self.threads = ThreadPoolExecutor(self.settings.max_connections + 1, thread_name_prefix="tailrace client")

    def segments(self) -> Segments:
        return open_segments(files_of(self.settings.source))

    async def in_thread(self, work: Callable[..., Result], *arguments: object) -> Result:
        """The result of a function, which runs beside the event loop; what it says to its client, it says to the caller's."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self.threads, lambda: context.run(work, *arguments))

    def database(
        self, name: str, pid: int, temporary: SessionSlots, warn: Callable[[str], None], privileges: Privileges
    ) -> SourceDatabase:  # fmt: skip
        """A database as the client of this number, who has these privileges, sees it."""
        return SourceDatabase(
            self.settings.source, name, self.settings.state, self.runner_for, warn, temporary, pid, self.activity, privileges,
            kept=self.catalogs, end=self.end, source_end=self.source_end,
        )  # fmt: skip

    def forget_shared(self) -> None:
        """What streams have shared, once none is left."""
        self.shared.forget()
        self.plans.forget()

    def without_paths(self, fields: Mapping[str, str]) -> dict[str, str]:
        """An error's fields for a client, who is not to learn where the server has its files; the log has them."""
        told = dict(fields)
        named = (
            (self.settings.source, "the source"),
            (self.settings.state, "the state location"),
            (spool_directory(), "the spool"),
        )
        for place, name in named:
            for each in spellings(place):
                if is_stored(each) or Path(each).is_absolute():
                    told = {code: text.replace(f"{each}/", "").replace(each, name) for code, text in told.items()}
                else:  # it may be a word like any other
                    told = {code: text.replace(f'"{each}/', '"').replace(f'"{each}"', f'"{name}"') for code, text in told.items()}
        return told

    def activity(self) -> ServerActivity:
        """Who is connected, and how far."""
        return self.clients.activity(self.settings.synchronous_standby_names)

    def fixed_parameters(self, user: str) -> dict[str, str]:
        """What a client can ask for and not change. The minor version of the server that wrote the log is nowhere in its files."""
        return {
            "server_version": f"{self.major}.0 (tailrace {__version__})", "server_version_num": f"{self.major}0000",
            "server_encoding": "UTF8", "integer_datetimes": "on", "in_hot_standby": "off", "is_superuser": "off",
            "session_authorization": user, "wal_level": "logical", "wal_segment_size": f"{self.segment_size >> 20}MB",
            "data_directory_mode": "0700", "max_wal_senders": str(self.settings.max_wal_senders),
            "max_connections": str(self.settings.max_connections), "block_size": "8192", "wal_block_size": "8192",
            "max_identifier_length": "63", "max_index_keys": "32", "scram_iterations": "4096",
            "synchronous_standby_names": self.settings.synchronous_standby_names,
            "ssl": "on" if self.settings.tls else "off", "port": str(self.settings.port),
        }  # fmt: skip

    def end_of_log(self, database: SourceDatabase) -> tuple[int, Lsn]:
        """The timeline, and the LSN behind the last whole record."""
        return self.segments().timeline, database.end_of_log()
