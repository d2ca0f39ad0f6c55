"""What a role may do with slots, and see of others: asked before a slot is read, moved, made or dropped (`CheckSlotPermissions` in
`replication/slot.c`, `HAS_PGSTAT_PERMISSIONS` in `utils/adt/pgstatfuncs.c`)."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import CANCELS_EXPLAINED, WAL_SENDERS_EXPLAINED, supports
from tailrace.replication.server_activity import ConnectedClient

_HIDDEN = "<insufficient privilege>"


@dataclass(frozen=True, slots=True)
class Privileges:
    """A role's, by its name. `replication` says that it may use slots; of these, by patterns, and of databases and publications None is not
    restricted."""

    name: str = ""
    replication: bool = True
    databases: tuple[str, ...] | None = None
    slots: tuple[str, ...] | None = None
    publications: tuple[str, ...] | None = None

    @property
    def is_restricted(self) -> bool:
        return not self.replication or (self.databases, self.slots, self.publications) != (None, None, None)

    def check_database(self, name: str) -> None:
        if self.databases is not None and name not in self.databases:
            raise UsageError(
                f'permission denied for database "{name}"', detail="User does not have CONNECT privilege.", sqlstate="42501"
            )

    def check_replication(self, major: int) -> None:
        """For who uses slots by SQL."""
        if self.replication:
            return
        if supports(major, WAL_SENDERS_EXPLAINED):
            raise UsageError(
                "permission denied to use replication slots", sqlstate="42501",
                detail="Only roles with the REPLICATION attribute may use replication slots.",
            )  # fmt: skip
        raise UsageError("must be superuser or replication role to use replication slots", sqlstate="42501")

    def check_slot(self, name: str) -> None:
        if not self._has_slot(name):
            raise UsageError(f'permission denied for replication slot "{name}"', sqlstate="42501")

    def check_function(self, name: str) -> None:
        """Of those that change what all slots share: as on the server, nobody has them who is restricted."""
        if self.is_restricted:
            raise UsageError(f"permission denied for function {name}", sqlstate="42501")

    def check_cancels(self, user: str, major: int) -> None:
        """A role that is restricted ends the queries of its own name, and no others."""
        if not self.is_restricted or user == self.name:
            return
        if supports(major, CANCELS_EXPLAINED):
            raise UsageError(
                "permission denied to cancel query", sqlstate="42501",
                detail="Only roles with privileges of the role whose query is being canceled or with privileges of the "
                '"pg_signal_backend" role may cancel this query.',
            )  # fmt: skip
        message = "must be a member of the role whose query is being canceled or member of pg_signal_backend"
        raise UsageError(message, sqlstate="42501")

    def sees_slot(self, name: str, database: str) -> bool:
        return self._has_slot(name) and (self.databases is None or database in self.databases)

    def _has_slot(self, name: str) -> bool:
        return self.slots is None or any(fnmatchcase(name, each) for each in self.slots)

    def check_publications(self, names: tuple[str, ...] | None) -> None:
        """`names` are what a stream gives; None: all there is."""
        if self.publications is None:
            return
        if names is None:
            raise UsageError(
                "permission denied to stream all tables", sqlstate="42501",
                hint=f"The role may stream publications: {', '.join(self.publications)}. Use pgoutput, and name some of them.",
            )  # fmt: skip
        for name in names:
            if name not in self.publications:
                raise UsageError(f'permission denied for publication "{name}"', sqlstate="42501")

    def seen(self, client: ConnectedClient) -> ConnectedClient:
        """What the role sees of a client: of another's, if it is restricted, that it is there."""
        if not self.is_restricted or client.user == self.name:
            return client
        return replace(client, query=_HIDDEN, state="", address="", port=-1, slot="", stream="")


UNRESTRICTED = Privileges()
"""Whoever reads the files has them."""
