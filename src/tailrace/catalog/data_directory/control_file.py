"""global/pg_control (`catalog/pg_control.h`): bytes -> what we ask of it."""

from __future__ import annotations

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptFile, UnsupportedWal
from tailrace.majors import OLDEST, Compared
from tailrace.model import Lsn
from tailrace.wal.crc import crc32c
from tailrace.wal.structs import BOOL, F64, I32, I64, LSN, U32, U64, Layout, chars
from tailrace.wal.xlog import Checkpoint

_MAJOR_OF_CATALOG = {202107181: 14, 202209061: 15, 202307071: 16, 202406281: 17, 202506291: 18}
COMPARED = Compared(
    __name__, "catalog/catversion.h and ControlFileData (catalog/pg_control.h)", upto=max(_MAJOR_OF_CATALOG.values())
)
# ControlFileData
_VERSIONS = {"system": U64, "control_version": U32, "catalog_version": U32}
_FACTS = {
    "state": U32, "time": I64, "checkpoint": LSN, "checkpoint_copy": chars(Checkpoint.LAYOUTS[OLDEST].size), "unlogged_lsn": LSN,
    "min_recovery_point": LSN, "min_recovery_timeline": U32, "backup_start": LSN, "backup_end": LSN, "backup_end_required": BOOL,
    "wal_level": I32, "wal_log_hints": BOOL, "max_connections": I32, "max_worker_processes": I32, "max_wal_senders": I32,
    "max_prepared_xacts": I32, "max_locks_per_xact": I32, "track_commit_timestamp": BOOL, "max_align": U32, "float_format": F64,
    "block_size": U32, "blocks_per_part": U32, "wal_block_size": U32, "segment_size": U32, "name_data_length": U32, "index_max_keys": U32,
    "toast_max_chunk_size": U32, "large_object_block_size": U32, "float8_by_value": BOOL, "data_checksum_version": U32,
}  # fmt: skip
_AUTHENTICATION = {"mock_authentication_nonce": chars(32), "crc": U32}
CONTROL_FILE = COMPARED.table(
    {
        14: Layout(_VERSIONS | _FACTS | _AUTHENTICATION),
        18: Layout(_VERSIONS | _FACTS | {"default_char_signedness": BOOL} | _AUTHENTICATION),
    }
)
_SHUT_DOWN = 1
"""DB_SHUTDOWNED. A standby that was stopped has another state: it has replayed more than its checkpoint says."""


@dataclass(frozen=True, slots=True)
class ControlFile:
    """What we ask of it. `next_xid` carries the epoch."""

    system: int
    major: int
    shut_down: bool
    checkpoint: Lsn
    redo: Lsn
    timeline: int
    full_page_writes: bool
    next_xid: int
    wal_level: int
    segment_size: int
    checksums: bool
    min_recovery: Lsn


def read_control(data: bytes, where: str) -> ControlFile:
    """Parse pg_control. Raises UnsupportedWal for an unknown catalog version, CorruptFile for a wrong checksum; `where` names the file."""
    if len(data) < max(layout.size for layout in CONTROL_FILE.values()):
        raise CorruptFile(f'could not read file "{where}": read {len(data)} of 8192', file=where)
    catalog_version = Layout(_VERSIONS).read(data)["catalog_version"]
    major = _MAJOR_OF_CATALOG.get(catalog_version)
    if major is None:
        raise UnsupportedWal(
            f"database files have catalog version {catalog_version}, which tailrace does not know",
            hint=f"Known are {', '.join(f'{major} ({version})' for version, major in _MAJOR_OF_CATALOG.items())}.",
            context=where,
            file=where,
        )
    layout = CONTROL_FILE[major]
    says = layout.read(data)
    if crc32c(data[: layout.at("crc")]) != says["crc"]:
        raise CorruptFile("incorrect checksum in control file", context=where, file=where)
    last = Checkpoint.read(says["checkpoint_copy"], major)
    return ControlFile(
        system=says["system"],
        major=major,
        shut_down=says["state"] == _SHUT_DOWN,
        checkpoint=says["checkpoint"],
        redo=last.redo,
        timeline=last.timeline,
        full_page_writes=last.full_page_writes,
        next_xid=last.next_xid,
        wal_level=says["wal_level"],
        segment_size=says["segment_size"],
        checksums=says["data_checksum_version"] != 0,
        min_recovery=says["min_recovery_point"],
    )
