"""A replication slot: which plugin, options and database a consumer of a log has, and what it has confirmed; by the rules of PostgreSQL's
replication slots, and in its words (`replication/slot.c`).

In and out: `Slot`, and its bytes; where the log stands. Out: whether the slot can still go on (`wal_status`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, get_type_hints

from tailrace.checksummed_file import FileKind, fact
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import NAMEDATALEN, Lsn
from tailrace.slots.statistics import NOTHING_DECODED, SlotStatistics
from tailrace.wal.log_fingerprint import LogFingerprint

SLOT_FILE = FileKind("slot", "a slot", version=1, compression="zstd", hint="Drop the slot, and create it again.")
WAL_REMOVED = "wal_removed"
"""Why a slot cannot go on: WAL that it needs is not there any more."""

_NAME = re.compile(r"[a-z0-9_]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Slot:
    """Like a row of pg_replication_slots. `options` are the plugin's; None is one without a value. `source` says where the log
    of `system` is read. What comes before `restart_lsn` is not read again for this slot; the consumer has all transactions
    that commit before `confirmed_flush_lsn`. Those prepared at `two_phase_at` or later are told at PREPARE, if it is
    `two_phase`. `inactive_since` are microseconds since the Unix epoch, 0 while it is active, or if it never was. With an
    `invalidation_reason` it cannot go on. `identity` is no other slot's, and stays when the slot is renamed; empty in files of
    before there was one. `fingerprint` is of what stands in the log before what is confirmed, by which it is known again; None until
    something is confirmed, in files of before there was that."""

    name: str
    plugin: str
    options: dict[str, str | None]
    database: str
    database_oid: int
    system: int
    timeline: int
    source: str
    two_phase: bool
    two_phase_at: Lsn
    temporary: bool
    restart_lsn: Lsn
    confirmed_flush_lsn: Lsn
    inactive_since: int = 0
    invalidation_reason: str = ""
    identity: str = ""
    fingerprint: LogFingerprint | None = None
    statistics: SlotStatistics = NOTHING_DECODED

    def backlog(self, end: Lsn) -> int:
        """How many bytes of WAL its consumer has not seen, to where the log ends."""
        return max(0, end - self.confirmed_flush_lsn)


_SCALARS = {name: hint for name, hint in get_type_hints(Slot).items() if name not in ("options", "fingerprint", "statistics")}


def write_slot(slot: Slot) -> bytes:
    """The bytes of the file."""
    fingerprint = slot.fingerprint.facts() if slot.fingerprint is not None else None
    facts = {"options": slot.options, "stood": fingerprint, "decoded": slot.statistics.facts()}
    return SLOT_FILE.write({**{name: getattr(slot, name) for name in _SCALARS}, **facts}, {})


@lru_cache(1024)  # every look at a state location reads all its slots
def read_slot(data: bytes, where: str) -> Slot:
    """Raises UnsupportedFile for files that are no slot, or of another format; CorruptFile for damaged ones."""
    return SLOT_FILE.read_as(data, where, {}, _slot_from)


def _slot_from(facts: dict[str, Any], _: object) -> Slot:
    facts = {"identity": "", **facts}
    scalars = {name: fact(facts[name], kind) for name, kind in _SCALARS.items()}
    statistics = SlotStatistics.of(facts.get("decoded"))
    slot = Slot(
        options=_options(facts["options"]), fingerprint=LogFingerprint.of(facts.get("stood")), statistics=statistics, **scalars
    )  # fmt: skip
    if slot.invalidation_reason not in ("", WAL_REMOVED):
        raise ValueError(f'"{slot.invalidation_reason}" is no reason to be invalid')
    check_name(slot.name)
    return slot


def _options(options: Any) -> dict[str, str | None]:
    if not isinstance(options, dict) or any(not isinstance(value, str | None) for value in options.values()):
        raise ValueError(f"{options!r} are no options")
    return options


def check_name(name: str) -> None:
    """Raise UsageError unless a slot can have this name: names are those of folders, on any file system
    (`ReplicationSlotValidateName`)."""
    if not name:
        raise UsageError(f'replication slot name "{name}" is too short', sqlstate="42602")
    if len(name.encode(errors="surrogatepass")) >= NAMEDATALEN:
        raise UsageError(f'replication slot name "{name}" is too long', sqlstate="42622")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'replication slot name "{name}" contains invalid character',
            hint="Replication slot names may only contain lower case letters, numbers, and the underscore character.",
            sqlstate="42602",
        )


def check_failover(*, failover: bool, temporary: bool = False) -> None:
    """Raise UsageError (0A000) where a slot is to be one that standbys keep, too."""
    if failover and temporary:
        raise UsageError("cannot enable failover for a temporary replication slot", sqlstate="0A000")
    if failover:
        raise UsageError(
            "failover slots are not supported outside of the server",
            hint="A state location can be kept wherever a standby's failover finds it.",
            sqlstate="0A000",
        )


@dataclass(frozen=True, slots=True)
class WalStatus:
    """As pg_replication_slots has it. `wal_status` is reserved, extended, unreserved or lost; `safe_wal_size`, how many bytes
    can be written before the slot may be lost, None where nothing limits that or it is lost already."""

    wal_status: str
    safe_wal_size: int | None


def wal_status(
    slot: Slot, *, available_from: Lsn, flushed: Lsn, max_slot_wal_keep_size: int = -1, max_wal_size: int = 1 << 30
) -> WalStatus:
    """What becomes of the WAL that the slot needs (`GetWALAvailability`): it is within what is kept anyway (`max_wal_size`
    before the end, `flushed`); or kept because slots need it; or not any more, being more than `max_slot_wal_keep_size` (-1:
    no such limit); or gone, being from before `available_from`. All in bytes, where a server counts segments."""
    if slot.invalidation_reason or slot.restart_lsn < available_from:
        return WalStatus("lost", None)
    behind = flushed - slot.restart_lsn
    if max_slot_wal_keep_size < 0:
        return WalStatus("reserved" if behind <= max_wal_size else "extended", None)
    safe = max_slot_wal_keep_size - behind
    if safe < 0:
        return WalStatus("unreserved", safe)
    return WalStatus("reserved" if behind <= max_wal_size else "extended", safe)


def invalidated(slot: Slot) -> MissingHistory:
    """The error of who wants to go on with a slot that cannot (`ReplicationSlotAcquire`)."""
    return MissingHistory(
        f'can no longer access replication slot "{slot.name}"',
        hint="Drop the slot, and create it again: it then begins where the log is now.",
        context=f'the slot was invalidated due to "{WAL_REMOVED}": it needs WAL from {slot.restart_lsn}',
        sqlstate="55000",
        lsn=slot.restart_lsn,
    )


def copy_of(slot: Slot, name: str, identity: str) -> Slot:
    """A slot that stands where this one does. Raises UsageError (55000) if that cannot go on."""
    if slot.invalidation_reason:
        raise UsageError(f'cannot copy invalidated replication slot "{slot.name}"', sqlstate="55000")
    return replace(slot, name=name, temporary=False, identity=identity, statistics=NOTHING_DECODED)
