"""A catalog state's bytes on disk, both directions. The layout of the file is `arrayfile`'s."""

from __future__ import annotations

from numpy.typing import NDArray

from tailrace.arrayfile import FileKind
from tailrace.catalog.redo import V_FIELDS, Versions
from tailrace.catalog.state import CatalogState
from tailrace.model import Lsn

STATE_FILE = FileKind(
    "tailrace.catalog_state", "a catalog state", version=4, compression="zstd",
    hint="Make one with: tailrace catalog capture SOURCE --database DB -o FILE",
)  # fmt: skip


def write_state(state: CatalogState) -> bytes:
    """Only complete states (every page known) are written."""
    versions = state.versions
    arrays: dict[str, NDArray] = {
        "rows": versions.rows, "store": versions.store, "place_key": versions.place_key, "place_version": versions.place_version,
    }  # fmt: skip
    facts = {
        "system": state.system, "timeline": state.timeline, "major": state.major, "lsn": str(state.lsn),
        "database": state.database, "database_name": state.database_name, "default_tablespace": state.default_tablespace, "encoding": state.encoding,
        "next_xid": state.next_xid, "files": [[*key, oid] for key, oid in state.files.items()],
        "open": {str(xid): lsn for xid, lsn in state.xids_open.items()},
    }  # fmt: skip
    return STATE_FILE.write(facts, arrays)


def read_state(data: bytes, where: str) -> CatalogState:
    """Raises UsageError for files that are not a state, or of a format that this version does not read."""
    facts, arrays = STATE_FILE.read(data, where)
    versions = Versions(arrays["rows"].reshape(-1, V_FIELDS), arrays["store"], arrays["place_key"], arrays["place_version"])
    return CatalogState(
        system=facts["system"], timeline=facts["timeline"], major=facts["major"], lsn=Lsn.parse(facts["lsn"]), database=facts["database"],
        database_name=facts["database_name"], default_tablespace=facts["default_tablespace"], encoding=facts["encoding"], next_xid=facts["next_xid"],
        versions=versions, files={(database, number): oid for database, number, oid in facts["files"]}, complete=True, status=None, multixacts=None,
        xids_open={int(xid): lsn for xid, lsn in facts["open"].items()},
    )  # fmt: skip
