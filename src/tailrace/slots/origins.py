"""Replication origins that are kept beside slots: how far what came from elsewhere has been applied
(`replication/logical/origin.c`).

In and out: `Origins`, and the bytes of their file. Raises UsageError in the server's words for names that cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from tailrace.checksummed_file import FileKind, fact
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import LIMITED_ORIGIN_NAMES, RESERVED_ORIGIN_NAMES, RESERVED_ORIGINS, said_by, supports
from tailrace.model import Lsn

ORIGINS_FILE = FileKind(
    "origins", "a file of origins", version=1, compression="zstd", hint="Remove it, and create the origins again."
)
_MOST = 2**16 - 1
_LONGEST = 512


@dataclass(frozen=True, slots=True)
class ReplicationOrigin:
    """A row of pg_replication_origin and of its status. `remote_lsn` is None of an origin that has no progress yet."""

    oid: int
    name: str
    remote_lsn: Lsn | None = None


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of one system, by oid."""

    system: int
    origins: tuple[ReplicationOrigin, ...] = field(default=())

    def named(self, name: str) -> ReplicationOrigin | None:
        return next((each for each in self.origins if each.name == name), None)

    def existing(self, name: str) -> ReplicationOrigin:
        """Raises UsageError (42704)."""
        found = self.named(name)
        if found is None:
            raise UsageError(f'replication origin "{name}" does not exist', sqlstate="42704")
        return found

    def created(self, name: str, major: int) -> tuple[Origins, int]:
        """With one more, and its oid, the lowest that is free."""
        check_origin_name(name, major)
        if self.named(name) is not None:
            raise UsageError(
                'duplicate key value violates unique constraint "pg_replication_origin_roname_index"',
                detail=f"Key (roname)=({name}) already exists.", sqlstate="23505",
            )  # fmt: skip
        taken = {each.oid for each in self.origins}
        oid = next((each for each in range(1, _MOST + 1) if each not in taken), 0)
        if not oid:
            raise UsageError("could not find free replication origin ID", sqlstate="54000")
        origins = sorted([*self.origins, ReplicationOrigin(oid, name)], key=lambda each: each.oid)
        return replace(self, origins=tuple(origins)), oid

    def dropped(self, name: str) -> Origins:
        gone = self.existing(name)
        return replace(self, origins=tuple(each for each in self.origins if each is not gone))

    def advanced(self, name: str, lsn: Lsn) -> Origins:
        """Its progress may go backwards, too, as on the server."""
        moved = self.existing(name)
        return replace(self, origins=tuple(replace(each, remote_lsn=lsn) if each is moved else each for each in self.origins))


def check_origin_name(name: str, major: int) -> None:
    """Raise UsageError for reserved names (42939) and long ones (54000)."""
    if supports(major, LIMITED_ORIGIN_NAMES) and len(name.encode()) > _LONGEST:
        raise UsageError(
            "replication origin name is too long", detail=f"Replication origin names must be no longer than {_LONGEST} bytes.",
            sqlstate="54000",
        )  # fmt: skip
    if name.startswith("pg_") or (supports(major, RESERVED_ORIGINS) and name.lower() in ("any", "none")):
        detail = f"Origin names {said_by(major, RESERVED_ORIGIN_NAMES)} are reserved."
        raise UsageError(f'replication origin name "{name}" is reserved', detail=detail, sqlstate="42939")


def write_origins(origins: Origins) -> bytes:
    """The bytes of the file."""
    facts = [{"oid": each.oid, "name": each.name, "remote_lsn": each.remote_lsn or 0} for each in origins.origins]
    return ORIGINS_FILE.write({"system": origins.system, "origins": facts}, {})


def read_origins(data: bytes, where: str) -> Origins:
    """Raises UnsupportedFile for files that are none of origins, or of another format; CorruptFile for damaged ones."""
    return ORIGINS_FILE.read_as(data, where, {}, lambda facts, _: _origins(facts))


def _origins(facts: Mapping[str, Any]) -> Origins:
    origins = tuple(
        ReplicationOrigin(fact(each["oid"], int), fact(each["name"], str), fact(each["remote_lsn"], Lsn) or None)
        for each in facts["origins"]
    )
    return Origins(fact(facts["system"], int), origins)
